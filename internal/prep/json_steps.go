package prep

import (
	"errors"
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// compileJSONPath compiles the step jsonPath, which outputs the value at a path of a JSON document
func compileJSONPath(params []string, _ item.Type) (stepFunc, error) {
	path, err := parseJSONPath(params[0])
	if err != nil {
		return nil, err
	}
	return func(v item.Value, _ int64, _ *rememberedValue, p *ParsedValue) (item.Value, error) {
		tree, err := p.jsonOf(v)
		var out string
		if err == nil {
			out, err = path.query(tree, 0)
		}
		if err != nil {
			return v, fmt.Errorf("cannot extract value from json by path %q: %w", params[0], err)
		}
		return item.FromText(out), nil
	}, nil
}

// compileCheckJSONError compiles the step checkJsonError, which fails if a JSON document has an error text at a
// path. Invalid JSON and a path without match are none.
func compileCheckJSONError(params []string, _ item.Type) (stepFunc, error) {
	path, err := parseJSONPath(params[0])
	if err != nil {
		return nil, err
	}
	return func(v item.Value, _ int64, _ *rememberedValue, p *ParsedValue) (item.Value, error) {
		tree, err := p.jsonOf(v)
		if err != nil {
			return v, nil
		}
		out, err := path.query(tree, 0)
		out = strings.TrimSpace(out)
		switch {
		case errors.Is(err, errNoMatch) || err == nil && out == "":
			return v, nil
		case err != nil:
			return v, fmt.Errorf("cannot extract error from json by path %q: %w", params[0], err)
		}
		return v, errors.New(out)
	}, nil
}
