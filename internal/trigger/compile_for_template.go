package trigger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// CompileForItems compiles an expression over the items of a Template. macro returns the values of macros; keys are
// compared as they are written.
func CompileForItems(items []model.Item, expression string, macro func(string) (string, error)) (*Program, error) {
	return compileForItems(items, expression, Scope{Macro: macro})
}

// CompileFormula compiles the formula of a calculated item. The formula reads single items of its own node or
// selections of items, but not both.
func CompileFormula(items []model.Item, formula string, macro func(string) (string, error)) (*Program, error) {
	p, err := compileForItems(items, formula, Scope{Macro: macro, Aggregates: true})
	if err == nil && len(p.groups) > 0 && len(p.specs) > 0 {
		return nil, &Error{formula, 0, "the formula mixes single items with a selection of items (_foreach): make two items, and a third one of both"}
	}
	return p, err
}

// compileForItems compiles an expression over a Template's items, with macros and other settings from a Scope.
// The scope has all but the items.
func compileForItems(items []model.Item, expression string, scope Scope) (*Program, error) {
	e, err := Parse(expression)
	if err != nil {
		return nil, err
	}
	scope.Item = func(host, key string) (int, item.Type, error) {
		if host != "" {
			return 0, 0, fmt.Errorf("item /%s/%s: the expression reads only items of its own node; leave the host empty: //%s", host, key, key)
		}
		i, ok := slices.BinarySearchFunc(items, key, func(i model.Item, key string) int { return strings.Compare(i.Key, key) })
		if !ok {
			return 0, 0, fmt.Errorf("the template has no item %s", key)
		}
		typ, _ := items[i].ValueType()
		return i, typ, nil
	}
	return Compile(e, scope)
}
