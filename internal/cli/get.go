package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/model"
)

// getFlags are those of get.
type getFlags struct {
	output      *format
	selector    string
	all, watch  bool
	limit       int
	node, check string
	group       string
	status      string
	where       string
	problem     bool
	open        bool
	at          string
	period      period

	version                string
	spooling, disconnected bool
}

func (a *app) getCmd() *cobra.Command {
	var g getFlags
	c := &cobra.Command{
		Use:   "get KIND [NAME...]",
		Short: "List events, problems, agents, resources or queues; what is wrong comes first",
		Long:  "Lists what there is of a kind: events, problems, history, queues, agents, or a kind of resource\n(namespaces, nodes, groups, properties, checks, handlers; singular, plural or short).",
		Example: "  muster get events                          what is wrong first\n" +
			"  muster get events --status critical,unknown -l env=prod -A\n" +
			"  muster get events --where 'event.occurrences > 3 && node.labels.env == \"prod\"'\n" +
			"  muster get events -w                       what is, then changes of status as they come\n" +
			"  muster get history web01/disk --since 24h  what happened, newest first\n" +
			"  muster get events --node web01 --at 24h    what was then\n" +
			"  muster get checks --where 'has(spec.ttl) && spec.interval == \"10s\"'\n" +
			"  muster get problems --open --where 'row.severity >= 4 && node.labels.env == \"prod\"'\n" +
			"  muster get agents --disconnected -A        the oldest version first\n" +
			"  muster get check disk -o yaml",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeObjects(1000),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			word, names, err := a.kindAndNames(c, args)
			if err != nil {
				return err
			}
			if g.limit < 0 {
				return model.Errorf(model.Invalid, "--limit %d: want a number of rows, or 0 for all", g.limit)
			}
			lower := strings.ToLower(word)
			if err := a.flagsOf(c, lower); err != nil {
				return err
			}
			switch lower {
			case "event", "events", "ev":
				return a.getEvents(c.Context(), client, names, &g)
			case "problem", "problems", "pr":
				return a.getProblems(c.Context(), client, names, &g)
			case "queue", "queues":
				return a.getQueues(c.Context(), client, names, &g)
			case "history":
				return a.getHistory(c.Context(), client, names, &g)
			case "agent", "agents":
				return a.getAgents(c.Context(), client, names, &g)
			}
			k, err := a.kindOf(word)
			if err != nil {
				return err
			}
			return a.getResources(c.Context(), client, k, names, &g)
		},
	}
	flags := c.Flags()
	g.output = formatFlag(c)
	flags.StringVarP(&g.selector, "selector", "l", "", "labels: env=prod,tier!=db,owner,!old; of the node for events, problems, history and agents")
	flags.BoolVarP(&g.all, "all-namespaces", "A", false, "of all namespaces")
	flags.BoolVarP(&g.watch, "watch", "w", false, "events: then go on with each change of status (-o wide: of output, too)")
	flags.IntVar(&g.limit, "limit", 50, "rows at most (0: all); JSON and YAML of resources are always whole")
	flags.StringVar(&g.group, "group", "", "nodes, events: of this group")
	flags.StringVar(&g.node, "node", "", "events, problems, history: of this node")
	flags.StringVar(&g.check, "check", "", "events, problems, history: of this check")
	flags.StringVar(&g.status, "status", "", "events: ok, warning, critical, unknown; comma-separated")
	flags.StringVar(&g.where, "where", "", "CEL: of events over event and node, of nodes over node, of resources over metadata and spec; of other lists over row (as -o json shows it) and node")
	flags.BoolVar(&g.problem, "problem", false, "events: only those with an open problem")
	flags.BoolVar(&g.open, "open", false, "problems: only those that are open")
	g.period.flags(c, "", "history: ")
	flags.StringVar(&g.at, "at", "", "events: as they were then: 24h ago, or 2026-12-24T18:00:00Z")
	flags.StringVar(&g.version, "version", "", "agents: of this version; 1.2 is 1.2 and 1.2.x")
	flags.BoolVar(&g.spooling, "spooling", false, "agents: only those with results that have waited for more than a minute")
	flags.BoolVar(&g.disconnected, "disconnected", false, "agents: only those that should have a session and do not")
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"ok", "warning", "critical", "unknown"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}
