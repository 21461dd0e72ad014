package muster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// sessionStartCommit is a channel that receives the outcome of the journal write at a session's start.
type sessionStartCommit chan sessionStartOutcome

// sessionStartOutcome is the outcome of the journal write at a session's start. It is the journal position or the error.
type sessionStartOutcome struct {
	at  journal.Position
	err error
}

// Committed passes the journal position or error of the session's start to the waiting handshake.
func (c sessionStartCommit) Committed(_ uint64, at journal.Position, err error) {
	c <- sessionStartOutcome{at, err}
}

// handshake reads the first message of an agent, and returns a new session or a refusal. It returns neither if the
// connection broke. It costs a look-up in memory, one journal entry and one look-up in the view, because a whole fleet
// may connect at once.
func (s *Server) handshake(ctx context.Context, conn *wsconn.Conn, proven Proof) (*session, *wire.Refuse) {
	hello, refusal := s.readHello(conn)
	if hello == nil {
		return nil, refusal
	}
	x, refusal := s.admitAgent(conn, hello, proven)
	if x == nil {
		return nil, refusal
	}
	if wait := s.arrivals.countHello(x.Node.ID, s.monotonicNs()); wait > 0 {
		return nil, s.newRefusal("limited", "this node opens sessions too often", max(wait, 30*time.Second))
	}
	if refusal := s.refuseClone(ctx, x); refusal != nil {
		return nil, refusal
	}
	older, ok := s.registry.Swap(x.Node.ID, x, s.cfg.Limits.Sessions, nil)
	if !ok {
		return nil, s.newRefusal("limited", fmt.Sprintf("this server is at its limit of %d sessions", s.cfg.Limits.Sessions), time.Minute)
	}
	if older != nil {
		x.tookOverAt.Store(s.clock.Now())
	}
	if refusal := s.refuseChangedNode(x); refusal != nil {
		x.refuse(refusal) // the writer sends the refusal after Welcome
	}
	last, refusal := s.writeSessionStart(ctx, x, older, hello)
	if refusal != nil {
		s.registry.Remove(x.Node.ID, x)
		return nil, refusal
	}
	x.streams = joinStreams(hello.Streams, last)
	if s.cfg.OnOlderData != nil && s.isBehindAgent(hello, x) {
		s.cfg.OnOlderData(x.Node)
	}
	x.recordFacts(hello)
	if !s.life.AddReader() {
		s.registry.Remove(x.Node.ID, x)
		return nil, s.newRefusal("draining", "the server is stopping", time.Second)
	}
	if conn.Write(wire.AppendWelcome(make([]byte, wsconn.Headroom, 256), s.newWelcome(x))) != nil {
		s.registry.Remove(x.Node.ID, x)
		s.life.RemoveReader()
		return nil, nil
	}
	if a, _ := x.supportedAssignment(); a != nil && a.Hash == hello.Assignment {
		x.Mu.Lock()
		x.assignment.sent = a
		x.Mu.Unlock()
	}
	// Duties that arose since the session was registered waited for Welcome.
	s.acks.UnblockWriters(x)
	s.pushes.UnblockWriters(x)
	s.pushes.Add(x, dueAssign)
	return x, nil
}

// refuseChangedNode refuses an agent whose node changed while the session was being opened. The node was renamed,
// replaced or deleted.
func (s *Server) refuseChangedNode(x *session) *wire.Refuse {
	now, ok := s.cfg.Nodes.Lookup(x.UID)
	switch {
	case !ok:
		return s.refuseUnknown(x.UID, x.Node.Key)
	case now.Key != x.Node.Key:
		return s.refuseReplaced(&now, x.Node.Key)
	case now.Name != x.Node.Name:
		return s.newRefusal("changed", "the node was renamed to "+now.Name+": the agent connects again", time.Second)
	}
	return nil
}

const (
	maxHelloBytes = 256 << 10 // labels and facts of a machine
	maxPings      = 16        // control frames before Hello
)

// readHello reads the first message of a connection and refuses any other than Hello.
func (s *Server) readHello(conn *wsconn.Conn) (*wire.Hello, *wire.Refuse) {
	for range maxPings {
		op, frame, err := conn.Read(min(s.cfg.Limits.FrameBytes, maxHelloBytes))
		if errors.Is(err, wsconn.ErrTooLarge) || errors.Is(err, wsconn.ErrProtocol) {
			return nil, s.newUnreadableRefusal(err)
		}
		if err != nil {
			return nil, nil
		}
		if op != wsconn.Binary {
			continue
		}
		kind, body, err := wire.FrameKind(frame)
		if err == nil && kind != wire.KindHello {
			err = fmt.Errorf("expected Hello as the first message, got a message of kind %d", kind)
		}
		hello := new(wire.Hello)
		if err == nil {
			err = hello.Decode(body)
		}
		if err != nil {
			return nil, s.newRefusal("malformed", err.Error(), time.Minute)
		}
		return hello, nil
	}
	return nil, s.newRefusal("malformed", fmt.Sprintf("got %d control frames, but no Hello", maxPings), time.Minute)
}

