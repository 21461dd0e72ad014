package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// watch is get events -w: what is, then a line for each change. People see changes of
// status and problems; of output too, if they ask for -o wide. Programs get everything.
type watch struct {
	*app
	g     *getFlags
	known map[[2]uint32]seen // by node and check: what was seen last
	wide  int                // columns of the widest name so far
	day   string             // of the line before
}

// seen is what a change is told by.
type seen struct {
	status  model.Status
	problem string // id of the open one
}

func (a *app) watchEvents(ctx context.Context, c *client.Client, f v1.EventFilter, g *getFlags) error {
	w := &watch{app: a, g: g, known: map[[2]uint32]seen{}, day: a.Now().In(a.Zone).Format(time.DateOnly)}
	begin := func() error {
		list, err := readEvents(ctx, c, f, g.limit)
		if err != nil {
			return err
		}
		return w.begin(list)
	}
	return c.Events.Watch(ctx, f, begin, w.change)
}

// begin prints what is now.
func (w *watch) begin(list v1.EventList) error {
	for _, e := range list.Items {
		if w.g.output.machine() {
			if err := w.printOne(e); err != nil {
				return err
			}
		}
		w.note(e)
		w.room(w.name(e))
	}
	if w.g.output.machine() {
		return nil
	}
	if err := w.printEvents(list, w.g); err != nil {
		return err
	}
	what := "changes of status"
	if *w.g.output == "wide" {
		what = "changes"
	}
	_, err := fmt.Fprintln(w.Stdout, w.paint(faint, what+", as they come; Ctrl-C ends it"))
	return err
}

// note remembers an event and returns what was known of it.
func (w *watch) note(e v1.Event) (was seen, known bool) {
	key := [2]uint32{uint32(e.NodeID), uint32(e.CheckID)}
	now := seen{status: e.Status}
	if e.Problem != nil {
		now.problem = e.Problem.ID
	}
	was, known = w.known[key]
	w.known[key] = now
	return was, known
}

func (w *watch) name(e v1.Event) string {
	name := e.Node + "/" + e.Check
	if w.g.all {
		name = e.Namespace + "/" + name
	}
	return clean(name, false)
}

// room keeps the names aligned, unless one takes half of the terminal.
func (w *watch) room(name string) {
	if n := width(name); w.Width == 0 || n <= w.Width/2 {
		w.wide = max(w.wide, n)
	}
}

// change prints one line: when, status, which, and what it says.
func (w *watch) change(e v1.Event) error {
	if w.g.output.machine() {
		return w.printOne(e)
	}
	was, known := w.note(e)
	problem := ""
	switch {
	case e.Problem != nil && was.problem != e.Problem.ID && (known || !e.Problem.Opened.Before(e.Received)):
		problem = "problem opened: "
	case e.Problem == nil && was.problem != "":
		problem = "problem closed: "
	}
	changed := e.Status != was.status
	if !known {
		changed = e.Occurrences <= 1
	}
	if !changed && problem == "" && *w.g.output != "wide" {
		return nil
	}
	at := e.Received
	if e.Changed.After(at) { // a deadline's status is younger than the last result
		at = e.Changed
	}
	at = at.In(w.Zone)
	if day := at.Format(time.DateOnly); day > w.day {
		w.day = day
		if _, err := fmt.Fprintln(w.Stdout, day); err != nil {
			return err
		}
	}
	name := w.name(e)
	w.room(name)
	status := statusCell(e.Status)
	head := fmt.Sprintf("%s  %s%s  %s%s  ", at.Format(time.TimeOnly), w.paint(status.colour, status.text), pad(status.text, len("CRITICAL")), name, pad(name, w.wide))
	output := problem + summary(e.Output)
	if *w.g.output == "wide" {
		output = problem + firstLine(e.Output)
	} else if w.Width > 0 {
		before := len("15:04:05  CRITICAL  ") + max(width(name), w.wide) + 2
		output = cut(output, max(w.Width-before, 10))
	}
	_, err := fmt.Fprintln(w.Stdout, strings.TrimRight(head+output, " "))
	return err
}

// pad is the blanks that a text lacks of so many columns.
func pad(text string, columns int) string {
	return strings.Repeat(" ", max(columns-width(text), 0))
}

// printOne writes one event for programs; YAML needs a line between two of them.
func (w *watch) printOne(e v1.Event) error {
	if *w.g.output == "yaml" {
		if _, err := fmt.Fprintln(w.Stdout, "---"); err != nil {
			return err
		}
	}
	return w.printValue(*w.g.output, e)
}
