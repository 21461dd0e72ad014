package agent

import (
	"cmp"
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	collector "github.com/muster-fleet/muster/internal/agent/inventory"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

// inventoryEvery is the period of collecting the inventory; a change of packages, accounts or services is collected at the next look.
const inventoryEvery = 4 * time.Hour

// inventoryCollector collects the machine's inventory and appends each change to the spool. The next change is sent only
// after the server has acknowledged the previous one.
type inventoryCollector struct {
	agent   *Agent
	wake    chan struct{}             // capacity 1: a session is open, or the server asks for the inventory
	machine func() *collector.Machine // with the present facts

	// Of the goroutine that collects.
	base        []inventory.Entry // inventory of the server as soon as the spool holds no change
	baseKnown   bool
	before      uint64 // sum of the inventory before the last change
	server      uint64 // sum of the server's inventory, if the base is not known; zero: not known either
	spoolLosses uint64 // changes that the spool had lost
	stamp       string // files at the last collection
	collected   uint64 // boot clock of the last collection, ms
	warned      map[string]bool

	mu        sync.Mutex
	requested bool    // the server asks for the inventory now
	welcome   *uint64 // sum of the server's inventory at the start of a new session; nil: seen
	offered   bool    // the server of the session keeps inventories
}

// sessionStarted stores the inventory checksum and the features from Welcome, the server's first message of a
// session. It also stores the checksum of the server's copy of the inventory.
func (x *inventoryCollector) sessionStarted(w *wire.Welcome) {
	x.mu.Lock()
	sum := w.Inventory
	x.welcome, x.offered = &sum, slices.Contains(w.Features, wire.FeatureInventory)
	x.mu.Unlock()
	pause.Wake(x.wake)
}

// collectNow makes the collecting goroutine collect the inventory immediately, as the server has requested.
func (x *inventoryCollector) collectNow() {
	x.mu.Lock()
	x.requested = true
	x.mu.Unlock()
	pause.Wake(x.wake)
}

// collectPeriodically collects the inventory periodically until ctx ends. A request of the server or a change
// of files also starts a collection. The first time lies within Config.FirstWithin.
func (x *inventoryCollector) collectPeriodically(ctx context.Context) {
	if pause.For(ctx, rand.N(x.agent.checks.maxFirstDelay())) != nil {
		return
	}
	every := x.agent.cfg.FactsEvery
	for {
		x.collectIfDue(ctx)
		timer := time.NewTimer(every - every/4 + rand.N(every/2+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-x.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// collectIfDue collects the inventory if a collection is due, and sends the changes to the server. A collection is
// also due after a request or a probable change.
func (x *inventoryCollector) collectIfDue(ctx context.Context) {
	x.mu.Lock()
	offered, asked, welcome := x.offered, x.requested, x.welcome
	x.welcome = nil
	x.mu.Unlock()
	waiting := x.agent.spool.HasUnacked(wire.SignalInventory)
	if welcome != nil {
		x.compareChecksum(*welcome, waiting)
	}
	if lost := x.agent.spool.Stats().EvictedInventories; lost != x.spoolLosses {
		x.base, x.baseKnown, x.server, x.spoolLosses = nil, false, 0, lost
	}
	if !offered || waiting {
		return
	}
	m := x.machine()
	stamp, now := m.ChangeStamp(), x.agent.cfg.Machine.BootMs()
	if x.baseKnown && !asked && stamp == x.stamp && now-x.collected < uint64(inventoryEvery.Milliseconds()) {
		return
	}
	entries := m.Collect(ctx)
	if ctx.Err() != nil {
		return
	}
	x.stamp, x.collected = stamp, now
	x.mu.Lock()
	x.requested = x.requested && !asked
	x.mu.Unlock()
	if !x.baseKnown && x.server != 0 && inventory.Sum(entries) == x.server {
		x.base, x.baseKnown = entries, true // the server has it since before the agent's start
	}
	x.spoolChanges(entries)
}

// compareChecksum compares the server's checksum of the inventory with the checksum of the agent's copy. If they differ,
// the next change contains the complete inventory.
func (x *inventoryCollector) compareChecksum(server uint64, waiting bool) {
	if sum := inventory.Sum(x.base); x.baseKnown && (server == sum || waiting && server == x.before) {
		return
	}
	x.base, x.baseKnown, x.server = nil, false, server
	if waiting {
		x.server = 0 // the change that waits makes another one of it
	}
}

// spoolChanges appends the changes of the inventory to the spool, as messages of limited size. The changes are the difference
// between the server's inventory and the collected entries.
func (x *inventoryCollector) spoolChanges(entries []inventory.Entry) {
	added, removed := inventory.Difference(x.base, entries)
	signal := wire.Inventory{Complete: !x.baseKnown, Base: inventory.Sum(x.base)}
	signal.Sum, x.before = signal.Base, cmp.Or(signal.Base, x.server)
	size, left := 0, len(added)+len(removed)
	flush := func() {
		err := x.agent.spool.Append(&wire.Signal{Kind: wire.SignalInventory, AtMs: x.agent.cfg.Machine.BootMs(), Body: wire.AppendInventory(nil, &signal)}, false)
		if err != nil {
			x.agent.cfg.Log.Error("lost a change of the inventory: the spool refused it", "err", err)
		}
		signal, size = wire.Inventory{Base: signal.Sum, Sum: signal.Sum}, 0
	}
	for i, e := range slices.Concat(removed, added) {
		if i < len(removed) {
			signal.Removed, signal.Sum = append(signal.Removed, e.Wire()), signal.Sum-e.Hash()
		} else {
			signal.Added, signal.Sum = append(signal.Added, e.Wire()), signal.Sum+e.Hash()
		}
		left--
		if size += len(e); size >= inventory.MaxSignal && left > 0 {
			flush()
		}
	}
	if len(signal.Added)+len(signal.Removed) > 0 {
		flush()
	}
	x.base, x.baseKnown = entries, true
}

// warnOnce logs a fault in the collection of the inventory, but the same text only once.
func (x *inventoryCollector) warnOnce(message string) {
	if !x.warned[message] && len(x.warned) < 100 {
		x.warned[message] = true
		x.agent.cfg.Log.Warn(message)
	}
}

// newInventoryCollector returns the collector for the software and hardware inventory of an agent's machine. No list of
// allowed programs applies to scripts: the operator of the machine installed them.
func newInventoryCollector(a *Agent) *inventoryCollector {
	c := &a.cfg.Commands
	folder, err := filepath.Abs(c.InventoryDir) // scripts run in another folder
	if err != nil {
		folder = c.InventoryDir
	}
	runner := &run.Runner{Nice: c.Nice, Guard: c.Guard, Node: func() string { return *a.name.Load() }}
	x := &inventoryCollector{agent: a, wake: make(chan struct{}, 1), warned: map[string]bool{}}
	x.machine = func() *collector.Machine {
		return collector.Local(a.facts.lastMeasured(), runner, folder, x.warnOnce)
	}
	return x
}
