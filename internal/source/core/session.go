package core

import (
	"cmp"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Config holds the settings and dependencies that all sources with sessions share.
type Config struct {
	Journal     journal.Journal
	Assignments directory.Assignments

	// Secret finds the value of a Secret for an agent whose assignment names it. Nil: no agent gets any.
	Secret SecretFunc

	// OnClone is called for each machine that is refused because another one with its identity is connected. It must not
	// block. Like the other On… functions, it may be nil.
	OnClone func(Clone)

	// OnRan is called for each result of a round-robin check, with its proxy node (zero: the node that ran it) and its age
	// at arrival.
	OnRan func(check model.CheckID, proxy model.NodeID, age time.Duration)

	// Stalled returns when the journal last stood still (journal.Log.Stalled); nil: it is not known.
	Stalled func() *time.Time

	// OnEnded is called for each session that ended, because turns of round-robin checks that were handed to the session
	// will not run.
	OnEnded func(node model.NodeID)

	Now        func() time.Time      // default time.Now
	Queues     *queue.Registry       // lists the outboxes; may be nil
	Log        *slog.Logger          // default: nothing is logged
	Registerer prometheus.Registerer // default: metrics are kept but not exposed
}

// Complete fills zero values with defaults, and fails if the journal or the assignments are missing.
func (c *Config) Complete() error {
	if c.Journal == nil || c.Assignments == nil {
		return errors.New("BUG: source without journal or assignments")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
	return nil
}

// SessionLimits holds the time-outs and sizes that all sources with sessions share. Zero: the default.
type SessionLimits struct {
	Sessions     int           // at the same time; default 60000
	UnackedBytes int           // per session, not committed yet; default model.DefaultUnackedBytes
	Keepalive    time.Duration // interval of keepalives, if the node sets none; default model.DefaultKeepalive
	Timeout      time.Duration // of keepalives, if the node sets none; default model.DefaultKeepaliveTimeout
	Probe        time.Duration // time for an older connection of a node to prove that it is alive; default 3 s
	Write        time.Duration // time-out of one write; default 10 s
	Writers      int           // goroutines of an outbox; default 8

	// The default of these depends on the source.
	Handshake time.Duration // from accept until the session is open
	PingAfter time.Duration // silence after which the agent is pinged
	DeadAfter time.Duration // silence after which the connection is closed
}

// SetDefaults fills zero limits with defaults.
func (l *SessionLimits) SetDefaults(handshake, pingAfter, deadAfter time.Duration) {
	l.Sessions = cmp.Or(l.Sessions, 60_000)
	l.UnackedBytes = cmp.Or(l.UnackedBytes, model.DefaultUnackedBytes)
	l.Keepalive = cmp.Or(l.Keepalive, model.DefaultKeepalive)
	l.Timeout = cmp.Or(l.Timeout, model.DefaultKeepaliveTimeout)
	l.Probe = cmp.Or(l.Probe, 3*time.Second)
	l.Write = cmp.Or(l.Write, 10*time.Second)
	l.Writers = cmp.Or(l.Writers, 8)
	l.Handshake = cmp.Or(l.Handshake, handshake)
	l.PingAfter = cmp.Or(l.PingAfter, pingAfter)
	l.DeadAfter = cmp.Or(l.DeadAfter, deadAfter)
}

// Session is the part of an agent's session that all sources (protocols) have in common. Each source embeds it
// in its own type. Its fields are set before the session is registered and do not change afterwards.
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

// Base returns the session itself, for types that embed a Session.
func (x *Session) Base() *Session { return x }

// Open initializes a new session, whose time of last activity is the present time. Call it before any other
// method.
func (x *Session) Open(now int64) {
	x.Window.Open()
	x.heardAt.Store(now)
}

// EncodeSessionRecord encodes the journal record about the session's start or end.
func (x *Session) EncodeSessionRecord(m wire.SessionRecord) []byte {
	m.Session = x.ID
	return x.Node.EncodeSessionRecord(m)
}

// Peer returns the machine and address at the other end of the connection.
func (x *Session) Peer() Peer {
	return Peer{Address: model.HostOf(x.Conn.NetConn().RemoteAddr().String()), Since: time.Unix(0, x.Since).Truncate(time.Second).UTC()}
}

// BeginEntries returns the journal entries for a session's start, and for the end of the replaced session. The end
// comes first. BeginEntries also ends the older session, if any. No append of the older session comes after them.
func (x *Session) BeginEntries(begin []byte, w journal.Waiter, older *Session, end func() []byte) []journal.Entry {
	entries := make([]journal.Entry, 0, 2)
	if older != nil {
		older.Displace()
		entries = append(entries, journal.Entry{Section: older.Section, Data: end()})
	}
	return append(entries, journal.Entry{Section: x.Section, Data: begin, Waiter: w})
}

// Activity records when an agent last sent a message, and whether the session's reader is handling one now.
// Times are readings of the source's Clock.
type Activity struct {
	heardAt  atomic.Int64 // time of the last frame from the agent
	pingedAt atomic.Int64 // time of the last ping to the agent
	busy     atomic.Bool  // the reader handles a message, or waits for the journal or a limit: it cannot hear
}

// MarkBusy records that a frame has arrived, and counts the session as busy until MarkIdle. Idle ends that
// state.
func (a *Activity) MarkBusy(now int64) {
	a.heardAt.Store(now)
	a.busy.Store(true)
}

// MarkIdle records that the session's reader has handled a message and waits for the next.
func (a *Activity) MarkIdle(now int64) {
	a.busy.Store(false)
	a.heardAt.Store(now)
}

// SinceLastFrame returns the time since the agent's last frame. It also returns whether the reader was too busy to hear the
// agent meanwhile. busy reports that the reader was busy, so the silence is not the agent's.
func (a *Activity) SinceLastFrame(now int64) (silence time.Duration, busy bool) {
	return time.Duration(now - a.heardAt.Load()), a.busy.Load()
}

// PingDue reports whether the last ping to the agent is longer ago than the ping interval. If so, it records
// that a new ping is sent.
func (a *Activity) PingDue(now int64, every time.Duration) bool {
	if now-a.pingedAt.Load() <= int64(every) {
		return false
	}
	a.pingedAt.Store(now)
	return true
}

// Node holds the node data that a session needs, such as names and keepalive times. All are looked up in memory:
// after a restart the whole fleet comes within seconds.
type Node struct {
	ID        model.NodeID
	Name      string
	Namespace model.NamespaceID
	Key       string // pki.Fingerprint of its machine's key; empty: none on record yet

	Keepalive time.Duration // interval of its keepalives; zero: the server's default
	Timeout   time.Duration // of its keepalives; zero: the server's default
	Warning   time.Duration // silence after which the keepalive is WARNING; zero: never

	EveryKeepalive bool // pipelines evaluate each keepalive
	Visitor        bool // the agent connects only to send a result, so no keepalive is expected
}

// EncodeSessionRecord encodes the journal record about the start or end of the node's session. m holds the
// session's id and its other fields.
func (n *Node) EncodeSessionRecord(m wire.SessionRecord) []byte {
	m.Namespace, m.NoKeepalive, m.EveryKeepalive = n.Namespace, n.Visitor, n.EveryKeepalive
	m.KeepaliveMs, m.TimeoutMs, m.WarningMs = uint32(n.Keepalive.Milliseconds()), uint32(n.Timeout.Milliseconds()), uint32(n.Warning.Milliseconds())
	return wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordSession, Node: n.ID, Session: &m})
}

