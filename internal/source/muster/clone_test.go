package muster

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// deaf is a connection on which nothing is heard any more once it was cut: a machine that
// crashed, or a network cut half-open.
type deaf struct {
	net.Conn
	cut, closed chan struct{}
	once        sync.Once
}

func (d *deaf) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	select {
	case <-d.cut:
		<-d.closed
		return 0, io.EOF
	default:
		return n, err
	}
}

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Conn.Close()
}

// from says which machine and which boot an agent is; cut may be nil.
func from(machine, boot string, cut chan struct{}) func(*link.Config, *wire.Hello) {
	return func(c *link.Config, h *wire.Hello) {
		h.MachineID, h.BootID = machine, boot
		if cut != nil {
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, network, addr)
				return &deaf{Conn: nc, cut: cut, closed: make(chan struct{})}, err
			}
		}
	}
}

const (
	machineA = "3f2a91c0aaaaaaaaaaaaaaaaaaaaaaaa"
	machineB = "77ab12cdbbbbbbbbbbbbbbbbbbbbbbbb"
)

// cloneWorld is a server that remembers which clones came.
type cloneWorld struct {
	*world
	mu   sync.Mutex
	came []core.Clone
}

func newCloneWorld(t *testing.T, probe time.Duration) *cloneWorld {
	w := &cloneWorld{}
	w.world = newWorld(t, func(c *Config) {
		c.Limits.Probe = probe
		c.OnClone = func(c core.Clone) { w.mu.Lock(); w.came = append(w.came, c); w.mu.Unlock() }
	})
	return w
}

func (w *cloneWorld) clones() []core.Clone { w.mu.Lock(); defer w.mu.Unlock(); return w.came }

func (w *cloneWorld) must(uid uuid.UUID, change func(*link.Config, *wire.Hello)) *agent {
	w.t.Helper()
	a, err := w.open(uid, change)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// Which newcomers are told apart from a machine that reconnects, while the older
// connection lives. A probe that nobody answered would take longer than the test may.
func TestACloneIsSentAway(t *testing.T) {
	for name, c := range map[string]struct{ machine, boot string }{
		"another machine":                    {machineB, "boot2"},
		"an image that kept its machine id":  {machineA, "boot2"},
		"another machine on the same kernel": {machineB, "boot1"},
		"an agent that tells nothing":        {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCloneWorld(t, time.Hour)
			uid := w.node(1, 1)
			first := w.must(uid, from(machineA, "boot1", nil))
			_, err := w.open(uid, from(c.machine, c.boot, nil))
			r := refusalOf(t, err)
			if r.Code != "clone" || r.RetryMs < 30_000 || !strings.Contains(r.Hint, "muster-agent reset-identity") {
				t.Errorf("refused with %+v", r)
			}
			for _, part := range []string{"node1", "127.0.0.1 (machine 3f2a91c0), since 2"} {
				if !strings.Contains(r.Message, part) {
					t.Errorf("%q lacks %q", r.Message, part)
				}
			}
			first.send(results(1, 1, 1)) // and goes on as if nothing had been
			first.waitAck(1)
			came := w.clones()
			if len(came) != 1 || came[0].Holder.Machine != "3f2a91c0" || came[0].Refused.Machine != c.machine[:min(8, len(c.machine))] ||
				came[0].Refused.Address != "127.0.0.1" || came[0].Node.Name != "node1" || came[0].Holder.Since.IsZero() {
				t.Errorf("told %+v", came)
			}
			if n := w.count("handshakes_total", "clone"); n != 1 {
				t.Errorf("%g were counted", n)
			}
		})
	}
}

// Two agents on one machine (or in two containers of it) look the same: the first
// newcomer takes over, as a machine does whose network was cut. Who comes after that is
// sent away while the other lives.
func TestTwoThatLookTheSame(t *testing.T) {
	w := newCloneWorld(t, time.Hour)
	uid := w.node(1, 1)
	first := w.must(uid, from(machineA, "boot1", nil))
	second := w.must(uid, from(machineA, "boot1", nil))
	if r := first.refusal(); r.Code != "duplicate" {
		t.Fatalf("the first was sent away with %+v", r)
	}
	_, err := w.open(uid, from(machineA, "boot1", nil))
	if r := refusalOf(t, err); r.Code != "clone" {
		t.Fatalf("the third was sent away with %+v", r)
	}
	if len(w.clones()) != 1 {
		t.Errorf("told %+v", w.clones())
	}
	second.send(results(1, 1, 1))
	second.waitAck(1)

	w.server.clock.Start(w.server.clock.Now() + int64(takeoverWindow) + 1) // by then that was an outage long ago
	third := w.must(uid, from(machineA, "boot1", nil))
	third.send(results(2, 1, 1))
	third.waitAck(2)
}

