package cli

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// onHelp is the grammar of nodes on a command line, one for all commands.
const onHelp = "NODE, group:NAME, where:CONDITION or all; several with commas, or the flag again"

// targetsOn reads nodes as they are typed: the union of all that is named. Commas within
// quotes and brackets belong to a condition. nil: nothing is named.
func targetsOn(flag string, texts []string) (*model.Targets, error) {
	t, named := &model.Targets{}, false
	for _, text := range texts {
		for _, part := range splitTargets(text) {
			named = true
			kind, rest, typed := strings.Cut(part, ":")
			switch {
			case part == "all":
				t.Where = either(t.Where, "true")
			case !typed:
				t.Nodes = append(t.Nodes, part)
			case rest == "":
				return nil, model.Errorf(model.Invalid, "--%s: %q names nothing", flag, part).WithHint("%s", onHelp)
			case kind == "group":
				t.Groups = append(t.Groups, rest)
			case kind == "where":
				t.Where = either(t.Where, rest)
			case kind == "node":
				t.Nodes = append(t.Nodes, rest)
			default:
				return nil, model.Errorf(model.Invalid, "--%s: %q: there is no %q here", flag, part, kind).WithHint("%s", onHelp)
			}
		}
	}
	if !named {
		return nil, nil
	}
	slices.Sort(t.Nodes)
	t.Nodes = slices.Compact(t.Nodes)
	return t, nil
}

// either is a condition that holds where one of two does.
func either(a, b string) string {
	if a == "" {
		return b
	}
	return "(" + a + ") || (" + b + ")"
}

// splitTargets splits at commas that stand in no quotes and no brackets.
func splitTargets(text string) (parts []string) {
	depth, start := 0, 0
	var quote byte
	add := func(part string) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case c == ',' && depth <= 0:
			add(text[start:i])
			start = i + 1
		}
	}
	add(text[start:])
	return parts
}
