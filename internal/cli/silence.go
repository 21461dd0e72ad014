package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// silenceFlags holds the flags of muster silence, about the problems to match and the start and end.
type silenceFlags struct {
	request             v1.SilenceRequest // without namespace and silence
	silence             model.SilenceSpec // without nodes and times
	targets             model.Targets
	labels, from, until string
	length              model.Duration
	forever, allEvents  bool
	future              bool // nodes and checks need not exist yet
}

// silenceCommand makes the command muster silence.
func silenceCommand(s *commandLine) *cobra.Command {
	f := &silenceFlags{}
	return s.buildCommand(command{
		use: "silence [NODE[/CHECK]...]", short: "Silence problems for a while",
		args: cobra.ArbitraryArgs, complete: s.completeEvents, flags: f.registerFlags,
		commands: []*cobra.Command{silenceListCommand(s), silenceEndCommand(s)},
		offline:  true, // prints its help without a server
		run: func(c *commandCall) (err error) {
			if len(c.args) == 0 && c.cmd.Flags().NFlag() == 0 {
				return c.cmd.Help()
			}
			base, err := f.buildSilenceWithoutNodes(c)
			if err != nil {
				return err
			}
			if c.api, err = c.connect(); err != nil {
				return err
			}
			requests, err := f.buildSilences(c, base)
			if err != nil {
				return err
			}
			return createSilences(c, requests)
		},
	})
}

// registerFlags adds the flags of muster silence.
func (f *silenceFlags) registerFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.silence.Checks, "check", nil, "only these checks; keepalive is the check for silent agents")
	flags.StringSliceVar(&f.targets.Groups, "group", nil, "nodes of these groups")
	flags.StringVar(&f.targets.Where, "where", "", "condition on nodes: CEL over node")
	flags.StringVarP(&f.labels, "selector", "l", "", "problems with these labels, of nodes or tags of triggers: env=prod,scope=capacity")
	flags.StringSliceVar(&f.silence.Statuses, "status", nil, "only these statuses: warning, critical, unknown")
	flags.StringVar(&f.silence.Severity, "severity", "", "only this severity and above")
	flags.BoolVar(&f.allEvents, "all", false, "all problems of the namespace")
	flags.Var(&durationFlag{&f.length}, "for", "length: 30m, 2h, 3d")
	flags.StringVar(&f.until, "until", "", "end: 18:00, \"2026-12-24 18:00\" (your time zone), or with an offset")
	flags.StringVar(&f.from, "from", "", "start, in the format of --until; default now")
	flags.BoolVar(&f.silence.UntilResolved, "until-resolved", false, "end the silence when its first problem closes")
	flags.BoolVar(&f.forever, "forever", false, "until a user ends it: muster silence end")
	flags.BoolVar(&f.silence.Drop, "drop", false, "drop held notifications at the end of the silence")
	registerMessageFlag(flags, &f.silence.Reason, "reason, shown with each held problem")
	flags.StringVar(&f.request.Name, "name", "", "name; default: node, check and time")
	flags.IntVar(&f.request.MaxAffected, "max-affected", 0, "largest number of nodes without --yes (0: a fifth of all, at least 50)")
	flags.BoolVar(&f.future, "future", false, "permit names of nodes and checks that do not exist yet")
	flags.BoolVar(&f.request.DryRun, "dry-run", false, "show the matching nodes and create nothing")
	flags.BoolVar(&f.request.Yes, "yes", false, "confirm a silence of any number of nodes")
}

// silence holds one silence to create, before muster silence sends the silence to the server. It has the
// request to the server, and the spec for the request.
type silence struct {
	request v1.SilenceRequest
	spec    model.SilenceSpec
}

// createSilences sends each silence to the server and prints the created silences.
func createSilences(c *commandCall, list []*silence) error {
	var made []v1.Silenced
	for _, s := range list {
		var err error
		spec := &s.spec
		if s.request.Spec, err = json.Marshal(spec); err != nil {
			return fmt.Errorf("encode a silence: %w", err)
		}
		one, err := c.api.Notifications.Silence(c.ctx, s.request)
		if err != nil {
			return err
		}
		if made = append(made, one); !c.Format.IsForPrograms() {
			printSilence(c, &one, spec)
		}
	}
	return c.printValue(made, func() {})
}

