package streamed

import (
	"cmp"
	"fmt"
	"strconv"
	"sync"

	"github.com/muster-fleet/muster/internal/load/report"
)

// Machine is what of one machine's results came. Its lock is taken behind the agent's and before
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

// Numbers are those of a machine's signals: up to Settled all are acknowledged or refused, up to
// Sent a session took them, up to Given there are any.
type Numbers struct{ Settled, Sent, Given uint64 }

// Result is what a line says of a result, whose node has its name from before the run.
type Result struct {
	Node, Check, Status string
	At                  int64 // when it was meant, or when its line came; ns since the run was made
}

// says is a result in words.
func (r *Result) says() string { return r.Node + "/" + r.Check + " " + r.Status }

// state is the place of an event state, by names.
type state struct{ node, check string }

func newMachine(k *Peer, name string, numbers func() Numbers) *Machine {
	return &Machine{peer: k, name: name, numbers: numbers, due: map[uint64]Result{}, came: map[uint64]Result{}, last: map[state]uint64{}}
}

// line holds one that came against its result.
func (x *Machine) line(n *lineOf, at int64) {
	k, got := x.peer, Result{x.peer.run.OwnName(n.Node), n.Check, n.Status, at}
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

// Acknowledged takes a result that was.
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

// extra is how many lines came that no acknowledged result brought about: of what was refused, of
// keepalives, of what was never sent. What has no answer may be kept or not.
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
