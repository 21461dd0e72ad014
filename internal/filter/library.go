package filter

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Library is a script whose functions and variables an expression uses. It is run before each
// evaluation, in the same function: what it keeps in variables ends with that.
type Library struct {
	Name   string // for people
	Source string
}

// MaxLibraries bounds the libraries of one program together, in bytes.
const MaxLibraries = 256 << 10

// among is the source of an expression behind that of its libraries. Each is held to what an
// expression is held to, by itself, so that errors name it.
func among(libraries []Library, expression string) (string, error) {
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
