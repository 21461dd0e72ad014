package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/model"
)

// sayWhatIsWrong makes wrong commands, arguments and flags errors of class Invalid, each
// with what was probably meant.
func (a *app) sayWhatIsWrong(c *cobra.Command) {
	check := c.Args
	switch {
	case check != nil:
	case c.HasSubCommands():
		check = cobra.NoArgs
	default:
		check = cobra.ArbitraryArgs
	}
	if c.HasSubCommands() && !c.Runnable() { // else cobra does not look at the arguments
		c.RunE = helpOf
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		var said *model.Error
		switch {
		case err == nil:
			return nil
		case errors.As(err, &said) && said.Hint != "": // the command says it better
			return err
		case c.HasSubCommands() && len(args) > 0:
			return a.unknownCommand(c, args)
		}
		return a.wrongArguments(c, args, err)
	}
	for _, sub := range c.Commands() {
		a.sayWhatIsWrong(sub)
	}
}

// unknownCommand names the command that was meant.
func (a *app) unknownCommand(c *cobra.Command, args []string) error {
	e := model.Errorf(model.Invalid, "there is no command %q", c.CommandPath()+" "+args[0])
	if !c.HasParent() {
		if elsewhere := a.commandFor(args[0], args[1:]); elsewhere != "" {
			return e.WithHint("%s", elsewhere)
		}
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return e.WithHint("did you mean: %s %s", c.CommandPath(), near[0])
	}
	return e.WithHint("all commands: %s --help", c.CommandPath())
}

// commandFor says what to type instead of a word that is no command, but that people
// know from elsewhere, or that is a kind.
func (a *app) commandFor(word string, args []string) string {
	rest := strings.Join(append([]string{""}, args...), " ")
	switch word {
	case "create", "replace", "patch", "import":
		return "declare it in a file: muster apply -f FILE; an example: muster explain check"
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
		return "changes of status as they come: muster get events -w"
	case "logs", "log", "history":
		return "what happened to an event: muster get history NODE/CHECK; who changed what: muster audit"
	case "exec", "ssh", "execute":
		return "did you mean: muster run --command LINE --on NODE"
	case "start", "serve":
		return "server and agent of this machine: muster up; a server alone: muster server"
	case "join", "enrol", "enroll", "token":
		return "the line to paste on a new machine: muster node token"
	case "whoami":
		return "did you mean: muster auth whoami"
	}
	first, name, _ := strings.Cut(word, "/")
	k, known := a.Kinds.Of(first)
	if known && name == "" && len(args) == 0 {
		return "did you mean: muster get " + k.Plural
	}
	if known || slices.Contains(a.kindWords(), first) || slices.Contains(a.kindWords(), first+"s") {
		if name != "" || len(args) > 0 {
			return "did you mean: muster describe " + word + rest
		}
		return "did you mean: muster get " + word
	}
	return ""
}

// wrongArguments says which argument is missing or too many, by the names that the usage
// gives them.
func (a *app) wrongArguments(c *cobra.Command, args []string, err error) error {
	var wanted []string
	for _, word := range strings.Fields(c.Use)[1:] {
		if strings.HasPrefix(word, "-") { // -f FILE: flags speak for themselves
			break
		}
		if !strings.HasPrefix(word, "[") {
			wanted = append(wanted, strings.TrimSuffix(word, "..."))
		}
	}
	var e *model.Error
	switch {
	case len(args) < len(wanted):
		verb := "is"
		if len(wanted)-len(args) > 1 {
			verb = "are"
		}
		e = model.Errorf(model.Invalid, "%s %s missing", strings.Join(wanted[len(args):], " and "), verb)
	case len(args) > 0:
		e = model.Errorf(model.Invalid, "%q is too much", args[len(args)-1])
	default:
		e = model.Errorf(model.Invalid, "%w", err)
	}
	if len(wanted) > len(args) && wanted[len(args)] == "KIND" {
		example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
		example, _, _ = strings.Cut(example, "  ")
		return e.WithHint("for example: %s; kinds: %s", example, strings.Join(a.kindsOf(c), ", "))
	}
	return e.WithHint("usage: %s", c.UseLine())
}

// kindsOf are the kinds that a command takes.
func (a *app) kindsOf(c *cobra.Command) []string {
	all := a.kindWords()
	declared := a.declaredWords()
	switch c.Name() {
	case "get":
		return all
	case "describe":
		return append([]string{"event", "problem"}, declared...)
	case "delete":
		return append([]string{"event"}, declared...)
	}
	return declared
}

// oneDash finds a long flag with one dash, which would be read as letters: -limit as -l imit.
func oneDash(root *cobra.Command, args []string) error {
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
