// Package javascript is the interpreter of package prep's step javascript. The agent does not import it, so that it stays small.
package javascript

import (
	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/prep"
)

// Compile compiles the source of a javascript step, the body of a function. prep.Compile calls it for each such step.
func Compile(source string) (prep.Script, error) {
	script, err := filter.CompileScript(source)
	if err != nil {
		return nil, err
	}
	return script.Run, nil
}