// printSilence prints a created silence, with the numbers of covered nodes and problems. It prints the matching
// nodes and checks, its end, and the problems whose notifications stop.
func printSilence(c *commandCall, s *v1.Silenced, spec *model.SilenceSpec) {
	verb := "silences"
	if spec.Begin.After(c.Now()) {
		verb = "silences, from " + c.TimeAndAge(spec.Begin.Time) + ","
	}
	until := "until a user ends it"
	switch {
	case spec.UntilResolved && s.Until.IsZero():
		until = "until the first of its problems closes"
	case spec.UntilResolved:
		until = "until the first of its problems closes, at the latest " + c.TimeAndAge(s.Until)
	case !s.Until.IsZero():
		until = "until " + c.TimeAndAge(s.Until)
	}
	dry := textIf(s.DryRun, "dry run, nothing was created: ")
	checks := "every check"
	if len(spec.Checks) > 0 {
		checks = strings.Join(spec.Checks, ", ")
	}
	c.Wrapf(2, "%ssilence %s %s %s on %s, %s; open now: %s", dry, s.Name, verb, checks, model.CountNoun(s.Nodes, "node"), until, model.CountNoun(s.Holds, "problem"))
	if s.Nodes > 1 {
		nodes := strings.Join(s.First, ", ")
		if more := s.Nodes - len(s.First); more > 0 {
			nodes += fmt.Sprintf(" and %d more", more)
		}
		c.Wrapf(4, "  %s", nodes)
	}
	if s.Nodes == 0 {
		c.Printf("  the silence matches no node. List nodes: muster get nodes\n")
	}
	if !s.DryRun {
		c.Printf("  end it: muster silence end %s\n", nameWithNamespace(s.Namespace, s.Name))
	}
}

// buildSilences returns the silences that the flags and arguments of muster silence describe. One silence
// covers all nodes of the same namespace with the same checks.
func (f *silenceFlags) buildSilences(c *commandCall, base *model.SilenceSpec) ([]*silence, error) {
	request := f.request
	request.Namespace = c.targetNamespace()
	if len(c.args) == 0 {
		if base.Targets == nil && len(base.Labels) == 0 && len(base.Checks) == 0 && !f.allEvents { // -l ","
			return nil, model.Errorf(model.Invalid, "-l is empty").WithHint("all nodes of namespace %s: --all", c.objectNamespace())
		}
		var err error
		base.Checks, err = f.requireChecks(c, request.Namespace, base.Checks)
		return []*silence{{request, *base}}, err
	}
	if base.Targets != nil {
		return nil, model.Errorf(model.Invalid, "node names cannot be combined with --group or --where").WithHint("create two silences, or name the node within --where: node.name == %q", c.args[0])
	}
	var list []*silence
	for _, arg := range c.args {
		n, err := c.findNodeOrEvent(arg)
		if err != nil {
			return nil, err
		}
		if err := f.requireObject(c, kind.Node().KindInfo, n.namespace, n.node); err != nil {
			return nil, err
		}
		checks := base.Checks
		if n.check != "" {
			if len(base.Checks) > 0 {
				return nil, model.Errorf(model.Invalid, "%s and --check both name a check", arg).WithHint("leave --check out, or write %s", n.node)
			}
			checks = []string{n.check}
		}
		if checks, err = f.requireChecks(c, n.namespace, checks); err != nil {
			return nil, err
		}
		at := slices.IndexFunc(list, func(s *silence) bool {
			return s.request.Namespace == n.namespace && slices.Equal(s.spec.Checks, checks)
		})
		if at < 0 {
			one := &silence{request, *base}
			one.request.Namespace, one.spec.Checks, one.spec.Targets = n.namespace, checks, &model.Targets{}
			list, at = append(list, one), len(list)
		}
		list[at].spec.Targets.Nodes = append(list[at].spec.Targets.Nodes, n.node)
	}
	return list, nil
}

