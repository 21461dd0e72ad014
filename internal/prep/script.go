package prep

import (
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// Script is a compiled JavaScript function of the text value, for the step javascript. It returns false for null.
type Script func(value string, at time.Time) (string, bool, error)

// compileScript compiles the body of a JavaScript function; nil: the program has no interpreter, and the step is unknown to it.
var compileScript func(source string) (Script, error)

// SetScriptCompiler sets the compiler of scripts for the step javascript. Package internal/prep/javascript calls it.
func SetScriptCompiler(compile func(source string) (Script, error)) bool {
	compileScript = compile
	return true
}

// compileJavaScript compiles the step javascript, the body of a JavaScript function of value that runs in a sandbox.
// Null discards the value. Differences to Zabbix's Duktape: strict mode, 100 ms instead of 10 s, bounded sizes of
// texts and arrays, regular expressions without backtracking, an object is no result, and neither HttpRequest, XML,
// Zabbix nor hash functions.
func compileJavaScript(params []string, _ item.Type) (stepFunc, error) {
	if compileScript == nil {
		return nil, model.Errorf(model.Unsupported, "agents do not run JavaScript")
	}
	script, err := compileScript(params[0])
	if err != nil {
		return nil, err
	}
	return func(v item.Value, at int64, _ *memory, _ *Parsed) (item.Value, error) {
		out, ok, err := script(textOf(v), time.Unix(0, at).UTC())
		switch {
		case err != nil:
			return v, fmt.Errorf("cannot execute script: %w", err)
		case !ok:
			return item.Value{}, nil
		}
		return item.FromText(out), nil
	}, nil
}
