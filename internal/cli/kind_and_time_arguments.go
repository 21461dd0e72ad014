package cli

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// serverStateList describes a list of muster get that shows state computed by the server, such as events.
// Nobody declares its objects.
type serverStateList struct {
	name, words string // events; event ev: its singular and short name
	argument    string // names one object of it in commands: NODE/CHECK
	flags       string // the flags of muster get that not every list takes
	get         func(c *commandCall, names []string, g *getFlags) error
	describe    func(c *commandCall, name string) error // nil: its objects have no description
}

// serverStateLists returns all lists of muster get that show state computed by the server, such as events. Help
// and completion show the lists in the same order.
func serverStateLists() []serverStateList {
	return []serverStateList{
		{"events", "event ev", "NODE/CHECK", "watch node check status group problem at", getEvents, describeEvent},
		{"problems", "problem pr", "ID", "watch node check open", getProblems, describeProblem},
		{"history", "", "", "node check since until problem", getHistory, nil},
		{"queues", "queue", "", "", getQueues, nil},
		{"agents", "agent", "", "version spooling disconnected", getAgents, nil},
		{"items", "item", "NODE/KEY", "node", getItems, describeItem},
		{"compliance", "", "", "node directive directive-labels policy status by at", getCompliance, describeCompliance},
		{"texts", "text", "", "node match contains since until", getTextValues, nil},
		{"rules", "rule", "", "", getRules, nil},
		{"inventory", "", "", "since", getInventory, nil},
	}
}

// findServerStateList finds by name a list of state computed by the server, such as events. It accepts the
// plural, singular or short name, in any case.
func findServerStateList(word string) (list serverStateList, known bool) {
	word = strings.ToLower(word)
	for _, list := range serverStateLists() {
		if word == list.name || slices.Contains(strings.Fields(list.words), word) {
			return list, true
		}
	}
	return list, false
}

// isServerStateList reports whether a word names a list that the server computes, such as events or agents.
func isServerStateList(word string) bool {
	_, ok := findServerStateList(word)
	return ok
}

// listWords returns the names of all lists that muster get can show.
func (s *commandLine) listWords() (words []string) {
	for _, list := range serverStateLists() {
		words = append(words, list.name)
	}
	return append(words, s.kindWords()...)
}

// kindWords returns the plural names of resource kinds for help and completion. Kinds that exist only for Sensu are
// left out.
func (s *commandLine) kindWords() (words []string) {
	for _, k := range s.Kinds.Kinds() {
		if !k.Sensu {
			words = append(words, k.Plural)
		}
	}
	return words
}

// findKind returns the kind of resource that a word names, in singular, plural or short form
func (c *commandCall) findKind(word string) (kind.Kind, error) {
	if k, ok := c.Kinds.Lookup(word); ok {
		return k, nil
	}
	switch list, ok := findServerStateList(word); {
	case !ok:
		return kind.Kind{}, c.unknownKindError(c.cmd.Name(), word)
	case list.name == "agents":
		return kind.Kind{}, model.Errorf(model.Invalid, "an agent is not a resource; it belongs to its node").
			WithHint("list agents: muster get agents. See one: muster describe node NAME")
	default:
		return kind.Kind{}, model.Errorf(model.Invalid, "the kind %s shows the server's state, and is not a declared resource", list.name).
			WithHint("list: muster get %s. Resolve or delete an event: muster event --help", list.name)
	}
}

// unknownKindError returns the error for a word that names no kind of a command.
func (s *commandLine) unknownKindError(command, word string) error {
	all := s.kindsOfCommand(command)
	e := model.Errorf(model.Invalid, "unknown kind %q", word)
	if hint := hintForForeignWord(strings.ToLower(word), foreignKinds); hint != "" {
		return e.WithHint("%s", hint)
	}
	if near := model.Nearest(strings.ToLower(word), all); near != "" {
		return e.WithHint("did you mean %s?", near)
	}
	return e.WithHint("kinds: %s", strings.Join(all, ", "))
}

// foreignWordHint maps words of other programs, such as kubectl, to a hint with the Muster command to type.
type foreignWordHint struct{ words, hint string }

