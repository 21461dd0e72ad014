package load_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/load"
)

// machine is a server with a disk, that can be killed and lose power: one address, and
// behind it one server after the other, each on what the disk kept of the one before. It
// is the view of whichever runs.
type machine struct {
	t       *testing.T
	options pathOptions
	lie     *lie // what is wrong with this server; nil: nothing
	addr    string
	disk    *memfs.FS
	kept    int           // of what was written and not synced when it is killed, in percent
	away    time.Duration // from its being killed to its start

	mu   sync.Mutex
	life *life
}

// life is one server's.
type life struct {
	path *resultPath
	door *door
	dead chan struct{} // closed when it is killed: what was not on its way to the disk never will be
	stop func()
}

// lie is one way to be a bad server. Both functions may be nil.
type lie struct {
	sessions func(j journal.Journal, dead <-chan struct{}) journal.Journal
	disk     func(disk.FS) disk.FS
}

func newMachine(t *testing.T, o pathOptions, l *lie) *machine {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if l == nil {
		l = &lie{}
	}
	o.dir = "/" // which is there: whoever makes a folder answers for its durability
	m := &machine{t: t, options: o, lie: l, away: 100 * time.Millisecond, addr: tcp.Addr().String(), disk: memfs.New()}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			life := m.life
			m.mu.Unlock()
			if life == nil || !life.door.enter(c) {
				c.Close()
			}
		}
	})
	if err := m.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if l := m.end(); l != nil {
			l.stop()
		}
		tcp.Close()
		accepting.Wait()
	})
	return m
}

func (m *machine) start() error {
	l := &life{door: &door{addr: m.addr, in: make(chan net.Conn), shut: make(chan struct{})}, dead: make(chan struct{})}
	o := m.options
	o.listen, o.fs = l.door, m.disk
	if m.lie.disk != nil {
		o.fs = m.lie.disk(m.disk)
	}
	if m.lie.sessions != nil {
		o.sessions = func(j journal.Journal) journal.Journal { return m.lie.sessions(j, l.dead) }
	}
	var err error
	if l.path, err = openPath(o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		err := l.path.run(ctx)
		select {
		case <-l.dead:
		case <-ctx.Done():
		default:
			m.t.Errorf("server: %v", err)
		}
	})
	l.stop = func() { cancel(); running.Wait() }
	<-l.path.ready
	m.mu.Lock()
	m.life = l
	m.mu.Unlock()
	return nil
}

// end lets nobody in any more.
func (m *machine) end() *life {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.life
	m.life = nil
	return l
}

// Restart is an orderly end, and a start. It implements load.Control with the next three.
func (m *machine) Restart(context.Context) error {
	m.end().stop()
	return m.start()
}

// Kill ends the server in an instant and starts it on what the disk has then: all that
// was written (kept 100: the process was killed), or only what was synced (kept 0: power
// was lost). Connections are cut first, so that nothing is said of what came later.
func (m *machine) Kill(ctx context.Context) error {
	l := m.end()
	close(l.dead)
	l.door.cut()
	found := m.disk.Crash(m.kept, 1)
	l.stop()
	m.disk = found
	dark, over := context.WithTimeout(ctx, m.away)
	defer over()
	<-dark.Done()
	return m.start()
}

func (m *machine) Pause() error    { return errors.ErrUnsupported }
func (m *machine) Continue() error { return errors.ErrUnsupported }

// Each implements load.View.
func (m *machine) Each(ctx context.Context, fn func(load.Kept) error) error {
	m.mu.Lock()
	l := m.life
	m.mu.Unlock()
	if l == nil {
		return errors.New("the server is down")
	}
	return load.InProcess(l.path.view).Each(ctx, fn)
}

// door is a listener whose connections come from the machine's.
type door struct {
	addr string
	in   chan net.Conn
	shut chan struct{}

	mu    sync.Mutex
	over  bool
	conns []net.Conn
}

func (d *door) enter(c net.Conn) bool {
	d.mu.Lock()
	if d.over {
		d.mu.Unlock()
		return false
	}
	d.conns = append(d.conns, c)
	d.mu.Unlock()
	select {
	case d.in <- c:
		return true
	case <-d.shut:
		return false
	}
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.in:
		return c, nil
	case <-d.shut:
		return nil, net.ErrClosed
	}
}

func (d *door) Addr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", d.addr)
	return a
}

// Close lets nobody in; who is in stays.
func (d *door) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.over = true
		close(d.shut)
	}
	return nil
}

// cut ends every connection, without a word.
func (d *door) cut() {
	d.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
}
