package play

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/people"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options configure the agents of one process and their server.
type Options struct {
	Scenario *scenario.Scenario
	Members  []simulated.Member // machines of the scenario
	Part     Part               // of the members that this process plays; zero: all

	Server    string // host:port of the agents' listener without TLS
	ServerTLS string // that of classes with TLS; empty: Server
	// TLS makes the configuration of one agent's connection; nil: no class has TLS, and no agent signs.
	TLS     func(uid uuid.UUID) (*tls.Config, error)
	API     *client.Client // nil: there is no login
	Control Control        // the server's process, for faults; nil: it is not the run's own

	Spool    int // bytes that an agent keeps unacknowledged; more results are dropped and counted
	Parallel int // connections being opened at once
	Senders  int // goroutines that play the timetable
	Sources  int // loopback addresses to connect from

	Facts     func(i int) map[string]string // of agent i's machine now, read every few seconds; nil: none
	Generate  outputs.Generator             // what results say; nil: what the scenario says
	CheckName func(i int) string            // name of each class's check i; nil: as simulated.Resources names it
	Log       *slog.Logger
}

// Follows reports whether another process leads the run.
func (o *Options) Follows() bool { return o.Part.Number > 0 }

// Fleet holds the simulated agents of one process and their common state: it is the driver of runs against Muster.
type Fleet struct {
	*clock.Clock
	cfg Options

	// Renamed tells the process that plays a member the new name of its node. The caller sets it, and Changes, before Open.
	Renamed func(member int, name string)
	Changes *people.Changes // of intent; nil: it stays
	// Connect opens a session of an agent with the server at an address. NewFleet sets it to link.Open.
	Connect func(ctx context.Context, cfg *link.Config, addr string, hello *wire.Hello, assigned *link.Assignment, a Agent) (Session, error)

	Values     *plan.Plan       // nil: no class sends values
	Directives *plan.Directives // nil: no class sends runs of directives

	classes []*class
	states  uint64   // of all members
	agents  []*agent // all that this process plays
	seats   []*agent // by member; nil: another process plays it
	senders []*sender
	storms  bool        // some phase speeds alerts up
	unit    report.Unit // of what agents send, if they send nothing but values, or nothing but runs of directives

	bootID  string
	frames  sync.Pool // *frame
	scratch sync.Pool // *[]byte, for outputs and for frames as they are sent
	notes   notes
	sessions
	records
}

// sessions counts the sessions of all agents.
type sessions struct {
	opening   chan struct{} // one token per connection being opened
	connected atomic.Int64  // sessions now
	accounted atomic.Int64  // agents that have a session, or whose session the scenario ended
	first     atomic.Int64  // agents welcomed at least once
	ready     atomic.Int64  // agents that hold all their checks
	traffic   traffic
}

// records holds what all agents of a process share. Guarded by the lock.
type records struct {
	mu          sync.Mutex
	definitions map[model.DefinitionID]*model.Definition
	renames     renames
}

// NewFleet returns the agents of a scenario whose defaults are filled in. It opens no session.
func NewFleet(clock *clock.Clock, o Options) (*Fleet, error) {
	f := &Fleet{Clock: clock, cfg: o, bootID: uuid.NewString(), unit: report.SoleUnit(o.Scenario), Renamed: func(int, string) {}}
	f.opening = make(chan struct{}, o.Parallel)
	f.records = records{definitions: map[model.DefinitionID]*model.Definition{}, renames: renames{waiting: map[int]bool{}, others: map[int]string{}}}
	f.notes.counts = observe.NewCounts()
	f.frames.New = func() any { return new(frame) }
	f.scratch.New = func() any { b := make([]byte, 0, 4096); return &b }
	f.Connect = func(ctx context.Context, cfg *link.Config, addr string, hello *wire.Hello, assigned *link.Assignment, a Agent) (Session, error) {
		return link.Open(ctx, cfg, addr, hello, assigned, a)
	}
	for _, p := range o.Scenario.Phases {
		f.storms = f.storms || p.Speed(scenario.Alerts) > 1
	}
	var err error
	if f.classes, err = newClasses(&o); err == nil {
		err = f.newSources()
	}
	if err == nil {
		err = f.populate()
	}
	return f, err
}

