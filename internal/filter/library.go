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

// checkLibraries holds each to what an expression is held to, so that errors name it.
func checkLibraries(list []Library) error {
	size := 0
	for _, l := range list {
		if size += len(l.Source); size > MaxLibraries {
			return model.Errorf(model.TooLarge, "the libraries have more than %d bytes together", MaxLibraries)
		}
		_, err := parse(l.Source, 0)
		if err == nil {
			_, err = compile(l.Source, false)
		}
		if err != nil {
			return model.Errorf(model.ClassOf(err), "library %s: %w", l.Name, err)
		}
	}
	return nil
}

// among is the source of an expression behind that of its libraries.
func among(list []Library, expression string) string {
	var b strings.Builder
	for _, l := range list {
		b.WriteString(l.Source)
		b.WriteString("\n;\n") // whatever it ends with: a comment, or no semicolon
	}
	b.WriteString(expression)
	return b.String()
}
