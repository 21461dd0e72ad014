package load

import (
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/streamed"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// ledger is what one agent knows of its signals: each is acknowledged, refused, or still
// on its way. Numbers are settled in order and without holes, so that acked + refused is
// also the last number settled. Guarded by the agent's lock.
type ledger struct {
	sent    uint64             // signals numbered
	acked   uint64             // of those, kept
	refused uint64             // of those, refused for good
	shown   uint64             // the highest number that a session took
	void    map[uint64]string  // refused, with the reason, until the acknowledgement passes them
	states  []entry            // by check
	watched map[int16]*witness // states whose alerts are judged; nil: none
	lines   *streamed.Machine  // of results that have to come as lines; nil: none
	tells   *teller            // of states that are told of; nil: none
	behind  bool               // a server took an acknowledgement back: said once
	open    map[int16]uint64   // of an agent of another loader: results without an answer, by check
	gone    bool               // the fault script left its machine dead: nobody waits for what it holds
}

// entry is what the ledger keeps of one event state: 20 bytes, for there are millions.
// Counts of two bytes stay at their greatest value.
type entry struct {
	results uint32             // acknowledged
	number  uint32             // of the last of them; no simulated machine lives for 2^32 signals
	digest  uint32             // of its status and output
	order   model.ResultDigest // of all of them
	unheard uint16             // of them, those that only a Welcome acknowledged
	refused uint16
}

// settled is the last number whose fate is known.
func (l *ledger) settled() uint64 { return l.acked + l.refused }

// pass settles the next number of a stream. heard: its acknowledgement came by the session
// that would also have told of a refusal.
func (l *ledger) pass(stream wire.StreamID, number uint64, s *sign, heard bool) (reason string, refused bool) {
	var e *entry
	if s.check >= 0 && s.about == 0 { // else the pair counts it
		e = &l.states[s.check]
	}
	if reason, refused = l.void[number]; !refused && s.check == wrongCheck && !heard {
		reason, refused = "not heard", true // there was no other answer to it
	}
	if refused {
		delete(l.void, number)
		l.refused++
		if e != nil {
			e.refused = more(e.refused)
		}
		return reason, true
	}
	l.acked++
	if e != nil {
		e.results++
		e.number, e.digest, e.order = uint32(number), s.digest, e.order.Append(uint64(stream), number)
		if !heard {
			e.unheard = more(e.unheard)
		}
		if w := l.watched[s.check]; w != nil && e != nil {
			w.result(s.status, s.intended)
		}
		l.tells.result(s)
	}
	return "", false
}

func more(n uint16) uint16 { return n + uint16(min(1, math.MaxUint16-n)) }

// digest is four bytes of a result's status and output, never zero.
func digest(status model.Status, output []byte) uint32 { return fold(status, xxhash.Sum64(output)) }

// Digest is that of a result as a view shows it, for Kept.
func Digest(status model.Status, output string) uint32 {
	return fold(status, xxhash.Sum64String(output))
}

func fold(status model.Status, sum uint64) uint32 { return max(1, uint32(sum>>8)^uint32(status)<<30) }

// believe says up to which number an acknowledgement is to be settled, and writes down
// what cannot be right in it.
func (a *agent) believe(l wire.StreamLast) uint64 {
	switch settled := a.ledger.settled(); {
	case l.Stream != a.stream || l.Lane != wire.Live:
		if l.Last > 0 {
			a.accuse(neverSent, l.Last, "acknowledged up to %d in stream %x lane %d, which it never used", l.Last, uint64(l.Stream), l.Lane)
		}
		return 0
	case l.Last > a.ledger.shown:
		a.accuse(neverSent, l.Last, "acknowledged up to %d, and %d was the last it had sent", l.Last, a.ledger.shown)
	case l.Last < settled && !a.ledger.behind:
		a.ledger.behind = true
		a.accuse(takenBack, l.Last+1, "holds up to %d, and had acknowledged up to %d", l.Last, settled)
	}
	return min(l.Last, a.ledger.shown)
}

// refuse notes a refusal until the acknowledgement passes its number.
func (a *agent) refuse(r *wire.RefusedSignal) {
	l := &a.ledger
	switch settled := l.settled(); {
	case r.Stream != a.stream || r.Lane != wire.Live || r.Number > l.shown:
		a.accuse(neverSent, r.Number, "refused (%s) number %d of stream %x, and %d was the last it had sent", r.Code, r.Number, uint64(r.Stream), l.shown)
	case r.Number <= settled:
		a.accuse(refusedLate, r.Number, "refused (%s) after it had acknowledged up to %d", r.Code, settled)
	default:
		if l.void == nil {
			l.void = map[uint64]string{}
		}
		l.void[r.Number] = r.Code
	}
}

// accuse writes down what the server should not have said. Caller holds the lock.
func (a *agent) accuse(kind string, number uint64, format string, args ...any) {
	a.run.breaches.add(report.Imbalance{Node: a.node, Name: a.name, Number: number, Kind: kind}, format, args...)
}
