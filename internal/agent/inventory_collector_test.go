package agent

import (
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	collector "github.com/muster-fleet/muster/internal/agent/inventory"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/spool"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	reducer "github.com/muster-fleet/muster/internal/pipeline/inventory"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// inventoryRig is a test setup with an agent's inventory collector, its spool and a simulated server. The server
// stores the inventory.
type inventoryRig struct {
	t        *testing.T
	x        *inventoryCollector
	files    fstest.MapFS
	bootMs   uint64
	view     *reducer.View
	shard    *shard.Shard
	commits  []journal.Commit
	last     map[wire.StreamKey]uint64
	complete int // signals with complete inventories
}

// newInventoryRig returns a test setup with an empty machine, a small spool and an empty server. The spool has at most
// maxSpool bytes.
func newInventoryRig(t *testing.T, maxSpool int64) *inventoryRig {
	r := &inventoryRig{t: t, files: fstest.MapFS{}, bootMs: 1000}
	machine := Machine{BootMs: func() uint64 { return r.bootMs }, Boot: "b", Now: func() time.Time { return time.Unix(1e9, 0) }}
	a := &Agent{cfg: Config{Machine: machine, Log: slog.New(slog.DiscardHandler), Commands: Commands{}}}
	var err error
	a.spool, err = spool.Open(filepath.Join(t.TempDir(), "spool"), spool.Options{Clock: spoolClock{&a.cfg.Machine}, MaxBytes: maxSpool})
	testenv.NoError(t, err)
	t.Cleanup(func() { testenv.NoError(t, a.spool.Close()) })
	r.restartAgent(a)
	r.restoreServer(0)
	return r
}

// restartAgent replaces the inventory collector as a restart of the agent does. The spool stays.
func (r *inventoryRig) restartAgent(a *Agent) {
	r.x = newInventoryCollector(a)
	r.x.machine = func() *collector.Machine {
		return &collector.Machine{Root: fs.FS(r.files), Addresses: func() map[string][]netip.Prefix { return nil }, SizeOf: func(string) uint64 { return 0 },
			Runner: &run.Runner{}, ScriptsDir: os.DevNull, Warn: func(string) {}}
	}
}

// restoreServer resets the server's inventory to an older state, as the restore of a backup does. The older state has
// only the first commits.
func (r *inventoryRig) restoreServer(commits int) {
	r.shard = shard.New(shard.Options{})
	r.view, r.last = reducer.New(r.shard), map[wire.StreamKey]uint64{}
	r.commits = r.commits[:commits]
	for _, c := range r.commits {
		testenv.NoError(r.t, r.shard.Apply(c))
	}
	last, err := r.shard.LastNumbers(r.t.Context(), 7, journal.Position{})
	testenv.NoError(r.t, err)
	for _, l := range last {
		r.last[l.StreamKey] = l.Last
	}
}

// setPackages writes the file in which dpkg lists the installed packages of the test machine.
func (r *inventoryRig) setPackages(versions map[string]int) {
	text := ""
	for name, version := range versions {
		text += fmt.Sprintf("Package: %s\nStatus: install ok installed\nVersion: %d\n\n", name, version)
	}
	r.files["var/lib/dpkg/status"] = &fstest.MapFile{Data: []byte(text), ModTime: time.Unix(int64(r.bootMs), 0)}
}

// openSession opens a session between agent and server. The agent gets the server's Welcome and last sequence numbers.
func (r *inventoryRig) openSession() {
	var last []wire.StreamLast
	for key, number := range r.last {
		last = append(last, wire.StreamLast{StreamKey: key, Last: number})
	}
	r.x.sessionStarted(&wire.Welcome{Features: []string{wire.FeatureInventory}, Inventory: r.view.Sum(7)})
	testenv.NoError(r.t, r.x.agent.spool.Resume(last))
}

// deliverSpooled sends all messages in the spool to the simulated server. With `acknowledge`, the server acknowledges the
// signals.
func (r *inventoryRig) deliverSpooled(acknowledge bool) {
	for {
		var b wire.Batch
		more, err := r.x.agent.spool.Next(&b, 1<<20, 100)
		testenv.NoError(r.t, err)
		if !more {
			return
		}
		for i := range b.Signals {
			var x wire.Inventory
			if b.Signals[i].Kind != wire.SignalInventory {
				continue
			}
			if testenv.NoError(r.t, x.Decode(b.Signals[i].Body)); x.Complete {
				r.complete++
			}
		}
		_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
		testenv.NoError(r.t, err)
		n := uint64(len(r.commits) + 1)
		c := &journaltest.Commit{At: journal.Position{Log: 1, Number: n}, Listened: time.Duration(n) * time.Minute, Time: 1e18 + int64(n)}
		c.AddEntry(3, append(wire.AppendBatchRecord(nil, 7), body...))
		testenv.NoError(r.t, r.shard.Apply(c))
		r.commits = append(r.commits, c)
		last := b.First
		if b.Gap != nil {
			last = b.Gap.Last
		} else {
			last += uint64(len(b.Signals)) - 1
		}
		r.last[b.StreamKey] = last
		if acknowledge {
			r.x.agent.spool.Acked(&wire.Ack{Last: []wire.StreamLast{{StreamKey: b.StreamKey, Last: last}}})
		}
	}
}

// TestServerHasTheInventoryOfTheAgent expects the server to have the agent's inventory after many random faults. The
// faults are broken sessions, restarts of the agent, restored servers and lost signals. After a session and a
// collection the server has the agent's inventory; complete inventories are the exception.
func TestServerHasTheInventoryOfTheAgent(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 5))
		r := newInventoryRig(t, 0)
		versions := map[string]int{"base": 1}
		r.setPackages(versions)
		r.openSession()
		faults := 0
		for range 40 {
			r.bootMs += 60_000
			switch random.IntN(10) {
			case 0:
				r.x.agent.spool.EndSession()
			case 1:
				r.openSession()
			case 2:
				r.restartAgent(r.x.agent)
				faults++
			case 3:
				if random.IntN(3) == 0 {
					r.x.agent.spool.EndSession()
					r.restoreServer(random.IntN(len(r.commits) + 1))
					r.openSession()
					faults++
				}
			case 4:
				r.deliverSpooled(false)
				r.x.agent.spool.EndSession()
				r.openSession()
			case 5:
				r.deliverSpooled(true)
			default:
				versions[fmt.Sprint("p", random.IntN(5))] = random.IntN(9)
				r.setPackages(versions)
				r.x.collectIfDue(t.Context())
			}
		}
		for range 3 { // the change that waits, then the last one
			r.openSession()
			r.deliverSpooled(true)
			r.x.collectIfDue(t.Context())
			r.deliverSpooled(true)
		}
		got, _ := r.view.Inventory(7)
		if want := r.x.machine().Collect(t.Context()); !slices.Equal(got.Entries, want) || got.Stale {
			t.Fatalf("seed %d: the server has %q, stale %v, want %q", seed, got.Entries, got.Stale, want)
		}
		if r.complete > 1+2*faults {
			t.Errorf("seed %d: %d complete inventories after %d restarts", seed, r.complete, faults)
		}
	}
}

// TestLostChangeCausesACompleteInventory loses a change in a full spool, and expects the agent to send the
// complete inventory next.
func TestLostChangeCausesACompleteInventory(t *testing.T) {
	r := newInventoryRig(t, 64<<10)
	r.setPackages(map[string]int{"base": 1})
	r.openSession()
	r.x.collectIfDue(t.Context())
	r.deliverSpooled(true)
	r.bootMs += 60_000
	r.setPackages(map[string]int{"base": 2})
	r.x.collectIfDue(t.Context())
	r.x.agent.spool.EndSession()
	for range 100 {
		testenv.NoError(t, r.x.agent.spool.Append(&wire.Signal{Kind: wire.SignalResult, AtMs: r.bootMs, Body: make([]byte, 1000)}, false))
	}
	if r.x.agent.spool.Stats().EvictedInventories == 0 {
		t.Fatal("the change is not lost")
	}
	r.openSession()
	r.bootMs += 60_000
	r.x.collectIfDue(t.Context())
	r.deliverSpooled(true)
	if got, _ := r.view.Inventory(7); len(got.Entries) != 1 || got.Entries[0].Field(1) != "2" || r.complete != 2 {
		t.Errorf("%q after %d complete inventories", got.Entries, r.complete)
	}
}