// foreignKinds are the commands that show things that get does not list, or lists by another name.
var foreignKinds = []foreignWordHint{
	{"token tokens", "join tokens of machines: muster node token list. Tokens of programs: muster auth token list"},
	{"session sessions user users", "users: muster auth user list. Sessions and tokens: muster auth token list"},
	{"change changes audit log revision revisions", "recorded changes: muster audit. The history of an event: muster get history NODE/CHECK"},
	{"status all", "state of the fleet: muster status"},
	{"probe probes", "the probes of the agent: muster agent --probe"},
	{"host hosts machine machines entity entities", "machines: muster get nodes. Their agents: muster get agents"},
	{"alert alerts incident incidents", "open problems: muster get problems --open"},
	{"result results", "the latest result of each check: muster get events"},
}

// hintForForeignWord returns a hint with the Muster command for a word of another program, or "". Host and alert are
// such words.
func hintForForeignWord(word string, hints []foreignWordHint) string {
	for _, h := range hints {
		if slices.Contains(strings.Fields(h.words), word) {
			return h.hint
		}
	}
	return ""
}

// kindAndNames parses the arguments KIND NAME… or KIND/NAME… of a command about several objects.
func (s *commandLine) kindAndNames(c *cobra.Command, args []string) (word string, names []string, err error) {
	word, name, slash := strings.Cut(args[0], "/")
	if !slash {
		return word, args[1:], nil
	}
	if _, known := s.Kinds.Lookup(word); !known && !isServerStateList(word) && model.Nearest(strings.ToLower(word), s.listWords()) == "" {
		return "", nil, model.Errorf(model.Invalid, "unknown kind %q", word).WithHint("for an event: %s event %s", c.CommandPath(), args[0])
	}
	if name == "" {
		return "", nil, s.missingNameError(c, word)
	}
	names = []string{name}
	for _, arg := range args[1:] {
		k, name, slash := strings.Cut(arg, "/")
		if !slash || k != word {
			return "", nil, model.Errorf(model.Invalid, "%q: expected %s/NAME like the first argument", arg, word).
				WithHint("%s %s %s NAME", c.CommandPath(), word, names[0])
		}
		names = append(names, name)
	}
	return word, names, nil
}

// kindAndName reads KIND NAME or KIND/NAME of a command about one object.
func (s *commandLine) kindAndName(c *cobra.Command, args []string) (word, name string, err error) {
	word, names, err := s.kindAndNames(c, args)
	if err == nil && len(names) != 1 {
		err = s.missingNameError(c, word)
	}
	if err != nil {
		return word, "", err
	}
	return word, names[0], nil
}

// missingNameError returns the error for arguments that have a kind and no name.
func (s *commandLine) missingNameError(c *cobra.Command, word string) error {
	e := model.Errorf(model.Invalid, "the name of the object is missing")
	if k, ok := s.Kinds.Lookup(word); ok {
		return e.WithHint("%s %s NAME. List names: muster get %s", c.CommandPath(), word, k.Plural)
	}
	if list, _ := findServerStateList(word); list.argument != "" {
		return e.WithHint("%s %s %s. List %s: muster get %s", c.CommandPath(), word, list.argument, list.name, list.name)
	}
	if err := s.unknownKindError(c.Name(), word); c.Name() != "describe" || !strings.HasPrefix(hintOf(err), "kinds: ") {
		return err
	}
	return model.Errorf(model.Invalid, "unknown kind %q", word).WithHint("for a node: muster describe node %s. Kinds: muster explain", word)
}

