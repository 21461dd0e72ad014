package plan

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// A check that is edited for years leaves nothing behind but what can still be named.
func TestDefinitionsThatNobodyCanNameAreForgotten(t *testing.T) {
	h := newHouse(t)
	h.node("a", nil)
	edit := func(n int) model.ChunkID {
		h.put("Check", "default", "c", nil, shell(fmt.Sprint("check ", n), &model.Targets{Nodes: []string{"a"}}))
		id, _ := h.p.directory.CheckByName("default", "c")
		node, _ := h.p.directory.NodeByName("default", "a")
		a := h.p.directory.For(node)
		if len(a.Chunks) != 1 || a.Chunks[0].Unit != id {
			t.Fatalf("%+v", a)
		}
		return a.Chunks[0].ID
	}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	collect := func(named map[model.ChunkID]bool, held, now time.Time) (removed, known int) {
		t.Helper()
		removed, err := h.p.Collect(context.Background(), named, held, now)
		if err != nil {
			t.Fatal(err)
		}
		return removed, len(h.p.chunks.byKey)
	}
	const edits = 1500
	away, back := edit(0), edit(1)
	for n := 2; n < edits; n++ {
		edit(n)
	}
	last := edit(edits)
	named := map[model.ChunkID]bool{away: true} // an agent that is away ran it last
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
	for id, want := range map[model.ChunkID]bool{away: true, back: true, last: true, last - 1: false} {
		if got := h.p.directory.Chunk(id) != nil; got != want {
			t.Errorf("definition %d is known: %v, want %v", id, got, want)
		}
	}
	// The agent came back, and last was retired an hour after the others.
	collect(nil, week.Add(2*time.Hour), week.Add(3*time.Hour))
	if _, known := collect(nil, week.Add(2*model.MaxSpoolAge), week.Add(3*model.MaxSpoolAge)); known != 1 {
		t.Errorf("%d definitions are left, want the one in force", known)
	}
	rows := 0
	for key := range h.memory.rows {
		if key.Kind == chunkKind {
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