// populate makes the agents of this process.
func (f *Fleet) populate() error {
	dialers := make([]func(context.Context, string, string) (net.Conn, error), f.cfg.Sources)
	for i := range dialers {
		dialers[i] = f.dialer(i)
	}
	shared := link.NewBufferPools()
	f.seats = make([]*agent, len(f.cfg.Members))
	for i, m := range f.cfg.Members {
		class := f.classes[m.Class]
		base := f.states
		f.states += uint64(class.states)
		if !f.cfg.Part.Owns(i) {
			continue
		}
		a := &agent{fleet: f, class: class, index: m.Number, member: i, base: base, uid: m.UID, name: m.Name, stream: wire.StreamID(rand.Uint64() | 1)}
		c := link.Config{Node: m.UID, Dial: dialers[len(f.agents)%len(dialers)], Definition: f.definition, BootMs: f.boot, Log: f.cfg.Log, Shared: shared}
		if class.tls != nil {
			var err error
			if c.TLS, err = class.tls(m.UID); err != nil {
				return fmt.Errorf("certificate of agent %s: %w", m.Name, err)
			}
		}
		a.cfg = c.Complete()
		f.agents, f.seats[i] = append(f.agents, a), a
	}
	return nil
}

// dialer returns a function that connects from the i-th loopback address, so that there are enough local ports. Each
// process of a joined run uses addresses of its own.
func (f *Fleet) dialer(i int) func(context.Context, string, string) (net.Conn, error) {
	d := &net.Dialer{}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := d
		if strings.HasPrefix(addr, "127.") && (f.cfg.Sources > 1 || f.cfg.Part.Of > 1) {
			d = &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+f.cfg.Part.Number*f.cfg.Sources+i))}}
		}
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return strung(ctx, c), nil
	}
}

// sequence returns the sequence number of a result, unique in the run and the same for the same plan.
func (f *Fleet) sequence(state uint64, cycle uint32) uint64 {
	return uint64(cycle)*f.states + state
}

// bootedBefore is for how long the agents' machines run when the run is made.
const bootedBefore = time.Minute

// boot returns the agents' boot clock, as if all machines had booted some time before the run.
func (f *Fleet) boot() uint64 { return f.bootMs(f.Now()) }

// bootMs converts a time of the run to the agents' boot clock, in ms.
func (f *Fleet) bootMs(ns int64) uint64 { return uint64((ns + int64(bootedBefore)) / 1e6) }

// definition decodes a definition, once for all agents.
func (f *Fleet) definition(id model.DefinitionID, body []byte) (*model.Definition, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.definitions[id]; c != nil && c.Hash == wire.DefinitionHash(body) {
		return c, nil
	}
	c, err := wire.DecodeDefinition(id, body)
	if err == nil {
		f.definitions[id] = c
	}
	return c, err
}

// failed counts an error of opening a session.
func (f *Fleet) failed(a *agent, err error) {
	f.note(func(n *notes) { n.counts.Failures[cause(err)]++ })
	f.cfg.Log.Debug("no session", "agent", a.called(), "error", err)
}

// lost counts an error that ended a session.
func (f *Fleet) lost(a *agent, err error) {
	if err == nil {
		err = errors.New("closed")
	}
	f.note(func(n *notes) { n.counts.Losses[cause(err)]++ })
	f.cfg.Log.Debug("session ended", "agent", a.called(), "error", err)
}

// Evenly calls start for each own agent in a goroutine of all, evenly spread over a duration.
func Evenly(ctx context.Context, all *sync.WaitGroup, o *Options, over time.Duration, start func(i int)) {
	began := time.Now()
	all.Go(func() {
		for i := range o.Part.Share(len(o.Members)) {
			if over > 0 && pause.For(ctx, time.Until(began.Add(over*time.Duration(o.Part.member(i))/time.Duration(len(o.Members))))) != nil {
				return
			}
			all.Go(func() { start(i) })
		}
	})
}

// Open begins to open the sessions of all agents, over a duration, and keeps them open until leave, which closes them as agents
// do at a planned stop.
func (f *Fleet) Open(ctx context.Context, over time.Duration) (leave func()) {
	live, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	Evenly(live, &readers, &f.cfg, over, func(i int) { f.agents[i].live(live, &readers) })
	return func() {
		stop()
		for _, a := range f.agents {
			a.mu.Lock()
			s, l, away := a.session, a.fate.line, a.fate.back != nil
			a.mu.Unlock()
			if away {
				hangUp(s, l)
			} else if s != nil {
				s.Bye("the load run is over")
			}
		}
		readers.Wait()
	}
}

