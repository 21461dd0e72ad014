package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/probe"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// serverClock relates the server's clock to this machine's boot clock as of the last Welcome, so that a
// jump of the wall clock shows at once. The zero value knows no server.
type serverClock struct {
	welcome atomic.Pointer[struct{ serverMs, bootMs int64 }]
	warned  atomic.Bool // the log has reported the offset
}

func (c *serverClock) set(serverMs int64, bootMs uint64) {
	c.welcome.Store(&struct{ serverMs, bootMs int64 }{serverMs, int64(bootMs)})
}

// ServerOffset returns this machine's clock minus the server's; ok is false before the first session.
func (a *Agent) ServerOffset() (offset time.Duration, ok bool) {
	w := a.clock.welcome.Load()
	if w == nil {
		return 0, false
	}
	server := w.serverMs + int64(a.cfg.Machine.BootMs()) - w.bootMs
	return time.Duration(a.cfg.Machine.Now().UnixMilli()-server) * time.Millisecond, true
}

// serverTime returns the time by the server's clock, or by this machine's before the first session.
func (a *Agent) serverTime() time.Time {
	offset, _ := a.ServerOffset()
	return a.cfg.Machine.Now().Add(-offset)
}

// maxClockOffset is the offset above which the log warns.
const maxClockOffset = 5 * time.Second

// logClockOffset warns when the clock is off the server's, and reports its return. Only cron checks
// and the times that people read depend on it.
func (a *Agent) logClockOffset() {
	offset, ok := a.ServerOffset()
	off := ok && offset.Abs() > maxClockOffset
	switch warned := a.clock.warned.Swap(off); {
	case off && !warned:
		a.cfg.Log.Warn("this machine's clock differs from the server's", "ahead", offset.Round(time.Millisecond), "hint", "synchronise it here: timedatectl set-ntp true")
	case warned && !off:
		a.cfg.Log.Info("this machine's clock agrees with the server's again", "ahead", offset)
	}
}

// linkConfig returns the settings of the link.
func (a *Agent) linkConfig(id *pki.Identity, assignment *link.Assignment) link.RunConfig {
	servers := a.cfg.Servers
	if len(servers) == 0 {
		servers = id.Servers
	}
	return link.RunConfig{
		Config: link.Config{
			Node: id.Node, ServerKey: id.ServerKey, Dial: a.cfg.Dial, Chunk: a.units.decode,
			BootMs: a.cfg.Machine.BootMs, Now: a.cfg.Machine.Now, Log: a.cfg.Log,
		},
		Servers: servers, SavedServers: a.session.Servers, TLS: a.credentials.tls.Load, RetryNow: a.retryNow, Linger: a.cfg.Linger,
		Assignment: assignment, Hello: a.composeHello, Facts: a.currentFacts, FactsChanged: a.facts.changed, Stats: a.stats,
		RunOutputs: &a.requests, Requests: a.secrets,
	}
}

// composeHello returns the agent's Hello; the link adds the fields of the session.
func (a *Agent) composeHello() wire.Hello {
	return wire.Hello{
		Name: a.cfg.Name, MachineID: a.cfg.Machine.ID, BootID: a.cfg.Machine.Boot, Version: a.cfg.Version,
		OS: runtime.GOOS, Arch: runtime.GOARCH, Incarnation: a.session.Incarnation, Labels: a.cfg.Labels,
		Facts: a.facts.current(), Groups: a.cfg.Groups, ClockUnixMs: a.cfg.Machine.Now().UnixMilli(),
		Restrictions: a.cfg.restrictions(), Features: a.units.features(),
	}
}

// currentFacts returns the facts that a session must know. The maps are shared and never changed.
func (a *Agent) currentFacts() wire.Facts {
	return wire.Facts{Labels: a.cfg.Labels, Facts: a.facts.current(), Groups: a.cfg.Groups}
}

// counters returns the agent's counters for its probe "agent".
func (a *Agent) counters() probe.Self {
	plan, spool := a.checks.scheduler.Stats(), a.spool.Stats()
	return probe.Self{
		Waiting: spool.Held, SpoolBytes: spool.Bytes, SpoolMost: spool.Most, Blocked: spool.Blocked,
		Evicted: spool.Evicted, Refused: spool.Refused, Lost: a.checks.lostResults.Load(),
		Runs: plan.Started, Skipped: plan.Skipped, Late: plan.Late, Forks: a.checks.runner.Forks(),
	}
}

