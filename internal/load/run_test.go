package load

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// ideal is a server in memory that can be made to fail in one way. It keeps a batch some milliseconds after it came,
// and then acknowledges it.
type ideal struct {
	names  []string // of all checks: each agent is assigned all, and runs those of its class
	commit time.Duration
	hears  func(s *wire.Signal) // of each result that it applies; nil: nothing
	mute   bool                 // it neither applies nor acknowledges anything

	perSecond int                             // results that it keeps in a second; zero: all
	busy      time.Time                       // until then with what it took
	slow      wire.BackPressure               // asked of every agent when its first batch comes; zero: not
	most      int                             // bytes of a frame; zero: as the protocol says
	stall     time.Duration                   // for so long it keeps nothing once the first batch has come
	first     func(ctx context.Context) error // when its states are read for the first time; nil: nothing
	look      func(ctx context.Context) error // when they are read again; nil: nothing

	mu       sync.Mutex
	nodes    map[wire.StreamID]*idealNode
	open     map[*idealSession]struct{}
	down     bool // nobody gets in
	sessions int
	boots    map[string]map[string]bool // by node
	batches  int
	looks    int   // at its states
	sizes    []int // of batches
}

// kill ends all sessions and accepts none for a while; it runs in a bubble of synctest.
func (s *ideal) kill(down time.Duration) {
	s.mu.Lock()
	s.down = true
	for x := range s.open {
		x.Close()
	}
	clear(s.open)
	s.mu.Unlock()
	time.Sleep(down)
	s.mu.Lock()
	s.down = false
	s.mu.Unlock()
}

// idealNode is the node of one agent.
type idealNode struct {
	id     model.NodeID
	last   uint64
	states map[model.CheckID]*observe.EventState
}

// idealSession is a session with an ideal server.
type idealSession struct {
	srv   *ideal
	agent play.Agent
	node  *idealNode
	acks  chan *wire.Ack
	sent  []sent // guarded by the server's lock
	gone  chan struct{}
	once  sync.Once
}

// connect opens a session after a moment of the test's clock, in a bubble of synctest.
func (s *ideal) connect(_ context.Context, _ *link.Config, _ string, hello *wire.Hello, _ *link.Assignment, a play.Agent) (play.Session, error) {
	time.Sleep(3 * time.Millisecond)
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		return nil, errors.New("connection refused")
	}
	stream := hello.Streams[0].Stream
	n := s.nodes[stream]
	if n == nil {
		n = &idealNode{id: model.NodeID(100 + len(s.nodes)), states: map[model.CheckID]*observe.EventState{}}
		s.nodes[stream] = n
	}
	s.sessions++
	if s.boots == nil {
		s.boots = map[string]map[string]bool{}
	}
	if s.boots[hello.MachineID] == nil {
		s.boots[hello.MachineID] = map[string]bool{}
	}
	s.boots[hello.MachineID][hello.BootID] = true
	last := n.last
	s.mu.Unlock()
	x := &idealSession{srv: s, agent: a, node: n, acks: make(chan *wire.Ack, 1000), gone: make(chan struct{})}
	s.mu.Lock()
	if s.open == nil {
		s.open = map[*idealSession]struct{}{}
	}
	s.open[x] = struct{}{}
	s.mu.Unlock()
	a.Welcome(x, &wire.Welcome{Node: n.id, KeepaliveMs: 20000, Last: []wire.StreamLast{{StreamKey: wire.StreamKey{Stream: stream}, Last: last}}})
	held := &link.Assignment{}
	for c, name := range s.names {
		held.Definitions = append(held.Definitions, (&model.CheckDefinition{Definition: model.Definition{ID: model.DefinitionID(50 + c), Unit: model.CheckID(10 + c), Name: name}}).ToDefinition())
	}
	a.Assigned(nil, held)
	return x, nil
}

