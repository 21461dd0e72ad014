package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// silenceFlags say what a silence covers, and for how long.
type silenceFlags struct {
	checks, groups, statuses  []string
	where, labels, severity   string
	name, from, until, reason string
	length                    model.Duration
	resolved, drop, forever   bool
	everything, dryRun, yes   bool
	maxAffected               int
	output                    *format
}

func (a *app) silenceCmd() *cobra.Command {
	f := &silenceFlags{}
	c := &cobra.Command{
		Use: "silence [NODE[/CHECK]...]", Short: "Keep people from being told of some problems, for a while",
		Long: "A silence holds what people would be told of the problems that it covers: they run, are judged and\n" +
			"are shown, marked. What is still open at its end is told then; with --drop it never is. What you\nname together must all hold. Without a node, group, label or expression it covers all nodes of the\n" +
			"namespace, with --check or --all. What covers more nodes than --max-affected needs --yes.\n" +
			"For problems that somebody looks after: muster event ack. For every Sunday night: muster explain window.",
		Example: "  muster silence web01/disk --for 2h -m \"new disk\"\n  muster silence web01 web02 --until 18:00 -m \"moving racks\"\n" +
			"  muster silence --group web --check http --from 22:00 --for 3h -m \"release\"\n" +
			"  muster silence --where 'node.labels.env == \"staging\"' --for 1d -m \"rebuilding\"\n  muster silence web01/disk --until-resolved -m \"known; ticket 4711\"\n  muster silence list\n  muster silence end web01-disk-20261122-093000",
		Args: cobra.ArbitraryArgs, ValidArgsFunction: a.completeEvents,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && c.Flags().NFlag() == 0 {
				return c.Help()
			}
			return a.silence(c, args, f)
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.checks, "check", nil, "these checks; keepalive is that of a machine that fell silent")
	flags.StringSliceVar(&f.groups, "group", nil, "the nodes of these groups")
	flags.StringVar(&f.where, "where", "", "the nodes of which this is true: CEL over node")
	flags.StringVarP(&f.labels, "selector", "l", "", "the nodes with these labels: env=prod,tier=db")
	flags.StringSliceVar(&f.statuses, "status", nil, "only these: warning, critical, unknown")
	flags.StringVar(&f.severity, "severity", "", "only from this severity on")
	flags.BoolVar(&f.everything, "all", false, "everything in the namespace")
	flags.Var(&durationFlag{&f.length}, "for", "how long: 30m, 2h, 3d")
	flags.StringVar(&f.until, "until", "", "when it ends: 18:00, \"2026-12-24 18:00\" (your time zone), or with an offset")
	flags.StringVar(&f.from, "from", "", "when it begins, written as --until; default now")
	flags.BoolVar(&f.resolved, "until-resolved", false, "it ends with the first problem that it silences")
	flags.BoolVar(&f.forever, "forever", false, "until somebody ends it: muster silence end")
	flags.BoolVar(&f.drop, "drop", false, "what it holds is not told at its end either")
	flags.StringVarP(&f.reason, "reason", "m", "", "why; shown wherever its effect is")
	flags.StringVar(&f.name, "name", "", "its name; default: what it covers, and the time")
	flags.IntVar(&f.maxAffected, "max-affected", 0, "refuse one that covers more nodes; default a fifth of all, at least 50")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what it would cover, and make none")
	flags.BoolVar(&f.yes, "yes", false, "however many nodes it covers")
	f.output = formatFlag(c)
	c.AddCommand(a.silenceList(), a.silenceEnd())
	return c
}

// silence makes one silence for each check that is named with its nodes.
func (a *app) silence(c *cobra.Command, args []string, f *silenceFlags) error {
	specs, err := a.silenceSpecs(args, f)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	var made []v1.Silenced
	for _, spec := range specs {
		data, err := json.Marshal(spec)
		if err != nil {
			return fmt.Errorf("encode a silence: %w", err)
		}
		one, err := client.Notifications.Silence(c.Context(), v1.SilenceRequest{Namespace: a.ns(), Name: f.name, Spec: data, MaxAffected: f.maxAffected, DryRun: f.dryRun, Yes: f.yes})
		if err != nil {
			return err
		}
		if made = append(made, one); f.output.machine() {
			continue
		}
		a.printSilenced(&one, spec)
	}
	if f.output.machine() {
		return a.printValue(*f.output, made)
	}
	return nil
}

func (a *app) printSilenced(one *v1.Silenced, spec *model.SilenceSpec) {
	begins := "silences"
	if spec.Begin.After(a.Now()) {
		begins = "from " + a.when(spec.Begin.Time) + " on silences"
	}
	until := "until somebody ends it"
	switch {
	case spec.UntilResolved && one.Until.IsZero():
		until = "until the first of its problems closes"
	case spec.UntilResolved:
		until = "until the first of its problems closes, at most until " + a.when(one.Until)
	case !one.Until.IsZero():
		until = "until " + a.when(one.Until)
	}
	would := ""
	if one.DryRun {
		would = "dry run: nothing is made; "
	}
	a.wrapped(fmt.Sprintf("%ssilence %s %s %s on %s, %s; open now: %s", would, clean(one.Name, false), begins, clean(silenceChecks(spec), false),
		model.CountNoun(one.Nodes, "node"), until, model.CountNoun(one.Holds, "problem")), 2)
	if one.Nodes > 1 {
		a.wrapped("  "+firstNodes(one.First, one.Nodes), 4)
	}
	if one.Nodes == 0 {
		fmt.Fprintln(a.Stdout, "  it covers no node: which there are says muster get nodes")
	}
	if !one.DryRun {
		fmt.Fprintf(a.Stdout, "  end it: muster silence end %s%s\n", clean(one.Name, false), a.inNamespace())
	}
}

