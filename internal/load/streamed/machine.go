package streamed

import (
	"cmp"
	"strconv"
	"sync"

	"github.com/muster-fleet/muster/internal/load/report"
)

// Machine is what of one machine's results came. Its lock is taken behind the agent's and before
// the peer's.
type Machine struct {
	peer *Peer
	name string

	mu   sync.Mutex
	due  map[uint64]int64 // acknowledged, and no line yet: number → when it was meant
	came map[uint64]int64 // came, and not acknowledged yet: number → when
	seen []uint64         // a bit for each number that came
	last map[state]uint64 // by state: the highest number that came
}

// state is the place of an event state, by names.
type state struct{ node, check string }

func newMachine(k *Peer, name string) *Machine {
	return &Machine{peer: k, name: name, due: map[uint64]int64{}, came: map[uint64]int64{}, last: map[state]uint64{}}
}

// line holds one that came against its result.
func (x *Machine) line(n *lineOf, at int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	of := state{n.Node, n.Check}
	word, bit := n.Number/64, uint64(1)<<(n.Number%64)
	for uint64(len(x.seen)) <= word && word < 1<<26 {
		x.seen = append(x.seen, 0)
	}
	k := x.peer
	switch {
	case word >= 1<<26, x.seen[word]&bit != 0:
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
	if intended, ok := x.due[n.Number]; ok {
		delete(x.due, n.Number)
		k.time(intended, at)
		return
	}
	x.came[n.Number] = at
	k.note(at, func(*report.Streamed) {})
}

// Result is one that was acknowledged. A nil receiver wants no lines.
func (x *Machine) Result(number uint64, intended int64) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if at, ok := x.came[number]; ok {
		delete(x.came, number)
		x.peer.time(intended, at)
		return
	}
	x.due[number] = intended
}
