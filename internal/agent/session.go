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
	"github.com/muster-fleet/muster/internal/agent/secrets"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// serverClock computes the server's present time from the local boot clock. The start of the session supplied the
// server's time. The zero value knows no server.
type serverClock struct {
	welcome atomic.Pointer[struct{ serverMs, bootMs int64 }]
	warned  atomic.Bool // the log has reported the offset
}

// setTimes stores the server's time and the local boot clock at the start of a session.
func (c *serverClock) setTimes(serverMs int64, bootMs uint64) {
	c.welcome.Store(&struct{ serverMs, bootMs int64 }{serverMs, int64(bootMs)})
}

// ServerOffset returns the local clock minus the server's clock. ok is false before the first session.
func (a *Agent) ServerOffset() (offset time.Duration, ok bool) {
	w := a.clock.welcome.Load()
	if w == nil {
		return 0, false
	}
	server := w.serverMs + int64(a.cfg.Machine.BootMs()) - w.bootMs
	return time.Duration(a.cfg.Machine.Now().UnixMilli()-server) * time.Millisecond, true
}

// serverTime returns the present time by the server's clock. Before the first session it returns the local time.
func (a *Agent) serverTime() time.Time {
	offset, _ := a.ServerOffset()
	return a.cfg.Machine.Now().Add(-offset)
}

// logClockOffset warns when the local clock differs from the server's clock. It also logs when the clocks agree again.
// Only cron checks and the times that people read depend on it.
func (a *Agent) logClockOffset() {
	offset, ok := a.ServerOffset()
	off := ok && offset.Abs() > probe.MaxClockOffset
	switch warned := a.clock.warned.Swap(off); {
	case off && !warned:
		a.cfg.Log.Warn("this machine's clock differs from the server's", "ahead", offset.Round(time.Millisecond), "hint", "synchronize the clock of this machine: timedatectl set-ntp true")
	case warned && !off:
		a.cfg.Log.Info("this machine's clock agrees with the server's again", "ahead", offset)
	}
}

// linkConfig returns the settings of the agent's sessions with the server.
func (a *Agent) linkConfig(id *pki.Identity, assignment *link.Assignment) link.RunConfig {
	servers := a.cfg.Servers
	if len(servers) == 0 {
		servers = id.Servers
	}
	return link.RunConfig{
		Config: link.Config{
			Node: id.Node, ServerKey: id.ServerKey, Dial: a.cfg.Dial, Definition: a.units.supportedDefinition,
			BootMs: a.cfg.Machine.BootMs, Now: a.cfg.Machine.Now, Log: a.cfg.Log,
		},
		Servers: servers, SavedServers: a.lastSession.Servers, TLS: a.credentials.tls.Load, RetryNow: a.retryNow, Linger: a.cfg.Linger,
		Assignment: assignment, Hello: a.composeHello, Facts: a.currentFacts, FactsChanged: a.facts.changed, Stats: a.statsMessage,
		RunOutputs: &a.requests, Requests: a.secrets,
	}
}

// composeHello returns Hello, the first message of a session. Package link sets the remaining fields.
func (a *Agent) composeHello() wire.Hello {
	return wire.Hello{
		Name: a.cfg.Name, MachineID: a.cfg.Machine.ID, BootID: a.cfg.Machine.Boot, Version: a.cfg.Version,
		OS: runtime.GOOS, Arch: runtime.GOARCH, Incarnation: a.lastSession.Incarnation, Labels: a.cfg.Labels,
		Facts: a.facts.lastMeasured(), Groups: a.cfg.Groups, ClockUnixMs: a.cfg.Machine.Now().UnixMilli(),
		Restrictions: a.cfg.restrictions(), Features: a.units.definitionFeatures(),
	}
}

// currentFacts returns the facts, labels and groups that a session sends to the server. The maps are shared and never
// changed.
func (a *Agent) currentFacts() wire.Facts {
	return wire.Facts{Labels: a.cfg.Labels, Facts: a.facts.lastMeasured(), Groups: a.cfg.Groups}
}

