package app

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// itemsPerNode is the number of items of each node of TestMemoryAndDiskLevelOff.
const itemsPerNode = 100

// TestMemoryAndDiskLevelOff sends a value of each item per second to a server. The server's clock runs as fast as the
// server works. Heap, journal and snapshots must not grow in the second half of the time. The long form prints them every ten
// minutes:
//
//	MUSTER_VALUES_NODES=1000 MUSTER_VALUES_TIME=3h30m go test ./internal/app -run TestMemoryAndDiskLevelOff -v -timeout 2h
func TestMemoryAndDiskLevelOff(t *testing.T) {
	if testing.Short() {
		t.Skip("sends 240,000 values; run it by: go test ./internal/app -run TestMemoryAndDiskLevelOff")
	}
	nodes, err := strconv.Atoi(cmp.Or(os.Getenv("MUSTER_VALUES_NODES"), "2"))
	testenv.NoError(t, err)
	length, err := time.ParseDuration(cmp.Or(os.Getenv("MUSTER_VALUES_TIME"), "20m"))
	testenv.NoError(t, err)
	var flags []string
	if os.Getenv("MUSTER_VALUES_TIME") == "" {
		flags = append(flags, "--series-range", "2m")
	}
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), testSettings(t, dir, flags...), slog.New(slog.DiscardHandler))
		testenv.NoError(t, err)
		stop := runWithoutListeners(t, s)
		defer stop()
		f := newValueFleet(t, s, nodes)
		t.Logf("%9s %13s %9s %11s %9s %13s", "time", "values", "heap MB", "journal MB", "series MB", "snapshots MB")
		var half, last usedSpace
		step := min(10*time.Minute, length/4)
		for elapsed := time.Duration(0); elapsed < length; {
			for range step / time.Second {
				f.send(t)
				time.Sleep(time.Second)
			}
			elapsed += step
			last = measureSpace(t, dir)
			t.Logf("%9s %13d %9.1f %11.1f %9.1f %13.1f", elapsed, f.sent, last.heap/1e6, last.journal/1e6, last.series/1e6, last.snapshots/1e6)
			if elapsed <= length/2 {
				half = last
			}
		}
		const allowed, slack = 1.2, 2e6
		for name, of := range map[string][2]float64{"heap": {half.heap, last.heap}, "journal": {half.journal, last.journal}, "snapshots": {half.snapshots, last.snapshots}} {
			if of[1] > of[0]*allowed+slack {
				t.Errorf("%s grew from %.1f MB to %.1f MB in the second half", name, of[0]/1e6, of[1]/1e6)
			}
		}
	})
}

