package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/cli/screen"
)

// runOnTerminals runs one muster command with terminals of the given widths, and returns exit code and output.
func runOnTerminals(t *testing.T, width, errWidth int, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), &Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Width: width, ErrWidth: errWidth,
		Getenv: func(string) string { return "" }, Now: time.Now,
		ReadPassword: func(string) (string, error) { t.Error("asked for a password"); return "", nil },
	})
	return code, out.String(), errs.String()
}

// TestErrorsWrapAtTheTerminal runs a command with a long hint, and expects lines that fit a terminal. A pipe gets one
// line for the message and one for the hint.
func TestErrorsWrapAtTheTerminal(t *testing.T) {
	_, _, whole := runOnTerminals(t, 80, 0, "explain", "qqqqqq")
	if strings.Count(whole, "\n") != 2 || strings.Contains(whole, "events") || !strings.Contains(whole, "checks") {
		t.Errorf("in a pipe:\n%s", whole)
	}
	_, _, wrapped := runOnTerminals(t, 0, 60, "explain", "qqqqqq")
	for line := range strings.Lines(wrapped) {
		if n := screen.TextWidth(strings.TrimRight(line, "\n")); n > 60 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Count(wrapped, "\n") < 3 || strings.Join(strings.Fields(wrapped), " ") != strings.Join(strings.Fields(whole), " ") {
		t.Errorf("on a terminal:\n%s", wrapped)
	}
}

// TestHelpFitsTheTerminal writes the help of each command at 80 columns, and expects lines that fit. The words are those
// of the help in a pipe, and only examples may be longer.
func TestHelpFitsTheTerminal(t *testing.T) {
	var visit func(c *cobra.Command, path []string)
	visit = func(c *cobra.Command, path []string) {
		_, piped, _ := runOnTerminals(t, 0, 0, append([]string{"help"}, path...)...)
		_, shown, _ := runOnTerminals(t, 80, 0, append([]string{"help"}, path...)...)
		if piped == "" || strings.Join(strings.Fields(shown), " ") != strings.Join(strings.Fields(piped), " ") {
			t.Errorf("%s: other words than in a pipe:\n%s", c.CommandPath(), shown)
		}
		text, examples, _ := strings.Cut(shown, "\nExamples:\n")
		_, flags, _ := strings.Cut(examples, "\n\n")
		for line := range strings.Lines(text + flags) {
			if screen.TextWidth(line) > 81 {
				t.Errorf("%s: %s", c.CommandPath(), line)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub, append(path, sub.Name()))
		}
	}
	visit(NewCommandTree(&Env{Getenv: func(string) string { return "" }}), nil)
}

// TestListOfAnotherCommand types list below commands without one, and expects the list of muster get as the hint.
func TestListOfAnotherCommand(t *testing.T) {
	for command, want := range map[string]string{"event list": "muster get events", "item ls": "muster get items"} {
		if _, _, stderr := runOnTerminals(t, 0, 0, strings.Fields(command)...); !strings.Contains(stderr, "did you mean: "+want+"\n") {
			t.Errorf("%s: %s", command, stderr)
		}
	}
}

// TestLoginReachesTheServerFirst logs in at an address without a server, and expects the error before any question.
func TestLoginReachesTheServerFirst(t *testing.T) {
	code, _, stderr := runOnTerminals(t, 80, 0, "login", "http://127.0.0.1:1", "--context-file", t.TempDir()+"/context.yaml")
	if code != 9 || !strings.Contains(stderr, "127.0.0.1:1") {
		t.Errorf("code %d: %s", code, stderr)
	}
}