// admitAgent authenticates the agent and checks that its node may connect.
func (s *Server) admitAgent(conn *wsconn.Conn, hello *wire.Hello, proven Proof) (*session, *wire.Refuse) {
	if hello.Protocol != wire.Protocol {
		return nil, withHint(s.newRefusal("protocol", fmt.Sprintf("the agent speaks version %d of the protocol, this server version %d", hello.Protocol, wire.Protocol), time.Minute),
			"install matching versions of agent and server: muster version")
	}
	if proven.Node != uuid.Nil && hello.Node != proven.Node {
		return nil, &wire.Refuse{Code: "identity", Message: "Hello names node " + hello.Node.String() + ", the certificate names node " + proven.Node.String(),
			Hint: pki.HintJoinAgain}
	}
	if retry := s.drainRetry.Load(); retry != 0 {
		return nil, s.newRefusal("draining", "the server is stopping", time.Duration(retry)*time.Millisecond)
	}
	node, ok := s.cfg.Nodes.Lookup(hello.Node)
	if !ok {
		return nil, s.refuseUnknown(hello.Node, proven.Key)
	}
	if proven.Key != "" {
		if refusal := s.checkKey(&node, hello.Node, proven.Key); refusal != nil {
			return nil, refusal
		}
	}
	if len(hello.Streams) > maxStreams {
		return nil, s.newRefusal("streams", fmt.Sprintf("Hello names %d streams, at most %d", len(hello.Streams), maxStreams), time.Minute)
	}
	s.cfg.Limits.completeNode(&node)
	now := s.cfg.Now()
	x := &session{srv: s, hello: helloFieldsOf(hello, now)}
	x.Conn, x.ID, x.UID, x.Node, x.Section, x.Since = conn, hello.Session, hello.Node, node, core.SectionOf(hello.Node), now.UnixNano()
	x.BlockWriters() // Welcome comes first
	x.proven.Store(proven != Proof{})
	x.Open(s.clock.Now())
	x.Budget.Open(&s.limiter, &x.Node)
	if s.cfg.Stalled != nil {
		x.stalled = s.cfg.Stalled()
	}
	return x, nil
}

// checkKey refuses a machine with a key other than the recorded key of its node. It returns nil if the keys are equal.
// A node without a key gets the first one, unless that is another node's.
func (s *Server) checkKey(node *core.Node, uid uuid.UUID, key string) *wire.Refuse {
	if node.Key == "" {
		var holder string
		if node.Key, holder = s.cfg.Nodes.FirstKey(uid, key); holder != "" {
			return withHint(s.newRefusal("identity", "this machine has the key of node "+holder+": node "+node.Name+" needs another key", unknownNodeRetry),
				"give this machine its own key; on the server: muster node replace "+node.Name+"; "+pki.HintRunJoinLine)
		}
	}
	if node.Key != key {
		return s.refuseReplaced(node, key)
	}
	return nil
}

// unknownNodeRetry is the time after which a machine without a node connects again, because an operator may have added
// its node.
const unknownNodeRetry = 10 * time.Minute

// refuseUnknown returns the refusal for a machine whose node does not exist.
func (s *Server) refuseUnknown(uid uuid.UUID, key string) *wire.Refuse {
	if gone := s.cfg.Nodes.Retirement(uid, key); gone.Code != "" {
		return s.refuseRetired(gone)
	}
	return withHint(s.newRefusal("unknown", "the server does not know node "+uid.String(), unknownNodeRetry), pki.HintAccept)
}

// refuseReplaced returns the refusal for a machine whose key differs from the node's recorded key.
func (s *Server) refuseReplaced(node *core.Node, key string) *wire.Refuse {
	if gone := s.cfg.Nodes.Retirement(uuid.Nil, key); gone.Code != "" {
		return s.refuseRetired(gone)
	}
	return withHint(s.newRefusal("replaced", "node "+node.Name+" belongs to another machine: the server has another key on record", unknownNodeRetry),
		"on the server, if this machine is "+node.Name+" anyway: muster node replace "+node.Name+", if it is another: muster node token; "+pki.HintRunJoinLine)
}

// refuseRetired returns the refusal for a machine whose node was retired or deleted.
func (s *Server) refuseRetired(g Retirement) *wire.Refuse {
	return withHint(s.newRefusal(g.Code, g.Sentence, unknownNodeRetry), g.Type)
}

// newRefusal returns a Refuse message with a code, a sentence for people and a randomized retry time.
func (s *Server) newRefusal(code, sentence string, retry time.Duration) *wire.Refuse {
	return &wire.Refuse{Code: code, Message: sentence, RetryMs: s.jitterMs(retry)}
}

