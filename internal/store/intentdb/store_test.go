package intentdb_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/intent/intenttest"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/testenv"
)

func opener(t *testing.T, dsn string) func() intent.Store {
	return func() intent.Store {
		s, err := intentdb.Open(t.Context(), dsn, time.Now)
		testenv.NoError(t, err)
		return s
	}
}

func TestStoreOnSQLite(t *testing.T) {
	intenttest.Run(t, func(t *testing.T) func() intent.Store {
		return opener(t, filepath.Join(t.TempDir(), "intent.db"))
	})
}

func TestStoreOnPostgreSQL(t *testing.T) {
	server := pgtest.Start(t)
	intenttest.Run(t, func(t *testing.T) func() intent.Store { return opener(t, server.Database(t)) })
}

// The planner on a real store: chunks keep their ids over restarts, and an edit gets a new one.
func TestPlannerAcrossRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "intent.db")
	open := func() (intent.Store, *plan.Planner) {
		s, err := intentdb.Open(t.Context(), path, time.Now)
		testenv.NoError(t, err)
		p := plan.New(plan.Options{Store: s, Epoch: 1})
		testenv.NoError(t, p.Load(t.Context()))
		return s, p
	}
	s, p := open()
	wake := make(chan struct{}, 1)
	changed := make(chan []model.NodeID, 10)
	p.Directory().Subscribe(func(c directory.Change) { changed <- c.Assignments })
	go p.Run(t.Context(), wake)
	commit := func(kind, name string, spec model.Spec) {
		t.Helper()
		body, err := json.Marshal(model.Resource{
			APIVersion: model.APIVersion, Kind: kind, Metadata: model.Metadata{Name: name, Namespace: "default"}, Spec: spec,
		})
		testenv.NoError(t, err)
		_, err = s.Commit(t.Context(), intent.Actor{User: "test"}, []intent.Write{{
			Key: intent.Key{Kind: kind, Namespace: "default", Name: name}, Body: body, Expect: -1,
		}})
		testenv.NoError(t, err)
		wake <- struct{}{}
	}
	next := func() model.NodeID {
		t.Helper()
		select {
		case nodes := <-changed:
			return nodes[0]
		case <-time.After(30 * time.Second):
			t.Fatal("no assignment changed in time")
			panic("unreachable")
		}
	}
	disk := func(command string, targets *model.Targets) *model.CheckSpec {
		return &model.CheckSpec{Command: &model.Command{Shell: command}, Interval: model.Duration(time.Minute), Targets: targets}
	}
	commit("Node", "web01", &model.NodeSpec{Groups: []string{"web"}})
	node := next()
	commit("Check", "disk", disk("check_disk", &model.Targets{Groups: []string{"web"}}))
	next()
	first := p.Directory().For(node)
	commit("Check", "disk", disk("check_disk -w 20%", &model.Targets{Groups: []string{"web"}}))
	next()
	second := p.Directory().For(node)
	if first.Chunks[0].ID == 0 || first.Chunks[0].ID == second.Chunks[0].ID || first.Chunks[0].Unit != second.Chunks[0].Unit {
		t.Errorf("chunks %+v and %+v", first.Chunks[0], second.Chunks[0])
	}
	if !first.Generation.Less(second.Generation) {
		t.Errorf("generations %v and %v", first.Generation, second.Generation)
	}
	testenv.NoError(t, s.Close())

	s, p = open()
	defer s.Close()
	if after := p.Directory().For(node); after.Hash != second.Hash || after.Generation.Less(second.Generation) {
		t.Errorf("after a restart %+v, before %+v", after, second)
	}
	if old := p.Directory().Chunk(first.Chunks[0].ID); old == nil || old.Hash != first.Chunks[0].Hash {
		t.Error("the older chunk is unknown after a restart")
	}
}
