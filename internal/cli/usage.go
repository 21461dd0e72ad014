package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/model"
)

// sayWhatIsWrong makes wrong commands, arguments and flags errors of class Invalid, each
// with what was probably meant.
func sayWhatIsWrong(c *cobra.Command) {
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
		switch {
		case err == nil:
			return nil
		case c.HasSubCommands() && len(args) > 0:
			return unknownCommand(c, args)
		}
		return wrongArguments(c, args, err)
	}
	for _, sub := range c.Commands() {
		sayWhatIsWrong(sub)
	}
}

// unknownCommand names the command that was meant.
func unknownCommand(c *cobra.Command, args []string) error {
	e := model.Errorf(model.Invalid, "there is no command %q", c.CommandPath()+" "+args[0])
	if !c.HasParent() {
		if elsewhere := commandFor(args[0], args[1:]); elsewhere != "" {
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
func commandFor(word string, args []string) string {
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
	kind, name, _ := strings.Cut(word, "/")
	k, known := model.KindOf(kind)
	if known && name == "" && len(args) == 0 {
		return "did you mean: muster get " + k.Plural
	}
	if known || slices.Contains(kindWords(), kind) || slices.Contains(kindWords(), kind+"s") {
		if name != "" || len(args) > 0 {
			return "did you mean: muster describe " + word + rest
		}
		return "did you mean: muster get " + word
	}
	return ""
}

// wrongArguments says which argument is missing or too many, by the names that the usage
// gives them.
func wrongArguments(c *cobra.Command, args []string, err error) error {
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
		return e.WithHint("for example: %s; kinds: %s", example, strings.Join(kindsOf(c), ", "))
	}
	return e.WithHint("usage: %s", c.UseLine())
}

// kindsOf are the kinds that a command takes.
func kindsOf(c *cobra.Command) []string {
	all := kindWords()
	declared := declaredWords()
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

// wrongFlag names the flag that was meant, or what a flag's value has to be.
func wrongFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && c.Name() == "describe" && strings.Contains("output", unknown.GetSpecifiedName()):
		return model.Errorf(model.Invalid, "a description is for people, and knows no -o").WithHint("for programs: muster get KIND NAME -o json")
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		e := model.Errorf(model.Invalid, "unknown flag --%s", name)
		if near := nearestFlag(c, name); near != "" {
			return e.WithHint("did you mean %s? all flags: %s --help", near, c.CommandPath())
		}
		return e.WithHint("all flags: %s --help", c.CommandPath())
	case errors.As(err, &unknown):
		return model.Errorf(model.Invalid, "unknown flag -%s", unknown.GetSpecifiedName()[:1]).WithHint("all flags: %s --help", c.CommandPath())
	case errors.As(err, &value):
		return model.Errorf(model.Invalid, "--%s: %w", value.GetFlag().Name, reason(value)).WithHint("all flags: %s --help", c.CommandPath())
	}
	return model.Errorf(model.Invalid, "%w", err).WithHint("all flags: %s --help", c.CommandPath())
}

// reason is why a value is none, in our words where the flag's own are Go's.
func reason(e *pflag.InvalidValueError) error {
	switch e.GetFlag().Value.Type() {
	case "int", "int64":
		return model.Errorf(model.Invalid, "%q is no whole number", e.GetValue())
	case "uint64":
		return model.Errorf(model.Invalid, "%q is no whole number from 0 on", e.GetValue())
	case "float64":
		return model.Errorf(model.Invalid, "%q is no number", e.GetValue())
	}
	return e.Unwrap()
}

// nearestFlag is what other programs' word means here, the flag that begins with the word
// or with which the word begins, or one that differs by a slip of the finger.
func nearestFlag(c *cobra.Command, word string) string {
	for _, other := range [][3]string{{"json", "output", "-o json"}, {"yaml", "output", "-o yaml"}, {"wide", "output", "-o wide"},
		{"force", "yes", "--yes"}, {"filename", "file", "--file"}, {"labels", "selector", "--selector"}} {
		if word == other[0] && c.Flags().Lookup(other[1]) != nil {
			return other[2]
		}
	}
	var names []string
	begins := ""
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if min(len(word), len(f.Name)) > 2 && (strings.HasPrefix(f.Name, word) || strings.HasPrefix(word, f.Name)) && (begins == "" || len(f.Name) < len(begins)) {
			begins = f.Name
		}
	})
	if begins == "" {
		begins = model.Nearest(word, names)
	}
	if begins != "" {
		begins = "--" + begins
	}
	return begins
}