// probeCounters returns the counters for the built-in probe "agent", such as the spool's size.
func (a *Agent) probeCounters() probe.AgentCounters {
	plan, spool := a.checks.scheduler.Stats(), a.spool.Stats()
	return probe.AgentCounters{
		Unacknowledged: spool.Unacknowledged, SpoolBytes: spool.Bytes, SpoolMost: spool.Most, Blocked: spool.Blocked,
		Evicted: spool.Evicted, Refused: spool.Refused, Lost: a.checks.lostResults.Load(),
		Runs: plan.Started, Skipped: plan.Skipped, Late: plan.Late, Forks: a.checks.runner.StartedCommands(),
	}
}

// statsMessage returns the agent's counters as the message Stats to the server.
func (a *Agent) statsMessage() wire.Stats {
	self := a.probeCounters()
	x := wire.Stats{
		UptimeMs: a.cfg.Machine.BootMs() - a.started, Spooled: self.Unacknowledged, SpoolBytes: uint64(self.SpoolBytes),
		Runs: self.Runs, Forks: self.Forks, Skipped: self.Skipped, Late: self.Late,
		Evicted: self.Evicted, Refused: self.Refused, Lost: self.Lost, ResidentBytes: residentBytes(),
	}
	for _, stream := range a.spool.Streams() {
		x.OldestMs = max(x.OldestMs, stream.OldestAgeMs)
	}
	return x
}

// linkEvents receives notices of the agent's session with the server, such as connection, loss and new
// assignments. Such events are a new session, its end, or a new assignment. The link calls it from one
// goroutine at a time.
type linkEvents Agent

// Connected records the start of a session. It stores the server's time and the node's name, and resumes the checks.
func (e *linkEvents) Connected(server string, w *wire.Welcome) {
	a := (*Agent)(e)
	a.clock.setTimes(w.ServerUnixMs, a.cfg.Machine.BootMs())
	a.checks.maxOutput.Store(int64(w.MaxOutput))
	name := strings.Clone(w.Name)
	a.name.Store(&name)
	a.connected.Store(true)
	a.secrets.Connected(slices.Contains(w.Features, wire.FeatureSecrets))
	a.checks.assets.RetryNow()
	a.units.resumeChecks()
	a.inventories.sessionStarted(w)
	a.directives.reported.removeAll()
	if a.directives.oneShots.forgetReports() {
		a.units.reapply(model.DefinitionDirective)
	}
	now := savedSession{Incarnation: w.Incarnation, Servers: slices.Clone(w.Servers), ConfiguredServers: a.cfg.Servers}
	if now.Incarnation != a.lastSession.Incarnation || !slices.Equal(now.Servers, a.lastSession.Servers) || !slices.Equal(now.ConfiguredServers, a.lastSession.ConfiguredServers) {
		if !slices.Equal(now.Servers, a.lastSession.Servers) {
			a.cfg.Log.Info("the server sent a list of servers; the agent tries these before the servers of its settings", "servers", now.Servers)
		}
		a.lastSession = now
		if err := storeSavedSession(a.cfg.StateDir, now); err != nil {
			a.cfg.Log.Error("save the session's servers", "err", err)
		}
	}
	a.cfg.State(Connected + " to " + server + " as " + w.Name)
	known := slices.Concat([]string{server}, now.Servers, a.cfg.Servers, a.credentials.id.Load().Servers)
	a.credentials.servers.Store(&known)
	a.cfg.Log.Info("connected", "server", server, "name", w.Name)
}

