package cli

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/muster-fleet/muster/internal/kind"
)

// Env is what a command line touches of its machine.
type Env struct {
	Args   []string       // without the program's name
	Kinds  *kind.Registry // nil: all of Muster's
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	Now    func() time.Time
	Zone   *time.Location // in which times are shown
	Width  int            // of the terminal in columns; 0: no terminal, nothing is cut
	Colour bool           // whether Stdout may be coloured
	// ReadPassword asks on the terminal without showing what is typed; nil: no terminal.
	ReadPassword func(prompt string) (string, error)
	// Edit opens a file in the user's editor and waits.
	Edit func(path string) error
}

// System is the Env of this process.
func System() *Env {
	e := &Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Now: time.Now, Zone: time.Local,
	}
	e.Edit = e.editor
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		e.Width = 80
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			e.Width = width
		}
		e.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
		e.ReadPassword = func(prompt string) (string, error) {
			_, _ = io.WriteString(os.Stderr, prompt)
			secret, err := term.ReadPassword(fd)
			_, _ = io.WriteString(os.Stderr, "\n")
			return string(secret), err
		}
	}
	return e
}
