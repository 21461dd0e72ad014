package plan

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestExpiredDefinitionsAreRemoved edits a check repeatedly, and expects the removal of unused old versions
func TestExpiredDefinitionsAreRemoved(t *testing.T) {
	h := newTestPlanner(t)
	h.node("a", nil)
	edit := func(n int) model.DefinitionID {
		h.apply("Check", "default", "c", nil, commandCheck(fmt.Sprint("check ", n), &model.Targets{Nodes: []string{"a"}}))
		id, _ := h.p.directory.CheckByName("default", "c")
		node, _ := h.p.directory.NodeByName("default", "a")
		a := h.p.directory.AssignmentOf(node)
		if len(a.Definitions) != 1 || a.Definitions[0].Unit != id {
			t.Fatalf("%+v", a)
		}
		return a.Definitions[0].ID
	}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	collect := func(named map[model.DefinitionID]bool, held, now time.Time) (removed, known int) {
		t.Helper()
		removed, err := h.p.Collect(context.Background(), named, held, now)
		if err != nil {
			t.Fatal(err)
		}
		return removed, len(h.p.definitions.byKey)
	}
	const edits = 1500
	away, back := edit(0), edit(1)
	for n := 2; n < edits; n++ {
		edit(n)
	}
	last := edit(edits)
	named := map[model.DefinitionID]bool{away: true} // an agent that is away ran it last
	if removed, known := collect(named, start, start); removed != 0 || known != edits+1 {
		t.Fatalf("at once %d were forgotten, %d left", removed, known)
	}
	// Wanted again within the week, under the same number.
	if again := edit(1); again != back {
		t.Fatalf("the same definition is %d, was %d", again, back)
	}
	edit(edits)
	if again := edit(1); again != back {
		t.Fatalf("the same definition is %d, was %d", again, back)
	}
	week := start.Add(model.MaxSpoolAge)
	collect(named, start, start.Add(time.Hour)) // back is wanted, last is retired
	h.start()                                   // what was retired is known after a restart
	if removed, _ := collect(named, week, week.Add(time.Hour)); removed != 0 {
		t.Fatalf("%d were forgotten although the journal holds a week", removed)
	}
	if removed, known := collect(named, week.Add(time.Minute), week.Add(time.Hour)); removed != edits-2 || known != 3 {
		t.Fatalf("%d were forgotten, %d left; want %d and 3", removed, known, edits-2)
	}
	for id, want := range map[model.DefinitionID]bool{away: true, back: true, last: true, last - 1: false} {
		if got := h.p.directory.Definition(id) != nil; got != want {
			t.Errorf("definition %d is known: %v, want %v", id, got, want)
		}
	}
	// The agent came back, and last was retired an hour after the others.
	collect(nil, week.Add(2*time.Hour), week.Add(3*time.Hour))
	if _, known := collect(nil, week.Add(2*model.MaxSpoolAge), week.Add(3*model.MaxSpoolAge)); known != 1 {
		t.Errorf("%d definitions are left, want the one in force", known)
	}
	rows := 0
	for key := range h.memoryStore.rows {
		if key.Kind == definitionKind {
			rows++
		}
	}
	if rows != 1 {
		t.Errorf("%d rows are left", rows)
	}
	// What was forgotten is a new definition when it is wanted again.
	if again := edit(5); again <= last {
		t.Errorf("the number %d was used before", again)
	}
}

// TestReadersSeeConsistentAssignments reads assignments during changes, and expects the right hash in each. Worth
// running with -race.
func TestReadersSeeConsistentAssignments(t *testing.T) {
	h := newTestPlanner(t)
	for i := range 20 {
		h.node(fmt.Sprint("n", i), map[string]string{"i": fmt.Sprint(i)}, "all")
	}
	h.apply("Check", "default", "c", nil, commandCheck("true {{ .props.p }}", &model.Targets{Groups: []string{"all"}}))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			s, _ := directory.ParseSelector("i in (1,2,3)")
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, id := range h.p.directory.NodesMatching("", s) {
					if a := h.p.directory.AssignmentOf(id); a.Hash != wire.AssignmentHash(a.Definitions, a.Properties, nil) {
						t.Errorf("node %d: the hash is not that of the content", id)
					}
					h.p.directory.NodeGroups(id)
					h.p.Inspector().ExplainCheck(id, 1000)
				}
				h.p.Counts()
			}
		})
	}
	for i := range 50 {
		h.apply("Check", "default", "c", nil, commandCheck(fmt.Sprint("true {{ .props.p }} ", i), &model.Targets{Groups: []string{"all"}}))
		h.apply("Property", "default", "p", nil, &model.PropertySpec{Value: []byte(fmt.Sprint(i))})
		w := intent.Write{Key: intent.Key{Kind: "Node", Namespace: "default", Name: "n1"}}
		if out, err := h.p.Preview(t.Context(), []intent.Write{w}, false); err != nil || out.Affected != 1 {
			t.Errorf("affected %d, %v", out.Affected, err)
		}
	}
	close(stop)
	readers.Wait()
}

// TestShadowFollowsTheNamespace expects a namespace to be in shadow mode (no notifications) exactly while its resource
// says so. In shadow mode messages are recorded and not sent.
func TestShadowFollowsTheNamespace(t *testing.T) {
	h := newTestPlanner(t)
	for _, c := range []struct {
		says string
		want bool
	}{{"", false}, {model.NotificationsShadow, true}, {"send", false}} {
		h.apply("Namespace", "", "beside", nil, &model.NamespaceSpec{Notifications: c.says})
		if h.p.directory.Shadow("beside") != c.want || h.p.directory.Shadow("default") || h.p.directory.Shadow("gone") {
			t.Errorf("%q: not %v", c.says, c.want)
		}
	}
}

// BenchmarkFleet measures the time and memory to load 15,000 nodes with 40 checks each.
func BenchmarkFleet(b *testing.B) {
	const nodes = 15_000
	h := newTestFleet(b, nodes)
	for b.Loop() {
		var before, after runtime.MemStats
		h.p = nil
		runtime.GC()
		runtime.ReadMemStats(&before)
		h.start()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/nodes, "B/node")
	}
}

// BenchmarkEditCheck measures the time to edit a check that runs on all of 15,000 nodes.
func BenchmarkEditCheck(b *testing.B) {
	h := newTestFleet(b, 15_000)
	i := 0
	for b.Loop() {
		i++
		h.apply("Check", "default", "check00", nil, commandCheck(fmt.Sprintf("edit %d", i%2), &model.Targets{Groups: []string{"all"}}))
	}
}

// BenchmarkEditNode measures the time to change a label of one of 15,000 nodes.
func BenchmarkEditNode(b *testing.B) {
	h := newTestFleet(b, 15_000)
	i := 0
	for b.Loop() {
		i++
		h.changes = nil // the test's store searches them all
		h.node("node00000", map[string]string{"env": "prod", "i": fmt.Sprint(i)}, "all", "rack0")
	}
}
