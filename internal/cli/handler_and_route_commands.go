package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// handlerTestCommand makes the command muster handler test, which sends a test notification through a handler.
func handlerTestCommand(s *commandLine) *cobra.Command {
	var node string
	return s.buildCommand(command{
		use: "test NAME", short: "Send a test message; show the request and the answer",
		args: cobra.ExactArgs(1), complete: s.completeNames(kind.Handler().KindInfo),
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&node, "node", "", "node with the properties for the handler's variables")
		},
		run: func(c *commandCall) error {
			namespace, name, err := c.findObject(kind.Handler().KindInfo, c.args[0])
			if err != nil {
				return err
			}
			t, err := c.api.Notifications.TestHandler(c.ctx, namespace, name, v1.HandlerTest{Node: node})
			if err != nil {
				return err
			}
			err = c.printValue(t, func() { printHandlerTest(c, c.args[0], &t) })
			switch {
			case err != nil || t.Outcome == "taken":
				return err
			case t.Outcome == "final":
				return &exitError{model.Invalid.Exit()}
			}
			return &exitError{model.Unavailable.Exit()}
		},
	})
}

// printHandlerTest prints the request that a handler test sent and the answer of the notified service. It also
// prints whether the server counts the answer as success.
func printHandlerTest(c *commandCall, name string, t *v1.HandlerTestResult) {
	for _, part := range []struct{ title, text string }{{"sent", t.Sent}, {"answered", t.Answer}} {
		if text := strings.TrimSpace(part.text); text != "" {
			c.Printf("%s\n%s\n\n", part.title, screen.PaintedText(screen.Indent(text)))
		}
	}
	switch t.Outcome {
	case "taken":
		c.Printf("handler %s accepted the message after %.2f s\n", name, t.Seconds)
		return
	case "final":
		c.Wrapf(2, "handler %s failed after %.2f s; a real message would become a dead letter:", name, t.Seconds)
	default:
		c.Wrapf(2, "handler %s failed after %.2f s; it would retry a real message for 24 hours:", name, t.Seconds)
	}
	c.Printf("%s\n  muster edit handler %s\n", screen.PaintedText(screen.Indent(t.Error)), name)
}

// handlerDeadCommand makes the command muster handler dead, which lists dead letters (notifications given up after
// failed attempts)
func handlerDeadCommand(s *commandLine) *cobra.Command {
	f := listFlags{}
	return s.buildCommand(command{
		use: "dead NAME", short: "List dead letters: messages that failed permanently, newest first",
		args: cobra.ExactArgs(1), complete: s.completeNames(kind.Handler().KindInfo),
		flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&f.limit, "limit", 50, "maximum number of rows, up to 1000")
			f.registerWhere(flags, whereRowHelp(`row.lastError.contains("401")`))
		},
		run: readAndPrintList(func(c *commandCall) (listOutput[v1.Delivery], error) {
			namespace, name, err := c.findObject(kind.Handler().KindInfo, c.args[0])
			if err != nil {
				return listOutput[v1.Delivery]{}, err
			}
			items, next, err := client.Pages(max(f.limit, 1), func(size int, after string) ([]v1.Delivery, string, error) {
				page, err := c.api.Notifications.DeadLetters(c.ctx, namespace, name, size, after, f.RowFilter)
				return page.Items, page.Next, err
			})
			empty := "no dead letters of handler " + c.args[0]
			empty += textIf(f.hasFilter(), " match")
			notes := []string{
				textIf(next != "" && len(items) > 0, "more dead letters: --limit 1000"),
				textIf(len(items) > 0, "replay them: muster handler replay "+c.args[0]),
			}
			return listOutput[v1.Delivery]{
				value: v1.DeliveryList{Items: items, Next: next}, items: items, empty: empty, notes: notes,
				columns: screen.SplitColumns("ID|GIVEN UP|KIND|ATTEMPTS|SUMMARY|LAST ERROR"),
				row: func(d v1.Delivery) []any {
					return []any{d.ID, c.AgeText(d.Ended), d.Kind, d.Attempts, screen.CutToWidth(d.Summary, 60), screen.FirstLine(d.LastError)}
				},
			}, err
		}),
	})
}