// A machine that crashed and started again comes with another boot id while its old
// connection stands: it gets in when that has not answered in time, and nobody is called a
// clone. So does one whose network is cut again and again.
func TestACrashedMachineGetsIn(t *testing.T) {
	for name, boot := range map[string]string{"rebooted": "boot2", "cut again": "boot1"} {
		t.Run(name, func(t *testing.T) {
			w := newCloneWorld(t, 50*time.Millisecond)
			uid := w.node(1, 1)
			if boot == "boot1" {
				_ = w.must(uid, from(machineA, boot, nil)) // displaced, so that the next is asked
			}
			cut := make(chan struct{})
			before := w.must(uid, from(machineA, "boot1", cut))
			before.send(results(1, 1, 1))
			before.waitAck(1)
			close(cut)
			raw(before, wire.AppendBatch(nil, results(2, 1, 1))) // what it said last is no sign of life
			after := w.must(uid, from(machineA, boot, nil))
			if after.welcome.Last[0].Last != 2 {
				t.Errorf("the new connection is told %+v", after.welcome.Last)
			}
			if len(w.clones()) != 0 {
				t.Errorf("called a clone: %+v", w.clones())
			}
		})
	}
}

// While one newcomer waits for the answer, others are told to come again.
func TestOneNewcomerWaits(t *testing.T) {
	w := newCloneWorld(t, time.Hour)
	uid := w.node(1, 1)
	cut := make(chan struct{})
	first := w.must(uid, from(machineA, "boot1", cut))
	close(cut)
	opened := make(chan *agent, 1)
	go func() {
		b, err := w.open(uid, from(machineA, "boot2", nil))
		if err != nil {
			t.Error(err)
		}
		opened <- b
	}()
	old := w.server.registry.Get(1001)
	testenv.Until(t, "one waits", func() bool { return old.Pending() })
	_, err := w.open(uid, from(machineA, "boot3", nil))
	if r := refusalOf(t, err); r.Code != "limited" || r.RetryMs > 10_000 {
		t.Errorf("the other was refused with %+v", r)
	}
	first.Close() // the end of the old connection is an answer
	if b := <-opened; b != nil {
		b.send(results(1, 1, 1))
		b.waitAck(1)
	}
	if len(w.clones()) != 0 {
		t.Errorf("called a clone: %+v", w.clones())
	}
}

// A whole fleet that reconnects while all its old connections stand half-open is asked
// nothing: it would wait an hour here.
func TestAFleetThatWasCutIsNotAsked(t *testing.T) {
	w := newCloneWorld(t, time.Hour)
	var wg sync.WaitGroup
	for n := range 50 {
		uid := w.node(n, 1)
		cut := make(chan struct{})
		_ = w.must(uid, from(machineA, "boot1", cut))
		close(cut)
		wg.Go(func() {
			if _, err := w.open(uid, from(machineA, "boot1", nil)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestOrigins(t *testing.T) {
	o := func(machine, boot string) origin { return originOf(&wire.Hello{MachineID: machine, BootID: boot}) }
	for _, c := range []struct {
		a, b origin
		same bool
	}{
		{o("", ""), origin{}, true},
		{o(machineA, "1"), o(machineA, "1"), true},
		{o(machineA, "1"), o(machineB, "1"), false},
		{o(machineA, "1"), o(machineA, "2"), false},
		{o(machineA, "1"), o(machineA[:31]+"b", "1"), false}, // behind the digits that are shown
		{o("not hexadecimal", "1"), o("not hexadecimal either", "1"), false},
		{o("ab", "1"), o("", "1"), false},
	} {
		if (c.a == c.b) != c.same {
			t.Errorf("%x and %x: same is not %t", c.a, c.b, c.same)
		}
	}
}