// withHint adds a hint (a command that solves the problem) to a Refuse message.
func withHint(r *wire.Refuse, hint string) *wire.Refuse {
	r.Hint = hint
	return r
}

// writeSessionStart writes the start of a new session to the journal, and returns the last received sequence numbers. It first
// ends the node's previous session. Each number belongs to a stream of the session. The mark is behind the older
// session's appends, so the numbers are complete.
func (s *Server) writeSessionStart(ctx context.Context, x, older *session, hello *wire.Hello) ([]wire.StreamLast, *wire.Refuse) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.Handshake)
	defer cancel()
	defer context.AfterFunc(s.life.Base, cancel)()
	var base *core.Session
	if older != nil {
		base = &older.Session
		older.refuse(&wire.Refuse{Code: "duplicate", Message: "another connection of this node replaced this connection, which was dead; or two agents have the same identity",
			RetryMs: s.jitterMs(30 * time.Second), Hint: "if this machine is a copy of another: " + resetIdentity})
	}
	committed := make(sessionStartCommit, 1)
	entries := x.BeginEntries(x.EncodeSessionRecord(wire.SessionRecord{Start: true, Backlog: hello.Backlog}), committed, base, func() []byte {
		older.Mu.Lock()
		defer older.Mu.Unlock()
		return older.EncodeSessionRecord(wire.SessionRecord{Clean: older.closing.clean})
	})
	if err := s.cfg.Journal.Append(ctx, entries...); err != nil {
		return nil, s.newRefusal("unavailable", "the server cannot write its journal now", 5*time.Second)
	}
	var at journal.Position
	select {
	case c := <-committed:
		if c.err != nil {
			return nil, s.newRefusal("unavailable", "the server cannot write its journal now", 5*time.Second)
		}
		at = c.at
	case <-ctx.Done():
		return nil, s.newRefusal("unavailable", "the server's journal does not answer", 5*time.Second)
	}
	last, err := s.cfg.View.LastNumbers(ctx, x.Node.ID, at)
	if err != nil {
		return nil, s.newRefusal("unavailable", "the server is still replaying its journal", 5*time.Second)
	}
	return last, nil
}

// joinStreams combines the result streams that an agent's Hello lists with the server's last sequence numbers. A
// stream is a numbered sequence of results.
func joinStreams(held []wire.StreamRange, last []wire.StreamLast) []sessionStream {
	list := make([]sessionStream, len(held), len(held)+1)
	for i, h := range held {
		list[i].StreamKey = h.StreamKey
		for _, l := range last {
			if l.StreamKey == h.StreamKey {
				list[i].last, list[i].acked = l.Last, l.Last
			}
		}
	}
	return list
}

// isBehindAgent reports whether the agent has newer data than the server, for example after a restored backup.
// The cause may be a restored backup.
func (s *Server) isBehindAgent(hello *wire.Hello, x *session) bool {
	if now := s.cfg.Journal.Incarnation(); hello.Incarnation != now.ID {
		// An agent of an earlier incarnation, or of another server, has an older assignment.
		return hello.Incarnation != 0 && hello.Generation.Epoch > now.Epoch
	}
	if a := s.cfg.Assignments.AssignmentOf(x.Node.ID); a != nil && a.Generation.Epoch == hello.Generation.Epoch && a.Generation.Less(hello.Generation) {
		return true
	}
	for i, held := range hello.Streams {
		if held.First > x.streams[i].last+1 {
			return true
		}
	}
	return false
}

// newWelcome returns the message that accepts a session, with its limits and features.
func (s *Server) newWelcome(x *session) *wire.Welcome {
	l, limits := &s.cfg.Limits, x.Budget.Limits()
	x.maxOutput.Store(int64(limits.OutputBytes))
	w := &wire.Welcome{
		Protocol: wire.Protocol, Name: x.Node.Name, Node: x.Node.ID, ServerUnixMs: s.cfg.Now().UnixMilli(),
		Incarnation: s.cfg.Journal.Incarnation().ID, KeepaliveMs: uint32(x.Node.Keepalive.Milliseconds()),
		MaxFrame: uint32(l.FrameBytes), MaxUnacked: uint32(l.UnackedBytes), MaxOutput: uint32(limits.OutputBytes),
		ResultsPerSec: uint32(limits.NodeResultsPerSec), Servers: s.cfg.Servers, VersionWanted: s.cfg.Version, Features: x.offeredFeatures(),
	}
	if s.cfg.Inventories != nil {
		w.Inventory = s.cfg.Inventories.Sum(x.Node.ID)
	}
	for i := range x.streams {
		w.Last = append(w.Last, wire.StreamLast{StreamKey: x.streams[i].StreamKey, Last: x.streams[i].last})
	}
	return w
}
