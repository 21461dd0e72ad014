package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// bulkFlags select events instead of names.
type bulkFlags struct {
	v1.BulkRequest
	allNamespaces bool
	output        *format
}

func (f *bulkFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVarP(&f.Selector, "selector", "l", "", "those of nodes with these labels: env=prod,tier!=db")
	flags.StringVar(&f.Where, "where", "", "those of which this is true: CEL over event and node")
	flags.StringVar(&f.Status, "status", "", "only these: critical,unknown")
	flags.StringVar(&f.Check, "check", "", "of this check")
	flags.StringVar(&f.Node, "node", "", "of this node")
	flags.StringVar(&f.Group, "group", "", "of nodes in this group")
	flags.BoolVar(&f.All, "all", false, "all of the namespace")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "of all namespaces")
	flags.IntVar(&f.MaxAffected, "max-affected", 0, "refuse what is done to more events (0: a fifth of all, at least 50)")
	flags.BoolVar(&f.Yes, "yes", false, "however many events it is done to")
	flags.BoolVar(&f.DryRun, "dry-run", false, "say which events, and do nothing")
	f.output = formatFlag(c)
}

// selects says whether anything but names says which events.
func (f *bulkFlags) selects() bool {
	return f.All || f.Selector+f.Where+f.Status+f.Check+f.Node+f.Group != ""
}

// args are names, or flags that select.
func (f *bulkFlags) args(c *cobra.Command, args []string) error {
	switch {
	case len(args) > 0 && f.selects():
		return model.Errorf(model.Invalid, "names say which events; -l, --where, --status, --check, --node, --group and --all may not").WithHint("%s --check %s, or %s NODE/CHECK...", c.CommandPath(), "disk", c.CommandPath())
	case len(args) > 0 && f.DryRun:
		return model.Errorf(model.Invalid, "there is no dry run of events that are named").WithHint("look at it: muster describe event %s", args[0])
	case len(args) == 0 && !f.selects():
		return model.Errorf(model.Invalid, "it is not said which events").WithHint("%s NODE/CHECK..., or -l, --where, --status, --check, --group; all of the namespace: --all", c.CommandPath())
	}
	return nil
}

// bulk shows what is picked, and then does it; length is how long an acknowledgement holds.
func (a *app) bulk(c *cobra.Command, f *bulkFlags, verb string, length model.Duration) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	r := f.BulkRequest
	if r.Namespace = a.ns(); f.allNamespaces {
		r.Namespace = ""
	}
	past := map[string]string{"acknowledge": "acknowledged until their problems end", "unacknowledge": "not acknowledged any more", "resolve": "resolved", "delete": "deleted"}[verb]
	if length > 0 {
		r.Until, past = a.Now().Add(time.Duration(length)), "acknowledged for "+length.String()
	}
	preview := r
	preview.DryRun = true
	if !r.DryRun && !f.output.machine() {
		found, err := client.Events.Bulk(c.Context(), verb, preview)
		if err != nil {
			return err
		}
		if a.printPicked(&found, f); found.Matched == 0 {
			return nil
		}
	}
	done, err := client.Events.Bulk(c.Context(), verb, r)
	if !r.DryRun && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)) { // the server died in the middle
		return model.Errorf(model.Unavailable, "no answer came, and some of it may be done").WithHint("type it again when the server is there: what is done already is not done twice")
	}
	if err != nil {
		return err
	}
	switch {
	case f.output.machine():
		err = a.printValue(*f.output, done)
	case r.DryRun:
		a.printPicked(&done, f)
		fmt.Fprintln(a.Stdout, "dry run: nothing is done")
	default:
		a.printBulk(&done, past)
	}
	if err != nil {
		return err
	}
	for _, left := range done.Left {
		if left.Failed {
			return model.Errorf(model.Unavailable, "%s of %s: %s", model.CountNoun(left.Count, "event"), fmt.Sprint(done.Matched), left.Reason).WithHint("type it again: what is done already is not done twice")
		}
	}
	return nil
}

func (a *app) printPicked(done *v1.BulkDone, f *bulkFlags) {
	if done.Matched == 0 {
		fmt.Fprintln(a.Stdout, "no event matches for which there is something to do")
		return
	}
	if done.Matched == 1 {
		fmt.Fprintln(a.Stdout, "1 event matches:")
	} else {
		fmt.Fprintf(a.Stdout, "%d events match:\n", done.Matched)
	}
	for _, e := range done.First {
		fmt.Fprintf(a.Stdout, "  %s\n", a.paint(statusCell(e.Status).colour, e.Status.String())+strings.Repeat(" ", max(1, 9-len(e.Status.String())))+eventName(e, f.allNamespaces))
	}
	if more := done.Matched - len(done.First); more > 0 {
		fmt.Fprintf(a.Stdout, "  and %d more\n", more)
	}
}

func eventName(e v1.BulkEvent, all bool) string {
	name := e.Node + "/" + e.Check
	if all {
		name = e.Namespace + "/" + name
	}
	return clean(name, false)
}

func (a *app) printBulk(done *v1.BulkDone, past string) {
	fmt.Fprintf(a.Stdout, "%s %s\n", model.CountNoun(done.Done, "event"), past)
	for _, left := range done.Left {
		names := make([]string, len(left.First))
		for i := range left.First {
			names[i] = eventName(left.First[i], false)
		}
		if left.Count > len(names) {
			names = append(names, "…")
		}
		a.wrapped(fmt.Sprintf("! %d not, because %s: %s", left.Count, clean(left.Reason, false), strings.Join(names, ", ")), 2)
	}
}
