package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) handlerCmd() *cobra.Command {
	c := &cobra.Command{Use: "handler", Short: "Try handlers; see and send again what they did not take", RunE: helpOf,
		Long:    "A handler is one way to tell people or programs of problems (muster explain handler). What one\ndoes not take for 24 hours, or refuses, is a dead letter: it is kept, and can be sent again.",
		Example: "  muster handler test pager\n  muster handler dead pager\n  muster handler replay pager -m \"the key was wrong\"",
	}
	c.AddCommand(a.handlerTest(), a.handlerDead(), a.handlerReplay())
	return c
}

func (a *app) handlerTest() *cobra.Command {
	var node string
	var output *format
	k := kind.Handler().KindInfo
	c := &cobra.Command{
		Use: "test NAME", Short: "Send a test message now, and show what was sent and answered",
		Long: "Sends a test message the way every message goes, without waiting for a problem, and shows what was\nsent (secrets hidden), what was answered and how long it took. It is recorded (muster audit run).\n" +
			"Exit code: 0 if it was taken, 9 if a real message would be tried again, 2 if it would be given up.\nA service that keeps incidents keeps this one, too: resolve it there.",
		Example: "  muster handler test pager\n  muster handler test team-chat --node web01",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeNames(k),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			t, err := client.Notifications.TestHandler(c.Context(), a.ns(), args[0], v1.HandlerTest{Node: node})
			if err != nil {
				return err
			}
			if output.machine() {
				err = a.printValue(*output, t)
			} else {
				a.showTest(args[0], &t)
			}
			switch {
			case err != nil || t.Outcome == "taken":
				return err
			case t.Outcome == "final":
				return &exitError{model.Invalid.Exit()}
			}
			return &exitError{model.Unavailable.Exit()}
		},
	}
	c.Flags().StringVar(&node, "node", "", "whose properties fill the handler's variables")
	output = formatFlag(c)
	return c
}

func (a *app) showTest(name string, t *v1.HandlerTested) {
	indented := func(title, text string) {
		if text = strings.TrimSpace(clean(text, true)); text != "" {
			fmt.Fprintf(a.Stdout, "%s\n  %s\n\n", title, strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	indented("sent", t.Sent)
	indented("answered", t.Answer)
	name = clean(name, false)
	switch t.Outcome {
	case "taken":
		fmt.Fprintf(a.Stdout, "handler %s took the message, after %.2f s\n", name, t.Seconds)
		return
	case "final":
		fmt.Fprintf(a.Stdout, "handler %s did not take it, after %.2f s; a real message would be given up:\n", name, t.Seconds)
	default:
		fmt.Fprintf(a.Stdout, "handler %s did not take it, after %.2f s; a real message would be tried again for 24 hours:\n", name, t.Seconds)
	}
	fmt.Fprintf(a.Stdout, "  %s\n  muster edit handler %s\n", strings.ReplaceAll(clean(t.Error, true), "\n", "\n  "), name)
}

func (a *app) handlerDead() *cobra.Command {
	var limit int
	var output *format
	var narrow v1.Narrow
	k := kind.Handler().KindInfo
	c := &cobra.Command{
		Use: "dead NAME", Short: "List messages that were given up, newest first",
		Example: "  muster handler dead pager", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeNames(k),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			var list v1.DeliveryList
			for after := ""; ; after = list.Next { // a page that was searched for may be short
				page, err := client.Notifications.DeadLetters(c.Context(), a.ns(), args[0], max(1, limit-len(list.Items)), after, narrow)
				if err != nil {
					return err
				}
				if list.Items, list.Next = append(list.Items, page.Items...), page.Next; list.Next == "" || len(list.Items) >= limit {
					break
				}
			}
			if output.machine() {
				return a.printValue(*output, list)
			}
			if len(list.Items) == 0 && narrow.Where != "" {
				fmt.Fprintln(a.Stdout, "no dead letters match")
				return nil
			}
			if len(list.Items) == 0 {
				fmt.Fprintf(a.Stdout, "no dead letters: what handler %s was told, it took or will be told again\n", clean(args[0], false))
				return nil
			}
			t := newTable("ID", "GIVEN UP", "KIND", "ATTEMPTS", "SUMMARY", "LAST ERROR")
			for _, d := range list.Items {
				t.add(strconv.FormatInt(d.ID, 10), model.Age(a.Now(), d.Ended)+" ago", d.Kind, strconv.Itoa(d.Attempts), cut(d.Summary, 60), firstLine(d.LastError))
			}
			if err := t.write(a.narrow(*output)); err != nil {
				return err
			}
			if list.Next != "" {
				fmt.Fprintln(a.Stdout, "there are more: --limit 1000")
			}
			fmt.Fprintf(a.Stdout, "send them again: muster handler replay %s\n", clean(args[0], false))
			return nil
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "rows, at most 1000")
	whereFlag(c, &narrow, `row.lastError.contains("401")`)
	output = formatFlag(c)
	return c
}

func (a *app) handlerReplay() *cobra.Command {
	var r v1.HandlerReplay
	var output *format
	k := kind.Handler().KindInfo
	c := &cobra.Command{
		Use: "replay NAME [ID...]", Short: "Send messages again that were given up",
		Long: "Puts dead letters of a handler back among the messages that wait for it, oldest first, at most 1,000\nat a time. Those of problems that have ended would call people for nothing, and are left; with --ended\n" +
			"they are sent too, each with what tells of its end. It is recorded (muster audit run).",
		Example: "  muster handler replay pager -m \"the key was wrong\"\n  muster handler replay pager 4711 4712",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: a.completeNames(k),
		RunE: func(c *cobra.Command, args []string) error {
			for _, word := range args[1:] {
				id, err := strconv.ParseInt(word, 10, 64)
				if err != nil {
					return model.Errorf(model.Invalid, "%q is no id of a dead letter", word).WithHint("muster handler dead %s", args[0])
				}
				r.IDs = append(r.IDs, id)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			done, err := client.Notifications.ReplayHandler(c.Context(), a.ns(), args[0], r)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, done)
			}
			fmt.Fprintf(a.Stdout, "%s on the way again\n", model.CountNoun(done.Sent, "message"))
			if done.Over > 0 {
				fmt.Fprintf(a.Stdout, "%s left: the problems have ended; --ended sends them too\n", model.CountNoun(done.Over, "dead letter"))
			}
			if done.More > 0 {
				fmt.Fprintf(a.Stdout, "%s more: repeat the command\n", model.CountNoun(done.More, "dead letter"))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&r.Ended, "ended", false, "also of problems that have ended")
	c.Flags().IntVar(&r.Limit, "limit", 0, "at most so many (default 1000)")
	c.Flags().StringVarP(&r.Message, "message", "m", "", "why; kept in the record")
	output = formatFlag(c)
	return c
}
