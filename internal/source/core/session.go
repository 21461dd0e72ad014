package core

import (
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Session is the part of a session that all sources share; a source embeds it. Its fields are set before the session is
// registered and do not change afterwards.
type Session struct {
	Window
	Outgoing
	Activity
	Probe
	Conn    *wsconn.Conn
	Node    Node
	UID     uuid.UUID
	ID      uint64 // of this session in the journal
	Section journal.Section
	Budget  Budget
	Since   int64 // start of the session, Unix ns
}

// Base returns the session itself, for Sender.
func (x *Session) Base() *Session { return x }

// Open prepares a session at the present reading of the source's clock; call it before any other method.
func (x *Session) Open(now int64) {
	x.Window.Open()
	x.heard.Store(now)
}

// Mark returns the journal record of the beginning or the end of the session.
func (x *Session) Mark(m wire.SessionMark) []byte {
	m.Session = x.ID
	return x.Node.Mark(m)
}

// Peer returns the machine at the other end.
func (x *Session) Peer() Peer {
	return Peer{Address: model.HostOf(x.Conn.NetConn().RemoteAddr().String()), Since: time.Unix(0, x.Since).Truncate(time.Second).UTC()}
}

// BeginEntries ends the older session of the node (nil: there is none) and returns the entries that the journal needs, in this
// order: end is the mark of the older one's end and comes behind its last append, begin is the mark of this one.
func (x *Session) BeginEntries(begin []byte, w journal.Waiter, older *Session, end func() []byte) []journal.Entry {
	entries := make([]journal.Entry, 0, 2)
	if older != nil {
		older.Displace()
		entries = append(entries, journal.Entry{Section: older.Section, Data: end()})
	}
	return append(entries, journal.Entry{Section: x.Section, Data: begin, Waiter: w})
}

// Activity tells a silent agent from a session whose own reader is busy. Times are readings of the source's Clock.
type Activity struct {
	heard  atomic.Int64 // last frame of the agent
	pinged atomic.Int64 // last ping to it
	busy   atomic.Bool  // the reader handles a message, or waits for the journal or a limit: it cannot hear
}

// Busy notes that the reader has a message and handles it until Idle.
func (a *Activity) Busy(now int64) {
	a.heard.Store(now)
	a.busy.Store(true)
}

// Idle notes that the reader waits for the agent again.
func (a *Activity) Idle(now int64) {
	a.busy.Store(false)
	a.heard.Store(now)
}

// Silence returns the time since the last frame. busy: the server is the reason, not the agent.
func (a *Activity) Silence(now int64) (silence time.Duration, busy bool) {
	return time.Duration(now - a.heard.Load()), a.busy.Load()
}

// PingDue reports whether no ping was sent within every, and notes one.
func (a *Activity) PingDue(now int64, every time.Duration) bool {
	if now-a.pinged.Load() <= int64(every) {
		return false
	}
	a.pinged.Store(now)
	return true
}
