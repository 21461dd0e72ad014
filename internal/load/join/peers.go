package join

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/model"
)

// mostAhead bounds what a follower may have told that nobody has taken.
const mostAhead = 10_000

func (p *peer) who(l *Lead) string {
	return fmt.Sprintf("loader %d of %d (%s)", p.number+1, l.loaders, p.name)
}

// hear takes what a follower says.
func (l *Lead) hear(p *peer, said *message) error {
	body, err := said.decode()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.change()
	switch m := body.(type) {
	case *clock:
		p.answer, p.answered = *m, l.since()
	case *prepared:
		p.prepared = m
	case *load.Arrived:
		p.arrived = m
	case *load.Presence:
		p.presence = *m
	case *observe.CheckSecond:
		if _, _, _, err := m.Unpack(); err != nil {
			return err
		}
		p.seconds[m.Number] = m
	case *load.Stretch:
		p.stretches[m.Part] = m
		if m.Tally == nil {
			return fmt.Errorf("a stretch without figures")
		}
	case *load.Measured:
		p.measured = m
	case *observe.Ledgers:
		if p.measured == nil {
			return fmt.Errorf("ledgers before what was measured")
		}
		if l := &p.measured.Ledgers; m.Agents == nil {
			l.Sets, l.Breaches = m.Sets, m.Breaches
		} else {
			l.Agents = append(l.Agents, m.Agents...)
		}
	case *failed:
		return &told{*m}
	default:
		if said.Kind == kindFinished && p.measured != nil {
			p.finished = true
		} else if said.Kind == kindStop {
			go l.onStop(p.who(l))
		} else if said.Kind != kindAlive {
			return fmt.Errorf("a message of the kind %q, which is not a follower's", said.Kind)
		}
	}
	if len(p.seconds) > mostAhead || len(p.stretches) > mostAhead || p.measured != nil && len(p.measured.Ledgers.Agents) > mostLedgers {
		return fmt.Errorf("more than anybody asked for")
	}
	return nil
}

// mostLedgers is more than one process has agents.
const mostLedgers = 1 << 20

// Loaders says who follows.
func (l *Lead) Loaders() (list []load.Joined) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.peers {
		list = append(list, load.Joined{Number: p.number, Name: p.name, Here: p.machine == machineID(), Clock: p.clock.within})
	}
	return list
}

// Connect waits until all are prepared, and has their agents connect.
func (l *Lead) Connect(ctx context.Context, hash string) error {
	for _, p := range l.all() {
		if err := l.await(ctx, func() bool { return p.prepared != nil }); err != nil {
			return err
		}
		if p.prepared.Plan != hash {
			return model.Errorf(model.Unsupported, "%s would play another plan than this one: the two programs differ", p.who(l)).
				WithHint("use the same version on both machines")
		}
	}
	l.tell(kindConnect, nil)
	return nil
}

// Ready waits until all agents hold their checks, and compares the clocks.
func (l *Lead) Ready(ctx context.Context) (list []load.Arrived, err error) {
	for _, p := range l.all() {
		if err := l.await(ctx, func() bool { return p.arrived != nil }); err != nil {
			return nil, err
		}
		list = append(list, *p.arrived)
	}
	return list, l.compare(ctx)
}

// soon is how long before its beginning the timetable is told of, beside the way there.
const soon = 300 * time.Millisecond

// Begin is the same instant on all clocks.
func (l *Lead) Begin() time.Time {
	at := l.since() + soon
	peers := l.all()
	for _, p := range peers {
		at = max(at, l.since()+soon+4*p.clock.within)
	}
	for _, p := range peers {
		_ = p.conn.send(kindBegin, instant{at + p.clock.ahead})
	}
	return l.base.Add(at)
}

// Follow has the others play another score.
func (l *Lead) Follow(from time.Duration, spans []load.Span) { l.tell(kindScore, score{from, spans}) }

// Renamed tells the one who has the agent.
func (l *Lead) Renamed(member int, name string) {
	if p := l.all(); member%l.loaders > 0 {
		_ = p[member%l.loaders-1].conn.send(kindRenamed, renamed{member, name})
	}
}

// Present is what each said last.
func (l *Lead) Present() (list []load.Presence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.peers {
		list = append(list, p.presence)
	}
	return list
}

// Second hands over a second once all have told of it, and forgets it.
func (l *Lead) Second(n int) (list []*observe.CheckSecond) {
	l.mu.Lock()
	defer l.mu.Unlock()
	whole := true
	for _, p := range l.peers {
		list = append(list, p.seconds[n])
		whole = whole && p.seconds[n] != nil
	}
	if whole {
		for _, p := range l.peers {
			maps.DeleteFunc(p.seconds, func(k int, _ *observe.CheckSecond) bool { return k <= n })
		}
	}
	return list
}

// Stretch is a part of the plan as far as it is known.
func (l *Lead) Stretch(part int) (list []*load.Stretch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.peers {
		list = append(list, p.stretches[part])
	}
	return list
}

// Finish waits for all that they measured.
func (l *Lead) Finish(ctx context.Context) (list []*load.Measured, err error) {
	for _, p := range l.all() {
		if err := l.await(ctx, func() bool { return p.finished }); err != nil {
			return nil, err
		}
		list = append(list, p.measured)
	}
	return list, nil
}
