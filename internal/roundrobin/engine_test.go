package roundrobin

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

// simulatedMembers simulates the nodes that share round-robin checks, in virtual time.
type simulatedMembers struct {
	t              *testing.T
	engine         *Engine
	start          time.Time
	now            time.Duration // since start
	rand           *rand.Rand
	robins         []directory.RoundRobin
	revision       int64
	disconnected   map[model.NodeID]bool // no session
	hanging        map[model.NodeID]bool // a session that does not answer
	pendingAnswers []pendingResult
	turnsGiven     map[model.NodeID]int
	runs           map[runKey][]time.Duration // times of results
	missed         []MissedRun
	wallClockAhead time.Duration // wall-clock time minus virtual time
	lastResults    map[model.NodeID]time.Time
}

// pendingResult is a result that a simulated node will send at a scheduled time.
type pendingResult struct {
	at    time.Duration
	by    model.NodeID
	given wire.RoundRobinRun
}

// simulateMembers starts a round-robin Engine with simulated nodes that run its checks, at a fixed simulated
// time.
func simulateMembers(t *testing.T, robins ...directory.RoundRobin) *simulatedMembers {
	return simulateMembersAt(t, time.Unix(1_800_000_000, 0), robins...)
}

// simulateMembersAt starts the round-robin engine with simulated agents and a simulated clock. The clock stands at the
// given time.
func simulateMembersAt(t *testing.T, start time.Time, robins ...directory.RoundRobin) *simulatedMembers {
	f := &simulatedMembers{t: t, start: start, rand: rand.New(rand.NewPCG(1, 2)), robins: robins, revision: 1,
		disconnected: map[model.NodeID]bool{}, hanging: map[model.NodeID]bool{}, turnsGiven: map[model.NodeID]int{}, lastResults: map[model.NodeID]time.Time{}, runs: map[runKey][]time.Duration{}}
	f.restartEngine()
	return f
}

// restartEngine replaces the test's round-robin engine by a new one, to simulate a restart of the server.
func (f *simulatedMembers) restartEngine() {
	f.engine = New(Options{
		Revision: func() int64 { return f.revision }, RoundRobins: func() []directory.RoundRobin { return f.robins },
		Give: f.requestRoundRobinRun, Grace: 10 * time.Second, Now: func() time.Time { return f.start.Add(f.now) }, Log: slog.New(slog.DiscardHandler),
		Wall: func() time.Time { return f.start.Add(f.now + f.wallClockAhead) },
		Last: func(node model.NodeID, _ model.CheckID) (time.Time, bool) {
			at, ok := f.lastResults[node]
			return at, ok
		},
		Missed: func(context.Context, []MissedRun) error { return nil },
	})
}

