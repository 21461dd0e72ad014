package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/testenv"
)

func aClone(address string) muster.Clone {
	return muster.Clone{
		Node:  core.Node{ID: 7, Name: "web01"},
		Holds: muster.Peer{Address: "10.0.0.1", Machine: "11111111", Since: time.Unix(1_700_000_000, 0).UTC()},
		Came:  muster.Peer{Address: address, Machine: "22222222"},
	}
}

// The event is written when it has something new to say, about once a minute while the
// clone goes on to come, and closed when none came for ten minutes; what the journal did
// not take is tried again.
func TestTheEventOfAClone(t *testing.T) {
	var written []string
	var fail error
	w := episodes{bad: model.Critical, over: "no second machine came with this node's identity", open: map[model.NodeID]*episode{}, write: func(node model.NodeID, status model.Status, text string) error {
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
		c := aClone(address)
		text := cloneText(c)
		return text, w.came(c.Node.ID, text, text)
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
	ticks(episodeAgain)
	came("10.0.0.3")
	wrote("the same, a minute later", 3)
	ticks(episodeGone - 1)
	wrote("almost ten minutes later", 3)
	fail = errors.New("the disk is full")
	w.tick()
	fail = nil
	w.tick()
	wrote("ten minutes later", 4)
	if !strings.HasPrefix(written[3], "7 0 no second machine came with this node's identity for 10m") {
		t.Errorf("closed with %q", written[3])
	}
	ticks(episodeGone)
	wrote("closed once", 4)
	if _, first := came("10.0.0.3"); !first {
		t.Error("after the event was closed, a clone is not the first")
	}
}

// What an earlier life of the server left open is found again, so that it closes there.
func TestTheEventOfACloneOutlivesAServer(t *testing.T) {
	cfg := settings(t, filepath.Join(t.TempDir(), "data"))
	s, stop := start(t, cfg)
	testenv.Until(t, "ready", func() bool { return s.NotReady() == nil })
	member, err := s.intent.Register(t.Context(), "key of web01", pki.JoinToken{Namespace: model.DefaultNamespaceName}, pki.EnrolRequest{Name: "web01"})
	if err != nil {
		t.Fatal(err)
	}
	clone := aClone("10.0.0.2")
	info, _ := s.intent.LookupNode(member.UID)
	clone.Node = core.Node{ID: info.ID, Name: info.Name}
	testenv.Until(t, "the planner knows the node", func() bool { return s.planner.For(info.ID) != nil })
	s.clones.came(clone)
	critical := func() bool {
		e, ok := s.view.Get(info.ID, model.IdentityCheck)
		return ok && e.Status == model.Critical && strings.Contains(e.Output, "10.0.0.2 (machine 22222222)")
	}
	testenv.Until(t, "the event tells", critical)
	stop()
	s, _ = start(t, cfg)
	if !critical() {
		t.Error("the event is gone after a restart")
	}
	if e, err := s.newEpisodes(t.Context(), model.IdentityCheck, model.Critical, ""); err != nil || len(e.open) != 1 || e.open[info.ID] == nil {
		t.Errorf("open are %v, %v", e, err)
	}
}
