package turns

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// fleet simulates the members of the checks in virtual time.
type fleet struct {
	t        *testing.T
	e        *Engine
	start    time.Time
	now      time.Duration // since start
	rand     *rand.Rand
	robins   []directory.RoundRobin
	revision int64
	away     map[model.NodeID]bool // no session
	hanging  map[model.NodeID]bool // a session that does not answer
	answers  []answer
	given    map[model.NodeID]int
	runs     map[turnKey][]time.Duration // times of results
	missed   []Missed
	ahead    time.Duration // of the wall clock
	last     map[model.NodeID]time.Time
}

type answer struct {
	at    time.Duration
	by    model.NodeID
	given wire.TurnRun
}

func newFleet(t *testing.T, robins ...directory.RoundRobin) *fleet {
	return newFleetAt(t, time.Unix(1_800_000_000, 0), robins...)
}

func newFleetAt(t *testing.T, start time.Time, robins ...directory.RoundRobin) *fleet {
	f := &fleet{t: t, start: start, rand: rand.New(rand.NewPCG(1, 2)), robins: robins, revision: 1,
		away: map[model.NodeID]bool{}, hanging: map[model.NodeID]bool{}, given: map[model.NodeID]int{}, last: map[model.NodeID]time.Time{}, runs: map[turnKey][]time.Duration{}}
	f.restart()
	return f
}

func (f *fleet) restart() {
	f.e = New(Options{
		Revision: func() int64 { return f.revision }, RoundRobins: func() []directory.RoundRobin { return f.robins },
		Give: f.give, Grace: 10 * time.Second, Now: func() time.Time { return f.start.Add(f.now) }, Log: slog.New(slog.DiscardHandler),
		Wall:   func() time.Time { return f.start.Add(f.now + f.ahead) },
		Last:   func(node model.NodeID, _ model.CheckID) (time.Time, bool) { at, ok := f.last[node]; return at, ok },
		Missed: func(context.Context, []Missed) error { return nil },
	})
}

func robinOf(check model.CheckID, interval, timeout time.Duration, members, proxies int) directory.RoundRobin {
	r := directory.RoundRobin{Chunk: &model.CheckChunk{Chunk: model.Chunk{ID: model.ChunkID(check), Unit: check, Name: fmt.Sprint("c", check)}, Interval: interval, Timeout: timeout},
		Namespace: "default", Members: roaring.New(), Subjects: []directory.ProxyNode{{}}}
	r.Members.AddRange(1, uint64(members)+1)
	if proxies > 0 {
		r.Subjects = nil
	}
	for i := range proxies {
		r.Subjects = append(r.Subjects, directory.ProxyNode{ID: model.NodeID(1000 + i), UID: uuid.NewSHA1(uuid.Nil, []byte{byte(i)})})
	}
	return r
}

func (f *fleet) give(node model.NodeID, g wire.TurnRun) bool {
	if f.away[node] {
		return false
	}
	f.given[node]++
	if !f.hanging[node] {
		f.answers = append(f.answers, answer{f.now + time.Duration(f.rand.Int64N(int64(time.Second/2))), node, g})
	}
	return true
}

// run advances the time.
func (f *fleet) advance(d time.Duration) {
	for end := f.now + d; ; {
		missed, wait := f.e.runDueTurns(f.e.clock())
		f.missed = append(f.missed, missed...)
		next := min(f.now+wait, end)
		slices.SortStableFunc(f.answers, func(a, b answer) int { return int(a.at - b.at) })
		if len(f.answers) > 0 && f.answers[0].at <= next {
			a := f.answers[0]
			f.answers, f.now = f.answers[1:], max(f.now, a.at)
			if !f.away[a.by] {
				k := turnKey{model.CheckID(a.given.Chunk), a.given.Node}
				f.runs[k] = append(f.runs[k], f.now)
				f.e.RecordResult(k.check, k.about, 0)
			}
			continue
		}
		if f.now = next; f.now == end {
			return
		}
	}
}

