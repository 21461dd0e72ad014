package cli

import (
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// watch is get events -w: the list, then one line per change. People see changes of status and of
// problems, with -o wide also of output; programs get every event.
type watch struct {
	*call
	flags     *getFlags
	last      map[eventKey]eventState
	nameWidth int    // columns of the widest name so far
	day       string // of the last line
}

type eventKey struct{ node, check uint32 }

// eventState is the part of an event whose change people see.
type eventState struct {
	status  model.Status
	problem string // id of the open one
}

func watchEvents(c *call, f v1.EventFilter, g *getFlags) error {
	w := &watch{call: c, flags: g, last: map[eventKey]eventState{}, day: c.Now().In(c.Zone).Format(time.DateOnly)}
	list := func() error {
		events, err := readEvents(c, f, g.limit)
		if err != nil {
			return err
		}
		return w.printList(events)
	}
	return c.api.Events.Watch(c.ctx, f, list, w.printChange)
}

func (w *watch) printList(list v1.EventList) error {
	for _, e := range list.Items {
		if w.Format.Machine() {
			if err := w.Document(e); err != nil {
				return err
			}
		}
		w.update(e)
		w.widen(w.name(e))
	}
	if w.Format.Machine() {
		return nil
	}
	if err := printEvents(w.call, list, w.flags); err != nil {
		return err
	}
	changes := "changes of status"
	if w.Format == screen.Wide {
		changes = "changes"
	}
	w.Printf("%s\n", screen.Cell{Text: changes + " follow; Ctrl-C ends the watch", Colour: screen.Faint})
	return nil
}

// update stores the state of an event and returns its state before, if that is known.
func (w *watch) update(e v1.Event) (before eventState, known bool) {
	key := eventKey{uint32(e.NodeID), uint32(e.CheckID)}
	now := eventState{status: e.Status}
	if e.Problem != nil {
		now.problem = e.Problem.ID
	}
	before, known = w.last[key]
	w.last[key] = now
	return before, known
}

func (w *watch) name(e v1.Event) string {
	name := e.Node + "/" + e.Check
	if w.flags.all {
		name = e.Namespace + "/" + name
	}
	return screen.Clean(name)
}

// widen aligns the lines to a name, unless it takes half of the terminal.
func (w *watch) widen(name string) {
	if n := screen.Width(name); w.Width == 0 || n <= w.Width/2 {
		w.nameWidth = max(w.nameWidth, n)
	}
}

// printChange writes time, status, name and output of an event that changed.
func (w *watch) printChange(e v1.Event) error {
	if w.Format.Machine() {
		return w.Document(e)
	}
	before, known := w.update(e)
	problem := ""
	switch {
	case e.Problem != nil && before.problem != e.Problem.ID && (known || !e.Problem.Opened.Before(e.Received)):
		problem = "problem opened: "
	case e.Problem == nil && before.problem != "":
		problem = "problem closed: "
	}
	changed := e.Status != before.status
	if !known {
		changed = e.Occurrences <= 1
	}
	if !changed && problem == "" && w.Format != screen.Wide {
		return nil
	}
	at := e.Received
	if e.Changed.After(at) { // a deadline changed the status after the last result
		at = e.Changed
	}
	at = at.In(w.Zone)
	if day := at.Format(time.DateOnly); day > w.day {
		w.day = day
		w.Printf("%s\n", day)
	}
	name, status := w.name(e), statusCell(e.Status)
	w.widen(name)
	output := problem + outputText(w.call, e.Output)
	if w.Format != screen.Wide && w.Width > 0 {
		before := len("15:04:05  CRITICAL  ") + max(screen.Width(name), w.nameWidth) + 2
		output = screen.Cut(output, max(w.Width-before, 10))
	}
	line := w.Sprintf("%s  %s%s  %s%s  %s", at.Format(time.TimeOnly), status, screen.Pad(status.Text, len("CRITICAL")), name, screen.Pad(name, w.nameWidth), output)
	w.Printf("%s\n", screen.Painted(strings.TrimRight(string(line), " ")))
	return nil
}