// Disconnected records the end of a session or of a failed attempt to connect. It also handles a refusal by the
// server.
func (e *linkEvents) Disconnected(server string, err error) {
	a := (*Agent)(e)
	if a.connected.Swap(false) {
		a.spool.EndSession()
	}
	a.requests.abandonRuns()
	a.secrets.Disconnected()
	a.cfg.State("no session with " + server + ": " + errorOnOneLine(err))
	a.cfg.Log.Warn("no session", "server", server, "err", err)
	a.credentials.checkRefusal(err)
	var refused *link.RefusedError
	if !errors.As(err, &refused) {
		return
	}
	if refused.Code == "forgotten" && a.cfg.Token != "" {
		a.nodeDeleted.Store(true)
		a.stop()
	}
	if slices.Contains(suspendingCodes, refused.Code) {
		a.units.suspendChecks(refused.Code)
	}
}

// Assigned saves a new assignment (list of checks) in the state folder and starts its checks.
func (e *linkEvents) Assigned(_ *link.Session, assignment *link.Assignment) {
	a := (*Agent)(e)
	if err := disk.WriteFile(disk.OS{}, a.cfg.StateDir, assignmentFile, encodeAssignment(assignment)); err != nil {
		a.cfg.Log.Error("save the assignment for the next start", "err", err)
	}
	if err := a.units.applyAssignment(assignment); err != nil {
		a.cfg.Log.Error("apply the assignment", "err", err)
		return
	}
	a.cfg.Log.Info("applied the assignment", "checks", len(assignment.Definitions), "revision", assignment.Generation.Revision)
}

// RoundRobinRuns runs the round-robin checks that the server gives to the local node in one interval.
func (e *linkEvents) RoundRobinRuns(_ *link.Session, t *wire.RoundRobinRuns) {
	(*Agent)(e).checks.runRoundRobin(t)
}

// Reply passes the server's answer to the part of the agent that had asked for secrets.
func (e *linkEvents) Reply(_ *link.Session, x *wire.Exchange) { (*Agent)(e).secrets.Reply(x) }

// RunNow starts or cancels a run of a check or command, as the server requests.
func (e *linkEvents) RunNow(_ *link.Session, r *wire.Run) { (*Agent)(e).requests.handleRequest(r) }

// definitionRunner runs all assigned definitions of one kind, such as the compiled checks. assignedDefinitions makes
// one call at a time, with its lock held.
type definitionRunner interface {
	// applyDefinitions puts the definitions of the runner's kind in force and ends all other units. a has the node's
	// properties.
	applyDefinitions(a *link.Assignment, definitions []*model.Definition) error
	// suspendDefinitions runs no unit until the next applyDefinitions.
	suspendDefinitions()
}

// assignedDefinitions has the agent's current assignment (checks and Templates), and passes each definition to the
// right runner. A definition is a compiled check, Template or directive. Each kind has its own runner. The table
// runners has the kinds of definitions that this agent runs: the table decides the features in Hello, the refused
// definitions and the definitionRunner of each other definition.
type assignedDefinitions struct {
	runners map[model.DefinitionKind]definitionRunner
	secrets *secrets.Resolver
	log     *slog.Logger

	mu        sync.Mutex
	current   *link.Assignment // in force, or suspended; nil: none yet
	suspended bool             // the server refused this machine
}

// definitionFeatures lists the kinds of definitions (compiled checks, Templates) that the agent can run. The message
// Hello carries the list as features.
func (u *assignedDefinitions) definitionFeatures() (list []string) {
	for _, kind := range slices.Sorted(maps.Keys(u.runners)) {
		list = append(list, wire.DefinitionFeature(kind))
	}
	return list
}

// supportedDefinition decodes one definition (a compiled check or Template). It returns an error if this agent cannot
// run the definition. An error refuses only this definition: it is malformed, or no definitionRunner runs its kind.
func (u *assignedDefinitions) supportedDefinition(id model.DefinitionID, data []byte) (*model.Definition, error) {
	definition, err := wire.DecodeDefinition(id, data)
	if err == nil && u.runners[definition.Kind] == nil {
		return nil, fmt.Errorf("this agent does not support definitions of kind %d: update the agent", definition.Kind)
	}
	return definition, err
}