func (f *fleet) disconnect(node model.NodeID) {
	f.away[node] = true
	f.answers = slices.DeleteFunc(f.answers, func(a answer) bool { return a.by == node })
	f.e.SessionEnded(node)
}

// TestEachIntervalHasARun checks that each interval of each proxy node has a run while one member
// answers, whatever others do, and that no run is reported as missed.
func TestEachIntervalHasARun(t *testing.T) {
	const interval = time.Minute
	f := newFleet(t, robinOf(7, interval, 10*time.Second, 4, 20), robinOf(8, interval, 5*time.Second, 3, 0))
	for range 2000 {
		node := model.NodeID(2 + f.rand.IntN(3)) // member 1 always answers
		switch f.rand.IntN(4) {
		case 0:
			f.disconnect(node)
		case 1:
			f.hanging[node] = true
		default:
			if f.away[node] {
				delete(f.away, node)
			} else {
				delete(f.hanging, node)
			}
		}
		f.advance(time.Duration(f.rand.Int64N(int64(2 * interval))))
	}
	if len(f.missed) > 0 {
		t.Errorf("missed: %v", f.missed[0])
	}
	for k, turn := range f.e.turns {
		// From the first whole interval of the turn's own grid on.
		grid := turn.next - f.e.clock() + f.now
		began := grid - grid/interval*interval
		n, runs := 0, f.runs[k]
		for at := began; at+interval <= f.now; at += interval {
			from := n
			for n < len(runs) && runs[n] < at+interval {
				n++
			}
			if n == from {
				t.Fatalf("%v: no run from %v to %v", k, at, at+interval)
			}
		}
		if n < 1000 {
			t.Errorf("%v: %d runs in %v", k, n, f.now)
		}
	}
}

// TestMembersAreUsedEvenly checks that all members get the same number of turns.
func TestMembersAreUsedEvenly(t *testing.T) {
	f := newFleet(t, robinOf(7, 10*time.Second, time.Second, 7, 30))
	f.advance(700 * time.Second)
	sum := 0
	for node := range model.NodeID(7) {
		n := f.given[node+1]
		sum += n
		if n < 299 || n > 301 {
			t.Errorf("node %d has %d turns of 2100", node+1, n)
		}
	}
	if sum < 2070 || sum > 2130 {
		t.Errorf("%d turns, want 2100", sum)
	}
}

// TestChecksBeginAtDifferentMembers checks that many checks of the same members do not start with one member.
func TestChecksBeginAtDifferentMembers(t *testing.T) {
	var robins []directory.RoundRobin
	for check := range model.CheckID(40) {
		robins = append(robins, robinOf(100+check, 10*time.Second, time.Second, 40, 1))
	}
	f := newFleet(t, robins...)
	f.advance(10 * time.Second)
	most := 0
	for _, n := range f.given {
		most = max(most, n)
	}
	if most > 4 || len(f.given) < 25 {
		t.Errorf("in one interval %d members had turns, one of them %d", len(f.given), most)
	}
}

// TestOtherMemberTakesOver checks that another member takes over at once from an ended session, and after the
// timeout from a hanging one.
func TestOtherMemberTakesOver(t *testing.T) {
	f := newFleet(t, robinOf(7, time.Minute, 10*time.Second, 2, 1))
	f.hanging[1], f.hanging[2] = true, true
	f.advance(time.Minute)
	if f.given[1]+f.given[2] == 0 || f.given[1] > 1 || f.given[2] > 1 {
		t.Fatalf("given %v", f.given)
	}
	turn := f.e.turns[turnKey{7, 1000}]
	if turn.assignee != 1 && turn.assignee != 2 {
		t.Fatalf("with %d", turn.assignee)
	}
	first, other := turn.assignee, 3-turn.assignee
	delete(f.hanging, other)
	f.disconnect(first)
	f.advance(time.Second)
	if len(f.runs[turn.turnKey]) != 1 || turn.open {
		t.Errorf("no other has it: with %d, runs %v", turn.assignee, f.runs)
	}
	delete(f.away, first)
	f.hanging[first], f.hanging[other] = true, true
	f.advance(turn.next - f.e.clock() + time.Millisecond)
	first = turn.assignee
	delete(f.hanging, 3-first)
	f.advance(14 * time.Second)
	if turn.assignee != first {
		t.Error("it is taken away before its time")
	}
	f.advance(2 * time.Second)
	if turn.open || len(f.runs[turn.turnKey]) != 2 {
		t.Errorf("the hung one keeps it: with %d, runs %v", turn.assignee, f.runs)
	}
}

