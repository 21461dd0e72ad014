package sensuimport

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
	"github.com/dop251/goja/token"

	"github.com/muster-fleet/muster/internal/model"
)

// maxMachines bounds how many kinds of machines filters may stand for.
const maxMachines = 256

// machinesOf translates filters of an asset, all of which must hold, into kinds of machines, one
// of which must. wider are versions that are also those that begin so. The error says which
// part has no counterpart.
func machinesOf(filters []string) (list []model.AssetBuild, wider []string, err error) {
	list = []model.AssetBuild{{}}
	var f assetFilter
	for _, source := range filters {
		if len(source) > maxExpression {
			return nil, nil, fmt.Errorf("an expression of %d bytes is too long", len(source))
		}
		program, err := parser.ParseFile(nil, "", source, 0)
		if err != nil {
			return nil, nil, fmt.Errorf("%q: %v", source, err)
		}
		var statement *ast.ExpressionStatement
		if len(program.Body) == 1 {
			statement, _ = program.Body[0].(*ast.ExpressionStatement)
		}
		if statement == nil {
			return nil, nil, fmt.Errorf("%q is not one expression", source)
		}
		more, err := f.truth(statement.Expression)
		if err == nil {
			list, err = cross(list, more)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%q: %w", source, err)
		}
	}
	return list, f.wider, nil
}

type assetFilter struct{ wider []string }

// truth is when an expression is true.
func (f *assetFilter) truth(e ast.Expression) ([]model.AssetBuild, error) {
	switch e := e.(type) {
	case *ast.BooleanLiteral:
		if e.Value {
			return []model.AssetBuild{{}}, nil
		}
		return nil, nil
	case *ast.BinaryExpression:
		switch e.Operator {
		case token.LOGICAL_AND, token.LOGICAL_OR:
			left, err := f.truth(e.Left)
			if err != nil {
				return nil, err
			}
			right, err := f.truth(e.Right)
			if err != nil {
				return nil, err
			}
			if e.Operator == token.LOGICAL_AND {
				return cross(left, right)
			}
			if len(left)+len(right) > maxMachines {
				return nil, fmt.Errorf("it is for more than %d kinds of machines", maxMachines)
			}
			return append(left, right...), nil
		case token.EQUAL, token.STRICT_EQUAL:
			if literalOf(e.Left) != "" {
				return f.is(e.Right, e.Left, e.Operator)
			}
			return f.is(e.Left, e.Right, e.Operator)
		}
	}
	return nil, fmt.Errorf("a build is only for an os, an arch, a distribution, and a distributionVersion")
}

// is translates of == literal.
func (f *assetFilter) is(of, literal ast.Expression, operator token.Token) ([]model.AssetBuild, error) {
	want, whole := literalOf(literal), number(literal) != ""
	if major, parsed := majorOf(of); major {
		for _, c := range want {
			if c < '0' || c > '9' {
				return nil, fmt.Errorf("the first number of a version is never %q", want)
			}
		}
		if want == "" || len(want) > 1 && want[0] == '0' || operator == token.STRICT_EQUAL && whole != parsed {
			return nil, fmt.Errorf("the first number of a version is never that")
		}
		return []model.AssetBuild{{DistributionVersion: want}}, nil
	}
	path, err := pathOf(of)
	if err != nil || len(path) != 3 || path[0] != "entity" || path[1] != "system" {
		return nil, fmt.Errorf("a build is only for an os, an arch, a distribution, and a distributionVersion")
	}
	if !slices.Contains([]string{"os", "arch", "platform", "platform_family", "platform_version"}, path[2]) {
		return nil, fmt.Errorf("a build does not know %s, only os, arch, platform, platform_family and platform_version", path[2])
	}
	if whole || want == "" || len(want) > 256 || strings.ContainsFunc(want, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("a build's %s is one word", path[2])
	}
	var list []model.AssetBuild
	switch path[2] {
	case "os":
		return []model.AssetBuild{{OS: want}}, nil
	case "arch":
		return []model.AssetBuild{{Arch: want}}, nil
	case "platform":
		for _, d := range platform(want) {
			list = append(list, model.AssetBuild{Distribution: d})
		}
		return list, nil
	case "platform_family":
		for _, p := range families[want] {
			for _, d := range platform(p) {
				list = append(list, model.AssetBuild{Distribution: d})
			}
		}
		if list == nil {
			return nil, fmt.Errorf("which distributions are of the family %s is not known", want)
		}
		return list, nil
	}
	f.wider = append(f.wider, want)
	return []model.AssetBuild{{DistributionVersion: want}}, nil
}

// majorOf says whether an expression is the first number of the version, in one of the ways in
// which people write it, and whether it is a number then, and no text.
func majorOf(e ast.Expression) (is, parsed bool) {
	if call, ok := e.(*ast.CallExpression); ok {
		callee, ok := call.Callee.(*ast.Identifier)
		n := len(call.ArgumentList)
		if !ok || callee.Name != "parseInt" || n < 1 || n > 2 || n == 2 && number(call.ArgumentList[1]) != "10" {
			return false, false
		}
		if path, err := pathOf(call.ArgumentList[0]); err == nil {
			return strings.Join(path, ".") == "entity.system.platform_version", true
		}
		is, _ = majorOf(call.ArgumentList[0])
		return is, true
	}
	first, ok := e.(*ast.BracketExpression)
	if !ok || number(first.Member) != "0" {
		return false, false
	}
	call, ok := first.Left.(*ast.CallExpression)
	if !ok || len(call.ArgumentList) != 1 || literalOf(call.ArgumentList[0]) != "." {
		return false, false
	}
	path, err := pathOf(call.Callee)
	return err == nil && strings.Join(path, ".") == "entity.system.platform_version.split", false
}

// literalOf is a text or number as it is written; empty: it is none, or an empty one.
func literalOf(e ast.Expression) string {
	if s, ok := e.(*ast.StringLiteral); ok {
		return s.Value.String()
	}
	return number(e)
}

// cross are the kinds of machines that are one of each.
func cross(left, right []model.AssetBuild) (list []model.AssetBuild, err error) {
	if len(left)*len(right) > maxMachines*maxMachines {
		return nil, fmt.Errorf("it is for more than %d kinds of machines", maxMachines)
	}
	for _, a := range left {
		for _, b := range right {
			if one, ok := inCommon(a, b); ok {
				list = append(list, one)
			}
		}
	}
	if len(list) > maxMachines {
		return nil, fmt.Errorf("it is for more than %d kinds of machines", maxMachines)
	}
	return list, nil
}

// inCommon is the kind of machine that is one and the other; false: there is none.
func inCommon(a, b model.AssetBuild) (model.AssetBuild, bool) {
	out := model.AssetBuild{}
	for _, f := range [...]struct {
		to   *string
		x, y string
	}{{&out.OS, a.OS, b.OS}, {&out.Arch, a.Arch, b.Arch}, {&out.Distribution, a.Distribution, b.Distribution}} {
		if f.x != "" && f.y != "" && f.x != f.y {
			return out, false
		}
		*f.to = f.x + f.y
		if f.x == f.y {
			*f.to = f.x
		}
	}
	x, y := a.DistributionVersion, b.DistributionVersion
	switch {
	case x == "" || strings.HasPrefix(y, x+".") || x == y:
		out.DistributionVersion = y
	case y == "" || strings.HasPrefix(x, y+"."):
		out.DistributionVersion = x
	default:
		return out, false
	}
	return out, true
}
