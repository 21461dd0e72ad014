package play

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/streamed"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// ledger records what became of an agent's signals, and when it had sessions, with times in ns since the run was made. Numbers are
// settled in order and without holes, so that acknowledged and refused ones together are also the last number settled. Guarded
// by the agent's lock.
type ledger struct {
	observe.Ledger
	shown   uint64                    // the highest number that a session took
	void    map[uint64]string         // refused, with the reason, until the acknowledgement passes them
	watched map[int16]*alerts.Witness // states whose alerts are judged; nil: none
	lines   *streamed.Machine         // of results that have to come as lines; nil: none
	behind  bool                      // a server took an acknowledgement back: said once
}

// settled returns the last signal number whose outcome is known.
func (l *ledger) settled() uint64 { return l.Acked + l.Refused }

// pass settles the next signal of a stream as acknowledged or refused. heard tells that the acknowledgement came in the
// session that would also have reported a refusal.
func (l *ledger) pass(stream wire.StreamID, number uint64, s *sign, heard bool) (reason string, refused bool) {
	var e *observe.Entry
	if s.check >= 0 && s.about == 0 { // else the pair counts it
		e = &l.States[s.check]
	}
	if reason, refused = l.void[number]; !refused && s.check == wrongCheck && !heard {
		reason, refused = "not heard", true // there was no other answer to it
	}
	if refused {
		delete(l.void, number)
		l.Refused++
		if e != nil {
			e.Refused = more(e.Refused)
		}
		return reason, true
	}
	l.Acked++
	if s.check == signalCheck {
		l.Taken++
	}
	if e != nil {
		e.Results++
		e.Number, e.Digest, e.Order = uint32(number), s.digest, e.Order.Append(uint64(stream), number)
		if !heard {
			e.Unheard = more(e.Unheard)
		}
		if w := l.watched[s.check]; w != nil && e != nil {
			w.Result(s.status, s.intended)
		}
	}
	return "", false
}

// more adds one to a counter that stops at its maximum.
func more(n uint16) uint16 { return n + uint16(min(1, math.MaxUint16-n)) }

// digest returns four bytes of a hash of a result's status and output, never zero.
func digest(status model.Status, output []byte) uint32 { return fold(status, xxhash.Sum64(output)) }

// Digest returns the digest of a result in a view, for observe.EventState.
func Digest(status model.Status, output string) uint32 {
	return fold(status, xxhash.Sum64String(output))
}

// fold combines a status and a hash into a digest.
func fold(status model.Status, sum uint64) uint32 { return max(1, uint32(sum>>8)^uint32(status)<<30) }

// believe returns the signal number up to which an acknowledgement is valid, and records contradictions in it.
func (a *agent) believe(l wire.StreamLast) uint64 {
	switch settled := a.ledger.settled(); {
	case l.Stream != a.stream || l.Lane != wire.Live:
		if l.Last > 0 {
			a.accuse(observe.NeverSent, l.Last, "acknowledged up to %d in stream %x lane %d, which it never used", l.Last, uint64(l.Stream), l.Lane)
		}
		return 0
	case l.Last > a.ledger.shown:
		a.accuse(observe.NeverSent, l.Last, "acknowledged up to %d, and %d was the last it had sent", l.Last, a.ledger.shown)
	case l.Last < settled && !a.ledger.behind:
		a.ledger.behind = true
		a.accuse(observe.TakenBack, l.Last+1, "holds up to %d, and had acknowledged up to %d", l.Last, settled)
	}
	return min(l.Last, a.ledger.shown)
}

// refuse keeps a refusal until the acknowledgement passes its number.
func (a *agent) refuse(r *wire.RefusedSignal) {
	l := &a.ledger
	switch settled := l.settled(); {
	case r.Stream != a.stream || r.Lane != wire.Live || r.Number > l.shown:
		a.accuse(observe.NeverSent, r.Number, "refused (%s) number %d of stream %x, and %d was the last it had sent", r.Code, r.Number, uint64(r.Stream), l.shown)
	case r.Number <= settled:
		a.accuse(observe.RefusedLate, r.Number, "refused (%s) after it had acknowledged up to %d", r.Code, settled)
	default:
		if l.void == nil {
			l.void = map[uint64]string{}
		}
		l.void[r.Number] = r.Code
	}
}

