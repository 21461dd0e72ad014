package muster

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/faultfs"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestThrottleSlowsAndRecovers raises and lowers a fill level, and expects agents to be slowed above the threshold.
// The slowdown stops only below half of the threshold.
func TestThrottleSlowsAndRecovers(t *testing.T) {
	const s = int64(time.Second)
	of := agentThrottle{threshold: core.SlowResultsAt}
	for _, step := range []struct {
		now    int64
		share  float64
		tell   bool
		on     bool
		linger time.Duration
	}{
		{1 * s, 0.4, false, false, 0}, // between the two thresholds nothing changes
		{2 * s, 0.5, false, false, 0},
		{3 * s, 0.51, true, true, firstLinger},
		{4 * s, 0.9, false, true, firstLinger}, // agents have been told already
		{7 * s, 0.25, true, true, firstLinger}, // still above the recovery level, but falling
		{8 * s, 0.24, false, false, firstLinger},
		{9 * s, 0.4, false, false, firstLinger},
		{10 * s, 0.6, false, true, firstLinger}, // slow again; the last Slow still holds
		{11 * s, 5, true, true, 2 * firstLinger},
		{15 * s, 0.6, true, true, maxLinger},
		{19 * s, 0.6, true, true, maxLinger},
		{23 * s, 0.4, true, true, maxLinger},
		{27 * s, 0, false, false, maxLinger},
		{30 * s, 0.6, true, true, maxLinger}, // no agent has its usual pace yet
		{31 * s, 0, false, false, maxLinger},
		{46 * s, 0.6, true, true, firstLinger},
	} {
		if tell := of.update(step.now, step.share); tell != step.tell || of.active != step.on || of.linger != step.linger {
			t.Errorf("at %d s, %g full: tell %v, on %v, linger %v", step.now/s, step.share, tell, of.active, of.linger)
		}
	}
}

// pacedAgent is a simulated agent that makes a new result every 97 ms. It records when its frames are sent.
type pacedAgent struct {
	link.Events // nil: the server sends no runs
	began       time.Time
	mu          sync.Mutex
	made        uint64
	sent        uint64
	sentAt      []time.Duration
	added       chan struct{}
}

// Streams returns one stream (numbered sequence of results), because the simulated agent has only one.
func (m *pacedAgent) Streams() []wire.StreamRange {
	return []wire.StreamRange{{StreamKey: liveStream, First: 1}}
}

// Backlog returns zero, because the agent has no backlog of unsent results.
func (m *pacedAgent) Backlog() uint64 { return 0 }

// Resume does nothing, because the simulated agent never continues an earlier session.
func (m *pacedAgent) Resume([]wire.StreamLast) error { return nil }

// Keepalive does nothing, because the agent sends a result every 97 ms anyway.
func (m *pacedAgent) Keepalive() error { return nil }

// Acked does nothing, because the agent keeps no sent results.
func (m *pacedAgent) Acked(*wire.Ack) {}

// Notify returns the channel that receives a value after each new result.
func (m *pacedAgent) Notify() <-chan struct{} { return m.added }

// Unsent returns how many results the simulated agent has not sent yet.
func (m *pacedAgent) Unsent() (int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.made - m.sent), false
}

// Next fills the simulated agent's next batch with results that were not sent yet.
func (m *pacedAgent) Next(b *wire.Batch, _, most int) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made == m.sent {
		return false, nil
	}
	*b = *resultBatch(m.sent+1, min(int(m.made-m.sent), most), 1)
	m.sent += uint64(len(b.Signals))
	m.sentAt = append(m.sentAt, time.Since(m.began))
	return true, nil
}

// makeResults creates a result every 97 ms until ctx ends. Call it in a bubble.
func (m *pacedAgent) makeResults(ctx context.Context, after time.Duration) {
	time.Sleep(after)
	for ctx.Err() == nil {
		m.mu.Lock()
		m.made++
		m.mu.Unlock()
		select {
		case m.added <- struct{}{}:
		default:
		}
		time.Sleep(97 * time.Millisecond)
	}
}

