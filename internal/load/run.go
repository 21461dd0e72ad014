package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// run is one run's shared state.
type run struct {
	cfg     Config
	epoch   time.Time
	bootID  string
	fleet   []*agent // all
	agents  []*agent // those that have sessions in this round
	senders []*sender
	connect func(ctx context.Context, cfg *link.Config, addr string, hello *wire.Hello, assigned *link.Held, a *agent) (session, error)

	opening   chan struct{} // one token per connection being opened
	connected atomic.Int64  // sessions now
	welcomes  atomic.Int64  // sessions ever
	first     atomic.Int64  // agents of this round welcomed at least once
	ready     atomic.Int64  // agents of this round that hold all their checks
	slowed    atomic.Int64  // Slow messages
	lostAt    atomic.Int64  // when the present outage began, ns; zero: there is none, or it has its first acknowledgement
	ackedAt   atomic.Int64  // of a session that began after it, ns; zero: none yet
	seq       atomic.Uint64 // of results
	frames    sync.Pool     // *frame
	scratch   sync.Pool     // *[]byte, for outputs and for frames as they are sent

	mu       sync.Mutex
	chunks   map[model.ChunkID]*model.Chunk
	sets     map[[32]byte]*checkSet
	breaches breaches
	failures map[string]uint64 // why connections could not be opened
	losses   map[string]uint64 // why sessions ended
	fewest   int               // checks in the smallest assignment seen; -1: none seen
}

// Run plays one run and returns its report. The error says why there is none: the
// configuration, the machine's limits, or no connection. A run that lost something
// or fell behind has a report, which says so.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := preflight(cfg); err != nil {
		return nil, err
	}
	r, err := newRun(cfg)
	if err != nil {
		return nil, err
	}
	return r.do(ctx)
}

func newRun(cfg Config) (*run, error) {
	r := &run{cfg: cfg, epoch: time.Now(), bootID: uuid.NewString(), opening: make(chan struct{}, cfg.Parallel),
		chunks: map[model.ChunkID]*model.Chunk{}, sets: map[[32]byte]*checkSet{}, failures: map[string]uint64{},
		losses: map[string]uint64{}, fewest: -1}
	r.frames.New = func() any { return new(frame) }
	r.scratch.New = func() any { b := make([]byte, 0, 4096); return &b }
	r.connect = func(ctx context.Context, cfg *link.Config, addr string, hello *wire.Hello, assigned *link.Held, a *agent) (session, error) {
		return link.Open(ctx, cfg, addr, hello, assigned, a)
	}
	dialers := make([]func(context.Context, string, string) (net.Conn, error), cfg.Sources)
	for i := range dialers {
		dialers[i] = r.dialer(i)
	}
	shared := link.NewShared()
	for i := range cfg.Fleet {
		uid, name := cfg.Nodes(cfg.First + i)
		a := &agent{run: r, index: cfg.First + i, uid: uid, name: name, stream: wire.StreamID(rand.Uint64() | 1)}
		c := link.Config{Node: uid, Dial: dialers[i%len(dialers)], Chunk: r.chunk, BootMs: r.boot, Log: cfg.Log, Shared: shared}
		if cfg.TLS != nil {
			var err error
			if c.TLS, err = cfg.TLS(uid); err != nil {
				return nil, fmt.Errorf("certificate of agent %s: %w", name, err)
			}
		}
		a.cfg = c.Complete()
		r.fleet = append(r.fleet, a)
	}
	r.agents = r.fleet[cfg.Fleet-cfg.Agents:]
	return r, nil
}

// dialer connects from the i-th loopback address, so that ports suffice.
func (r *run) dialer(i int) func(context.Context, string, string) (net.Conn, error) {
	d := &net.Dialer{}
	if host, _, err := net.SplitHostPort(r.cfg.Server); err == nil && strings.HasPrefix(host, "127.") && r.cfg.Sources > 1 {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i))}
	}
	return d.DialContext
}

// now is nanoseconds since the run was made.
func (r *run) now() int64 { return int64(time.Since(r.epoch)) }

// boot is the agents' boot clock: they all booted a while before the run.
func (r *run) boot() uint64 { return r.bootMs(r.now()) }

func (r *run) bootMs(ns int64) uint64 { return uint64(ns/1e6) + 60_000 }

// chunk decodes each definition once for all agents.
func (r *run) chunk(id model.ChunkID, body []byte) (*model.Chunk, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.chunks[id]; c != nil && c.Hash == wire.ChunkHash(body) {
		return c, nil
	}
	c, err := wire.DecodeChunk(id, body)
	if err == nil {
		r.chunks[id] = c
	}
	return c, err
}

// checkSet is what is played of an assignment, shared by all who hold the same;
// nil while it has fewer checks than the run wants.
func (r *run) checkSet(held *link.Held) *checkSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sets[held.Hash]; s != nil {
		return s
	}
	s := &checkSet{}
	for _, c := range held.Chunks {
		if r.cfg.Plays(c) && len(s.chunks) < r.cfg.Checks {
			s.chunks = append(s.chunks, c)
		}
	}
	if r.fewest = len(s.chunks); r.fewest < r.cfg.Checks {
		return nil
	}
	r.sets[held.Hash] = s
	return s
}

func (r *run) failed(a *agent, err error) {
	r.mu.Lock()
	r.failures[cause(err)]++
	r.mu.Unlock()
	r.cfg.Log.Debug("no session", "agent", a.name, "error", err)
}

func (r *run) lost(a *agent, err error) {
	if err == nil {
		err = errors.New("closed")
	}
	r.mu.Lock()
	r.losses[cause(err)]++
	r.mu.Unlock()
	r.cfg.Log.Debug("session ended", "agent", a.name, "error", err)
}