// roundRobinOf returns a test round-robin check with an interval.
func roundRobinOf(check model.CheckID, interval, timeout time.Duration, members, proxies int) directory.RoundRobin {
	r := directory.RoundRobin{Definition: &model.CheckDefinition{Definition: model.Definition{ID: model.DefinitionID(check), Unit: check, Name: fmt.Sprint("c", check)}, Interval: interval, Timeout: timeout},
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

// requestRoundRobinRun handles a request to run a check on a simulated node, and schedules the result.
func (f *simulatedMembers) requestRoundRobinRun(node model.NodeID, g wire.RoundRobinRun) bool {
	if f.disconnected[node] {
		return false
	}
	f.turnsGiven[node]++
	if !f.hanging[node] {
		f.pendingAnswers = append(f.pendingAnswers, pendingResult{f.now + time.Duration(f.rand.Int64N(int64(time.Second/2))), node, g})
	}
	return true
}

// advance moves the simulated time forward, and lets due runs and results happen. The simulated nodes send their
// results meanwhile.
func (f *simulatedMembers) advance(d time.Duration) {
	for end := f.now + d; ; {
		missed, wait := f.engine.assignDueRuns(f.engine.engineTime())
		f.missed = append(f.missed, missed...)
		next := min(f.now+wait, end)
		slices.SortStableFunc(f.pendingAnswers, func(a, b pendingResult) int { return int(a.at - b.at) })
		if len(f.pendingAnswers) > 0 && f.pendingAnswers[0].at <= next {
			a := f.pendingAnswers[0]
			f.pendingAnswers, f.now = f.pendingAnswers[1:], max(f.now, a.at)
			if !f.disconnected[a.by] {
				k := runKey{model.CheckID(a.given.Definition), a.given.Node}
				f.runs[k] = append(f.runs[k], f.now)
				f.engine.RecordResult(k.check, k.proxyNode, 0)
			}
			continue
		}
		if f.now = next; f.now == end {
			return
		}
	}
}

// disconnect ends the session of a simulated node, as if its agent lost the connection. The node then answers
// no more.
func (f *simulatedMembers) disconnect(node model.NodeID) {
	f.disconnected[node] = true
	f.pendingAnswers = slices.DeleteFunc(f.pendingAnswers, func(a pendingResult) bool { return a.by == node })
	f.engine.SessionEnded(node)
}

// TestEachIntervalRunsOncePerProxyNode expects one run per interval for each proxy node, although some nodes do not
// answer. Several nodes (members) share the check; some hang or disconnect at random.
func TestEachIntervalRunsOncePerProxyNode(t *testing.T) {
	const interval = time.Minute
	f := simulateMembers(t, roundRobinOf(7, interval, 10*time.Second, 4, 20), roundRobinOf(8, interval, 5*time.Second, 3, 0))
	for range 2000 {
		node := model.NodeID(2 + f.rand.IntN(3)) // member 1 always answers
		switch f.rand.IntN(4) {
		case 0:
			f.disconnect(node)
		case 1:
			f.hanging[node] = true
		default:
			if f.disconnected[node] {
				delete(f.disconnected, node)
			} else {
				delete(f.hanging, node)
			}
		}
		f.advance(time.Duration(f.rand.Int64N(int64(2 * interval))))
	}
	if len(f.missed) > 0 {
		t.Errorf("missed runs: %v", f.missed[0])
	}
	for k, turn := range f.engine.turns {
		// From the first whole interval of the turn's own grid on.
		grid := turn.next - f.engine.engineTime() + f.now
		began := grid - grid/interval*interval
		n, runs := 0, f.runs[k]
		for at := began; at+interval <= f.now; at += interval {
			from := n
			for n < len(runs) && runs[n] < at+interval {
				n++
			}
			if n == from {
				t.Fatalf("turn %v has no run from %v to %v", k, at, at+interval)
			}
		}
		if n < 1000 {
			t.Errorf("turn %v has %d runs in %v", k, n, f.now)
		}
	}
}

// TestMembersAreUsedEvenly expects the engine to distribute the runs of a round-robin check evenly over its
// nodes.
func TestMembersAreUsedEvenly(t *testing.T) {
	f := simulateMembers(t, roundRobinOf(7, 10*time.Second, time.Second, 7, 30))
	f.advance(700 * time.Second)
	sum := 0
	for node := range model.NodeID(7) {
		n := f.turnsGiven[node+1]
		sum += n
		if n < 299 || n > 301 {
			t.Errorf("node %d has %d turns of 2100", node+1, n)
		}
	}
	if sum < 2070 || sum > 2130 {
		t.Errorf("%d turns, want 2100", sum)
	}
}

// TestChecksBeginAtDifferentMembers expects checks on the same nodes to start with different nodes. The checks share
// their nodes, their members.
func TestChecksBeginAtDifferentMembers(t *testing.T) {
	var robins []directory.RoundRobin
	for check := range model.CheckID(40) {
		robins = append(robins, roundRobinOf(100+check, 10*time.Second, time.Second, 40, 1))
	}
	f := simulateMembers(t, robins...)
	f.advance(10 * time.Second)
	most := 0
	for _, n := range f.turnsGiven {
		most = max(most, n)
	}
	if most > 4 || len(f.turnsGiven) < 25 {
		t.Errorf("in one interval %d members had turns, one of them %d", len(f.turnsGiven), most)
	}
}

// TestOtherMemberTakesOver ends the session of an assigned node, and expects another node to run the check. When the
// assigned node hangs, another node gets the run after the timeout.
func TestOtherMemberTakesOver(t *testing.T) {
	f := simulateMembers(t, roundRobinOf(7, time.Minute, 10*time.Second, 2, 1))
	f.hanging[1], f.hanging[2] = true, true
	f.advance(time.Minute)
	if f.turnsGiven[1]+f.turnsGiven[2] == 0 || f.turnsGiven[1] > 1 || f.turnsGiven[2] > 1 {
		t.Fatalf("given %v", f.turnsGiven)
	}
	turn := f.engine.turns[runKey{7, 1000}]
	if turn.assignee != 1 && turn.assignee != 2 {
		t.Fatalf("with %d", turn.assignee)
	}
	first, other := turn.assignee, 3-turn.assignee
	delete(f.hanging, other)
	f.disconnect(first)
	f.advance(time.Second)
	if len(f.runs[turn.runKey]) != 1 || turn.runOpen {
		t.Errorf("no other member has the turn: assignee %d, runs %v", turn.assignee, f.runs)
	}
	delete(f.disconnected, first)
	f.hanging[first], f.hanging[other] = true, true
	f.advance(turn.next - f.engine.engineTime() + time.Millisecond)
	first = turn.assignee
	delete(f.hanging, 3-first)
	f.advance(14 * time.Second)
	if turn.assignee != first {
		t.Error("the turn was taken from its member before the timeout")
	}
	f.advance(2 * time.Second)
	if turn.runOpen || len(f.runs[turn.runKey]) != 2 {
		t.Errorf("the hanging member keeps the turn: assignee %d, runs %v", turn.assignee, f.runs)
	}
}

// TestDefaultTimeout expects a round-robin check without a timeout to get the default timeout for taking over a
// run. So no second member runs a command that is still running.
func TestDefaultTimeout(t *testing.T) {
	r := &rotation{definition: &model.CheckDefinition{Interval: time.Minute}}
	if got := r.timeout(); got != 65*time.Second {
		t.Error(got)
	}
	if r.location = time.UTC; r.timeout() != 65*time.Second {
		t.Error(r.timeout())
	}
}

// TestTakeoverSkipsHangingMember lets one node hang, and expects the engine to choose all other nodes before
// the hanging node.
func TestTakeoverSkipsHangingMember(t *testing.T) {
	f := simulateMembers(t, roundRobinOf(7, 2*time.Second, time.Second, 2, 2))
	f.hanging[2] = true
	f.advance(4 * time.Second)
	for range 50 {
		f.runs = map[runKey][]time.Duration{}
		f.advance(5 * time.Second)
		if len(f.runs) != 2 {
			t.Fatalf("runs in two intervals: %v", f.runs)
		}
	}
}

// TestMissedIntervalIsReportedOnce expects one report if no node with the check is connected in an interval. In the
// grace period after a start, no report comes.
func TestMissedIntervalIsReportedOnce(t *testing.T) {
	f := simulateMembers(t, roundRobinOf(7, 2*time.Second, time.Second, 2, 3), roundRobinOf(8, 2*time.Second, time.Second, 2, 0))
	f.disconnected[1], f.disconnected[2] = true, true
	f.advance(10 * time.Second)
	if len(f.missed) > 0 {
		t.Fatalf("missed while agents may come back: %v", f.missed)
	}
	f.advance(10 * time.Second)
	if n := len(f.missed); n < 3*3 || n > 3*6 || f.missed[0].Text != "no member of c7's targets is connected" {
		t.Fatalf("missed runs: %v", f.missed)
	}
	list, nodes := f.engine.Faults("default")
	if len(list) != 2 || nodes != 3+2 {
		t.Errorf("faults %+v with %d nodes", list, nodes)
	}
	if list, _ := f.engine.Faults("other"); len(list) != 0 {
		t.Errorf("faults of another namespace: %+v", list)
	}
	delete(f.disconnected, 2)
	f.advance(2 * time.Second)
	n := len(f.missed)
	f.advance(20 * time.Second)
	if list, _ := f.engine.Faults(""); len(list) != 0 || len(f.missed) != n {
		t.Errorf("faults after a member connected: %+v", list)
	}
}

// TestChangedChecksTakeEffect changes and deletes round-robin checks while the engine runs, and expects runs of
// the changed checks. It expects that the changes take effect, and that a late result of an earlier run does
// not end the present run.
func TestChangedChecksTakeEffect(t *testing.T) {
	f := simulateMembers(t, roundRobinOf(7, time.Minute, 10*time.Second, 1, 2))
	f.hanging[1] = true
	f.advance(time.Minute)
	f.engine.RecordResult(7, 1000, 2*time.Minute)
	if !f.engine.turns[runKey{7, 1000}].runOpen {
		t.Error("an old result ended a turn")
	}
	f.engine.RecordResult(7, 1000, 0)
	if f.engine.turns[runKey{7, 1000}].runOpen {
		t.Error("a result did not end the turn")
	}
	f.robins, f.revision = []directory.RoundRobin{roundRobinOf(7, 10*time.Second, time.Second, 1, 1), roundRobinOf(9, time.Minute, time.Second, 1, 0)}, 2
	f.advance(2 * time.Second)
	if len(f.engine.turns) != 2 || len(f.engine.heap) != 2 || f.engine.turns[runKey{7, 1000}].next > f.engine.engineTime()+10*time.Second {
		t.Errorf("%d turns, %d in the heap", len(f.engine.turns), len(f.engine.heap))
	}
	f.robins, f.revision = nil, 3
	f.advance(2 * time.Second)
	if len(f.engine.turns)+len(f.engine.heap)+len(f.engine.robins)+len(f.engine.assigned) != 0 {
		t.Errorf("left: %v", f.engine.turns)
	}
}