// stats returns the agent's counters as a message for the server.
func (a *Agent) stats() wire.Stats {
	self := a.counters()
	x := wire.Stats{
		UptimeMs: a.cfg.Machine.BootMs() - a.started, Spooled: self.Waiting, SpoolBytes: uint64(self.SpoolBytes),
		Runs: self.Runs, Forks: self.Forks, Skipped: self.Skipped, Late: self.Late,
		Evicted: self.Evicted, Refused: self.Refused, Lost: self.Lost, ResidentBytes: residentBytes(),
	}
	for _, stream := range a.spool.Streams() {
		x.OldestMs = max(x.OldestMs, stream.OldestAgeMs)
	}
	return x
}

// events implements link.Events for the agent. The link calls it from one goroutine at a time.
type events Agent

// Connected implements link.Events.
func (e *events) Connected(server string, w *wire.Welcome) {
	a := (*Agent)(e)
	a.clock.set(w.ServerUnixMs, a.cfg.Machine.BootMs())
	a.checks.maxOutput.Store(int64(w.MaxOutput))
	name := strings.Clone(w.Name)
	a.name.Store(&name)
	a.connected.Store(true)
	a.secrets.Connected(w.Features)
	a.checks.assets.RetryNow()
	a.units.resume()
	now := session{Incarnation: w.Incarnation, Servers: slices.Clone(w.Servers), Own: a.cfg.Servers}
	if now.Incarnation != a.session.Incarnation || !slices.Equal(now.Servers, a.session.Servers) || !slices.Equal(now.Own, a.session.Own) {
		if !slices.Equal(now.Servers, a.session.Servers) {
			a.cfg.Log.Info("the server has sent a list of servers; the agent tries them before those of its settings", "servers", now.Servers)
		}
		a.session = now
		if err := saveSession(a.cfg.StateDir, now); err != nil {
			a.cfg.Log.Error("save the session's servers", "err", err)
		}
	}
	a.cfg.State(Connected + " to " + server + " as " + w.Name)
	known := slices.Concat([]string{server}, now.Servers, a.cfg.Servers, a.credentials.id.Load().Servers)
	a.credentials.servers.Store(&known)
	a.cfg.Log.Info("connected", "server", server, "name", w.Name)
}

// Disconnected implements link.Events.
func (e *events) Disconnected(server string, err error) {
	a := (*Agent)(e)
	if a.connected.Swap(false) {
		a.spool.Offline()
	}
	a.requests.abandonRuns()
	a.secrets.Disconnected()
	a.cfg.State("no session with " + server + ": " + joinLines(err))
	a.cfg.Log.Warn("no session", "server", server, "err", err)
	a.credentials.checkRefusal(err)
	var refused *link.RefusedError
	if !errors.As(err, &refused) {
		return
	}
	if refused.Code == "forgotten" && a.cfg.Token != "" {
		a.forgotten.Store(true)
		a.stop()
	}
	if slices.Contains(suspendingCodes, refused.Code) {
		a.units.suspend(refused.Code)
	}
}

// Assigned implements link.Events.
func (e *events) Assigned(_ *link.Session, assignment *link.Assignment) {
	a := (*Agent)(e)
	if err := disk.WriteFile(disk.OS{}, a.cfg.StateDir, assignmentFile, encodeAssignment(assignment)); err != nil {
		a.cfg.Log.Error("save the assignment for the next start", "err", err)
	}
	if err := a.units.apply(assignment); err != nil {
		a.cfg.Log.Error("apply the assignment", "err", err)
		return
	}
	a.cfg.Log.Info("assignment in force", "checks", len(assignment.Chunks), "revision", assignment.Generation.Revision)
}

// These methods of link.Events pass requests and replies on.
func (e *events) Turn(_ *link.Session, t *wire.Turn)      { (*Agent)(e).checks.runTurn(t) }
func (e *events) Reply(_ *link.Session, x *wire.Exchange) { (*Agent)(e).secrets.Reply(x) }
func (e *events) RunNow(_ *link.Session, r *wire.Run)     { (*Agent)(e).requests.request(r) }