// Connected does nothing, because the simulated agent sends results from its start.
func (m *pacedAgent) Connected(string, *wire.Welcome) {}

// Disconnected does nothing, because the test needs no reaction to the end of the session.
func (m *pacedAgent) Disconnected(string, error) {}

// Assigned ignores the assignment, because the agent makes its own results.
func (m *pacedAgent) Assigned(*link.Session, *link.Assignment) {}

// fleetSize is the number of paced agents. They send about 103 frames per second at their usual pace.
const fleetSize = 60

// The costs of one frame for the server. The usual frames of a fleet take 83 % or 206 % of the server's time.
const (
	fits    = 8 * time.Millisecond
	tooDear = 20 * time.Millisecond
)

// loadedServer is a test server under the load of a fleet of agents, in virtual time. It has a real journal and a
// fixed processing time per frame.
type loadedServer struct {
	*testServer
	t        *testing.T
	began    time.Time
	disk     *faultfs.FS
	cost     atomic.Int64
	share    atomic.Int64 // fill level of another resource, in per cent
	machines []*pacedAgent
}

// runLoaded runs a test function in virtual time, with a loaded server and its agents.
func runLoaded(t *testing.T, play func(*loadedServer)) {
	synctest.Test(t, func(t *testing.T) {
		s := &loadedServer{t: t, began: time.Now(), disk: faultfs.New(memfs.New()), testServer: &testServer{t: t, nodes: newMemoryNodes(), plan: newMemoryPlan()}}
		view := newMemoryJournal()
		defer view.Close()
		log, err := journal.Open("journal", journal.Options{
			FS: s.disk, Budget: 64 << 20, Reserve: -1, QueueBytes: 16 << 10, Linger: 20 * time.Millisecond,
			Deliver: func(c journal.Commit) {
				n := 0
				for _, section := range c.Sections() {
					_ = c.Entries(section, func(data []byte) error {
						n++
						view.update(func() { view.apply(slices.Clone(data)) })
						return nil
					})
				}
				time.Sleep(time.Duration(n) * time.Duration(s.cost.Load()))
			},
		})
		testenv.NoError(t, err)
		cfg := Config{Config: core.Config{Journal: log, Assignments: s.plan}, Nodes: s.nodes, View: view, SigningKey: make([]byte, 64),
			Limits:    Limits{JournalQueueBytes: 16 << 10},
			Pressures: []core.FillLevel{func() (float64, string) { return float64(s.share.Load()) / 100, "much else" }}}
		if s.server, err = New(cfg); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		serving, end := context.WithCancel(context.Background())
		var ran sync.WaitGroup
		ran.Go(func() { _ = s.server.Run(serving) })
		for i := range fleetSize {
			m := &pacedAgent{began: s.began, added: make(chan struct{}, 1)}
			s.machines = append(s.machines, m)
			rc := link.RunConfig{Servers: []string{"server:1"}, Hello: func() wire.Hello { return wire.Hello{} }}
			rc.Node = s.addNode(i, 1)
			rc.Dial = func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				running.Go(func() { s.server.ServeConn(ctx, theirs, Proof{}) })
				return ours, nil
			}
			running.Go(func() { _ = link.Run(ctx, rc, m, m) })
			running.Go(func() { m.makeResults(ctx, time.Duration(i)*7*time.Millisecond) })
		}
		s.cost.Store(int64(fits))
		play(s)
		stop()
		running.Wait()
		end()
		ran.Wait()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
}

// stallDisk makes the next sync of the simulated disk take the given duration. Call it in a bubble.
func (s *loadedServer) stallDisk(d time.Duration) {
	var once sync.Once
	s.disk.OnOperation(func(op faultfs.Op) error {
		if op.Kind == faultfs.Sync {
			once.Do(func() { time.Sleep(d) })
		}
		return nil
	})
}

// sleepUntil sleeps until the given duration after the test's start has passed. Call it in a bubble.
func (s *loadedServer) sleepUntil(at time.Duration) { time.Sleep(at - time.Since(s.began)) }

// frameRate returns how many frames per second the server received between two times.
func (s *loadedServer) frameRate(from, to time.Duration) float64 {
	n := 0
	for _, m := range s.machines {
		m.mu.Lock()
		for _, at := range m.sentAt {
			if at >= from && at < to {
				n++
			}
		}
		m.mu.Unlock()
	}
	return float64(n) / (to - from).Seconds()
}

// countSlowdowns returns how many BackPressure messages, requests to send less often, the server has sent.
func (s *loadedServer) countSlowdowns() (n float64) {
	return testutil.ToFloat64(s.server.metrics.sent.WithLabelValues("slow"))
}

// TestStallOfASecondSlowsEachAgentOnce stalls the simulated disk for a second, and expects one slowdown message
// to each agent. After some seconds the agents send at their usual rate.
func TestStallOfASecondSlowsEachAgentOnce(t *testing.T) {
	const stall, after = 30 * time.Second, 75 * time.Second
	runLoaded(t, func(s *loadedServer) {
		s.sleepUntil(stall)
		before := s.countSlowdowns() // slowdowns while the whole fleet connected at once
		s.stallDisk(time.Second)
		s.sleepUntil(stall + 850*time.Millisecond)
		if share, _ := s.server.FillLevels().Highest(); share < core.SlowResultsAt || share >= 1 || s.countSlowdowns()-before != fleetSize {
			t.Errorf("%g full, %g slowdowns sent; want one to each agent before it is full", share, s.countSlowdowns()-before)
		}
		s.sleepUntil(stall + after)
		usual, slow := s.frameRate(stall-10*time.Second, stall), s.frameRate(stall+4*time.Second, stall+8*time.Second)
		if usual < 80 || slow > usual/2 {
			t.Errorf("%.0f frames per second before, %.0f when all are slow", usual, slow)
		}
		if some := s.frameRate(stall+9*time.Second, stall+16*time.Second); some < usual/5 || some > usual {
			t.Errorf("%.0f frames per second while they return, %.0f before", some, usual)
		}
		for from := stall + time.Second + slowDuration + wire.BackPressureEasing*firstLinger*3/2; from < stall+after-time.Second; from += time.Second {
			if now := s.frameRate(from, from+time.Second); now < 0.7*usual || now > 1.3*usual {
				t.Errorf("%.0f frames per second %s after the stall, %.0f before", now, from-stall, usual)
			}
		}
		if slowdowns := s.countSlowdowns() - before; slowdowns != fleetSize {
			t.Errorf("%g slowdowns sent, want one to each of %d agents", slowdowns, fleetSize)
		}
	})
}

// TestSlowdownLastsUntilBelowAQuarter checks that agents stay slowed until the fill level falls below a quarter.
func TestSlowdownLastsUntilBelowAQuarter(t *testing.T) {
	const full, less, over = 30 * time.Second, 40 * time.Second, 80 * time.Second
	runLoaded(t, func(s *loadedServer) {
		s.sleepUntil(15 * time.Second)
		s.share.Store(45)
		before := s.countSlowdowns()
		s.sleepUntil(full)
		if slowdowns := s.countSlowdowns() - before; slowdowns != 0 {
			t.Errorf("%g slowdowns sent below a fill level of half", slowdowns)
		}
		usual := s.frameRate(full-10*time.Second, full)
		s.share.Store(60)
		s.sleepUntil(less)
		s.share.Store(30)
		s.sleepUntil(over)
		s.share.Store(20)
		s.sleepUntil(over + 75*time.Second)
		for from := full + 3*time.Second; from < over; from += time.Second {
			if now := s.frameRate(from, from+time.Second); now > usual/2 {
				t.Errorf("%.0f frames per second after %s of slowness, %.0f before", now, from-full, usual)
			}
		}
		if mean := s.frameRate(full+10*time.Second, over); mean > usual/4 {
			t.Errorf("%.0f frames per second while slow, %.0f before", mean, usual)
		}
		if now := s.frameRate(over+slowDuration+wire.BackPressureEasing*maxLinger*3/2, over+75*time.Second); now < 0.9*usual {
			t.Errorf("%.0f frames per second when it is over, %.0f before", now, usual)
		}
	})
}

// TestOverloadEndsWithTheUsualRate overloads a server, and expects agents to send at their usual rate after the
// overload. The fleet returns to its usual rate soon after.
func TestOverloadEndsWithTheUsualRate(t *testing.T) {
	const from, to, after = 30 * time.Second, 80 * time.Second, 75 * time.Second
	runLoaded(t, func(s *loadedServer) {
		s.sleepUntil(from)
		before, usual := s.countSlowdowns(), s.frameRate(from-10*time.Second, from)
		s.cost.Store(int64(tooDear))
		s.sleepUntil(to)
		s.cost.Store(int64(fits))
		s.sleepUntil(to + slowDuration + wire.BackPressureEasing*maxLinger*3/2)
		slowdowns := s.countSlowdowns() - before
		if most := float64((to-from)/slowInterval+1) * fleetSize; slowdowns < fleetSize || slowdowns > most {
			t.Errorf("%g slowdowns sent in 50 s of overload, want %d to %g", slowdowns, fleetSize, most)
		}
		s.sleepUntil(to + after)
		for at := to + slowDuration + wire.BackPressureEasing*maxLinger*3/2; at < to+after-time.Second; at += time.Second {
			if now := s.frameRate(at, at+time.Second); now < 0.7*usual || now > 1.3*usual {
				t.Errorf("%.0f frames per second %s after the overload, %.0f before", now, at-to, usual)
			}
		}
		if again := s.countSlowdowns() - before - slowdowns; again != 0 {
			t.Errorf("%g slowdowns sent after the overload", again)
		}
	})
}

// TestAcknowledgedBatchesAreInTheJournal checks that acknowledged batches are in a journal on disk, each sequence
// number once.
func TestAcknowledgedBatchesAreInTheJournal(t *testing.T) {
	dir := t.TempDir()
	view := &memoryJournal{last: map[model.NodeID]map[wire.StreamKey]uint64{}}
	log, err := journal.Open(dir, journal.Options{Reserve: -1, Tick: -1, Deliver: func(c journal.Commit) {
		view.mu.Lock()
		defer view.mu.Unlock()
		for _, s := range c.Sections() {
			_ = c.Entries(s, func(data []byte) error { view.apply(append([]byte(nil), data...)); return nil })
		}
	}})
	testenv.NoError(t, err)
	w := newTestServer(t, func(c *Config) { c.Journal, c.View = log, view })
	const agents, batches, each = 20, 30, 5
	uids := make([]uuid.UUID, agents)
	var sending sync.WaitGroup
	for i := range agents {
		uids[i] = w.addNode(i, 1)
		a := w.openAgent(uids[i])
		sending.Go(func() {
			for n := range batches {
				if err := a.Send(resultBatch(uint64(n*each+1), each, 1)); err != nil {
					t.Error(err)
				}
			}
			a.waitAck(batches * each)
		})
	}
	sending.Wait()
	w.stop()
	testenv.NoError(t, log.Close())

	again := testenv.Value(journal.Open(dir, journal.Options{Reserve: -1, Tick: -1}))(t)
	defer again.Close()
	next := map[model.NodeID]uint64{}
	err = again.Read(t.Context(), journal.Position{}, func(c journal.Commit) error {
		for _, s := range c.Sections() {
			if err := c.Entries(s, func(data []byte) error {
				var r wire.Record
				if err := r.Decode(data); err != nil || r.Kind != wire.RecordBatch {
					return err
				}
				var b wire.Batch
				if err := b.Decode(r.Batch); err != nil {
					return err
				}
				if b.First != next[r.Node]+1 {
					t.Errorf("node %d: number %d after %d", r.Node, b.First, next[r.Node])
				}
				next[r.Node] = b.First + uint64(len(b.Signals)) - 1
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	testenv.NoError(t, err)
	for i := range agents {
		if got := next[model.NodeID(1000+i)]; got != batches*each {
			t.Errorf("node %d: kept %d of %d", i, got, batches*each)
		}
	}
}