// do is the run from top to bottom.
func (r *run) do(ctx context.Context) (*Report, error) {
	rep := newReport(r.cfg)
	before, err := readBaseline(ctx, r.cfg.Before)
	if err != nil {
		return nil, err
	}
	idle := r.usage()
	if err := r.rounds(ctx, rep, idle); err != nil {
		return nil, err
	}
	crew := r.open(ctx)
	defer crew.leave()
	if err := r.waitReady(ctx, rep); err != nil {
		return nil, err
	}
	rep.connected(r, idle)
	if r.cfg.Fleet > r.cfg.Agents {
		if err := r.fill(ctx); err != nil {
			return nil, err
		}
	}

	begin := time.Duration(r.now()) + 100*time.Millisecond
	from, to := begin+r.cfg.Warmup, begin+r.cfg.Warmup+r.cfg.Duration
	r.deal(r.cfg.Interval, from, to)
	var playing sync.WaitGroup
	for _, s := range r.senders {
		playing.Go(func() { s.play(ctx, int64(begin), int64(to)) })
	}
	house, closeHouse := context.WithCancel(ctx)
	defer closeHouse()
	playing.Go(func() { r.watch(ctx, rep, from, to) })
	playing.Go(func() { rep.Pages = r.cfg.Pages.ask(ctx, r.until(from), r.until(to)) })
	crew.readers.Go(func() { r.keepHouse(house) })
	playing.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	r.drain(ctx)
	closeHouse() // a keepalive under way would be missing
	sum := newTally(from, to)
	for _, s := range r.senders {
		sum.merge(s.agents[0].tally)
	}
	if rep.Balance, err = r.settle(ctx, before); err != nil {
		return nil, err
	}
	r.mu.Lock()
	rep.Failures, rep.Losses = maps.Clone(r.failures), maps.Clone(r.losses)
	r.mu.Unlock()
	rep.finish(r.cfg, sum, int(r.slowed.Load()))
	return rep, nil
}

// until is how long it is until an instant of the run.
func (r *run) until(at time.Duration) time.Duration { return at - time.Duration(r.now()) }

// waitReady waits until every agent has a session and its checks.
func (r *run) waitReady(ctx context.Context, rep *Report) error {
	n := int64(r.cfg.Agents)
	connected := false
	began := time.Now()
	idle, last := began, int64(0)
	for r.ready.Load() < n {
		if !connected && r.first.Load() == n {
			connected = true
			rep.ConnectSeconds = time.Since(began).Seconds()
		}
		if now := r.first.Load() + r.ready.Load(); now != last {
			idle, last = time.Now(), now
		}
		if time.Since(idle) > 30*time.Second {
			return r.whyNot()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	rep.ReadySeconds = time.Since(began).Seconds()
	if !connected {
		rep.ConnectSeconds = rep.ReadySeconds
	}
	return nil
}

// whyNot explains why not all agents became ready.
func (r *run) whyNot() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if welcomed := int(r.first.Load()); welcomed < r.cfg.Agents {
		reason, most := "no answer", uint64(0)
		for text, n := range r.failures {
			if n > most {
				reason, most = text, n
			}
		}
		return model.Errorf(model.Unavailable, "%d of %d agents have a session; the others: %s", welcomed, r.cfg.Agents, reason).
			WithHint("muster load prepare --agents %d --checks %d", r.cfg.Fleet, r.cfg.Checks)
	}
	return model.Errorf(model.Invalid, "%d of %d agents hold %d checks; an assignment with %d was seen",
		r.ready.Load(), r.cfg.Agents, r.cfg.Checks, r.fewest).
		WithHint("muster load prepare --agents %d --checks %d", r.cfg.Fleet, r.cfg.Checks)
}

// deal shares the agents out between the senders, each with a tally of its own.
func (r *run) deal(interval, from, to time.Duration) {
	r.senders = r.senders[:0]
	shares := make([][]*agent, r.cfg.Senders)
	for i, a := range r.agents {
		shares[i%len(shares)] = append(shares[i%len(shares)], a)
	}
	for _, agents := range shares {
		t := newTally(from, to)
		for _, a := range agents {
			a.mu.Lock()
			a.tally = t
			a.mu.Unlock()
		}
		r.senders = append(r.senders, newSender(r, agents, interval))
	}
}

// keepHouse ticks the sessions and sends keepalives.
func (r *run) keepHouse(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Second):
		}
		now := r.now()
		for _, a := range r.agents {
			a.mu.Lock()
			s := a.session
			a.mu.Unlock()
			if s != nil {
				s.Tick(time.Now())
			}
			a.alive(now)
			a.tellAboutItself(now)
			a.tellFacts()
		}
	}
}

// drain waits for the last acknowledgements.
func (r *run) drain(ctx context.Context) {
	deadline := time.Now().Add(r.cfg.Drain)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		left := 0
		for _, a := range r.agents {
			a.mu.Lock()
			left += len(a.held)
			a.mu.Unlock()
		}
		if left == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// settle compares with the view, which may still be applying the last commits: a
// difference is believed once it stays the same for two seconds.
func (r *run) settle(ctx context.Context, before baseline) (*Balance, error) {
	last, same := uint64(0), 0
	for {
		b, err := r.balance(ctx, before)
		if err != nil || b.OK() || same == 2 {
			return b, err
		}
		if now := b.Imbalances + b.Missing; now != last {
			last, same = now, 0
		}
		same++
		pause(ctx, time.Second)
		if err := ctx.Err(); err != nil {
			return b, err
		}
	}
}

// bye ends all sessions as planned.
func (r *run) bye() {
	for _, a := range r.agents {
		a.mu.Lock()
		s := a.session
		a.mu.Unlock()
		if s != nil {
			s.Bye("the load run is over")
		}
	}
}
