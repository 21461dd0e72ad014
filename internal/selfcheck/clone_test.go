package selfcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/source/core"
)

func cloneReport(address string) core.Clone {
	return core.Clone{
		Node:    core.Node{ID: 7, Name: "web01"},
		Holder:  core.Peer{Address: "10.0.0.1", Machine: "11111111", Since: time.Unix(1_700_000_000, 0).UTC()},
		Refused: core.Peer{Address: address, Machine: "22222222"},
	}
}

// The event is written when it has something new to say, about once a minute while the
// clone goes on to come, and closed when none came for ten minutes; what the journal did
// not take is tried again.
func TestCloneEvent(t *testing.T) {
	var written []string
	var fail error
	w := episodes{status: model.Critical, closed: "no second machine came with this node's identity", open: map[model.NodeID]*episode{}, write: func(node model.NodeID, status model.Status, text string) error {
		if fail != nil {
			return fail
		}
		written = append(written, fmt.Sprintf("%d %d %s", node, status, text))
		return nil
	}}
	wrote := func(what string, n int) {
		t.Helper()
		if len(written) != n {
			t.Fatalf("%s: %d were written, want %d: %q", what, len(written), n, written)
		}
	}
	ticks := func(n int) {
		for range n {
			w.tick()
		}
	}
	came := func(address string) (string, bool) {
		c := cloneReport(address)
		text := cloneText(c)
		return text, w.occurred(c.Node.ID, text, text)
	}
	if text, first := came("10.0.0.2"); !first || !strings.Contains(written[0], text) {
		t.Fatalf("%q %v %q", text, first, written)
	}
	for _, part := range []string{"10.0.0.1 (machine 11111111) is connected since 2023-11-14T22:13:20Z", "10.0.0.2 (machine 22222222)", "muster-agent reset-identity"} {
		if !strings.Contains(written[0], part) {
			t.Errorf("%q lacks %q", written[0], part)
		}
	}
	if _, first := came("10.0.0.2"); first {
		t.Error("the same clone is the first twice")
	}
	wrote("the same at once", 1)
	came("10.0.0.3")
	wrote("from another address", 2)
	ticks(episodeRepeat)
	came("10.0.0.3")
	wrote("the same, a minute later", 3)
	ticks(episodeLength - 1)
	wrote("almost ten minutes later", 3)
	fail = errors.New("the disk is full")
	w.tick()
	fail = nil
	w.tick()
	wrote("ten minutes later", 4)
	if !strings.HasPrefix(written[3], "7 0 no second machine came with this node's identity for 10m") {
		t.Errorf("closed with %q", written[3])
	}
	ticks(episodeLength)
	wrote("closed once", 4)
	if _, first := came("10.0.0.3"); !first {
		t.Error("after the event was closed, a clone is not the first")
	}
}

// The events that an earlier run of the server left open are found again, on all pages, so that they close.
func TestEpisodesAfterRestart(t *testing.T) {
	asked := 0
	m := New(Options{Events: func(_ context.Context, q event.Query) (event.Page, error) {
		if len(q.Checks) != 1 || q.Checks[0] != model.IdentityCheck || slices.Contains(q.Statuses, model.OK) {
			t.Errorf("asked for %+v", q)
		}
		asked++
		if q.After == "" {
			return event.Page{States: []event.State{{Node: 7}}, Next: "more"}, nil
		}
		return event.Page{States: []event.State{{Node: 8}}}, nil
	}})
	e, err := m.newEpisodes(t.Context(), model.IdentityCheck, model.Critical, "")
	if err != nil || asked != 2 || len(e.open) != 2 || e.open[7] == nil || e.open[8] == nil {
		t.Errorf("open are %v after %d pages, %v", e.open, asked, err)
	}
}
