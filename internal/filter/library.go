package filter

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Library is a script whose functions and variables an expression uses. It runs before each evaluation in the same function:
// its variables end with the evaluation.
type Library struct {
	Name   string // for people
	Source string
}

// MaxLibraries bounds the libraries of one program together, in bytes.
const MaxLibraries = 256 << 10

// withLibraries returns the source of an expression behind the sources of its libraries. Each library is checked alone by
// the rules of expressions, so that errors name it.
func withLibraries(libraries []Library, expression string) (string, error) {
	var b strings.Builder
	size := 0
	for _, l := range libraries {
		if size += len(l.Source); size > MaxLibraries {
			return "", model.Errorf(model.TooLarge, "the libraries have more than %d bytes together", MaxLibraries)
		}
		alone, err := parse(l.Source, 0)
		if err == nil {
			_, err = compile(l.Source, false)
		}
		if err != nil {
			return "", model.Errorf(model.ClassOf(err), "library %s: %w", l.Name, err)
		}
		b.WriteString(declarations(alone))
		b.WriteString(l.Source)
		b.WriteString("\n;\n") // whatever it ends with: a comment, or no semicolon
	}
	return b.String() + expression, nil
}
