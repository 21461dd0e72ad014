package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/model"
)

// flagsOf refuses flags of get that are of other kinds than the one (in lower case) that is listed: what is passed
// over would show more than was asked for.
func (a *app) flagsOf(c *cobra.Command, kind string) (err error) {
	takes := []string{"output", "selector", "all-namespaces", "limit", "where"}
	own := map[string][]string{
		"events":   {"watch", "node", "check", "status", "group", "problem", "at"},
		"problems": {"node", "check", "open"},
		"history":  {"node", "check", "since", "until"},
		"agents":   {"version", "spooling", "disconnected"},
		"nodes":    {"group"},
	}
	for _, same := range [][]string{{"events", "event", "ev"}, {"problems", "problem", "pr"}, {"agents", "agent"}} {
		if slices.Contains(same, kind) {
			kind = same[0]
		}
	}
	if k, ok := a.Kinds.Of(kind); ok {
		kind = k.Plural
	}
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed || err != nil || f.Name == "help" || slices.Contains(takes, f.Name) || slices.Contains(own[kind], f.Name) {
			return
		}
		e := model.Errorf(model.Invalid, "--%s is not of %s", f.Name, kind)
		switch {
		case f.Name == "group" && (kind == "problems" || kind == "history" || kind == "agents"):
			err = e.WithHint(`muster get %s --where '"%s" in node.groups'`, kind, f.Value)
		case f.Name == "status" && kind == "problems":
			err = e.WithHint("muster get problems --where 'row.status == %s'", strings.ToUpper(strings.Split(f.Value.String(), ",")[0]))
		case f.Name == "watch":
			err = model.Errorf(model.Invalid, "only events can be watched").WithHint("muster get events -w")
		default:
			err = e.WithHint("what it is of: muster get --help")
		}
	})
	return err
}
