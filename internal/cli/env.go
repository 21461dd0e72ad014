package cli

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/muster-fleet/muster/internal/kind"
)

// Env is the machine as a command line sees it.
type Env struct {
	Args   []string       // without the program's name
	Kinds  *kind.Registry // nil: every kind of Muster
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	Now    func() time.Time
	Zone   *time.Location // of times that people read
	Width  int            // columns of the terminal; 0: no terminal, nothing is cut
	Colour bool           // whether Stdout takes colours
	// ReadPassword asks on the terminal without an echo; nil: no terminal.
	ReadPassword func(prompt string) (string, error)
	// Edit opens a file in the user's editor and waits for its end.
	Edit func(path string) error
}

// System returns the Env of this process.
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

// editor opens a file in $VISUAL, $EDITOR or the editor of the system.
func (e *Env) editor(path string) error {
	words := strings.Fields(e.Getenv("VISUAL"))
	if len(words) == 0 {
		words = strings.Fields(e.Getenv("EDITOR"))
	}
	if len(words) == 0 {
		words = []string{"vi"}
		if runtime.GOOS == "windows" {
			words = []string{"notepad"}
		}
	}
	command := exec.Command(words[0], append(words[1:], path)...)
	command.Stdin, command.Stdout, command.Stderr = e.Stdin, e.Stdout, e.Stderr
	return command.Run()
}