// handlerReplayCommand makes the command muster handler replay, which sends dead letters (notifications given up)
// again
func handlerReplayCommand(s *commandLine) *cobra.Command {
	var r v1.HandlerReplay
	return s.buildCommand(command{
		use: "replay NAME [ID...]", short: "Send dead letters again",
		args: cobra.MinimumNArgs(1), complete: s.completeNames(kind.Handler().KindInfo),
		flags: func(flags *pflag.FlagSet) {
			flags.BoolVar(&r.Ended, "ended", false, "also send dead letters of closed problems")
			flags.IntVar(&r.Limit, "limit", 0, "maximum number of messages (default 1000)")
			registerMessageFlag(flags, &r.Message, "reason, recorded with the replay")
		},
		check: func(c *commandCall) error {
			for _, word := range c.args[1:] {
				id, err := strconv.ParseInt(word, 10, 64)
				if err != nil {
					return model.Errorf(model.Invalid, "%q is not the id of a dead letter", word).WithHint("list dead letters: muster handler dead %s", c.args[0])
				}
				r.IDs = append(r.IDs, id)
			}
			return nil
		},
		run: fetchAndPrint(func(c *commandCall) (done v1.HandlerReplayed, err error) {
			namespace, name, err := c.findObject(kind.Handler().KindInfo, c.args[0])
			if err != nil {
				return done, err
			}
			return c.api.Notifications.ReplayDeadLetters(c.ctx, namespace, name, r)
		}, func(c *commandCall, done v1.HandlerReplayed) {
			c.Printf("%s queued again\n", model.CountNoun(done.Sent, "message"))
			if done.SkippedClosed > 0 {
				c.Wrapf(2, "%s skipped: their problems are closed. --ended sends them too", model.CountNoun(done.SkippedClosed, "dead letter"))
			}
			if done.More > 0 {
				c.Printf("%s more: repeat the command\n", model.CountNoun(done.More, "dead letter"))
			}
		}),
	})
}

// routeTestCommand makes the command muster route test, which predicts the notifications of a problem.
func routeTestCommand(s *commandLine) *cobra.Command {
	var at, status, severity string
	var opened time.Time
	return s.buildCommand(command{
		use: "test NODE/CHECK", short: "Show recipients and times of the notifications of a problem, and the reasons that would hold them",
		args: cobra.ExactArgs(1), complete: s.completeEvents,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&at, "at", "", "opening time of the problem: 03:00 (the next), \"2026-12-24 18:00\"; default now")
			flags.StringVar(&status, "status", "", "status: warning, critical (default), unknown")
			flags.StringVar(&severity, "severity", "", "severity; default: the check's for that status")
		},
		check: func(c *commandCall) (err error) {
			if at != "" {
				opened, err = c.parseTime(at, c.Now())
			}
			return err
		},
		run: fetchAndPrint(func(c *commandCall) (t v1.RouteTest, err error) {
			n, err := c.findEvent(c.args[0])
			if err != nil {
				return t, err
			}
			return c.api.Notifications.TestRoute(c.ctx, n.namespace, n.node, n.check, opened, status, severity)
		}, printRouteTest),
	})
}

// printRouteTest prints the routes and steps that a route test predicts for an assumed problem.
func printRouteTest(c *commandCall, t v1.RouteTest) {
	c.Wrapf(2, "%s in namespace %s, %s (severity %s), starting at %s", t.Node+"/"+t.Check, t.Namespace, t.StatusName, t.SeverityName, c.DateTimeAndZone(t.At))
	c.Wrapf(0, "%s", t.Reason)
	if len(t.Dependencies) > 0 {
		c.Wrapf(0, "held while this dependency fails: %s", strings.Join(t.Dependencies, ", "))
	}
	for _, r := range t.Routes {
		name := "handlers without a route"
		if r.Route != "" {
			name = fmt.Sprintf("route %s, one message for problems with the same %s, after %s", r.Route, r.GroupBy, r.GroupWait)
			name += textIf(r.Rate != "", "; at most "+r.Rate+" of new problems, then one message with the rest")
		}
		c.Printf("\n%s\n", name)
		for _, step := range r.Steps {
			printRouteStep(c, &step, t.At)
		}
	}
}

// printRouteStep prints one step of a tested route. It prints the time of the step and the handlers.
func printRouteStep(c *commandCall, step *v1.RouteTestStep, opened time.Time) {
	text := strings.Join(convertEach(step.Handlers, func(h v1.RouteHandler) string {
		return h.Name + textIf(h.Missing, " (the handler does not exist)")
	}), ", ")
	text += textIf(step.Repeat > 0, ", again every "+step.Repeat.String())
	at := c.DateTimeAndZone(step.At)
	switch {
	case step.At.IsZero() && step.Holds[len(step.Holds)-1].Drop:
		at = "never"
	case step.At.IsZero():
		at = "held, without a known end"
	case step.At.After(step.Due):
		at += ", held since " + c.DateTimeAndZone(step.Due)
	}
	const indent = "           "
	c.Printf("  %-8s %s\n", "+"+model.TimeSpan(step.Due.Sub(opened)), text)
	c.Wrapf(len(indent), "%s%s", indent, at)
	for _, h := range step.Holds {
		c.Wrapf(len(indent)+2, "%s%s %s", indent, screen.Cell{Text: "!", Colour: screen.Yellow},
			h.Text()+textIf(!h.Until.IsZero(), ", until "+c.DateTimeAndZone(h.Until)))
	}
}