// Read passes acknowledgements to the agent until the session ends.
func (x *idealSession) Read() error {
	for {
		select {
		case a := <-x.acks:
			x.agent.Acked(nil, a)
		case <-x.gone:
			return errors.New("cut")
		}
	}
}

func (x *idealSession) Stats(*wire.Stats) error     { return nil }
func (x *idealSession) SendFacts(*wire.Facts) error { return nil }
func (x *idealSession) Sent() uint64                { return 0 }
func (x *idealSession) MaxBatch() int               { return cmp.Or(x.srv.most, wire.MaxFrame) }

// SendFrame queues a batch.
func (x *idealSession) SendFrame(key wire.StreamKey, last uint64, frame []byte) error {
	select {
	case <-x.gone:
		return link.ErrSessionEnded
	default:
	}
	if size := len(frame) - wsconn.Headroom; size > x.MaxBatch() { // as link.Session does
		return fmt.Errorf("send a batch of signals: the batch has %d bytes, the server allows %d", size, x.MaxBatch())
	}
	kind, body, err := wire.FrameKind(bytes.Clone(frame[wsconn.Headroom:]))
	if err != nil || kind != wire.KindBatch {
		return fmt.Errorf("BUG: message %d, %w", kind, err)
	}
	var b wire.Batch
	if err := b.Decode(body); err != nil {
		return fmt.Errorf("BUG: %w", err)
	}
	signals, first := b.Signals, b.First
	if b.StreamKey != key || first+uint64(len(signals))-1 != last {
		return fmt.Errorf("BUG: a batch to %d is sent as one to %d", first+uint64(len(signals))-1, last)
	}
	x.srv.mu.Lock()
	x.sent = append(x.sent, sent{key, first, signals})
	wait := x.srv.commit
	if x.srv.perSecond > 0 { // one after the other
		now := time.Now()
		if x.srv.busy.IsZero() {
			x.srv.busy = now.Add(x.srv.stall)
		}
		if x.srv.busy.Before(now) {
			x.srv.busy = now
		}
		x.srv.busy = x.srv.busy.Add(time.Duration(len(signals)) * time.Second / time.Duration(x.srv.perSecond))
		wait += x.srv.busy.Sub(now)
	}
	x.srv.mu.Unlock()
	time.AfterFunc(wait, x.keep)
	return nil
}

// sent is a received batch that is not applied yet.
type sent struct {
	key     wire.StreamKey
	first   uint64
	signals []wire.Signal
}

// keep applies the new results of the oldest batch and acknowledges it; if the session has ended, the next Welcome does
// so.
func (x *idealSession) keep() {
	s := x.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	key, first, signals := x.sent[0].key, x.sent[0].first, x.sent[0].signals
	x.sent = x.sent[1:]
	if s.down {
		return
	}
	s.batches++
	s.sizes = append(s.sizes, len(signals))
	if s.slow.LingerMs > 0 && first == 1 {
		ask := s.slow
		go x.agent.BackPressure(nil, &ask)
	}
	ack := &wire.Ack{}
	for i := range signals {
		number := first + uint64(i)
		if number != x.node.last+1 || s.mute {
			continue
		}
		x.node.last = number
		if signals[i].Kind != wire.SignalResult {
			continue
		}
		if int(signals[i].Definition) >= 50+len(s.names) {
			ack.Refused = append(ack.Refused, wire.RefusedSignal{StreamKey: key, Number: number, Code: "limited"})
			continue
		}
		if s.hears != nil {
			s.hears(&signals[i])
		}
		check := model.CheckID(signals[i].Definition - 40)
		k := x.node.states[check]
		if k == nil {
			k = &observe.EventState{Node: x.node.id, Check: check}
			x.node.states[check] = k
		}
		k.Results++
		k.Stream, k.Number = uint64(key.Stream), number
	}
	ack.Last = []wire.StreamLast{{StreamKey: key, Last: x.node.last}}
	select {
	case x.acks <- ack:
	case <-x.gone:
	}
}