// SectionOf returns the section of the journal (one per partition of nodes) with the node's entries.
func SectionOf(uid uuid.UUID) journal.Section { return journal.Section(model.PartitionOf(uid)) }

// Registry maps each node to its one session. S is the session of a source.
type Registry[S any] struct {
	mu       sync.RWMutex
	sessions map[model.NodeID]*S
}

// Swap registers x as the node's session and returns the previous session. The caller must end the previous session.
// Swap changes nothing and returns ok false if keep (may be nil) returns true for the older session, or if sessions of
// as many other nodes exist as limit allows (0: no limit).
func (r *Registry[S]) Swap(node model.NodeID, x *S, limit int, keep func(old *S) bool) (old *S, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions == nil {
		r.sessions = make(map[model.NodeID]*S)
	}
	switch old = r.sessions[node]; {
	case old == nil && limit > 0 && len(r.sessions) >= limit:
		return nil, false
	case old != nil && keep != nil && keep(old):
		return old, false
	}
	r.sessions[node] = x
	return old, true
}

// Remove removes session x from the registry, unless a newer session of the node has replaced x. It returns
// false if the node has a newer session.
func (r *Registry[S]) Remove(node model.NodeID, x *S) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[node] != x {
		return false
	}
	delete(r.sessions, node)
	return true
}

