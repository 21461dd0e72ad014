package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) silenceList() *cobra.Command {
	g := &getFlags{limit: 50}
	c := &cobra.Command{
		Use: "list", Short: "List silences: what they cover, until when, by whom, why, and what they hold now",
		Example: "  muster silence list\n  muster silence list -A", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			k, _ := model.KindOf("Silence")
			return a.getResources(c.Context(), client, k, nil, g)
		},
	}
	c.Flags().BoolVarP(&g.all, "all-namespaces", "A", false, "of all namespaces")
	c.Flags().IntVar(&g.limit, "limit", 50, "rows at most (0: all)")
	c.Flags().StringVarP(&g.selector, "selector", "l", "", "those with these labels of their own: team=web")
	c.Flags().StringVar(&g.where, "where", "", "CEL over metadata and spec: spec.creator == \"ann\"")
	g.output = formatFlag(c)
	return c
}

func (a *app) silenceEnd() *cobra.Command {
	var note string
	var output *format
	k, _ := model.KindOf("Silence")
	c := &cobra.Command{
		Use: "end NAME...", Short: "End silences: what they hold and is still open is told",
		Example: "  muster silence end web01-disk-20261122-093000 -m \"the disk is in\"", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeNames(k),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			var ended []v1.Silenced
			for _, name := range args {
				one, err := client.EndSilence(c.Context(), a.ns(), name, note)
				if err != nil {
					return err
				}
				if ended = append(ended, one); !output.machine() {
					fmt.Fprintf(a.Stdout, "silence %s ended; it held %s\n", clean(name, false), model.Counted(one.Holds, "problem"))
				}
			}
			if output.machine() {
				return a.printValue(*output, ended)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&note, "message", "m", "", "why; kept in the record of changes")
	output = formatFlag(c)
	return c
}

// selected says in words what a selector picks.
func selected(s *model.Selector) string {
	var parts []string
	if t := s.Targets; t != nil {
		for _, g := range t.Groups {
			parts = append(parts, "group "+g)
		}
		parts = append(parts, t.Nodes...)
		if t.Where != "" {
			parts = append(parts, t.Where)
		}
	}
	on := strings.Join(parts, ", ")
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		on = strings.TrimPrefix(on+" "+name+"="+s.Labels[name], " ")
	}
	var what []string
	if len(s.Checks) > 0 {
		what = append(what, strings.Join(s.Checks, ", "))
	}
	if len(s.Statuses) > 0 {
		what = append(what, "if "+strings.Join(s.Statuses, " or "))
	}
	if s.Severity != "" {
		what = append(what, "from "+s.Severity+" on")
	}
	switch {
	case on == "" && len(what) == 0:
		return "everything"
	case len(what) == 0:
		return on
	case on == "":
		return strings.Join(what, " ")
	}
	return strings.Join(what, " ") + " on " + on
}

// silenceCells are those of a silence in a list.
func (a *app) silenceCells(s *model.SilenceSpec, state v1.State) []string {
	until := "somebody ends it"
	switch {
	case !s.Until.IsZero() && !s.Until.After(a.Now()):
		until = "ended " + age(a.Now(), s.Until.Time) + " ago"
	case s.Begin.After(a.Now()):
		until = "begins in " + span(s.Begin.Sub(a.Now()))
	case !s.Until.IsZero():
		until = "for " + span(s.Until.Sub(a.Now())) + ", " + s.Until.In(a.Zone).Format("01-02 15:04")
	case s.UntilResolved:
		until = "the problem closes"
	}
	return []string{selected(&s.Selector), until, dash(s.Creator), model.Counted(state.Holds, "problem"), s.Reason}
}

// windowCells are those of a window in a list.
func (a *app) windowCells(s *model.WindowSpec, state v1.State) []string {
	now, next := "no", "never"
	if state.InForce {
		now = "until " + state.Ends.In(a.Zone).Format("01-02 15:04")
	}
	if !state.Begins.IsZero() {
		next = "in " + span(state.Begins.Sub(a.Now())) + ", " + state.Begins.In(a.Zone).Format("01-02 15:04")
	}
	of := "-"
	if s.Maintenance != nil {
		of = selected(s.Maintenance)
	}
	return []string{now, next, of, spansText(s)}
}

func spansText(s *model.WindowSpec) string {
	var parts []string
	for _, span := range s.Spans {
		switch {
		case span.During != "":
			parts = append(parts, span.During)
		case span.Cron != "":
			parts = append(parts, fmt.Sprintf("%s for %s", span.Cron, span.For))
		default:
			parts = append(parts, span.From+" to "+span.To)
		}
	}
	return strings.Join(parts, "; ") + strings.TrimSuffix(" "+s.TimeZone, " ")
}

// stepsText is a route in one line: pager (every 4h); after 30m lead.
func stepsText(s *model.RouteSpec) string {
	steps := slices.Clone(s.Steps)
	slices.SortStableFunc(steps, func(a, b model.RouteStep) int { return cmp.Compare(a.After, b.After) })
	var parts []string
	for _, step := range steps {
		text := strings.Join(step.To, ", ")
		if step.After > 0 {
			text = "after " + step.After.String() + " " + text
		}
		if step.Repeat > 0 {
			text += " (every " + step.Repeat.String() + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