// part runs the units of one kind of chunk. units calls it with its lock held, one call at a time.
type part interface {
	// apply puts the chunks of the part's kind in force and ends all others. a has the properties.
	apply(a *link.Assignment, chunks []*model.Chunk) error
	// suspend runs nothing until the next apply.
	suspend()
}

// units puts assignments in force. Its table parts has the kinds of chunks that this agent runs: it decides
// the features in Hello, the refused chunks and the part that runs the others.
type units struct {
	parts map[model.ChunkKind]part
	log   *slog.Logger

	mu        sync.Mutex
	current   *link.Assignment // in force, or suspended; nil: none yet
	suspended bool             // the server has no place for this machine
}

// features lists the kinds of chunks in the table, for Hello.Features.
func (u *units) features() (list []string) {
	for _, kind := range slices.Sorted(maps.Keys(u.parts)) {
		list = append(list, wire.ChunkFeature(kind))
	}
	return list
}

// decode reads one chunk. An error refuses only this chunk: it is malformed, or no part runs its kind.
func (u *units) decode(id model.ChunkID, data []byte) (*model.Chunk, error) {
	chunk, err := wire.DecodeChunk(id, data)
	if err == nil && u.parts[chunk.Kind] == nil {
		return nil, fmt.Errorf("this agent does not support chunks of kind %d", chunk.Kind)
	}
	return chunk, err
}

// apply puts an assignment in force. An error of one part leaves the others running.
func (u *units) apply(a *link.Assignment) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.current, u.suspended = a, false
	return u.applyLocked()
}

func (u *units) applyLocked() (err error) {
	byKind := map[model.ChunkKind][]*model.Chunk{}
	for _, chunk := range u.current.Chunks {
		byKind[chunk.Kind] = append(byKind[chunk.Kind], chunk)
	}
	for kind, part := range u.parts {
		err = errors.Join(err, part.apply(u.current, byKind[kind]))
	}
	return err
}

// suspendingCodes are the refusals that stop all checks of the machine: no server accepts its results, and a clone would
// run every check twice. An unknown node continues, because its server may run on an older copy of its data.
var suspendingCodes = []string{"retired", "deleted", "replaced", "refused", "clone"}

// suspend runs nothing until resume or the next assignment. code is the server's refusal.
func (u *units) suspend(code string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.suspended {
		return
	}
	u.suspended = true
	u.log.Warn("checks are suspended until the server accepts this machine again", "code", code)
	for _, part := range u.parts {
		part.suspend()
	}
}

// resume puts the suspended assignment in force again.
func (u *units) resume() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.suspended {
		return
	}
	if u.suspended = false; u.current == nil {
		return
	}
	if err := u.applyLocked(); err != nil {
		u.log.Error("apply the suspended assignment", "err", err)
	}
}

const (
	factsEvery     = time.Minute // default period of measuring, jittered by a quarter
	resolveEvery   = time.Hour   // period of asking the resolver for the machine's full name
	resolveTimeout = 5 * time.Second
)

// factWatch measures the machine's facts again and again.
type factWatch struct {
	measured atomic.Pointer[map[string]string] // the map is never changed
	changed  chan struct{}                     // capacity 1: the facts differ from before
}

// current returns the facts of the last measurement. The map must not be changed.
func (f *factWatch) current() map[string]string { return *f.measured.Load() }

// measure stores the present facts and returns whether they differ from the last ones.
func (f *factWatch) measure(m *Machine) bool {
	now := m.Facts()
	before := f.measured.Swap(&now)
	return before == nil || !maps.Equal(*before, now)
}

// watch measures until ctx ends and wakes the link when facts change. It asks the resolver at the
// start and then once an hour: no other goroutine waits for DNS.
func (f *factWatch) watch(ctx context.Context, cfg *Config) {
	m, every := &cfg.Machine, cfg.FactsEvery
	var nextResolve uint64 // boot clock, ms
	for {
		if now := m.BootMs(); m.Resolve != nil && now >= nextResolve {
			nextResolve = now + uint64(resolveEvery.Milliseconds())
			limited, cancel := context.WithTimeout(ctx, resolveTimeout)
			m.Resolve(limited)
			cancel()
		}
		if f.measure(m) {
			pause.Wake(f.changed)
		}
		if pause.For(ctx, every-every/4+rand.N(every/2+1)) != nil {
			return
		}
	}
}