// runWithoutListeners runs all tasks of a server except listeners. It returns a function that stops
// and closes the server. A synctest bubble's clock does not move while a goroutine waits for a connection.
func runWithoutListeners(t *testing.T, s *Server) (stop func()) {
	st := newStopStages(context.Background(), s.tasks)
	st.start(reactions, s.tasks)
	st.start(back, s.tasks)
	testenv.NoError(t, s.recordStart(t.Context()))
	return func() {
		st.stopFront()
		st.stopBack()
		if err := st.group.Wait(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// valueFleet writes a value of each item of all nodes to the journal, as sessions of agents do.
type valueFleet struct {
	server *Server
	nodes  []intent.NodeInfo
	block  model.DefinitionID
	tick   uint64
	sent   int
	values []wire.BlockValue
}

// newValueFleet creates nodes and a Template whose items all nodes have, with a trigger on every tenth item.
func newValueFleet(t *testing.T, s *Server, nodes int) *valueFleet {
	f := &valueFleet{server: s}
	var list []intent.BulkNode
	for i := range nodes {
		list = append(list, intent.BulkNode{UID: uuid.New(), Name: fmt.Sprintf("host-%05d", i), Groups: []string{"hosts"}})
	}
	by := intent.Actor{User: "ada"}
	spec := &model.TemplateSpec{Targets: &model.Targets{Groups: []string{"hosts"}}}
	for i := range itemsPerNode {
		key := fmt.Sprintf("item[%03d]", i)
		spec.Items = append(spec.Items, model.Item{Key: key, Trapper: true})
		if i%10 == 0 {
			spec.Triggers = append(spec.Triggers, model.Trigger{Name: key, Expression: "last(//" + key + ")>1000000000"})
		}
	}
	_, err := s.intent.Apply(t.Context(), by, []model.Resource{
		{APIVersion: model.APIVersion, Kind: "Group", Metadata: model.Metadata{Name: "hosts", Namespace: "default"}, Spec: &model.GroupSpec{}},
		{APIVersion: model.APIVersion, Kind: "Template", Metadata: model.Metadata{Name: "values", Namespace: "default"}, Spec: spec},
	}, intent.ApplyOptions{Yes: true})
	testenv.NoError(t, err)
	testenv.NoError(t, s.intent.CreateNodes(t.Context(), by, "default", list))
	testenv.NoError(t, s.planner.CatchUp(t.Context()))
	for i := range list {
		info, ok := s.intent.LookupNode(list[i].UID)
		a := s.directory.AssignmentOf(info.ID)
		if !ok || a == nil || len(a.Definitions) != 1 {
			t.Fatalf("node %s has the assignment %+v", list[i].Name, a)
		}
		f.nodes, f.block = append(f.nodes, info), a.Definitions[0].ID
	}
	return f
}

// send writes one value of each item to the journal, and waits until all nodes' values are durable.
func (f *valueFleet) send(t *testing.T) {
	f.tick++
	now := uint64(time.Now().UnixMilli())
	var wait sync.WaitGroup
	for _, n := range f.nodes {
		f.values = f.values[:0]
		for i := range itemsPerNode {
			f.values = append(f.values, wire.BlockValue{Position: uint32(i), Value: fleetValue(uint64(n.ID)*itemsPerNode+uint64(i), f.tick)})
		}
		body := wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: itemsPerNode, Columns: wire.AppendColumns(nil, []int64{int64(n.ID) * 997}, f.values)})
		entry := core.BatchEntry(core.SectionOf(n.UID), n.ID, &wire.Batch{StreamKey: wire.StreamKey{Stream: wire.StreamID(n.ID)}, First: f.tick, NowMs: now,
			Signals: []wire.Signal{{Kind: wire.SignalValueBlock, Definition: f.block, AtMs: now, Body: body}}})
		wait.Add(1)
		entry.Waiter, entry.Patient = &commitCounter{t, &wait}, true
		testenv.NoError(t, f.server.journal.Append(t.Context(), entry))
		f.sent += itemsPerNode
	}
	wait.Wait()
}

// commitCounter ends a wait when the journal has committed an entry.
type commitCounter struct {
	t    *testing.T
	wait *sync.WaitGroup
}

// Committed counts a durable entry. An error of the commit fails the test.
func (c *commitCounter) Committed(_ uint64, _ journal.Position, err error) {
	if err != nil {
		c.t.Error(err)
	}
	c.wait.Done()
}

// fleetValue returns an item's value in a second. Items are constants, counters, gauges and percentages, as the load
// tester sends them.
func fleetValue(i, tick uint64) item.Value {
	switch r := rand.New(rand.NewPCG(i, tick)).Uint64(); i % 4 {
	case 0:
		return item.FromFloat(float64(i % 1000))
	case 1:
		return item.FromUnsigned(i*1000 + tick*(i%1000+1))
	case 2:
		return item.FromFloat(float64(r % 80))
	default:
		return item.FromFloat(float64(r%8000) / 100)
	}
}

// usedSpace has the bytes that a server uses in memory and on disk.
type usedSpace struct{ heap, journal, series, snapshots float64 }

// measureSpace returns the live heap after a garbage collection, and the sizes of three folders.
func measureSpace(t *testing.T, dir string) (u usedSpace) {
	t.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	u.heap = float64(m.HeapAlloc)
	for name, size := range map[string]*float64{"journal": &u.journal, "series": &u.series, "snapshots": &u.snapshots} {
		testenv.NoError(t, filepath.WalkDir(filepath.Join(dir, name), func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if info, err := d.Info(); err == nil { // a file may be deleted meanwhile
				*size += float64(info.Size())
			}
			return nil
		}))
	}
	return u
}
