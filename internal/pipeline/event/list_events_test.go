package event

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
)

// listedState is an event state together with its output text, as a list of events returns both.
type listedState struct {
	State
	text string
}

// scanAllStates returns all event states of a view in list order, without the indexes
func scanAllStates(t rapid.TB, v *View) (all []listedState) {
	for _, p := range v.partitions {
		for _, n := range p.SortedNodes() {
			for _, e := range p.nodes[n].states {
				s, ok := v.Get(p.Node(n).ID, p.source(p.slots.slot(e.slot)))
				s.Runs = nil // lists leave the runs out
				if !ok {
					t.Fatalf("no state of node %d check %d", p.Node(n).ID, e.check)
				}
				s.Runs = nil // lists leave the runs out
				all = append(all, listedState{s, fmt.Sprint(s)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b listedState) int { return int(b.Severity) - int(a.Severity) })
	return all
}

// maxIDs has the highest ids of nodes, namespaces and checks for random queries. Check ids begin at 1000.
type maxIDs struct{ nodes, namespaces, checks int }

// drawQuery returns a random query for nodes, namespaces and checks with ids up to a maximum
func (x maxIDs) drawQuery(t *rapid.T) Query {
	number := func(low, high int, what string) int { return rapid.IntRange(low, high).Draw(t, what) }
	q := Query{Problems: rapid.Bool().Draw(t, "problems"), ByNode: rapid.Bool().Draw(t, "byNodeAlone"), Limit: number(1+x.nodes/50, max(4, x.nodes/3), "limit")}
	for range number(0, 2, "namespaces") {
		q.Namespaces = append(q.Namespaces, model.NamespaceID(number(0, x.namespaces, "namespace")))
	}
	for range number(0, 3, "checks") {
		q.Checks = append(q.Checks, model.CheckID(number(999, 1000+x.checks, "check")))
	}
	for range number(0, 3, "statuses") {
		q.Statuses = append(q.Statuses, model.Status(number(0, 3, "status")))
	}
	if rapid.Bool().Draw(t, "byNode") {
		q.Nodes = []model.NodeID{}
		from, step := number(0, x.nodes, "from"), number(1, x.nodes, "step")
		for id := from; id <= x.nodes; id += step {
			q.Nodes = append(q.Nodes, model.NodeID(id))
		}
	}
	if rapid.Bool().Draw(t, "match") {
		q.Match = func(s *State) (bool, error) { return len(s.Output)%2 == 0, nil }
		q.MatchWithin = time.Nanosecond // a page for each look into a partition
	}
	return q
}

// selectsState reports whether a query matches an event state, as a reference for the indexes.
func (q *Query) selectsState(s *State) bool {
	return (!q.Problems || s.Problem != nil) && (len(q.Namespaces) == 0 || slices.Contains(q.Namespaces, s.Namespace)) &&
		(len(q.Checks) == 0 || slices.Contains(q.Checks, s.Check)) && (len(q.Statuses) == 0 || slices.Contains(q.Statuses, s.Status)) &&
		(q.Nodes == nil || slices.Contains(q.Nodes, s.Node)) && (q.Match == nil || len(s.Output)%2 == 0)
}

// compareLists compares the pages of a random query with a scan of all event states
func compareLists(t *rapid.T, v *View, all []listedState, most maxIDs) {
	q := most.drawQuery(t)
	v.sparseLimit = rapid.SampledFrom([]int{0, 2, sparseCandidates}).Draw(t, "sparse")
	var want, got []string
	if q.ByNode {
		all = slices.SortedStableFunc(slices.Values(all), func(a, b listedState) int {
			return cmp.Or(cmp.Compare(v.partitionOf(a.Node).ID, v.partitionOf(b.Node).ID), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Check, b.Check))
		})
	}
	for i := range all {
		if q.selectsState(&all[i].State) {
			want = append(want, all[i].text)
		}
	}
	for {
		page, err := v.List(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.States {
			got = append(got, fmt.Sprint(s))
		}
		if page.Next == "" {
			break
		}
		q.After = page.Next
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%+v lists\n%q, want\n%q", q, got, want)
	}
}

// TestListsEqualFullScan runs random queries, and expects each list to equal a full scan. Namespaces have one, few or
// many nodes, and checks run on one, few or most nodes.
func TestListsEqualFullScan(t *testing.T) {
	const nodes, namespaces, checks = 400, 5, 14
	random := rand.New(rand.NewPCG(7, 7))
	v := newView(viewOptions{})
	skewed := func(most int) int { // a high one is rare
		return int(float64(most) * random.Float64() * random.Float64() * random.Float64())
	}
	for id := model.NodeID(1); id <= nodes; id++ {
		p := v.partitions[id%3]
		n := p.AddNode(id, model.NamespaceID(skewed(namespaces+1)))
		for check := range checks {
			if random.IntN(checks) < check {
				continue
			}
			slot, s := p.addState(n, model.CheckID(1000+check), "")
			status := model.Status(skewed(4))
			p.setStatusAndSeverity(slot, s, status, model.Severity(min(skewed(4)+int(status), int(model.Disaster))))
			s.output = p.outputs.setText(s.output, make([]byte, random.IntN(3)))
			if status != model.OK && random.IntN(2) == 0 {
				p.setProblem(slot, s, &model.Problem{ID: fmt.Sprint(id, check)})
			}
		}
		if random.IntN(10) == 0 {
			p.MoveNode(n, model.NamespaceID(random.IntN(namespaces+1)))
		}
	}
	for id := model.NodeID(9); id <= nodes; id += 9 { // slots and nodes that others take over
		p := v.partitions[id%3]
		n, _ := p.Find(id)
		p.RemoveNode(n)
	}
	for id := model.NodeID(nodes + 1); id <= nodes+20; id++ {
		p := v.partitions[id%3]
		p.addState(p.AddNode(id, 1), 1000, "")
	}
	for _, p := range v.partitions[:3] {
		p.checkIndexes(t)
	}
	all := scanAllStates(t, v)
	if len(all) < 2000 {
		t.Fatalf("only %d states", len(all))
	}
	rapid.Check(t, func(rt *rapid.T) {
		compareLists(rt, v, all, maxIDs{nodes: nodes + 20, namespaces: namespaces, checks: checks})
	})
}

// TestListByNodeHasEveryStateOnce changes severities between the pages of a list by node, and expects every event
// once.
func TestListByNodeHasEveryStateOnce(t *testing.T) {
	v := newView(viewOptions{})
	const nodes = 2 * model.Partitions
	for id := model.NodeID(1); id <= nodes; id++ {
		p := v.partitions[id%model.Partitions]
		slot, s := p.addState(p.AddNode(id, 1), 1000, "")
		p.setStatusAndSeverity(slot, s, model.Warning, model.Severity(id%2)+model.Average)
	}
	swapSeverities := func() {
		for id := model.NodeID(1); id <= nodes; id++ {
			p := v.partitions[id%model.Partitions]
			p.Lock()
			n, _ := p.Find(id)
			slot, _ := p.nodes[n].find(1000)
			s := p.slots.slot(slot)
			p.setStatusAndSeverity(slot, s, model.Warning, model.Average+model.High-s.severity)
			p.Unlock()
		}
	}
	for _, byNode := range []bool{false, true} {
		listed, looked := map[model.NodeID]int{}, 0
		q := Query{ByNode: byNode, Limit: 100, Match: func(s *State) (bool, error) {
			if looked++; looked%nodes == nodes/4 {
				swapSeverities()
			}
			listed[s.Node]++
			return true, nil
		}}
		for {
			page, err := v.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		missed, repeated := 0, 0
		for id := model.NodeID(1); id <= nodes; id++ {
			switch n := listed[id]; {
			case n == 0:
				missed++
			case n > 1:
				repeated++
			}
		}
		if exact := missed == 0 && repeated == 0; exact != byNode {
			t.Errorf("list by node %v: %d of %d states missed, %d repeated", byNode, missed, nodes, repeated)
		}
	}
}

// TestSearchHasATimeLimit searches large partitions for few matches, and expects a partial page within the time
// limit.
func TestSearchHasATimeLimit(t *testing.T) {
	v := newView(viewOptions{})
	for id := model.NodeID(1); id <= 4*model.Partitions; id++ {
		p := v.partitions[id%model.Partitions]
		p.addState(p.AddNode(id, 1), 1000, "")
	}
	asked := 0
	q := Query{MatchWithin: time.Millisecond, Match: func(*State) (bool, error) {
		asked++
		for until := time.Now().Add(100 * time.Microsecond); time.Now().Before(until); {
		}
		return false, nil
	}}
	pages := 0
	for {
		page, err := v.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if pages++; page.Next == "" {
			break
		}
		if !page.Partial {
			t.Fatal("an empty page that goes on, and is not partial")
		}
		q.After = page.Next
	}
	// A page may ask one batch more than its time allows: here 4 of 100 µs.
	if states := 4 * model.Partitions; asked != states || pages < states/14 {
		t.Errorf("%d of %d states asked in %d pages of 1 ms", asked, states, pages)
	}
}
