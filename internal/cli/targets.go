package cli

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// targetsHelp is the grammar of --on and --except.
const targetsHelp = "NODE, group:NAME, where:CONDITION or all; several with commas, or repeat the flag"

// parseTargets reads the values of a flag as the union of their nodes; nil: no value names any. A
// comma within quotes or brackets belongs to a condition.
func parseTargets(flag string, values []string) (*model.Targets, error) {
	t, found := &model.Targets{}, false
	for _, value := range values {
		for _, part := range splitTargets(value) {
			found = true
			kind, rest, prefixed := strings.Cut(part, ":")
			switch {
			case part == "all":
				t.Where = orCondition(t.Where, "true")
			case !prefixed:
				t.Nodes = append(t.Nodes, part)
			case rest == "":
				return nil, model.Errorf(model.Invalid, "--%s: %q has nothing behind the colon", flag, part).WithHint("%s", targetsHelp)
			case kind == "group":
				t.Groups = append(t.Groups, rest)
			case kind == "where":
				t.Where = orCondition(t.Where, rest)
			case kind == "node":
				t.Nodes = append(t.Nodes, rest)
			default:
				return nil, model.Errorf(model.Invalid, "--%s: %q: unknown prefix %q", flag, part, kind).WithHint("%s", targetsHelp)
			}
		}
	}
	if !found {
		return nil, nil
	}
	slices.Sort(t.Nodes)
	t.Nodes = slices.Compact(t.Nodes)
	return t, nil
}

func orCondition(a, b string) string {
	if a == "" {
		return b
	}
	return "(" + a + ") || (" + b + ")"
}

// splitTargets splits at commas outside quotes and brackets.
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