// TestTakeoverSkipsHangingMember covers intervals shorter than the timeout with as many proxy nodes
// as members, where each would meet the hanging one again.
func TestTakeoverSkipsHangingMember(t *testing.T) {
	f := newFleet(t, robinOf(7, 2*time.Second, time.Second, 2, 2))
	f.hanging[2] = true
	f.advance(4 * time.Second)
	for range 50 {
		f.runs = map[turnKey][]time.Duration{}
		f.advance(5 * time.Second)
		if len(f.runs) != 2 {
			t.Fatalf("runs in two intervals: %v", f.runs)
		}
	}
}

// TestMissedIntervalIsReportedOnce checks that an interval without members is reported once, and as a fault until a
// member connects; not during the grace after a start.
func TestMissedIntervalIsReportedOnce(t *testing.T) {
	f := newFleet(t, robinOf(7, 2*time.Second, time.Second, 2, 3), robinOf(8, 2*time.Second, time.Second, 2, 0))
	f.away[1], f.away[2] = true, true
	f.advance(10 * time.Second)
	if len(f.missed) > 0 {
		t.Fatalf("missed while agents may come back: %v", f.missed)
	}
	f.advance(10 * time.Second)
	if n := len(f.missed); n < 3*3 || n > 3*6 || f.missed[0].Text != "no member of c7's targets is connected" {
		t.Fatalf("missed: %v", f.missed)
	}
	list, nodes := f.e.Faults("default")
	if len(list) != 2 || nodes != 3+2 {
		t.Errorf("faults: %+v of %d", list, nodes)
	}
	if list, _ := f.e.Faults("other"); len(list) != 0 {
		t.Errorf("faults elsewhere: %+v", list)
	}
	delete(f.away, 2)
	f.advance(2 * time.Second)
	n := len(f.missed)
	f.advance(20 * time.Second)
	if list, _ := f.e.Faults(""); len(list) != 0 || len(f.missed) != n {
		t.Errorf("still faults: %+v", list)
	}
}

// TestChangedChecksTakeEffect checks that results of earlier turns end none, and that changed and
// deleted checks take effect.
func TestChangedChecksTakeEffect(t *testing.T) {
	f := newFleet(t, robinOf(7, time.Minute, 10*time.Second, 1, 2))
	f.hanging[1] = true
	f.advance(time.Minute)
	f.e.RecordResult(7, 1000, 2*time.Minute)
	if !f.e.turns[turnKey{7, 1000}].open {
		t.Error("an old result ended a turn")
	}
	f.e.RecordResult(7, 1000, 0)
	if f.e.turns[turnKey{7, 1000}].open {
		t.Error("a result did not end the turn")
	}
	f.robins, f.revision = []directory.RoundRobin{robinOf(7, 10*time.Second, time.Second, 1, 1), robinOf(9, time.Minute, time.Second, 1, 0)}, 2
	f.advance(2 * time.Second)
	if len(f.e.turns) != 2 || len(f.e.heap) != 2 || f.e.turns[turnKey{7, 1000}].next > f.e.clock()+10*time.Second {
		t.Errorf("%d turns, %d in the heap", len(f.e.turns), len(f.e.heap))
	}
	f.robins, f.revision = nil, 3
	f.advance(2 * time.Second)
	if len(f.e.turns)+len(f.e.heap)+len(f.e.robins)+len(f.e.assigned) != 0 {
		t.Errorf("left: %v", f.e.turns)
	}
}
