package load

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/wire"
)

// Most of the fleet is well, some is not, and outputs parse as plug-ins' do.
func TestDemoOutputs(t *testing.T) {
	bad := 0
	for a := range 300 {
		for c := range demoChecks {
			chunk := &model.Chunk{CheckName: demoChecks[c].name}
			status := demoOutputs{}.Status(a, c, chunk, uint64(a*7+c), model.OK, false)
			out := demoOutputs{}.Output(nil, a, c, chunk, uint64(a*7+c), status)
			if len(out) < 20 || status > model.Critical {
				t.Fatalf("%q %s", out, status)
			}
			if status != model.OK {
				bad++
			}
		}
	}
	if bad < 3 || bad > 60 {
		t.Errorf("%d of %d events are not OK", bad, 300*len(demoChecks))
	}
}

func TestDemoNamesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := range 3000 {
		if name := demoName(i); seen[name] {
			t.Fatalf("two nodes called %s", name)
		} else {
			seen[name] = true
		}
	}
}

// What prepare makes is accepted by intent, and again: a second start changes nothing.
func TestPrepareIsRepeatable(t *testing.T) {
	store, err := intentdb.Open(t.Context(), filepath.Join(t.TempDir(), "intent.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	service := intent.NewService(intent.Options{Store: store, Validate: model.Validate, Impact: noImpact})
	if err := service.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	count := func() (rows int) {
		for _, kind := range []string{"Node", "Check", "Group", "Namespace"} {
			list, err := store.List(t.Context(), intent.ListQuery{Kind: kind})
			if err != nil {
				t.Fatal(err)
			}
			rows += len(list)
		}
		return rows
	}
	var first int
	for range 2 {
		if err := (Demo{Nodes: 20, Service: service}).prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := simulated.Prepare(t.Context(), service, simulated.Preparation{Agents: 30, Checks: 5, Interval: 5 * time.Second}); err != nil {
			t.Fatal(err)
		}
		if n := count(); first != 0 && n != first {
			t.Errorf("%d rows, then %d", first, n)
		} else {
			first = n
		}
	}
	if info, ok := service.LookupNode(simulated.NodeUID(demoSeed, 3)); !ok || info.Name != demoName(3) {
		t.Errorf("node 3: %+v %v", info, ok)
	}
}

func noImpact(_ context.Context, writes []intent.Write) ([]intent.Landing, int, error) {
	return make([]intent.Landing, len(writes)), 0, nil
}

// The fleet sends until it is told to stop.
func TestDemoPlays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &ideal{nodes: map[wire.StreamID]*idealNode{}, checks: len(demoChecks), commit: time.Millisecond}
		cfg, err := Config{Server: "127.0.0.1:1", Agents: 10, Checks: len(demoChecks), Interval: demoInterval, Generate: demoOutputs{},
			checks: func(i int) string { return demoChecks[i].name }}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRun(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r.connect = srv.connect
		ctx, cancel := context.WithTimeout(t.Context(), 61*time.Second)
		defer cancel()
		if err := r.forever(ctx); err != nil {
			t.Fatal(err)
		}
		results := uint64(0)
		_ = srv.Each(ctx, func(k Kept) error { results += k.Results; return nil })
		if want := uint64(10 * len(demoChecks) * 4); results < want || results > want+uint64(10*len(demoChecks)) {
			t.Errorf("%d results in a minute, want about %d", results, want)
		}
	})
}