// Ready returns how many agents had a session, and how many hold their checks.
func (f *Fleet) Ready() (connected, ready int) {
	return int(f.first.Load()), int(f.ready.Load())
}

// Stuck returns why agents are not ready that made no progress for some time; nil: they may still become so. ramp is the
// duration over which they connect.
func (f *Fleet) Stuck(idle, ramp time.Duration) error {
	if idle <= time.Minute+2*ramp/time.Duration(len(f.agents)) {
		return nil
	}
	if welcomed := int(f.first.Load()); welcomed < len(f.agents) {
		reason, most := "no answer", uint64(0)
		f.note(func(n *notes) {
			for text, times := range n.counts.Failures {
				if times > most {
					reason, most = text, times
				}
			}
		})
		return model.Errorf(model.Unavailable, "%d of %d agents have a session; the others: %s", welcomed, len(f.agents), reason).
			WithHint(howPrepared)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.classes {
		if x.fewest < len(x.checks) {
			return model.Errorf(model.Invalid, "%d of %d agents hold their checks; of class %s an assignment with %d of %d was seen",
				f.ready.Load(), len(f.agents), x.spec.Name, max(0, x.fewest), len(x.checks)).WithHint(howPrepared)
		}
	}
	return model.Errorf(model.Unavailable, "%d of %d agents hold their checks", f.ready.Load(), len(f.agents))
}

// howPrepared is the hint for a server without the scenario's nodes and checks.
const howPrepared = "muster load prepare with the same scenario and seed, with the server stopped; or leave --server out: the run then has a server of its own"

// Sessions returns the number of open sessions and of failed attempts.
func (f *Fleet) Sessions() (open int, failed uint64) {
	f.note(func(n *notes) {
		for _, times := range n.counts.Failures {
			failed += times
		}
	})
	return int(f.connected.Load()), failed
}

// Away returns how many agents of this process have no session although they should.
func (f *Fleet) Away() int { return max(0, len(f.agents)-int(f.accounted.Load())) }

// Traffic returns the bytes that all agents sent and received.
func (f *Fleet) Traffic() (sent, received int64) {
	return f.traffic.sent.Load(), f.traffic.received.Load()
}

// Deal divides the agents between the senders, and gives each sender a book of its own. Call it before Play.
func (f *Fleet) Deal() {
	shares := make([][]*agent, f.cfg.Senders)
	for i, a := range f.agents {
		shares[i%len(shares)] = append(shares[i%len(shares)], a)
	}
	for _, agents := range shares {
		s := newSender(f, agents)
		for _, a := range agents {
			a.mu.Lock()
			a.book = s.book
			a.mu.Unlock()
		}
		f.senders = append(f.senders, s)
	}
}

// Play plays the timetable to its end.
func (f *Fleet) Play(ctx context.Context) {
	var playing sync.WaitGroup
	for _, s := range f.senders {
		playing.Go(func() { s.play(ctx) })
	}
	playing.Wait()
}

// Rest waits until all signals are acknowledged, at most for a duration.
func (f *Fleet) Rest(ctx context.Context, most time.Duration) {
	deadline := time.Now().Add(most)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		left := 0
		for _, a := range f.agents {
			a.mu.Lock()
			if !a.ledger.Stopped {
				left += len(a.held)
				if a.filling != nil {
					left++
				}
			}
			a.mu.Unlock()
		}
		if left == 0 {
			return
		}
		pause.For(ctx, 20*time.Millisecond)
	}
}

// Counts returns the totals of the agents so far. Sessions stay open until the report, so later totals may be larger.
func (f *Fleet) Counts() *observe.Counts {
	c := observe.NewCounts()
	f.note(func(n *notes) { c.Add(&n.counts) })
	for _, s := range f.senders {
		s.book.mu.Lock()
		c.Add(&s.book.counts)
		s.book.mu.Unlock()
	}
	return &c
}

// Books returns the books of all senders.
func (f *Fleet) Books() (list []*Book) {
	for _, s := range f.senders {
		list = append(list, s.book)
	}
	return list
}

// Linger returns the longest time in ns for which agents hold a result back so that others join its frame.
func (f *Fleet) Linger() (most int64) {
	for _, c := range f.classes {
		most = max(most, c.linger)
	}
	return most
}
