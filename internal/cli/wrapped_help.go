package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/cli/screen"
)

// wrapHelp makes help break its lines at the terminal's width. Help in a file or a pipe stays unchanged.
func (s *commandLine) wrapHelp(root *cobra.Command) {
	if s.Width == 0 {
		return
	}
	show := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		var help bytes.Buffer
		c.Long = joinParagraphs(c.Long)
		c.SetOut(&help)
		show(c, args)
		c.SetOut(s.Stdout)
		examples := false
		for line := range strings.Lines(help.String()) {
			line = strings.TrimRight(line, "\n")
			if !strings.HasPrefix(line, " ") && line != "" {
				examples = line == "Examples:"
			}
			if examples { // commands to copy
				fmt.Fprintln(s.Stdout, line)
				continue
			}
			s.screen().Wrapf(hangingIndent(line), "%s", screen.PaintedText(line))
		}
	})
}

// joinParagraphs joins the lines of each paragraph of a text. Indented lines stay as they are.
func joinParagraphs(text string) string {
	var b strings.Builder
	before := ""
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case before == "" || line == "" || line[0] == ' ' || before[0] == ' ':
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		b.WriteString(line)
		before = line
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// hangingIndent returns the indentation of the wrapped part of a line of help. That is the second column of a list of commands
// or flags, and the indentation of other lines.
func hangingIndent(line string) int {
	const deepest, widestName = 8, 45
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if indent == 0 || indent > deepest {
		return indent
	}
	if gap := strings.LastIndex(line[indent:min(len(line), widestName)], "  "); gap >= 0 {
		return indent + gap + 2
	}
	return indent + 2
}
