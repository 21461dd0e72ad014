// Package javascript gives package prep the interpreter of its step javascript: import it for this effect alone. The agent does not,
// so that it stays small.
package javascript

import (
	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/prep"
)

// The import of this package gives package prep the interpreter.
var _ = prep.SetScriptCompiler(func(source string) (prep.Script, error) {
	script, err := filter.CompileScript(source)
	if err != nil {
		return nil, err
	}
	return script.Run, nil
})
