package app

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
)

// The event of a clone outlives a restart. That the next server continues it: see package selfcheck.
func TestCloneEventSurvivesRestart(t *testing.T) {
	cfg := settings(t, filepath.Join(t.TempDir(), "data"))
	s, stop := start(t, cfg)
	testenv.Until(t, "ready", func() bool { return s.NotReady() == nil })
	member, err := s.intent.Register(t.Context(), "key of web01", pki.JoinToken{Namespace: model.DefaultNamespaceName}, pki.EnrolRequest{Name: "web01"})
	if err != nil {
		t.Fatal(err)
	}
	info, _ := s.intent.LookupNode(member.UID)
	testenv.Until(t, "the planner knows the node", func() bool { return s.directory.For(info.ID) != nil })
	s.monitor.Clone(core.Clone{
		Node:    core.Node{ID: info.ID, Name: info.Name},
		Holder:  core.Peer{Address: "10.0.0.1", Machine: "11111111", Since: time.Unix(1_700_000_000, 0).UTC()},
		Refused: core.Peer{Address: "10.0.0.2", Machine: "22222222"},
	})
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
}
