package play

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// fate holds what faults and churn do to a machine. Guarded by the agent's lock.
type fate struct {
	line    *cable        // of the present session
	back    chan struct{} // the machine is off the network until it is closed; nil: it is on it
	hung    bool          // has its session, sends keepalives and runs nothing
	dead    bool          // off because it stands still: it makes no results either
	excused bool          // that it has no session is the scenario's doing, and no outage
	wrong   bool          // sends results that must be refused, too
	boots   uint16
	forced  map[int16]*forced // statuses that a fault gives to checks
}

// forced is the status that a fault gives to the results of a check. The intended time of a result decides, as it does
// when alerts are judged: a sender that is behind makes results of the time before the fault after it began.
type forced struct {
	status      model.Status
	from, until int64 // ns since the run was made; until zero: the fault lasts
	sent        bool  // a result had the status
}

// cable is the TCP connection of one agent; without network it drops what is written.
type cable struct {
	*net.TCPConn
	lost    atomic.Bool
	traffic *traffic
}

// traffic counts the bytes that all cables sent and received.
type traffic struct{ sent, received atomic.Int64 }

// Write writes p, or drops it if the network is gone.
func (l *cable) Write(p []byte) (int, error) {
	if l.lost.Load() {
		return len(p), nil
	}
	n, err := l.TCPConn.Write(p)
	l.traffic.sent.Add(int64(n))
	return n, err
}

// Read reads and counts bytes.
func (l *cable) Read(p []byte) (int, error) {
	n, err := l.TCPConn.Read(p)
	l.traffic.received.Add(int64(n))
	return n, err
}

// cableOf is the context key of the agent that opens a connection.
type cableOf struct{}

// strung wraps a new connection of an agent in a cable.
func strung(ctx context.Context, c net.Conn) net.Conn {
	tcp, isTCP := c.(*net.TCPConn)
	a, _ := ctx.Value(cableOf{}).(*agent)
	if !isTCP || a == nil {
		return c
	}
	l := &cable{TCPConn: tcp, traffic: &a.fleet.traffic}
	a.mu.Lock()
	a.fate.line = l
	l.lost.Store(a.fate.back != nil)
	a.mu.Unlock()
	return l
}

// vanish disconnects a machine from the network without closing its connection; a dead machine also makes no results.
// It reports whether the machine had a network.
func (a *agent) vanish(dead bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := &a.fate
	if f.back != nil {
		f.dead = f.dead || dead
		return false
	}
	f.back, f.dead = make(chan struct{}), dead
	if f.line != nil {
		f.line.lost.Store(true)
	}
	a.excuse()
	return true
}

// appear ends vanish: a dead machine boots, and the spooled results are sent.
func (a *agent) appear() {
	a.mu.Lock()
	f := &a.fate
	if f.back == nil {
		a.mu.Unlock()
		return
	}
	if f.dead {
		f.boots++
		f.dead = false
	}
	close(f.back)
	f.back = nil
	s, l := a.session, f.line
	a.mu.Unlock()
	hangUp(s, l)
}

// online connects a machine to the network again, unless it is dead.
func (a *agent) online() {
	a.mu.Lock()
	dead := a.fate.dead
	a.mu.Unlock()
	if !dead {
		a.appear()
	}
}

// reconnect closes the agent's session, so that it opens another; rebooted also changes its boot id.
func (a *agent) reconnect(rebooted bool) {
	a.mu.Lock()
	if a.session == nil || a.fate.back != nil {
		a.mu.Unlock()
		return
	}
	if rebooted {
		a.fate.boots++
	}
	a.excuse()
	s := a.session
	a.mu.Unlock()
	s.Close()
}

// hangUp closes a session and its connection.
func hangUp(s Session, l *cable) {
	if s != nil {
		s.Close()
	}
	if l != nil {
		l.Close()
	}
}

// await waits until the machine is on the network; it returns false if the run ends before.
func (a *agent) await(ctx context.Context) bool {
	a.mu.Lock()
	back := a.fate.back
	a.mu.Unlock()
	if back != nil {
		select {
		case <-ctx.Done():
		case <-back:
		}
	}
	return ctx.Err() == nil
}

// bootID returns the boot id of the machine, another one after each boot. Caller holds the lock.
func (a *agent) bootID() string {
	if a.fate.boots == 0 {
		return a.fleet.bootID
	}
	return uuid.NewSHA1(a.uid, []byte{byte(a.fate.boots), byte(a.fate.boots >> 8)}).String()
}

// force gives a status to results of checks whose intended time is not before from, until release.
func (a *agent) force(checks []int, status model.Status, from int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fate.forced == nil {
		a.fate.forced = map[int16]*forced{}
	}
	for _, c := range checks {
		a.fate.forced[int16(c)] = &forced{status: status, from: from}
	}
}

// release ends force for results whose intended time is not before until.
func (a *agent) release(checks []int, until int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range checks {
		a.fate.forced[int16(c)].release(until)
	}
}

// status returns the status of a result of check c, which a fault may have forced, and whether the result before had another.
// own and changed are the same without faults. Caller holds the lock.
func (f *fate) status(c int, own model.Status, changed bool, intended int64) (model.Status, bool) {
	status, changed, ended := f.forced[int16(c)].apply(own, changed, intended)
	if ended {
		delete(f.forced, int16(c))
	}
	return status, changed
}

// release ends the fault for results whose intended time is not before until. A nil receiver is no fault.
func (x *forced) release(until int64) {
	if x != nil {
		x.until = until
	}
}

// apply returns the status of the next result, whether the result before had another, and whether the fault is over for this
// state. A nil receiver is no fault.
func (x *forced) apply(own model.Status, changed bool, intended int64) (status model.Status, differs, ended bool) {
	switch {
	case x == nil || intended < x.from:
		return own, changed, false
	case x.until > 0 && intended >= x.until:
		return own, changed || x.sent, true
	}
	differs, x.sent = !x.sent, true
	return x.status, differs, false
}