// applyAssignment stops the running checks and starts the checks of a new assignment (list of checks). An error of one
// definitionRunner leaves the units of the others running.
func (u *assignedDefinitions) applyAssignment(a *link.Assignment) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.current, u.suspended = a, false
	return u.applyCurrentLocked()
}

// applyCurrentLocked starts the checks of the current assignment. The caller must hold the lock.
func (u *assignedDefinitions) applyCurrentLocked() (err error) {
	byKind := map[model.DefinitionKind][]*model.Definition{}
	for _, definition := range u.current.Definitions {
		byKind[definition.Kind] = append(byKind[definition.Kind], definition)
	}
	for kind, part := range u.runners {
		err = errors.Join(err, part.applyDefinitions(u.current, byKind[kind]))
	}
	u.secrets.RemoveUnused(u.current.Definitions)
	return err
}

// reapply starts the current definitions of one kind again, such as all checks.
func (u *assignedDefinitions) reapply(kind model.DefinitionKind) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current == nil || u.suspended {
		return
	}
	of := slices.DeleteFunc(slices.Clone(u.current.Definitions), func(c *model.Definition) bool { return c.Kind != kind })
	if err := u.runners[kind].applyDefinitions(u.current, of); err != nil {
		u.log.Error("apply the assignment again", "err", err)
	}
}

// suspendingCodes are the refusals that stop all checks of the machine: no server accepts its results, and
// a clone would run every check twice. An unknown node continues, because its server may run on an older
// copy of its data.
var suspendingCodes = []string{"retired", "deleted", "replaced", "refused", "clone"}

// suspendChecks stops all checks while the server refuses the machine. A new assignment or a new session ends the
// suspension. code is the server's refusal.
func (u *assignedDefinitions) suspendChecks(code string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.suspended {
		return
	}
	u.suspended = true
	u.log.Warn("the agent runs no checks until the server accepts this machine again", "code", code)
	for _, part := range u.runners {
		part.suspendDefinitions()
	}
}

// resumeChecks restarts all checks of the node, which suspendChecks has stopped.
func (u *assignedDefinitions) resumeChecks() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.suspended {
		return
	}
	if u.suspended = false; u.current == nil {
		return
	}
	if err := u.applyCurrentLocked(); err != nil {
		u.log.Error("apply the suspended assignment", "err", err)
	}
}

const (
	factsEvery     = time.Minute // default period of measuring, jittered by a quarter
	resolveEvery   = time.Hour   // period of asking the resolver for the machine's full name
	resolveTimeout = 5 * time.Second
)

// factWatcher measures the machine's facts periodically and reports changes.
type factWatcher struct {
	measured atomic.Pointer[map[string]string] // the map is never changed
	changed  chan struct{}                     // capacity 1: the facts differ from before
}

// lastMeasured returns the machine's facts as of the last measurement. The map must not be changed.
func (f *factWatcher) lastMeasured() map[string]string { return *f.measured.Load() }

// measureFacts measures the machine's facts and reports whether the facts have changed.
func (f *factWatcher) measureFacts(m *Machine) bool {
	now := m.Facts()
	before := f.measured.Swap(&now)
	return before == nil || !maps.Equal(*before, now)
}

// watchFacts measures the machine's facts periodically until ctx ends. A change wakes the session, which sends the
// facts. It asks the resolver at the start and then once an hour: no other goroutine waits for DNS.
func (f *factWatcher) watchFacts(ctx context.Context, cfg *Config) {
	m, every := &cfg.Machine, cfg.FactsEvery
	var nextResolve uint64 // boot clock, ms
	for {
		if now := m.BootMs(); m.Resolve != nil && now >= nextResolve {
			nextResolve = now + uint64(resolveEvery.Milliseconds())
			limited, cancel := context.WithTimeout(ctx, resolveTimeout)
			m.Resolve(limited)
			cancel()
		}
		if f.measureFacts(m) {
			pause.Wake(f.changed)
		}
		if pause.For(ctx, every-every/4+rand.N(every/2+1)) != nil {
			return
		}
	}
}
