package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// kindOf finds a kind of resource, and says which words get takes if there is none.
func (a *app) kindOf(word string) (kind.Kind, error) {
	if k, ok := a.Kinds.Of(word); ok {
		return k, nil
	}
	if isStateWord(word) && strings.HasPrefix(strings.ToLower(word), "ag") {
		return kind.Kind{}, model.Errorf(model.Invalid, "an agent is no resource of its own: it stands with its node").
			WithHint("look at all: muster get agents; at one: muster describe node NAME")
	}
	if isStateWord(word) {
		kept := "events"
		for _, all := range []string{"problems", "queues", "history"} {
			if all[0] == strings.ToLower(word)[0] {
				kept = all
			}
		}
		are, them := "are", "them"
		if kept == "history" {
			are, them = "is", "it"
		}
		return kind.Kind{}, model.Errorf(model.Invalid, "%s %s not declared: the server keeps %s", kept, are, them).
			WithHint("look at %s: muster get %s; an event can be set to OK or forgotten: muster event --help", them, kept)
	}
	return kind.Kind{}, a.unknownKind(word)
}

func (a *app) unknownKind(word string) error {
	all := a.kindWords()
	e := model.Errorf(model.Invalid, "unknown kind %q", word)
	if elsewhere := elsewhereOf(strings.ToLower(word)); elsewhere != "" {
		return e.WithHint("%s", elsewhere)
	}
	if near := model.Nearest(strings.ToLower(word), all); near != "" {
		return e.WithHint("did you mean %s?", near)
	}
	return e.WithHint("kinds: %s", strings.Join(all, ", "))
}

// elsewhereOf says which command shows what people look for under get.
func elsewhereOf(word string) string {
	switch word {
	case "token", "tokens":
		return "join tokens of machines: muster node token list; tokens of programs: muster auth token list"
	case "session", "sessions", "user", "users":
		return "users: muster auth user list; sessions and tokens: muster auth token list"
	case "change", "changes", "audit", "log", "revision", "revisions":
		return "who changed what: muster audit; what happened to an event: muster get history NODE/CHECK"
	case "status", "all":
		return "is all well? muster status"
	case "probe", "probes":
		return "what is built into the agent: muster agent --probe"
	case "host", "hosts", "machine", "machines", "entity", "entities":
		return "machines: muster get nodes; their agents: muster get agents"
	case "alert", "alerts", "incident", "incidents":
		return "open problems: muster get problems --open"
	case "result", "results":
		return "what is judged now: muster get events"
	}
	return ""
}

// kindAndNames reads KIND NAME... or KIND/NAME...
func (a *app) kindAndNames(c *cobra.Command, args []string) (word string, names []string, err error) {
	word, name, slash := strings.Cut(args[0], "/")
	if !slash {
		return word, args[1:], nil
	}
	if _, known := a.Kinds.Of(word); !known && !isStateWord(word) && model.Nearest(strings.ToLower(word), a.kindWords()) == "" {
		return "", nil, model.Errorf(model.Invalid, "unknown kind %q", word).WithHint("an event? %s event %s", c.CommandPath(), args[0])
	}
	names = []string{name}
	for _, arg := range args[1:] {
		k, name, slash := strings.Cut(arg, "/")
		if !slash || k != word {
			return "", nil, model.Errorf(model.Invalid, "%q is not written as %s is", arg, args[0]).
				WithHint("%s %s %s NAME", c.CommandPath(), word, names[0])
		}
		names = append(names, name)
	}
	return word, names, nil
}

// isStateWord says whether a word names what is not declared: events, problems, history, queues, agents.
func isStateWord(word string) bool {
	switch strings.ToLower(word) {
	case "event", "events", "ev", "problem", "problems", "pr", "queue", "queues", "agent", "agents", "history":
		return true
	}
	return false
}

// noName is the error where a kind stands without a name.
func (a *app) noName(c *cobra.Command, word string) error {
	e := model.Errorf(model.Invalid, "the name is missing")
	switch k, ok := a.Kinds.Of(word); {
	case ok:
		return e.WithHint("%s %s NAME; names: muster get %s", c.CommandPath(), word, k.Plural)
	case isStateWord(word) && strings.HasPrefix(strings.ToLower(word), "ev"):
		return e.WithHint("%s %s NODE/CHECK; what there is: muster get events", c.CommandPath(), word)
	case isStateWord(word) && strings.HasPrefix(strings.ToLower(word), "pr"):
		return e.WithHint("%s %s ID; what there is: muster get problems", c.CommandPath(), word)
	}
	return a.unknownKind(word)
}

func (a *app) kindWords() []string {
	return append([]string{"events", "problems", "history", "queues", "agents"}, a.declaredWords()...)
}

// declaredWords are the kinds that people declare, without those that are kept from Sensu: they
// are understood, and not offered.
func (a *app) declaredWords() (all []string) {
	for _, k := range a.Kinds.Kinds() {
		if !k.Sensu {
			all = append(all, k.Plural)
		}
	}
	return all
}