// accuse records an answer that contradicts the protocol. Caller holds the lock.
func (a *agent) accuse(kind string, number uint64, format string, args ...any) {
	a.fleet.note(func(n *notes) {
		n.breaches.Add(observe.Breach{Kind: kind, Node: a.node, Name: a.name, Number: number, Problem: fmt.Sprintf(format, args...)})
	})
}

// notes holds what all agents note.
type notes struct {
	mu       sync.Mutex
	breaches observe.Breaches
	counts   observe.Counts    // those that are not in the books
	took     observe.Histogram // times until another agent got a round-robin run that the first one did not finish
}

// note calls fn with the notes. Their lock is taken under all others.
func (f *Fleet) note(fn func(n *notes)) {
	f.notes.mu.Lock()
	defer f.notes.mu.Unlock()
	fn(&f.notes)
}

// Ledgers returns the ledgers of this loader's agents, which must no longer receive answers.
func (f *Fleet) Ledgers() observe.Ledgers {
	l, known := observe.Ledgers{}, map[*checkSet]int{}
	f.note(func(n *notes) {
		l.Breaches = observe.Breaches{Kinds: maps.Clone(n.breaches.Kinds), First: slices.Clone(n.breaches.First)}
	})
	for member, a := range f.seats {
		if a == nil {
			continue
		}
		a.mu.Lock()
		if _, seen := known[a.set]; !seen && a.set != nil {
			known[a.set] = len(l.Sets)
			set := observe.Set{Class: a.class.number}
			for _, c := range a.set.definitions {
				set.Checks = append(set.Checks, observe.Check{ID: c.Unit, Name: c.Name})
			}
			l.Sets = append(l.Sets, set)
		}
		x := a.ledger.Since(f.Begin())
		x.Member, x.Name, x.Node, x.Stream, x.Set = member, a.name, a.node, uint64(a.stream), -1
		if a.set != nil {
			x.Set, x.Open = known[a.set], a.unanswered()
		}
		l.Agents = append(l.Agents, x)
		a.mu.Unlock()
	}
	l.Pairs = f.pairLedgers()
	return l
}

// unanswered counts the sent results without an answer, by check. Caller holds the lock.
func (a *agent) unanswered() (open map[int16]uint64) {
	a.eachUnanswered(func(s *sign) {
		if s.about > 0 {
			return // see pairLedgers
		}
		if open == nil {
			open = map[int16]uint64{}
		}
		open[s.check]++
	})
	return open
}

// eachUnanswered calls fn for each sent signal without an answer.
func (a *agent) eachUnanswered(fn func(s *sign)) {
	for _, f := range a.held {
		for i := f.done; i < len(f.each) && f.first+uint64(i) <= a.ledger.shown; i++ {
			fn(&f.each[i])
		}
	}
}

// Fits returns an error unless ledgers are those of all agents of a loader.
func (f *Fleet) Fits(number int, l *observe.Ledgers) error {
	part := Part{Number: number, Of: f.cfg.Part.Of}
	if want := part.Share(len(f.cfg.Members)); len(l.Agents) != want {
		return model.Errorf(model.Invalid, "%d ledgers of %d agents", len(l.Agents), want)
	}
	seen := make(map[int]bool, len(l.Agents))
	for i := range l.Agents {
		x := &l.Agents[i]
		if x.Member < 0 || x.Member >= len(f.cfg.Members) || !part.Owns(x.Member) || seen[x.Member] || x.Set < 0 || x.Set >= len(l.Sets) ||
			l.Sets[x.Set].Class != f.cfg.Members[x.Member].Class {
			return model.Errorf(model.Invalid, "a ledger of machine %d, which is not its own", x.Member)
		}
		seen[x.Member] = true
		if want := len(f.classes[l.Sets[x.Set].Class].checks); len(l.Sets[x.Set].Checks) != want || len(x.States) != want {
			return model.Errorf(model.Invalid, "a ledger of machine %d with %d states of %d checks", x.Member, len(x.States), want)
		}
	}
	return nil
}
