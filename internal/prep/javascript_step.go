package prep

import (
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// Script is the compiled function of a javascript step, with the value as a text. It returns false for null.
type Script func(value string, at time.Time) (string, bool, error)

// ScriptCompiler is a function that compiles the JavaScript of a preprocessing step. Package internal/prep/javascript
// has one; agents have none.
type ScriptCompiler func(source string) (Script, error)

// compileStep compiles the step javascript, which runs a JavaScript function in a sandbox. Null discards the value.
// Differences to Zabbix's Duktape: strict mode, 100 ms instead of 10 s, bounded sizes of texts and arrays, regular
// expressions without backtracking, an object is no result, and neither HttpRequest, XML, Zabbix nor hash functions.
func (compile ScriptCompiler) compileStep(params []string, _ item.Type) (stepFunc, error) {
	if compile == nil {
		return nil, model.Errorf(model.Unsupported, "agents do not run JavaScript")
	}
	script, err := compile(params[0])
	if err != nil {
		return nil, err
	}
	return func(v item.Value, at int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
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