// requireObject returns an error if an object in a new silence, such as a node, does not exist. The silence
// would match nothing.
func (f *silenceFlags) requireObject(c *commandCall, k model.KindInfo, namespace, name string) error {
	_, _, err := c.api.Resources.Get(c.ctx, k, namespace, name)
	var missing *model.Error
	if f.future || !errors.As(err, &missing) || missing.Class != model.NotFound {
		return nil // the request itself answers other errors
	}
	return model.Errorf(model.NotFound, "%s", missing.Message).WithHint("%s; a %s that does not exist yet: --future", missing.Hint, strings.ToLower(k.Name))
}

// requireTrigger returns an error if a Template has no trigger of a given name. The Template is in the namespace, or
// in namespace shared. A Template that does not exist is no error here.
func requireTrigger(c *commandCall, namespace, template, trigger string) error {
	for _, in := range []string{namespace, model.SharedNamespaceName} {
		text, _, err := c.api.Resources.Get(c.ctx, kind.Template().KindInfo, in, template)
		if err != nil {
			continue
		}
		var of struct{ Spec model.TemplateSpec }
		if err := json.Unmarshal(text, &of); err != nil {
			return fmt.Errorf("read template %s: %w", template, err)
		}
		if !of.Spec.DeclaresTrigger(trigger) {
			return model.Errorf(model.NotFound, "template %s has no trigger %q", template, trigger).
				WithHint("list them: muster describe template %s/%s; a trigger that does not exist yet: --future", in, template)
		}
		return nil
	}
	return nil
}

// requireChecks returns an error if a check named in a new silence exists in no namespace. The check, or the
// Template or RuleGroup of a trigger or alert, must be in the namespace or in namespace shared. A silence of
// namespace shared may name checks of all namespaces. The name of a Directive becomes that of its problems.
func (f *silenceFlags) requireChecks(c *commandCall, namespace string, names []string) ([]string, error) {
	names = slices.Clone(names)
	for i, name := range names {
		k := kind.Check().KindInfo
		template, trigger, isTrigger := strings.Cut(name, ":")
		if isTrigger {
			if _, _, err := c.api.Resources.Get(c.ctx, kind.RuleGroup().KindInfo, namespace, template); err == nil {
				continue // an alert, which may have any labels
			}
			k, name = kind.Template().KindInfo, template
		}
		if model.BuiltinCheckID(name) != 0 || strings.ContainsAny(name, "/*") {
			continue
		}
		if isTrigger && !strings.ContainsAny(trigger, "*?[") && !f.future {
			if err := requireTrigger(c, namespace, template, trigger); err != nil {
				return nil, err
			}
		}
		if _, _, err := c.api.Resources.Get(c.ctx, k, model.SharedNamespaceName, name); err == nil {
			continue
		}
		if namespace == model.SharedNamespaceName {
			if found, err := c.findNamespacesOfObject(k, name); err != nil || len(found) > 0 {
				continue
			}
		}
		if err := f.requireObject(c, k, namespace, name); err != nil {
			if isTrigger && trigger != model.ComplianceInstance || !c.hasDirective(namespace, name) {
				return nil, err
			}
			names[i] = name + ":" + model.ComplianceInstance
		}
	}
	return names, nil
}

// hasDirective reports whether a Directive exists in a namespace or in the namespace shared.
func (c *commandCall) hasDirective(namespace, name string) bool {
	return slices.ContainsFunc([]string{namespace, model.SharedNamespaceName}, func(in string) bool {
		_, _, err := c.api.Resources.Get(c.ctx, kind.Directive().KindInfo, in, name)
		return err == nil
	})
}