func (x *idealSession) Tick(time.Time) {}
func (x *idealSession) Bye(string)     { x.Close() }
func (x *idealSession) Close()         { x.once.Do(func() { close(x.gone) }) }

// Each calls fn for each event state of the server.
func (s *ideal) Each(ctx context.Context, fn func(observe.EventState) error) error {
	look := s.look
	if s.looks++; s.looks == 1 { // one after the other
		look = s.first
	}
	if look != nil {
		if err := look(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		for _, k := range n.states {
			if err := fn(*k); err != nil {
				return err
			}
		}
	}
	return nil
}

// playUniform plays a whole run against an ideal server, with the test's clock.
func playUniform(t *testing.T, u scenario.Uniform, srv *ideal) *report.Report {
	t.Helper()
	u.Checks = cmp.Or(u.Checks, 4)
	return playOn(t, of(u.Scenario()), srv)
}

// runOn returns a run against an ideal server, within a bubble of synctest.
func runOn(t *testing.T, cfg Config, srv *ideal) *run {
	t.Helper()
	srv.nodes, srv.commit = map[wire.StreamID]*idealNode{}, 4*time.Millisecond
	for _, k := range cfg.Scenario.Placed() {
		for n := range max(1, k.Count) {
			srv.names = append(srv.names, k.FullName(n))
		}
	}
	cfg.Server, cfg.Before = "127.0.0.1:1", srv.Each
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.fleet.Connect = srv.connect
	return r
}

// playOn plays a whole run against an ideal server, with the test's clock.
func playOn(t *testing.T, cfg Config, srv *ideal) (rep *report.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if rep, err = runOn(t, cfg, srv).do(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return rep
}

// of returns the configuration of a run of a scenario.
func of(sc *scenario.Scenario) Config { return Config{Options: play.Options{Scenario: sc}} }

// TestRunIsBalanced plays a run without faults, and expects that ledger and server agree.
func TestRunIsBalanced(t *testing.T) {
	srv := &ideal{}
	rep := playUniform(t, scenario.Uniform{Agents: 20, Interval: time.Second, Steady: 10 * time.Second, Warmup: time.Second}, srv)
	if !rep.OK() || len(rep.Verdict) > 0 {
		t.Fatalf("not balanced: %v\n%s", rep.Verdict, rep.Text())
	}
	if want := uint64(20 * 4 * 10); rep.Results < want-20 || rep.Results > want+20 {
		t.Errorf("%d results measured, want about %d", rep.Results, want)
	}
	if rep.Balance.Sent != rep.Balance.Acknowledged || rep.Balance.Compared != 80 {
		t.Errorf("ledger: %+v", rep.Balance)
	}
	// Commit takes 4 ms, a sleep of the sender at most 2 ms more.
	if l := rep.BeyondLinger; l.P50 < 4 || l.P99 > 6.1 {
		t.Errorf("beyond the linger: %+v", l)
	}
	if l := rep.Latency; l.Max > 510 || l.P50 < 4 {
		t.Errorf("latency: %+v", l)
	}
	if !strings.Contains(rep.Text(), "nothing lost") {
		t.Error(rep.Text())
	}
}

// TestPerFrame plays a run with eight results per frame, and expects that frames hold eight.
func TestPerFrame(t *testing.T) {
	rep := playUniform(t, scenario.Uniform{Agents: 3, Rate: 300, Checks: 40, PerFrame: 8, Steady: 10 * time.Second}, &ideal{})
	if !rep.OK() || rep.Batch.P50 != 8 || rep.Batch.Max != 8 {
		t.Errorf("batches %+v, verdict %v", rep.Batch, rep.Verdict)
	}
}

// killer is a Control of an ideal server: a killed server is away for five seconds.
type killer struct {
	play.Control
	srv    *ideal
	failed error
}

// Kill kills the server, or returns the error of the test.
func (k killer) Kill(context.Context) error {
	if k.failed == nil {
		k.srv.kill(5 * time.Second)
	}
	return k.failed
}

// TestServerDiesHalfway kills the server in a run, and expects an outage from the kill on, and no lost or doubled
// result.
func TestServerDiesHalfway(t *testing.T) {
	srv := &ideal{}
	sc := scenario.Uniform{Agents: 50, Checks: 4, Interval: time.Second, Steady: 20 * time.Second}.Scenario()
	sc.Faults = []scenario.Fault{{At: sec(10), Server: "kill"}}
	rep := playOn(t, Config{Options: play.Options{Scenario: sc, Parallel: 10, Control: killer{srv: srv}}}, srv)
	if !rep.OK() || len(rep.Outages) != 1 {
		t.Fatalf("verdict %v, outages %+v", rep.Verdict, rep.Outages)
	}
	// Agents wait half to one and a half times a second between attempts.
	o := rep.Outages[0]
	if !o.Command || o.Lost != 50 || o.Acked < 5 || o.Acked > 5.5 || o.Seconds < o.Acked-0.5 || o.Seconds > 6.6 {
		t.Errorf("outage %+v", o)
	}
	if rep := playOn(t, Config{Options: play.Options{Scenario: sc, Control: killer{failed: errors.New("no such process")}}}, &ideal{}); rep.OK() || !strings.Contains(strings.Join(rep.Verdict, "\n"), "no such process") {
		t.Errorf("verdict %v, want the fault's error", rep.Verdict)
	}
}

// TestSlowIsHonoured lets the server ask agents to slow down, and expects that frames linger as long as asked, even
// with changed statuses.
func TestSlowIsHonoured(t *testing.T) {
	beyond := 0.0 // ms, p99
	mean := func(slow wire.BackPressure) (all, last float64) {
		srv := &ideal{slow: slow}
		rep := playUniform(t, scenario.Uniform{Agents: 5, Checks: 20, Interval: 2 * time.Second, Changes: 0.5, Steady: 60 * time.Second}, srv)
		if !rep.OK() || slow.LingerMs > 0 && rep.Slowed != 5 {
			t.Fatalf("verdict %v, %d slowed", rep.Verdict, rep.Slowed)
		}
		beyond = rep.BeyondLinger.P99
		for i, n := range srv.sizes {
			all += float64(n) / float64(len(srv.sizes))
			if i >= len(srv.sizes)-20 {
				last += float64(n) / 20
			}
		}
		return all, last
	}
	// Ten results a second: half of them leave at once, or all after five seconds.
	fast, _ := mean(wire.BackPressure{})
	if beyond > 100 {
		t.Errorf("%.0f ms beyond the linger", beyond)
	}
	slow, slowLast := mean(wire.BackPressure{LingerMs: 5000, LastsMs: 60_000})
	if beyond < 4000 { // it is the server that has them wait longer than they do
		t.Errorf("after Slow %.0f ms beyond the usual linger", beyond)
	}
	some, someLast := mean(wire.BackPressure{LingerMs: 5000, LastsMs: 10_000})
	if fast > 4 || slow < 30 || slowLast < 30 || some < 1.1*fast || someLast > 4 {
		t.Errorf("%.1f results per frame; %.1f after Slow, %.1f of the last; %.1f after Slow for ten seconds, %.1f of the last", fast, slow, slowLast, some, someLast)
	}
}

// TestSpoolIsBounded plays against a server that acknowledges nothing, and expects that agents make results until their
// spool is full.
func TestSpoolIsBounded(t *testing.T) {
	srv := &ideal{mute: true}
	sc := scenario.Uniform{Agents: 3, Checks: 4, Interval: time.Second, Steady: 20 * time.Second, Drain: time.Second}.Scenario()
	rep := playOn(t, Config{Options: play.Options{Scenario: sc, Spool: 2000}}, srv)
	verdict := strings.Join(rep.Verdict, "\n")
	// Less than twenty results fill it; the rest of the twenty seconds at 4/s is not made.
	if rep.Balance.Sent < 50 || rep.Balance.Sent > 60 || rep.SpoolFull < 150 || !strings.Contains(verdict, "spools (2 kB each) were full") {
		t.Errorf("%+v, %d not made: %s", rep.Balance, rep.SpoolFull, verdict)
	}
}

// TestFramesFitTheServer limits the frames of a server, and expects that agents send smaller frames and cut longer
// outputs.
func TestFramesFitTheServer(t *testing.T) {
	sized := func(name string, n int, bytes model.Size) scenario.Check {
		return scenario.Check{Name: name, Count: n, Interval: sec(1), Output: scenario.Output{Bytes: bytes}}
	}
	for name, c := range map[string]struct {
		most   int
		checks []scenario.Check
	}{
		"a large output behind small ones":     {0, []scenario.Check{sized("small", 3, 40<<10), sized("large", 1, scenario.MaxOutput)}},
		"frames smaller than the usual ones":   {64 << 10, []scenario.Check{sized("small", 20, 9<<10)}},
		"outputs larger than what it takes":    {64 << 10, []scenario.Check{sized("small", 3, 200), sized("large", 1, 100<<10)}},
		"large ones with what must be refused": {0, []scenario.Check{sized("large", 1, scenario.MaxOutput)}},
	} {
		t.Run(name, func(t *testing.T) {
			sc := &scenario.Scenario{Name: "large", Seed: 3, Phases: []scenario.Phase{{Steady: sec(6)}, {Drain: sec(5)}},
				Agents: []scenario.Class{{Name: "web", Count: 3, Linger: sec(1), Checks: c.checks}}}
			if len(c.checks) == 1 && c.most == 0 {
				sc.Faults = []scenario.Fault{{At: sec(1), For: sec(3), Wrong: &scenario.Pick{}}}
			}
			rep := playOn(t, Config{Options: play.Options{Scenario: sc, Spool: 16 << 20}}, &ideal{most: c.most})
			if b := rep.Balance; !rep.OK() || b.Sent < 15 || b.Sent != b.Acknowledged+b.Refused || rep.SpoolFull > 0 {
				t.Errorf("%v, %+v", rep.Verdict, b)
			}
			if len(c.checks) > 1 && rep.Batch.Max < 2 {
				t.Errorf("each result has a frame of its own: %+v", rep.Batch)
			}
		})
	}
}

// TestConfigSaysWhatIsWrong expects errors that name what is wrong in a configuration, and what cannot be played.
func TestConfigSaysWhatIsWrong(t *testing.T) {
	changed := func(change func(*scenario.Scenario)) Config {
		sc := towns(scenario.Phase{Steady: sec(1)})
		change(sc)
		return Config{Options: play.Options{Server: "x:1", Scenario: sc}}
	}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "no server"},
		{Config{Options: play.Options{Server: "x:1", Scenario: &scenario.Scenario{Name: "empty"}}}, "empty has no agents"},
		{Config{Options: play.Options{Server: "x:1", Scenario: scenario.Uniform{Agents: 2}.Scenario(), Part: play.Part{Of: 3}}}, "3 loaders for 2 agents"},
		{changed(func(s *scenario.Scenario) { s.Agents[0].Values = []scenario.Values{{Name: "v", Interval: sec(1)}} }), "there is no login"},
		{changed(func(s *scenario.Scenario) { s.Agents[0].TLS = true }), "class web wants TLS or signs runs, and there are no certificates"},
		{changed(func(s *scenario.Scenario) { s.Agents[0].Churn.Renames = "1/min" }), "there is no login"},
		{changed(func(s *scenario.Scenario) { s.Faults = []scenario.Fault{{Server: "kill"}} }), "fault server kill: the server is not"},
		{changed(func(s *scenario.Scenario) { s.Objectives = map[string]scenario.Limit{"p99": "3kB"} }), "p99"},
	} {
		if _, err := c.cfg.withDefaults(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// sec returns a duration of n seconds.
func sec(n int) model.Duration { return model.Duration(time.Duration(n) * time.Second) }
