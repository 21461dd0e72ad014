package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// explainWrongArguments makes all commands answer wrong arguments with an error and a hint. The hint has the nearest
// correct command.
func (s *commandLine) explainWrongArguments(c *cobra.Command) {
	check := c.Args
	switch {
	case check != nil:
	case c.HasSubCommands():
		check = cobra.NoArgs
	default:
		check = cobra.ArbitraryArgs
	}
	if c.HasSubCommands() && !c.Runnable() { // cobra checks arguments of runnable commands only
		c.RunE = printHelp
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
			return s.unknownCommandError(c, args)
		}
		return s.argumentError(c, args, err)
	}
	for _, sub := range c.Commands() {
		s.explainWrongArguments(sub)
	}
}

// unknownCommandError returns the error for an unknown command, with the nearest command as a hint.
func (s *commandLine) unknownCommandError(c *cobra.Command, args []string) error {
	e := model.Errorf(model.Invalid, "unknown command %q", c.CommandPath()+" "+args[0])
	if !c.HasParent() {
		if hint := s.commandForForeignWord(args[0], args[1:]); hint != "" {
			return e.WithHint("%s", hint)
		}
	}
	if list, known := s.listOfCommand(c); known && slices.Contains([]string{"list", "ls", "get", "show"}, args[0]) {
		return e.WithHint("did you mean: muster get %s", list)
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return e.WithHint("did you mean: %s %s", c.CommandPath(), near[0])
	}
	return e.WithHint("all commands: %s --help", c.CommandPath())
}

// listOfCommand returns the list of muster get with the objects of a command. For muster event that is events.
func (s *commandLine) listOfCommand(c *cobra.Command) (list string, known bool) {
	list = c.Name() + "s"
	return list, slices.Contains(s.listWords(), list)
}

// foreignCommands are commands of other programs; REST stands for the arguments.
var foreignCommands = []foreignWordHint{
	{"create replace patch import", "declare it in a file: muster apply -f FILE. An example: muster explain check"},
	{"list ls show", "did you mean: muster get REST"},
	{"remove rm", "did you mean: muster delete REST"},
	{"validate verify", "did you mean: muster lint REST"},
	{"watch tail", "watch events: muster get events -w"},
	{"logs log history", "the history of an event: muster get history NODE/CHECK. Recorded changes: muster audit"},
	{"exec ssh execute", "did you mean: muster run --command LINE --on NODE"},
	{"start serve", "start server and agent on this machine: muster up. A server alone: muster server"},
	{"join enrol enroll token", "print the command for a new machine: muster node token"},
	{"whoami", "did you mean: muster auth whoami"},
	{"ack acknowledge", "did you mean: muster event ack REST"},
	{"resolve", "did you mean: muster event resolve REST"},
	{"backup restore", "copy the data folder of the stopped server; after a restore: muster doctor restored --data DIR"},
	{"bundle", "did you mean: muster debug bundle"},
	{"rollback undo revert", "the roll-out of a directive: muster rollout undo DIRECTIVE. Recorded changes: muster audit --diff"},
}

// commandForForeignWord returns the Muster command that replaces a command or kind of another program, such as
// kubectl. Other programs are kubectl or sensuctl, for example.
func (s *commandLine) commandForForeignWord(word string, args []string) string {
	rest := strings.Join(append([]string{""}, args...), " ")
	if hint := hintForForeignWord(word, foreignCommands); hint != "" {
		if strings.HasSuffix(hint, "get REST") && rest == "" {
			rest = " events"
		}
		return strings.Replace(hint, " REST", rest, 1)
	}
	first, name, _ := strings.Cut(word, "/")
	k, known := s.Kinds.Lookup(first)
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

// argumentError returns an error that names the missing or unexpected argument by its word in the usage line
func (s *commandLine) argumentError(c *cobra.Command, args []string, err error) error {
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
		e = model.Errorf(model.Invalid, "the arguments %s are missing", strings.Join(expected[len(args):], " and "))
	case missing == 1:
		e = model.Errorf(model.Invalid, "the argument %s is missing", expected[len(args)])
	case len(args) > 0:
		e = model.Errorf(model.Invalid, "unexpected argument %q", args[len(args)-1])
	default:
		e = model.Errorf(model.Invalid, "%w", err)
	}
	if len(expected) > len(args) && expected[len(args)] == "KIND" {
		example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
		example, _, _ = strings.Cut(example, "  ")
		return e.WithHint("for example: %s. Kinds: %s", example, strings.Join(s.kindsOfCommand(c.Name()), ", "))
	}
	return e.WithHint("usage: %s", c.UseLine())
}