// firstNodes names those of which a server told the first.
func firstNodes(first []string, all int) string {
	text := clean(strings.Join(first, ", "), false)
	if more := all - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// inNamespace is the flag to type where the namespace is none that would be taken anyhow.
func (a *app) inNamespace() string {
	if a.inContext || a.ns() == model.DefaultNamespaceName {
		return ""
	}
	return " -n " + clean(a.ns(), false)
}

func silenceChecks(s *model.SilenceSpec) string {
	if len(s.Checks) == 0 {
		return "every check"
	}
	return strings.Join(s.Checks, ", ")
}

// silenceSpecs reads what was typed: nodes of which the same checks are meant make one
// silence.
func (a *app) silenceSpecs(args []string, f *silenceFlags) ([]*model.SilenceSpec, error) {
	base, err := a.silenceSpec(f)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		if base.Targets == nil && len(base.Labels) == 0 && len(base.Checks) == 0 && !f.everything {
			return nil, model.Errorf(model.Invalid, "it is not said what to silence").
				WithHint("muster silence NODE[/CHECK], or --check, --group, --where, -l; everything in namespace %s: --all", a.ns())
		}
		return []*model.SilenceSpec{base}, nil
	}
	if base.Targets != nil {
		return nil, model.Errorf(model.Invalid, "nodes are named, and --group or --where as well").WithHint("make two silences, or name the node within --where: node.name == %q", args[0])
	}
	var specs []*model.SilenceSpec
	for _, arg := range args {
		node, check, named := strings.Cut(arg, "/")
		if node == "" || named && check == "" {
			return nil, model.Errorf(model.Invalid, "%q names neither a node nor an event", arg).WithHint("muster silence web01, muster silence web01/disk")
		}
		checks := base.Checks
		if named {
			if len(base.Checks) > 0 {
				return nil, model.Errorf(model.Invalid, "%s names a check, and so does --check", arg).WithHint("leave --check out, or write %s", node)
			}
			checks = []string{check}
		}
		at := slices.IndexFunc(specs, func(s *model.SilenceSpec) bool { return slices.Equal(s.Checks, checks) })
		if at < 0 {
			one := *base
			one.Checks, one.Targets = checks, &model.Targets{}
			specs, at = append(specs, &one), len(specs)
		}
		specs[at].Targets.Nodes = append(specs[at].Targets.Nodes, node)
	}
	return specs, nil
}

// silenceSpec is what the flags say.
func (a *app) silenceSpec(f *silenceFlags) (*model.SilenceSpec, error) {
	s := &model.SilenceSpec{UntilResolved: f.resolved, Drop: f.drop, Reason: f.reason}
	s.Checks, s.Statuses, s.Severity = f.checks, f.statuses, f.severity
	if strings.TrimSpace(f.reason) == "" {
		return nil, model.Errorf(model.Invalid, "it is not said why").WithHint("-m \"…\": who wonders at 3 a.m. why nobody was told reads it")
	}
	if len(f.groups) > 0 || f.where != "" {
		s.Targets = &model.Targets{Groups: f.groups, Where: f.where}
	}
	for part := range strings.SplitSeq(f.labels, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok || strings.HasSuffix(name, "!") || strings.HasPrefix(name, "!") {
			return nil, model.Errorf(model.Invalid, "-l %s: a silence knows labels that are so", part).WithHint("--where 'node.labels.tier != \"db\"' can say everything")
		}
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[name] = value
	}
	return s, a.silenceTimes(f, s)
}

func (a *app) silenceTimes(f *silenceFlags, s *model.SilenceSpec) error {
	from := a.Now()
	if f.from != "" {
		at, err := a.instant(f.from, a.Now())
		if err != nil {
			return err
		}
		from, s.Begin = at, model.Time{Time: at.UTC()}
	}
	switch ends := f.length > 0; {
	case ends && f.until != "":
		return model.Errorf(model.Invalid, "--for and --until both say when it ends").WithHint("keep one")
	case ends:
		s.Until = model.Time{Time: from.Add(time.Duration(f.length)).UTC().Truncate(time.Second)}
	case f.until != "":
		at, err := a.instant(f.until, from)
		if err != nil {
			return err
		}
		s.Until = model.Time{Time: at.UTC()}
	case !f.resolved && !f.forever:
		return model.Errorf(model.Invalid, "it is not said when the silence ends").WithHint("--for 2h, --until 18:00, --until-resolved; until you end it yourself: --forever")
	}
	return nil
}

// instant reads a time of day (the next one after a time), a date with a time in the user's
// zone, or either with an offset.
func (a *app) instant(text string, after time.Time) (time.Time, error) {
	if at, err := time.ParseInLocation("15:04", text, a.Zone); err == nil {
		y, m, d := after.In(a.Zone).Date()
		for {
			if at = time.Date(y, m, d, at.Hour(), at.Minute(), 0, 0, a.Zone); at.After(after) {
				return at, nil
			}
			d++
		}
	}
	for _, form := range []string{time.RFC3339, "2006-01-02 15:04Z07:00", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05"} {
		if at, err := time.ParseInLocation(form, text, a.Zone); err == nil {
			return at, nil
		}
	}
	return time.Time{}, model.Errorf(model.Invalid, "%q is no time", text).WithHint("18:00, \"2026-12-24 18:00\", or 2026-12-24T18:00:00Z")
}
