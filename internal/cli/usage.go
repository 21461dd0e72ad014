package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/model"
)

// checkArguments turns wrong commands and arguments of the whole tree into errors of class Invalid
// with the nearest right command as a hint.
func (s *session) checkArguments(c *cobra.Command) {
	check := c.Args
	switch {
	case check != nil:
	case c.HasSubCommands():
		check = cobra.NoArgs
	default:
		check = cobra.ArbitraryArgs
	}
	if c.HasSubCommands() && !c.Runnable() { // cobra checks arguments of runnable commands only
		c.RunE = helpOf
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		var e *model.Error
		switch {
		case err == nil:
			return nil
		case errors.As(err, &e) && e.Hint != "": // the command's own error is better
			return err
		case c.HasSubCommands() && len(args) > 0:
			return s.unknownCommand(c, args)
		}
		return s.argumentError(c, args, err)
	}
	for _, sub := range c.Commands() {
		s.checkArguments(sub)
	}
}

// unknownCommand suggests the nearest command.
func (s *session) unknownCommand(c *cobra.Command, args []string) error {
	e := model.Errorf(model.Invalid, "there is no command %q", c.CommandPath()+" "+args[0])
	if !c.HasParent() {
		if hint := s.foreignCommand(args[0], args[1:]); hint != "" {
			return e.WithHint("%s", hint)
		}
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return e.WithHint("did you mean: %s %s", c.CommandPath(), near[0])
	}
	return e.WithHint("all commands: %s --help", c.CommandPath())
}

// foreignCommand returns the command for a word that other programs use, or that is a kind.
func (s *session) foreignCommand(word string, args []string) string {
	rest := strings.Join(append([]string{""}, args...), " ")
	switch word {
	case "create", "replace", "patch", "import":
		return "declare it in a file: muster apply -f FILE. An example: muster explain check"
	case "list", "ls", "show":
		if rest == "" {
			rest = " events"
		}
		return "did you mean: muster get" + rest
	case "remove", "rm":
		return "did you mean: muster delete" + rest
	case "validate", "verify":
		return "did you mean: muster lint" + rest
	case "watch", "tail":
		return "watch events: muster get events -w"
	case "logs", "log", "history":
		return "the history of an event: muster get history NODE/CHECK. Recorded changes: muster audit"
	case "exec", "ssh", "execute":
		return "did you mean: muster run --command LINE --on NODE"
	case "start", "serve":
		return "start server and agent on this machine: muster up. A server alone: muster server"
	case "join", "enrol", "enroll", "token":
		return "print the command for a new machine: muster node token"
	case "whoami":
		return "did you mean: muster auth whoami"
	}
	first, name, _ := strings.Cut(word, "/")
	k, known := s.Kinds.Of(first)
	if known && name == "" && len(args) == 0 {
		return "did you mean: muster get " + k.Plural
	}
	if known || slices.Contains(s.listWords(), first) || slices.Contains(s.listWords(), first+"s") {
		if name != "" || len(args) > 0 {
			return "did you mean: muster describe " + word + rest
		}
		return "did you mean: muster get " + word
	}
	return ""
}

// argumentError names the missing argument, or the superfluous one, by the words of the usage line.
func (s *session) argumentError(c *cobra.Command, args []string, err error) error {
	var expected []string
	for _, word := range strings.Fields(c.Use)[1:] {
		if strings.HasPrefix(word, "-") { // -f FILE is no argument
			break
		}
		if !strings.HasPrefix(word, "[") {
			expected = append(expected, strings.TrimSuffix(word, "..."))
		}
	}
	var e *model.Error
	switch missing := len(expected) - len(args); {
	case missing > 1:
		e = model.Errorf(model.Invalid, "%s are missing", strings.Join(expected[len(args):], " and "))
	case missing == 1:
		e = model.Errorf(model.Invalid, "%s is missing", expected[len(args)])
	case len(args) > 0:
		e = model.Errorf(model.Invalid, "unexpected argument %q", args[len(args)-1])
	default:
		e = model.Errorf(model.Invalid, "%w", err)
	}
	if len(expected) > len(args) && expected[len(args)] == "KIND" {
		example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
		example, _, _ = strings.Cut(example, "  ")
		return e.WithHint("for example: %s. Kinds: %s", example, strings.Join(s.kindsFor(c.Name()), ", "))
	}
	return e.WithHint("usage: %s", c.UseLine())
}

// kindsFor returns the kinds that a command takes.
func (s *session) kindsFor(command string) []string {
	switch command {
	case "get":
		return s.listWords()
	case "describe":
		return append([]string{"event", "problem"}, s.kindWords()...)
	case "delete":
		return append([]string{"event"}, s.kindWords()...)
	}
	return s.kindWords()
}

// checkDashes refuses a long flag with one dash, which pflag reads as letters: -limit as -l imit.
func checkDashes(root *cobra.Command, args []string) error {
	c, _, err := root.Find(args)
	if err != nil || c.DisableFlagParsing {
		return nil
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		switch {
		case arg == "--":
			return nil
		case arg[:min(len(arg), 1)] == "-" && len(name) > 1 && (c.Flags().Lookup(name) != nil || c.InheritedFlags().Lookup(name) != nil):
			return model.Errorf(model.Invalid, "%s: long flags begin with two dashes", arg).WithHint("did you mean -%s?", arg)
		}
	}
	return nil
}