// kindsOfCommand returns the kinds of objects, such as events and nodes, for the first argument of a command.
func (s *commandLine) kindsOfCommand(command string) []string {
	switch command {
	case "get":
		return s.listWords()
	case "describe":
		return append([]string{"event", "problem", "item", "compliance"}, s.kindWords()...)
	case "delete":
		return append([]string{"event"}, s.kindWords()...)
	}
	return s.kindWords()
}

// refuseSingleDash returns an error if a long flag, such as --all, was typed with only one dash. Package pflag
// would read -limit as -l with the value imit.
func refuseSingleDash(root *cobra.Command, args []string) error {
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

// flagError replaces pflag's error by an error with the nearest flag or the accepted values.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var none *pflag.ValueRequiredError
	e := model.Errorf(model.Invalid, "%w", err)
	switch {
	case errors.As(err, &unknown) && c.Name() == "describe" && strings.Contains("output", unknown.GetSpecifiedName()):
		return model.Errorf(model.Invalid, "describe has no -o: its output is for people").WithHint("for programs: muster get KIND NAME -o json")
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		e = model.Errorf(model.Invalid, "unknown flag --%s", name)
		if name == "node" && strings.Contains(c.Use, "[NODE") {
			return e.WithHint("the node is an argument: %s NODE", c.CommandPath())
		}
		if near := nearestFlag(c, name); near != "" {
			return e.WithHint("did you mean %s? All flags: %s --help", near, c.CommandPath())
		}
	case errors.As(err, &unknown):
		e = model.Errorf(model.Invalid, "unknown flag -%s", unknown.GetSpecifiedName()[:1])
		if unknown.GetSpecifiedName() == "o" && c.Flags().Lookup("out") != nil {
			return e.WithHint("-o is a format elsewhere. Did you mean --out? All flags: %s --help", c.CommandPath())
		}
	case errors.As(err, &none):
		text := "--" + none.GetFlag().Name + " needs a value"
		if meaning := none.GetFlag().Usage; none.GetFlag().Value.Type() == "string" {
			text += ": " + meaning
		}
		if _, example := flagTypeText(none.GetFlag()); example != "" {
			text += ", such as " + example
		}
		e = model.Errorf(model.Invalid, "%s", text)
	case errors.As(err, &value):
		e = model.Errorf(model.Invalid, "--%s: %w", value.GetFlag().Name, flagValueError(value))
	}
	return e.WithHint("all flags: %s --help", c.CommandPath())
}

// flagValueError returns a readable error for a wrong flag value, in place of the errors of package strconv
func flagValueError(e *pflag.InvalidValueError) error {
	f := e.GetFlag()
	if f.Value.Type() == "bool" {
		return model.Errorf(model.Invalid, "%q: expected true or false", e.GetValue())
	}
	if name, example := flagTypeText(f); name != "" {
		return model.Errorf(model.Invalid, "%q: expected a %s, such as %s", e.GetValue(), name, example)
	}
	return e.Unwrap()
}

// flagTypeText describes in words the type of a flag's value, such as "whole number", with an example. The
// example is the flag's default, unless that is empty. An unknown type has no name.
func flagTypeText(f *pflag.Flag) (name, example string) {
	switch f.Value.Type() {
	case "int", "int64":
		name, example = "whole number", "2"
	case "uint64":
		name, example = "whole number, 0 or more", "1"
	case "float64":
		name, example = "number", "0.5"
	case "float64Slice":
		name, example = "list of numbers, comma-separated", "1,2,4"
	case "duration":
		name, example = "time with its unit", "30s"
	}
	if d := f.DefValue; name != "" && !slices.Contains([]string{"", "0", "0s", "[]"}, d) {
		example = d
	}
	return name, example
}

// nearestFlag returns the existing flag with the name most similar to an unknown flag. It compares words of
// other programs, beginnings and typing errors.
func nearestFlag(c *cobra.Command, word string) string {
	for _, foreign := range [][3]string{{"json", "output", "-o json"}, {"yaml", "output", "-o yaml"}, {"wide", "output", "-o wide"},
		{"force", "yes", "--yes"}, {"filename", "file", "--file"}, {"labels", "selector", "--selector"}, {"reason", "message", "--message"}} {
		if word == foreign[0] && c.Flags().Lookup(foreign[1]) != nil {
			return foreign[2]
		}
	}
	var names []string
	nearest := ""
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if min(len(word), len(f.Name)) > 2 && (strings.HasPrefix(f.Name, word) || strings.HasPrefix(word, f.Name)) && (nearest == "" || len(f.Name) < len(nearest)) {
			nearest = f.Name
		}
	})
	if nearest == "" {
		nearest = model.Nearest(word, names)
	}
	if nearest != "" {
		nearest = "--" + nearest
	}
	return nearest
}

// completionTimeout limits the wait of a shell for names; after it there are none, and no error.
const completionTimeout = 2 * time.Second

