//go:build linux

package test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/test/harness"
)

// Of two thousand nodes a hundred are renamed, a hundred get another machine and two hundred
// are retired while results flow, and the server is killed the moment the last of these is
// answered. Nothing of the others is lost, the retired leave no event behind, and the
// planner's work is that of the nodes concerned.
func TestFleetLifecycle(t *testing.T) {
	if testing.Short() {
		t.Skip("two thousand agents take their time")
	}
	t.Parallel()
	const each, stay = 100, 1700 // of stay, the first hundred are renamed
	s := harness.NewServer(t)
	fleet := harness.Fleet{Agents: 2000, Checks: 2, Interval: 4 * time.Second}
	s.Prepare(fleet)
	s.Start()
	api := s.Client()
	harness.LogFigure(t, "%d simulated agents with %d checks each, every %s; %d are renamed, %d get another machine, %d are retired", fleet.Agents, fleet.Checks, fleet.Interval, each, each, 2*each)

	play := func(cfg load.Config, first, agents int) (begun <-chan struct{}, end chan loadResult, stop func()) {
		cfg.First, cfg.Agents, cfg.Fleet = first, agents, agents
		begun, end = awaitMeasurement(&cfg), make(chan loadResult, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			rep, err := load.Run(ctx, cfg)
			end <- loadResult{rep, err}
		}()
		return begun, end, stop
	}
	over := make(chan string, 1)
	lasting := s.Load(fleet, 10*time.Minute) // until the server was killed, however long that takes
	lasting.Stop = over
	staying, stayed, stopStaying := play(lasting, 0, stay)
	defer stopStaying()
	ending := s.LoadTLS(fleet, 40*time.Second) // these have keys
	ending.Before, ending.Drain = nil, time.Second
	going, gone, stopGoing := play(ending, stay, 3*each)
	for _, begun := range []<-chan struct{}{staying, going} {
		select {
		case <-begun:
		case e := <-stayed:
			t.Fatalf("the run ended early: %+v, %v", e.rep, e.err)
		case e := <-gone:
			t.Fatalf("the run ended early: %+v, %v", e.rep, e.err)
		}
	}
	numbers := map[string]uint64{}
	for i := range 3 * each {
		name := simulated.NodeName(stay + i)
		list, err := api.Nodes.States(t.Context(), v1.NodeFilter{Namespace: "load", Name: name, Limit: 1})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%s: %+v, %v", name, list, err)
		}
		numbers[name] = uint64(list.Items[0].ID)
	}
	counts := func() map[string]float64 {
		out := map[string]float64{}
		for _, name := range []string{"nodes_visited", "assignments_built", "conditions_evaluated", "assignments_changed"} {
			out[name] = s.Metric("muster_plan_" + name + "_total")
		}
		return out
	}
	work := func(what string, do func()) {
		t.Helper()
		before, began := counts(), time.Now()
		do()
		took, after := time.Since(began), counts()
		maps.DeleteFunc(after, func(name string, n float64) bool { after[name] = n - before[name]; return false })
		harness.LogFigure(t, "%d %s in %.1f s: %g nodes visited, %g conditions evaluated, %g assignments built, %g changed", each, what, took.Seconds(),
			after["nodes_visited"], after["conditions_evaluated"], after["assignments_built"], after["assignments_changed"])
		// What agents say of themselves is compiled meanwhile too, once for each that came.
		for name, n := range after {
			if n > 10*each {
				t.Errorf("%s: %g %s for %d nodes", what, n, name, each)
			}
		}
	}
	work("renamed", func() {
		for i := range each {
			name := simulated.NodeName(i)
			if _, err := api.Nodes.Rename(t.Context(), "load", name, v1.NodeRename{To: "new-" + name, Message: "moved"}); err != nil {
				t.Fatal(err)
			}
		}
	})
	ofReplaced := func() (n int) {
		for place := range s.FleetStates() {
			for i := range each {
				if place.Node == numbers[simulated.NodeName(stay+i)] {
					n++
				}
			}
		}
		return n
	}
	had := ofReplaced()
	work("replaced", func() {
		for i := range each {
			name := simulated.NodeName(stay + i)
			made, err := api.Nodes.Replace(t.Context(), "load", name, v1.NodeReplace{ExpiresIn: 600, Message: "new disk"})
			if err != nil {
				t.Fatal(err)
			}
			token, err := pki.ParseToken(made.Token)
			if err != nil {
				t.Fatal(err)
			}
			token.Addresses = []string{s.Listen}
			id, err := pki.Enrol(t.Context(), pki.EnrolConfig{Token: token, StateDir: t.TempDir(), Request: pki.EnrolRequest{Name: "anything"}})
			if err != nil || id.Name != name {
				t.Fatalf("%s: %+v, %v", name, id, err)
			}
		}
	})
	replaced := func() float64 {
		return s.Metric("muster_session_handshakes_total", `outcome="replaced"`)
	}
	harness.Until(t, 30*time.Second, "the machines before may not come back", func() (string, bool) {
		return fmt.Sprint(replaced()), replaced() > 0
	})
	retire := func(first int) {
		r := v1.NodeRetire{Message: "scrapped", Yes: true}
		for i := first; i < first+each; i++ {
			r.Nodes = append(r.Nodes, v1.NodeRef{Namespace: "load", Name: simulated.NodeName(stay + i)})
		}
		if _, err := api.Nodes.Retire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	work("retired", func() {
		before := s.Metric("muster_plan_known", `kind="nodes"`)
		retire(each)
		harness.Until(t, 30*time.Second, "the planner knows it", func() (string, bool) {
			is := s.Metric("muster_plan_known", `kind="nodes"`)
			return fmt.Sprintf("%g nodes of %g", is, before), is == before-each
		})
	})
	retire(2 * each)
	s.Kill() // perhaps before their events were forgotten
	s.Start()
	stopGoing()
	<-gone
	harness.Until(t, 30*time.Second, "the retired leave no event behind", func() (string, bool) {
		left := 0
		for place := range s.FleetStates() {
			for i := each; i < 3*each; i++ {
				if place.Node == numbers[simulated.NodeName(stay+i)] {
					left++
				}
			}
		}
		return fmt.Sprint(left), left == 0
	})
	over <- "the test"
	e := <-stayed
	if e.err != nil || !e.rep.Balance.OK() || e.rep.Balance.Compared != stay*fleet.Checks {
		t.Fatalf("of those that stay: %+v, %v", e.rep, e.err)
	}
	if !slices.ContainsFunc(e.rep.Outages, func(o report.Outage) bool { return o.Lost > stay/2 && o.Seconds > 0 }) {
		t.Errorf("the server was killed, and those that stay were not away and back: %+v", e.rep.Outages)
	}
	b := e.rep.Balance
	harness.LogFigure(t, "the others, over a kill -9 of the server: %d results sent = %d acknowledged + %d refused + %d missing; %d event states compared, %d differ",
		b.Sent, b.Acknowledged, b.Refused, b.Missing, b.Compared, b.Differ)
	if kept := ofReplaced(); kept < had || had == 0 {
		t.Errorf("%d events of nodes with another machine are left of %d", kept, had)
	}
	if list, err := api.Nodes.Tombstones(t.Context(), 1); err != nil || list.All != 3*each {
		t.Errorf("%d tombstones, %v; want %d of nodes, and %d of machines that were replaced", list.All, err, 2*each, each)
	}
	if list, err := api.Nodes.States(t.Context(), v1.NodeFilter{Namespace: "load", Name: "new-" + simulated.NodeName(0), Limit: 1}); err != nil || len(list.Items) != 1 || list.Items[0].Heard.IsZero() {
		t.Errorf("under its new name: %+v, %v", list, err)
	}
}
