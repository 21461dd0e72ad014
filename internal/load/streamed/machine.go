package streamed

import (
	"cmp"
	"fmt"
	"strconv"
	"sync"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
)

// Machine compares the stream lines of one machine with its results. Its lock is taken behind the agent's and before
// the peer's.
type Machine struct {
	peer    *Peer
	name    string
	numbers func() Numbers

	mu   sync.Mutex
	due  map[uint64]Result // acknowledged, and no line yet
	came map[uint64]Result // came, and not acknowledged yet: At is when
	seen []uint64          // a bit for each number that came
	last map[state]uint64  // by state: the highest number that came
}

// Numbers holds signal numbers of a machine: all up to Settled are acknowledged or refused, a session took all up to
// Sent, and all up to Given exist.
type Numbers struct{ Settled, Sent, Given uint64 }

// Result is a result as a stream line tells it, under the node's name from before the run.
type Result struct {
	Node, Check, Status string
	At                  int64 // when it was meant, or when its line came; ns since the run was made
}

// says returns the result as text.
func (r *Result) says() string { return r.Node + "/" + r.Check + " " + r.Status }

// state identifies an event state by names.
type state struct{ node, check string }

// newMachine returns a machine without lines.
func newMachine(k *Peer, name string, numbers func() Numbers) *Machine {
	return &Machine{peer: k, name: name, numbers: numbers, due: map[uint64]Result{}, came: map[uint64]Result{}, last: map[state]uint64{}}
}

// line compares a received line with its result, if that is acknowledged already.
func (x *Machine) line(n *lineOf, at int64) {
	k, got := x.peer, Result{observe.OwnName(n.Node), n.Check, n.Status, at}
	if given := x.numbers().Given; n.Number > given { // asked before the lock, which is taken behind the agent's
		k.note(at, func(s *report.Streamed) {
			s.Extra++
			s.Example = cmp.Or(s.Example, fmt.Sprintf("%s: a line of number %d, and %d was the last that it gave", got.says(), n.Number, given))
		})
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	of := state{got.Node, got.Check}
	word, bit := n.Number/64, uint64(1)<<(n.Number%64)
	for uint64(len(x.seen)) <= word {
		x.seen = append(x.seen, 0)
	}
	switch {
	case x.seen[word]&bit != 0:
		k.note(at, func(s *report.Streamed) { s.Twice++ })
		return
	case n.Number < x.last[of]:
		k.note(at, func(s *report.Streamed) {
			s.Disorder++
			s.Example = cmp.Or(s.Example, n.Node+"/"+n.Check+": number "+strconv.FormatUint(n.Number, 10)+" came behind "+strconv.FormatUint(x.last[of], 10))
		})
	}
	x.seen[word] |= bit
	x.last[of] = max(x.last[of], n.Number)
	if want, ok := x.due[n.Number]; ok {
		delete(x.due, n.Number)
		k.pair(n.Number, &want, &got)
		return
	}
	x.came[n.Number] = got
	k.note(at, func(*report.Streamed) {})
}

// Acknowledged compares an acknowledged result with its line, if that has come already.
func (x *Machine) Acknowledged(number uint64, want *Result) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if got, ok := x.came[number]; ok {
		delete(x.came, number)
		x.peer.pair(number, want, &got)
		return
	}
	x.due[number] = *want
}

// extra counts lines without an acknowledged result: of refused results, of keepalives, or never sent. Results without
// an answer may have a line or none.
func (x *Machine) extra() (n int, example string) {
	numbers := x.numbers()
	x.mu.Lock()
	defer x.mu.Unlock()
	for number, got := range x.came {
		if number <= numbers.Settled || number > numbers.Sent {
			n++
			example = cmp.Or(example, fmt.Sprintf("%s: a line of number %d, which no acknowledged result has", got.says(), number))
		}
	}
	return n, example
}