// completion is a function that returns the words for the shell to offer at the cursor.
type completion = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeFiles makes the shell offer the names of YAML and JSON files
func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeTargets offers nodes and groups for the shell completion of --on and --except
func (s *commandLine) completeTargets(c *cobra.Command, args []string, typed string) (words []string, _ cobra.ShellCompDirective) {
	at := strings.LastIndex(typed, ",") + 1
	before, last := typed[:at], typed[at:]
	if group, named := strings.CutPrefix(last, "group:"); named {
		names, _ := s.completeNames(kind.Group().KindInfo)(c, args, group)
		for _, name := range names {
			words = append(words, before+"group:"+name)
		}
		return words, noFiles | cobra.ShellCompDirectiveNoSpace
	}
	names, _ := s.completeNames(kind.Node().KindInfo)(c, args, last)
	for _, name := range append(names, "all", "group:", "where:") {
		if strings.HasPrefix(name, last) {
			words = append(words, before+name)
		}
	}
	return words, noFiles | cobra.ShellCompDirectiveNoSpace
}

// completeFirstArgument offers completions for the first argument of a command and none for later arguments.
func completeFirstArgument(words completion) completion {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, noFiles
		}
		return words(c, args, typed)
	}
}

// completeObjects offers for shell completion first the kinds, and then the objects of the typed kind.
func (s *commandLine) completeObjects(most int) completion {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return s.listWords(), noFiles
		}
		if len(args) > most {
			return nil, noFiles
		}
		word := args[0]
		switch list, _ := findServerStateList(word); list.name {
		case "events", "history":
			return s.completeEvents(c, args[1:], typed)
		case "problems":
			return s.completeFromServer(c, typed, func(ctx context.Context, api *client.Client) ([]string, error) {
				list, err := api.Problems.List(ctx, s.listNamespace(), "", "", true, 100, "")
				return convertEach(list.Items, func(p v1.Problem) string { return p.ID + "\t" + p.Node + "/" + p.Source.String() }), err
			})
		case "agents":
			word = "Node"
		}
		k, ok := s.Kinds.Lookup(word)
		if !ok {
			return nil, noFiles
		}
		return s.completeNames(k.KindInfo)(c, args, typed)
	}
}

// completeNames offers the names of existing resources of one kind for shell completion
func (s *commandLine) completeNames(k model.KindInfo) completion {
	return func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return s.completeFromServer(c, typed, func(ctx context.Context, api *client.Client) ([]string, error) {
			list, err := s.listResources(ctx, api, k, s.kindNamespace(k), "")
			return convertEach(list, func(r *model.Resource) string { return r.Metadata.Name }), err
		})
	}
}

// completeEvents offers the names of events (NODE/CHECK) for shell completion. First come names of nodes, then
// the checks of the node.
func (s *commandLine) completeEvents(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	node, _, named := strings.Cut(typed, "/")
	if !named {
		names, _ := s.completeNames(kind.Node().KindInfo)(c, nil, typed)
		for i := range names {
			names[i] += "/"
		}
		return names, noFiles | cobra.ShellCompDirectiveNoSpace
	}
	return s.completeFromServer(c, typed, func(ctx context.Context, api *client.Client) ([]string, error) {
		list, err := api.Events.List(ctx, v1.EventFilter{Namespace: s.objectNamespace(), Node: node, Limit: 1000})
		return convertEach(list.Items, func(e v1.Event) string { return e.Node + "/" + e.Check }), err
	})
}

// completeFromServer offers for shell completion the names in a list that the server returns. Words that came
// before the time-out are better than none.
func (s *commandLine) completeFromServer(c *cobra.Command, typed string, list func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	api, err := s.connect()
	if err != nil {
		return nil, noFiles
	}
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	words, _ := list(ctx, api)
	words = slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, typed) })
	slices.Sort(words)
	return slices.Compact(words), noFiles
}

// completeFlags adds completion to the flags --namespace, --node, --check, --group, --file, --on and --except of all
// commands
func (s *commandLine) completeFlags(c *cobra.Command) {
	for flag, words := range map[string]completion{"file": completeFiles, "on": s.completeTargets, "except": s.completeTargets} {
		if c.Flags().Lookup(flag) != nil {
			_ = c.RegisterFlagCompletionFunc(flag, words)
		}
	}
	for flag, word := range map[string]string{"namespace": "Namespace", "node": "Node", "check": "Check", "group": "Group"} {
		if c.Flags().Lookup(flag) == nil && c.PersistentFlags().Lookup(flag) == nil {
			continue
		}
		k, _ := s.Kinds.Lookup(word)
		_ = c.RegisterFlagCompletionFunc(flag, s.completeNames(k.KindInfo))
	}
	for _, sub := range c.Commands() {
		s.completeFlags(sub)
	}
}
