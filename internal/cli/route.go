package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

func routeCommand(s *session) *cobra.Command {
	return s.build(command{
		use: "route", short: "Test routes: who would be notified of a problem, and when",
		long:     "A route sends notifications when a problem opens, lasts and closes (muster explain route).",
		example:  "  muster route test web01/disk --at 03:00",
		commands: []*cobra.Command{routeTestCommand(s)},
	})
}

func routeTestCommand(s *session) *cobra.Command {
	var at, status, severity string
	var opened time.Time
	return s.build(command{
		use: "test NODE/CHECK", short: "Show who would be notified of a problem, when, and what would hold it",
		long:    "Follows an imaginary problem of an event along its routes, with the present silences and windows, as\nif it stayed open and nobody acknowledged it. Sends nothing.",
		example: "  muster route test web01/disk\n  muster route test web01/disk --at 03:00 --status warning",
		args:    cobra.ExactArgs(1), complete: s.completeEvents,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&at, "at", "", "when the problem opens: 03:00 (the next), \"2026-12-24 18:00\"; default now")
			flags.StringVar(&status, "status", "", "status: warning, critical (default), unknown")
			flags.StringVar(&severity, "severity", "", "severity; default: the check's for that status")
		},
		check: func(c *call) (err error) {
			if _, _, err = nodeCheck(c.args[0]); err == nil && at != "" {
				opened, err = c.parseTime(at, c.Now())
			}
			return err
		},
		run: func(c *call) error {
			node, check, _ := strings.Cut(c.args[0], "/")
			t, err := c.api.Notifications.TestRoute(c.ctx, c.ns(), node, check, opened, status, severity)
			if err != nil {
				return err
			}
			return c.show(t, func() error { printRouteTest(c, &t); return nil })
		},
	})
}

func printRouteTest(c *call, t *v1.RouteTest) {
	c.Printf("%s in namespace %s, %s (severity %s) from %s on\n", t.Node+"/"+t.Check, t.Namespace, t.StatusName, t.SeverityName, c.Clock(t.At))
	c.Wrapf(0, "%s", t.Why)
	if len(t.HangsOn) > 0 {
		c.Wrapf(0, "held while this dependency fails: %s", strings.Join(t.HangsOn, ", "))
	}
	for _, r := range t.Routes {
		name := "handlers without a route"
		if r.Route != "" {
			name = fmt.Sprintf("route %s, one message for all with the same %s, after %s", r.Route, r.GroupBy, r.GroupWait)
			if r.Rate != "" {
				name += "; at most " + r.Rate + " of new problems, the rest in one message after that"
			}
		}
		c.Printf("\n%s\n", name)
		for _, step := range r.Steps {
			printRouteStep(c, &step, t.At)
		}
	}
}

func printRouteStep(c *call, step *v1.RouteTestStep, opened time.Time) {
	names := make([]string, len(step.Handlers))
	for i, h := range step.Handlers {
		names[i] = h.Name
		if h.Missing {
			names[i] += " (there is no such handler)"
		}
	}
	text := strings.Join(names, ", ")
	if step.Repeat > 0 {
		text += ", again every " + step.Repeat.String()
	}
	at := c.Clock(step.At)
	switch {
	case step.At.IsZero() && step.Holds[len(step.Holds)-1].Drop:
		at = "never"
	case step.At.IsZero():
		at = "held, without a known end"
	case step.At.After(step.Due):
		at += ", held since " + c.Clock(step.Due)
	}
	const indent = "           "
	c.Printf("  %-8s %s\n", "+"+model.TimeSpan(step.Due.Sub(opened)), text)
	c.Wrapf(len(indent), "%s%s", indent, at)
	for _, h := range step.Holds {
		hold := h.Text()
		if !h.Until.IsZero() {
			hold += ", until " + c.Clock(h.Until)
		}
		c.Wrapf(len(indent)+2, "%s%s %s", indent, screen.Cell{Text: "!", Colour: screen.Yellow}, hold)
	}
}
