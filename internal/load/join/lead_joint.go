package join

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/model"
)

const (
	mostLines = 1 << 21 // that a follower reported and nobody took: more than one process has agents
	soon      = 300 * time.Millisecond
)

// serveReport handles a message of a follower.
func (l *Lead) serveReport(w http.ResponseWriter, r *http.Request) {
	m, err := decode[message](http.MaxBytesReader(w, r.Body, mostMessage))
	p := l.find(w, r)
	if p == nil {
		return
	}
	if err == nil {
		err = l.take(p, &m)
	}
	switch {
	case r.Context().Err() != nil: // the follower ended this request: its request of orders, or another message, has the reason
	case err != nil:
		l.lose(p, err)
		answer(w, http.StatusUnprocessableEntity, failureOf(model.Errorf(model.Invalid, "%v", err)))
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// take stores the report of a follower.
func (l *Lead) take(p *peer, m *message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.change()
	switch {
	case m.Clock != nil:
		p.clock = m.Clock
	case m.Prepared != nil:
		p.prepared = m.Prepared
	case m.Arrived != nil:
		p.arrived = m.Arrived
	case len(m.Lines) > 0:
		for _, line := range m.Lines {
			if !line.OfFollower() {
				return fmt.Errorf("a line of the log that is not a follower's")
			}
			// A line with more fields would be applied as one of the lead's.
			p.lines = append(p.lines, observe.Line{At: line.At, Loader: p.number, Check: line.Check, Edge: line.Edge, Kept: line.Kept})
		}
	case m.Finished:
		p.finished = true
	case m.Stop:
		go l.onStop(p.who(l))
	case m.Failed != nil:
		return m.Failed.AsModel()
	}
	if len(p.lines) > mostLines {
		return fmt.Errorf("more than the run asks for")
	}
	return nil
}

// Connect waits until all are prepared to play the same plan, and has their agents connect.
func (l *Lead) Connect(ctx context.Context, hash string) error {
	for _, p := range l.all() {
		if err := l.await(ctx, func() bool { return p.prepared != nil }); err != nil {
			return err
		}
		if *p.prepared != hash {
			return model.Errorf(model.Unsupported, "%s would play another plan than this one: the two programs differ", p.who(l)).
				WithHint("use the same version on both machines")
		}
	}
	l.sendAll(order{Connect: true})
	return nil
}

// Ready waits until all agents have their checks, and returns the followers.
func (l *Lead) Ready(ctx context.Context, _ load.Arrived) (list []load.Joined, err error) {
	for _, p := range l.all() {
		if err := l.await(ctx, func() bool { return p.arrived != nil }); err != nil {
			return nil, err
		}
		list = append(list, load.Joined{Number: p.number, Name: p.Name, Here: p.Machine == machineID(), Clock: *p.clock, Arrived: *p.arrived})
		l.uncertainty = max(l.uncertainty, *p.clock)
	}
	return list, nil
}

// Begin announces the beginning of the timetable to all, and returns it.
func (l *Lead) Begin(context.Context) (time.Time, error) {
	at := l.now() + soon + 4*l.uncertainty
	l.sendAll(order{Begin: &at})
	return l.base.Add(at), nil
}

// Follow replaces the timetable of the others.
func (l *Lead) Follow(from time.Duration, spans []plan.Part) {
	l.sendAll(order{Score: &score{from, spans}})
}

// Renamed tells the loader of an agent its new name.
func (l *Lead) Renamed(member int, name string) {
	if owner := member % l.loaders; owner > 0 {
		l.send(l.all()[owner-1], order{Renamed: &renamed{member, name}})
	}
}

// Lines returns the lines of the logs of all since the last call.
func (l *Lead) Lines() (list []observe.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.peers {
		list = append(list, p.lines...)
		p.lines = nil
	}
	return list
}

// Finish waits until the logs of all are complete.
func (l *Lead) Finish(ctx context.Context) error {
	for _, p := range l.all() {
		if err := l.await(ctx, func() bool { return p.finished }); err != nil {
			return err
		}
	}
	return nil
}

var _ load.Joint = (*Lead)(nil)
