package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) routeCmd() *cobra.Command {
	c := &cobra.Command{Use: "route", Short: "Try routes: who would be told of a problem, and when", RunE: helpOf,
		Long:    "A route says who is told when a problem opens, lasts and closes (muster explain route).",
		Example: "  muster route test web01/disk --at 03:00",
	}
	c.AddCommand(a.routeTest())
	return c
}

func (a *app) routeTest() *cobra.Command {
	var at, status, severity string
	var output *format
	c := &cobra.Command{
		Use: "test NODE/CHECK", Short: "Print who would be told of a problem, when, and what would hold it",
		Long:    "Thinks up a problem of an event and follows it along its routes, with the silences and windows that\nthere are, as if it stayed open and nobody acknowledged it. Nothing is sent.",
		Example: "  muster route test web01/disk\n  muster route test web01/disk --at 03:00 --status warning", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeEvents,
		RunE: func(c *cobra.Command, args []string) error {
			node, check, err := nodeCheck(args[0])
			if err != nil {
				return err
			}
			var when time.Time
			if at != "" {
				if when, err = a.instant(at, a.Now()); err != nil {
					return err
				}
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			t, err := client.Notifications.TestRoute(c.Context(), a.ns(), node, check, when, status, severity)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, t)
			}
			a.printRouteTest(&t)
			return nil
		},
	}
	c.Flags().StringVar(&at, "at", "", "when the problem opens: 03:00 (the next), \"2026-12-24 18:00\"; default now")
	c.Flags().StringVar(&status, "status", "", "its status: warning, critical (default), unknown")
	c.Flags().StringVar(&severity, "severity", "", "its severity; default what the check makes of the status")
	output = formatFlag(c)
	return c
}

func (a *app) printRouteTest(t *v1.RouteTest) {
	fmt.Fprintf(a.Stdout, "%s in namespace %s, %s (severity %s) from %s on\n", clean(t.Node+"/"+t.Check, false), clean(t.Namespace, false), t.StatusName, t.SeverityName, a.clock(t.At))
	a.wrapped(clean(t.Why, false), 0)
	if len(t.HangsOn) > 0 {
		a.wrapped(clean("held while this fails, which it hangs on: "+strings.Join(t.HangsOn, ", "), false), 0)
	}
	for _, r := range t.Routes {
		name := "handlers without a route"
		if r.Route != "" {
			name = fmt.Sprintf("route %s, told together with what has the same %s, after %s", r.Route, r.GroupBy, r.GroupWait)
			if r.Rate != "" {
				name += "; of new problems no more than " + r.Rate + ", the rest in one message after that"
			}
		}
		fmt.Fprintf(a.Stdout, "\n%s\n", clean(name, false))
		for _, step := range r.Steps {
			a.printRouteStep(&step, t.At)
		}
	}
}

func (a *app) printRouteStep(step *v1.RouteTestStep, opened time.Time) {
	var names []string
	for _, h := range step.Handlers {
		name := h.Name
		if h.Missing {
			name += " (there is no such handler)"
		}
		names = append(names, name)
	}
	text := clean(strings.Join(names, ", "), false)
	if step.Repeat > 0 {
		text += ", again every " + step.Repeat.String()
	}
	when := "+" + model.TimeSpan(step.Due.Sub(opened))
	told := a.clock(step.At)
	switch {
	case step.At.IsZero() && step.Holds[len(step.Holds)-1].Drop:
		told = "never"
	case step.At.IsZero():
		told = "held, nobody knows how long"
	case step.At.After(step.Due):
		told += ", held since " + a.clock(step.Due)
	}
	fmt.Fprintf(a.Stdout, "  %-8s %s\n", when, text)
	a.wrapped(fmt.Sprintf("           %s", told), 11)
	for _, h := range step.Holds {
		hold := h.Text()
		if !h.Until.IsZero() {
			hold += ", until " + a.clock(h.Until)
		}
		a.wrapped("           "+a.paint(yellow, "! ")+clean(hold, false), 13)
	}
}

func (a *app) clock(t time.Time) string { return t.In(a.Zone).Format("2006-01-02 15:04:05 MST") }