// requireAll returns one error that lists every missing part of a silence, such as reason or end. The parts are
// its problems, its reason and its end.
func (f *silenceFlags) requireAll(c *commandCall, s *model.SilenceSpec) error {
	var missing, hints []string
	if len(c.args)+len(f.targets.Groups)+len(s.Checks) == 0 && f.targets.Where+f.labels == "" && !f.allEvents {
		missing, hints = append(missing, "the nodes or checks"), append(hints, fmt.Sprintf("NODE[/CHECK], --check, --group, --where or -l; all nodes of namespace %s: --all", c.objectNamespace()))
	}
	if strings.TrimSpace(s.Reason) == "" {
		missing, hints = append(missing, "the reason"), append(hints, "-m TEXT, for the colleague on call at 3 a.m.")
	}
	if f.length == 0 && f.until == "" && !s.UntilResolved && !f.forever {
		missing, hints = append(missing, "the end"), append(hints, "--for 2h, --until 18:00, --until-resolved, or without end: --forever")
	}
	if len(missing) == 0 {
		return nil
	}
	return model.Errorf(model.Invalid, "the silence lacks %s", strings.Join(missing, ", ")).WithHint("%s", strings.Join(hints, "\n  "))
}

// buildSilenceWithoutNodes returns the silence that the flags describe, still without the nodes to match.
func (f *silenceFlags) buildSilenceWithoutNodes(c *commandCall) (*model.SilenceSpec, error) {
	s := &f.silence
	if err := f.requireAll(c, s); err != nil {
		return nil, err
	}
	if len(f.targets.Groups) > 0 || f.targets.Where != "" {
		s.Targets = &f.targets
	}
	for part := range strings.SplitSeq(f.labels, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(strings.Replace(part, "==", "=", 1), "=")
		if !ok || strings.Contains(value, "=") || strings.HasSuffix(name, "!") || strings.HasPrefix(name, "!") {
			return nil, model.Errorf(model.Invalid, "-l %s: expected LABEL=VALUE", part).WithHint("for other conditions: --where 'node.labels.tier != \"db\"'")
		}
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[name] = value
	}
	return s, f.setSilenceTimes(c, s)
}

// setSilenceTimes sets the start and end of a silence by the flags --from, --for and --until.
func (f *silenceFlags) setSilenceTimes(c *commandCall, s *model.SilenceSpec) error {
	from := c.Now()
	if f.from != "" {
		at, err := c.parseTime(f.from, c.Now())
		if err != nil {
			return err
		}
		from, s.Begin = at, model.Time{Time: at.UTC()}
	}
	switch {
	case f.length > 0 && f.until != "":
		return model.Errorf(model.Invalid, "--for and --until exclude each other").WithHint("keep one of these flags")
	case f.length > 0:
		s.Until = model.Time{Time: from.Add(time.Duration(f.length)).UTC().Truncate(time.Second)}
	case f.until != "":
		at, err := c.parseTime(f.until, from)
		if err != nil {
			return err
		}
		s.Until = model.Time{Time: at.UTC()}
	}
	return nil
}

// silenceListCommand makes the command muster silence list.
func silenceListCommand(s *commandLine) *cobra.Command {
	g := &getFlags{}
	return s.buildCommand(command{
		use: "list", formats: []string{"name"}, short: "List silences: matches, end, author, reason, and problems held now",
		args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) {
			g.registerLimit(flags, 50)
			g.registerSelector(flags, "silences with these labels")
			g.registerWhere(flags, `metadata and spec: spec.creator == "ann"`)
		},
		run: func(c *commandCall) error { return getResources(c, kind.Silence(), nil, g) },
	})
}

// silenceEndCommand makes the command muster silence end.
func silenceEndCommand(s *commandLine) *cobra.Command {
	var note string
	return s.buildCommand(command{
		use: "end NAME...", short: "End silences: held problems that are still open notify now",
		args: cobra.MinimumNArgs(1), complete: s.completeNames(kind.Silence().KindInfo),
		flags: func(flags *pflag.FlagSet) { registerMessageFlag(flags, &note, "reason, recorded with the change") },
		run: func(c *commandCall) error {
			var ended []v1.Silenced
			for _, name := range c.args {
				namespace, name, err := c.findObject(kind.Silence().KindInfo, name)
				if err != nil {
					return err
				}
				one, err := c.api.Notifications.EndSilence(c.ctx, namespace, name, note)
				if err != nil {
					return err
				}
				if ended = append(ended, one); !c.Format.IsForPrograms() {
					c.Printf("silence %s ended; it held %s\n", name, model.CountNoun(one.Holds, "problem"))
				}
			}
			return c.printValue(ended, func() {})
		},
	})
}