// hintOf returns the hint of an error, or an empty text.
func hintOf(err error) string {
	var e *model.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// resourceRefText formats a resource as KIND/NAME, or as KIND/NAMESPACE/NAME outside the default namespace
func resourceRefText(kind, namespace, name string) string {
	return strings.ToLower(kind) + "/" + nameWithNamespace(namespace, name)
}

// nameWithNamespace returns NAMESPACE/NAME, or only NAME in the default namespace.
func nameWithNamespace(namespace, name string) string {
	if namespace == "" || namespace == model.DefaultNamespaceName {
		return name
	}
	return namespace + "/" + name
}

// timeRange holds the flags --since and --until of a command about a period.
type timeRange struct{ since, until string }

// registerFlags adds the flags --since and --until. If only one list has them, lists is the beginning of their help, such as
// "history: ".
func (p *timeRange) registerFlags(flags *pflag.FlagSet, since, lists string) {
	flags.StringVar(&p.since, "since", since, lists+"start: "+pastTimes)
	flags.StringVar(&p.until, "until", "", lists+"end, in the format of --since; default now")
}

// parseTimes parses the flags --since and --until to the start and end of a period.
func (p *timeRange) parseTimes(s *commandLine) (since, until time.Time, err error) {
	if since, err = parsePastTime(s, "since", p.since); err != nil {
		return since, until, err
	}
	if until, err = parsePastTime(s, "until", p.until); err != nil {
		return since, until, err
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return since, until, model.Errorf(model.Invalid, "--since %s is not before --until %s", p.since, p.until).WithHint("ages count back from now. Yesterday is: --since 2d --until 1d")
	}
	return since, until, nil
}

// pastTimes describes the times that parsePastTime accepts.
const pastTimes = "an age such as 24h, or a time such as 03:00 (the last), \"2026-12-24 18:00\" (your time zone) or 2026-12-24T18:00:00Z"

// parsePastTime parses a past time, given as an age such as 24h or as a date and time. A time of day means its
// last occurrence.
func parsePastTime(s *commandLine, flag, text string) (time.Time, error) {
	now := s.Now()
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := model.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-time.Duration(d)), nil
	}
	if at, err := s.parseTime(text, now); err == nil {
		if _, err := time.Parse("15:04", text); err == nil && at.After(now) {
			at = at.In(s.Zone).AddDate(0, 0, -1)
		}
		return at, nil
	}
	quoted, _ := json.Marshal(text)
	var t model.Time
	if t.UnmarshalJSON(quoted) != nil {
		return time.Time{}, model.Errorf(model.Invalid, "--%s %q is not a time", flag, text).WithHint("an age: 90m, 24h, 7d; or a time: 03:00, \"2026-12-24 18:00\", %s", now.UTC().Format(time.RFC3339))
	}
	return t.Time, nil
}

// parseTime parses a time that the user typed, either a time of day or a date with time. It is a time of day,
// which means its next occurrence, or a date with time; without an offset it is in the user's zone.
func (s *commandLine) parseTime(text string, after time.Time) (time.Time, error) {
	if at, err := time.ParseInLocation("15:04", text, s.Zone); err == nil {
		y, m, d := after.In(s.Zone).Date()
		for {
			if at = time.Date(y, m, d, at.Hour(), at.Minute(), 0, 0, s.Zone); at.After(after) {
				return at, nil
			}
			d++
		}
	}
	for _, form := range []string{time.RFC3339, "2006-01-02 15:04Z07:00", "2006-01-02 15:04", "2006-01-02T15:04", time.DateTime} {
		if at, err := time.ParseInLocation(form, text, s.Zone); err == nil {
			return at, nil
		}
	}
	return time.Time{}, model.Errorf(model.Invalid, "%q is not a time", text).WithHint("18:00, \"2026-12-24 18:00\", or 2026-12-24T18:00:00Z")
}

// maxLifetime is the longest lifetime of a token that ends at all.
const maxLifetime = 3650 * 24 * time.Hour

// parseLifetime parses a token's lifetime such as 30d to a number of seconds. A lifetime without an end is 0.
func parseLifetime(flag, text string) (int64, error) {
	if text == "0" || text == "" {
		return 0, nil
	}
	d, err := model.ParseDuration(text)
	if err != nil {
		return 0, model.Errorf(model.Invalid, "%s: %w", flag, err).WithHint("for example 1h or 30d; 0: without end")
	}
	if d < model.Duration(time.Second) || d > model.Duration(maxLifetime) {
		return 0, model.Errorf(model.Invalid, "%s %s: expected 1s to %s", flag, text, model.Duration(maxLifetime)).WithHint("0: without end")
	}
	return int64(d) / 1e9, nil
}

// durationFlag is a command-line flag for durations such as 30s, 5m and 7d
type durationFlag struct{ d *model.Duration }

// String formats the duration, such as 5m
func (f *durationFlag) String() string { return f.d.String() }

// Type returns the type name of the flag for the help text
func (f *durationFlag) Type() string { return "duration" }

// Set parses a duration such as 30s, 5m or 7d
func (f *durationFlag) Set(text string) (err error) {
	*f.d, err = model.ParseDuration(text)
	return err
}