// Get returns the session of a node, or nil.
func (r *Registry[S]) Get(node model.NodeID) *S {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.sessions[node]
}

// Len returns the number of open sessions in the registry.
func (r *Registry[S]) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.sessions)
}

// ForEach calls fn with every session while the registry is locked. The function must be short and must not call the
// registry.
func (r *Registry[S]) ForEach(fn func(*S)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, x := range r.sessions {
		fn(x)
	}
}

// BatchEncoder encodes one agent's batch as journal entries, one for the node and one per proxy result. It
// builds one entry for the sending node, and one per result about a proxy node. It reuses its memory. One
// commit contains all of them.
type BatchEncoder struct {
	data []byte
	list [1]journal.Entry
	more []journal.Entry
}

// ProxyResult is a check result that an agent sent about a proxy node (a node without an agent). Its number stays with
// the node that sent it, so that it never counts twice.
type ProxyResult struct {
	directory.ProxyNode
	Signal []byte // encoded
	Number uint64
}

// Batch holds the results and other data of one agent message, to be written to the journal.
type Batch struct {
	Node    model.NodeID // node that sent the batch
	Section journal.Section
	Stream  wire.StreamKey
	NowMs   uint64
	Body    []byte // of the Batch frame
	Signals int    // results about proxy nodes included
	Proxied []ProxyResult
	Waiter  journal.Waiter
	Token   uint64
	Patient bool       // the batch has values alone: its commit may wait for more entries (journal.Entry)
	Aged    bool       // the batch states the age of its signals: after a stall the journal refuses it
	Stall   *time.Time // the last stall before the source read the batch: the journal refuses it after a later one
}

// Encode encodes a batch as entries for the journal. They belong to the record and are valid until Reset.
func (rec *BatchEncoder) Encode(b *Batch) []journal.Entry {
	rec.data = append(wire.AppendBatchRecord(rec.data[:0], b.Node), b.Body...)
	rec.list[0] = journal.Entry{Section: b.Section, Data: rec.data, Waiter: b.Waiter, Token: b.Token, Signals: b.Signals - len(b.Proxied), Patient: b.Patient, Aged: b.Aged, Stall: b.Stall}
	if len(b.Proxied) == 0 {
		return rec.list[:]
	}
	own := len(rec.data)
	ends := make([]int, len(b.Proxied))
	for i := range b.Proxied {
		p := &b.Proxied[i]
		rec.data = wire.AppendRecord(rec.data, &wire.Record{Kind: wire.RecordProxyResult, Node: p.ID, ProxyResult: &wire.ProxyResult{
			StreamKey: b.Stream, Number: p.Number, By: b.Node, Namespace: p.Namespace, NowMs: b.NowMs, Signal: p.Signal,
		}})
		ends[i] = len(rec.data)
	}
	rec.list[0].Data = rec.data[:own:own]
	rec.more = append(rec.more[:0], rec.list[0])
	for i, from := 0, own; i < len(b.Proxied); i++ {
		rec.more = append(rec.more, journal.Entry{Section: SectionOf(b.Proxied[i].UID), Data: rec.data[from:ends[i]:ends[i]], Signals: 1, Aged: b.Aged, Stall: b.Stall})
		from = ends[i]
	}
	return rec.more
}

// Reset drops the references to a batch, so that the encoder can encode another batch.
func (rec *BatchEncoder) Reset() {
	rec.list[0] = journal.Entry{}
	clear(rec.more)
}
