package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// state is a list of state that the server keeps, as opposed to declared resources.
type state string

const (
	events   state = "events"
	problems state = "problems"
	history  state = "history"
	queues   state = "queues"
	agents   state = "agents"
)

// stateOf finds a list of state by its plural, singular or short name, in any case.
func stateOf(word string) (state, bool) {
	switch strings.ToLower(word) {
	case "event", "events", "ev":
		return events, true
	case "problem", "problems", "pr":
		return problems, true
	case "history":
		return history, true
	case "queue", "queues":
		return queues, true
	case "agent", "agents":
		return agents, true
	}
	return "", false
}

func isState(word string) bool {
	_, ok := stateOf(word)
	return ok
}

// listWords returns the lists that get takes.
func (s *session) listWords() []string {
	return append([]string{string(events), string(problems), string(history), string(queues), string(agents)}, s.kindWords()...)
}

// kindWords returns the plurals of kinds, without the kinds of Sensu: those are understood, but not
// offered.
func (s *session) kindWords() (words []string) {
	for _, k := range s.Kinds.Kinds() {
		if !k.Sensu {
			words = append(words, k.Plural)
		}
	}
	return words
}

// kindOf finds a kind of resource.
func (s *session) kindOf(word string) (kind.Kind, error) {
	if k, ok := s.Kinds.Of(word); ok {
		return k, nil
	}
	switch list, ok := stateOf(word); {
	case !ok:
		return kind.Kind{}, s.unknownKind(word)
	case list == agents:
		return kind.Kind{}, model.Errorf(model.Invalid, "an agent is no resource; it belongs to its node").
			WithHint("list agents: muster get agents. See one: muster describe node NAME")
	default:
		return kind.Kind{}, model.Errorf(model.Invalid, "%s: this is state of the server, not a declared resource", list).
			WithHint("list it: muster get %s. Resolve or delete an event: muster event --help", list)
	}
}

func (s *session) unknownKind(word string) error {
	all := s.listWords()
	e := model.Errorf(model.Invalid, "unknown kind %q", word)
	if hint := commandForKind(strings.ToLower(word)); hint != "" {
		return e.WithHint("%s", hint)
	}
	if near := model.Nearest(strings.ToLower(word), all); near != "" {
		return e.WithHint("did you mean %s?", near)
	}
	return e.WithHint("kinds: %s", strings.Join(all, ", "))
}

// commandForKind returns the command that shows a thing that get does not list.
func commandForKind(word string) string {
	switch word {
	case "token", "tokens":
		return "join tokens of machines: muster node token list. Tokens of programs: muster auth token list"
	case "session", "sessions", "user", "users":
		return "users: muster auth user list. Sessions and tokens: muster auth token list"
	case "change", "changes", "audit", "log", "revision", "revisions":
		return "recorded changes: muster audit. The history of an event: muster get history NODE/CHECK"
	case "status", "all":
		return "is all well? muster status"
	case "probe", "probes":
		return "the probes of the agent: muster agent --probe"
	case "host", "hosts", "machine", "machines", "entity", "entities":
		return "machines: muster get nodes. Their agents: muster get agents"
	case "alert", "alerts", "incident", "incidents":
		return "open problems: muster get problems --open"
	case "result", "results":
		return "the latest result of each check: muster get events"
	}
	return ""
}

// kindAndNames reads KIND NAME... or KIND/NAME...
func (s *session) kindAndNames(c *cobra.Command, args []string) (word string, names []string, err error) {
	word, name, slash := strings.Cut(args[0], "/")
	if !slash {
		return word, args[1:], nil
	}
	if _, known := s.Kinds.Of(word); !known && !isState(word) && model.Nearest(strings.ToLower(word), s.listWords()) == "" {
		return "", nil, model.Errorf(model.Invalid, "unknown kind %q", word).WithHint("for an event: %s event %s", c.CommandPath(), args[0])
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

// missingName is the error for a kind without a name.
func (s *session) missingName(c *cobra.Command, word string) error {
	e := model.Errorf(model.Invalid, "the name is missing")
	if k, ok := s.Kinds.Of(word); ok {
		return e.WithHint("%s %s NAME. List names: muster get %s", c.CommandPath(), word, k.Plural)
	}
	switch list, _ := stateOf(word); list {
	case events:
		return e.WithHint("%s %s NODE/CHECK. List events: muster get events", c.CommandPath(), word)
	case problems:
		return e.WithHint("%s %s ID. List problems: muster get problems", c.CommandPath(), word)
	}
	return s.unknownKind(word)
}

// nodeCheck reads NODE/CHECK.
func nodeCheck(text string) (node, check string, err error) {
	node, check, ok := strings.Cut(text, "/")
	if !ok || node == "" || check == "" {
		if node == "" {
			node = "web01"
		}
		return "", "", model.Errorf(model.Invalid, "%q is not an event: expected NODE/CHECK, such as web01/disk", text).
			WithHint("all events of a node: muster get events --node %s", node)
	}
	return node, check, nil
}

// refOf returns a resource as people name it: check/disk, or check/shared/disk outside the default
// namespace.
func refOf(kind, namespace, name string) string {
	return strings.ToLower(kind) + "/" + qualified(namespace, name)
}

// qualified returns a name, with its namespace unless that is the default one.
func qualified(namespace, name string) string {
	if namespace == "" || namespace == model.DefaultNamespaceName {
		return name
	}
	return namespace + "/" + name
}
