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

// begun waits for a session's first mark to be kept.
type begun chan outcomeOfMark

type outcomeOfMark struct {
	at  journal.Position
	err error
}

// Committed implements journal.Waiter; the channel has room for the one answer.
func (b begun) Committed(_ uint64, at journal.Position, err error) { b <- outcomeOfMark{at, err} }

// handshake answers Hello: with a session, with a refusal, or, when the connection
// broke, with neither. What a connection costs here is a look into memory, one
// journal entry and one look into the view: a whole fleet may come at once.
func (s *Server) handshake(ctx context.Context, conn *wsconn.Conn, proven Proof) (*session, *wire.Refuse) {
	hello, refusal := s.hello(conn)
	if hello == nil {
		return nil, refusal
	}
	x, refusal := s.admit(conn, hello, proven)
	if x == nil {
		return nil, refusal
	}
	if wait := s.arrivals.again(x.node.ID, s.sinceBegan()); wait > 0 {
		return nil, s.busy("limited", "this node opens sessions too often", max(wait, 30*time.Second))
	}
	if refusal := s.clone(ctx, x); refusal != nil {
		return nil, refusal
	}
	old, ok := s.registry.Swap(x.node.ID, x, s.cfg.Limits.Sessions, nil)
	if !ok {
		return nil, s.busy("limited", fmt.Sprintf("this server has its %d sessions", s.cfg.Limits.Sessions), time.Minute)
	}
	if old != nil {
		x.tookOver.Store(s.clock.Now())
	}
	if refusal := s.since(x); refusal != nil {
		x.tell(*refusal) // after Welcome
	}
	last, refusal := s.begin(ctx, x, old, hello)
	if refusal != nil {
		s.registry.Remove(x.node.ID, x)
		return nil, refusal
	}
	x.streams = streamsOf(hello.Streams, last)
	if s.cfg.OnBehind != nil && s.behind(hello, x) {
		s.cfg.OnBehind(x.node)
	}
	x.seen(hello)
	if !s.open(x) {
		return nil, s.busy("draining", "the server is stopping", time.Second)
	}
	if conn.Write(wire.AppendWelcome(make([]byte, wsconn.Headroom, 256), s.welcome(x))) != nil {
		s.registry.Remove(x.node.ID, x)
		s.readers.Done()
		return nil, nil
	}
	if a, _ := x.assignment(); a != nil && a.Hash == hello.Assignment {
		x.Mu.Lock()
		x.pushed = a
		x.Mu.Unlock()
	}
	x.welcomed()
	x.due(lanePush, dueAssign) // also what changed since the session was registered
	return x, nil
}

// since says what became of the node between the look of admit and now, when whoever ends
// sessions finds this one.
func (s *Server) since(x *session) *wire.Refuse {
	now, ok := s.cfg.Nodes.Lookup(x.uid)
	switch {
	case !ok:
		return s.unknown(x.uid, x.node.Key)
	case now.Key != x.node.Key:
		return s.replaced(&now, x.node.Key)
	case now.Name != x.node.Name:
		return s.busy("changed", "the node is called "+now.Name+" now: the session begins anew", time.Second)
	}
	return nil
}

// welcomed lets writers at the session: what became due since it was registered (its
// assignment changed, it was replaced) had to wait, because Welcome comes first.
func (x *session) welcomed() {
	x.Mu.Lock()
	x.queued = [lanes]bool{}
	put := x.duty[laneAck] != 0 && x.dueLocked(laneAck, 0)
	x.Mu.Unlock()
	if put {
		x.srv.acks.put(x)
	}
}

const (
	maxHello = 256 << 10 // bytes: labels and facts of a machine, and room
	maxPings = 16        // control frames before it
)

// hello reads the first message.
func (s *Server) hello(conn *wsconn.Conn) (*wire.Hello, *wire.Refuse) {
	for range maxPings {
		op, frame, err := conn.Read(min(s.cfg.Limits.FrameBytes, maxHello))
		if errors.Is(err, wsconn.ErrTooLarge) || errors.Is(err, wsconn.ErrProtocol) {
			return nil, s.unreadable(err)
		}
		if err != nil {
			return nil, nil
		}
		if op != wsconn.Binary {
			continue
		}
		kind, body, err := wire.FrameKind(frame)
		if err == nil && kind != wire.KindHello {
			err = fmt.Errorf("message %d before Hello", kind)
		}
		hello := new(wire.Hello)
		if err == nil {
			err = hello.Decode(body)
		}
		if err != nil {
			return nil, s.busy("malformed", err.Error(), time.Minute)
		}
		return hello, nil
	}
	return nil, s.busy("malformed", "pings and no Hello", time.Minute)
}

// admit checks who it is and whether it may.
func (s *Server) admit(conn *wsconn.Conn, hello *wire.Hello, proven Proof) (*session, *wire.Refuse) {
	if hello.Protocol != wire.Protocol {
		r := s.busy("protocol", fmt.Sprintf("the agent speaks version %d of the protocol, this server version %d", hello.Protocol, wire.Protocol), time.Minute)
		r.Hint = "bring agent and server to versions that fit: muster version"
		return nil, r
	}
	if proven.Node != uuid.Nil && hello.Node != proven.Node {
		return nil, &wire.Refuse{Code: "identity", Message: "Hello names node " + hello.Node.String() + ", the certificate is that of " + proven.Node.String(),
			Hint: pki.JoinAnew}
	}
	if retry := s.draining.Load(); retry != 0 {
		return nil, s.busy("draining", "the server is stopping", time.Duration(retry)*time.Millisecond)
	}
	node, ok := s.cfg.Nodes.Lookup(hello.Node)
	if !ok {
		return nil, s.unknown(hello.Node, proven.Key)
	}
	if proven.Key != "" {
		if refusal := s.holds(&node, hello.Node, proven.Key); refusal != nil {
			return nil, refusal
		}
	}
	if len(hello.Streams) > maxStreams {
		return nil, s.busy("streams", fmt.Sprintf("Hello names %d streams, at most %d", len(hello.Streams), maxStreams), time.Minute)
	}
	s.cfg.Limits.of(&node)
	x := &session{srv: s, conn: conn, id: hello.Session, uid: hello.Node, version: hello.Version, node: node, section: core.SectionOf(hello.Node),
		origin: originOf(hello), queued: [lanes]bool{true, true}} // nothing before Welcome
	x.proven.Store(proven != Proof{})
	x.about = aboutOf(hello, s.cfg.Now())
	x.Window.Open()
	x.budget.Open(&s.limiter, &x.node)
	x.heard.Store(s.clock.Now())
	return x, nil
}

// holds refuses a machine whose key is not the one on record of the node. A node that has
// none on record gets the one that comes first, unless that is another node's.
func (s *Server) holds(node *core.Node, uid uuid.UUID, key string) *wire.Refuse {
	if node.Key == "" {
		var holder string
		if node.Key, holder = s.cfg.Nodes.FirstKey(uid, key); holder != "" {
			r := s.busy("identity", "this machine's key is that of node "+holder+": node "+node.Name+" cannot have it, too", goneRetry)
			r.Hint = "give this machine a key of its own; on the server: muster node replace " + node.Name + "; " + pki.Paste
			return r
		}
	}
	if node.Key != key {
		return s.replaced(node, key)
	}
	return nil
}

// goneRetry is how soon a machine that is no node asks again: often enough to notice that
// somebody changed his mind.
const goneRetry = 10 * time.Minute

// unknown refuses a machine whose node is not there (any more).
func (s *Server) unknown(uid uuid.UUID, key string) *wire.Refuse {
	if gone := s.cfg.Nodes.Gone(uid, key); gone.Code != "" {
		return s.gone(gone)
	}
	r := s.busy("unknown", "the server knows no node "+uid.String(), goneRetry)
	r.Hint = pki.LetIn
	return r
}

// replaced refuses a machine with another key than that of the node.
func (s *Server) replaced(node *core.Node, key string) *wire.Refuse {
	if gone := s.cfg.Nodes.Gone(uuid.Nil, key); gone.Code != "" {
		return s.gone(gone)
	}
	r := s.busy("replaced", "node "+node.Name+" has another machine: the key of this one is not the one on record", goneRetry)
	r.Hint = "on the server, if this machine is " + node.Name + " all the same: muster node replace " + node.Name + ", if it is another: muster node token; " + pki.Paste
	return r
}

func (s *Server) gone(g Gone) *wire.Refuse {
	r := s.busy(g.Code, g.Sentence, goneRetry)
	r.Hint = g.Type
	return r
}

func (s *Server) busy(code, sentence string, retry time.Duration) *wire.Refuse {
	return &wire.Refuse{Code: code, Message: sentence, RetryMs: s.jitterMs(retry)}
}

// begin ends the node's older session, writes the mark and learns where the view
// stands after it: what the older session appended came before the mark, so the
// numbers are complete.
func (s *Server) begin(ctx context.Context, x, old *session, hello *wire.Hello) ([]wire.StreamLast, *wire.Refuse) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.Handshake)
	defer cancel()
	defer context.AfterFunc(s.base, cancel)()
	kept := make(begun, 1)
	mark := x.mark(wire.SessionMark{Begun: true, Backlog: hello.Backlog})
	entries := make([]journal.Entry, 0, 2)
	if old != nil {
		old.tell(wire.Refuse{Code: "duplicate", Message: "another connection of this node took over: this one was dead, or two agents have one identity",
			RetryMs: s.jitterMs(30 * time.Second), Hint: "if this machine is a copy of another: " + resetIt})
		old.Displace()
		old.Mu.Lock()
		clean := old.clean
		old.Mu.Unlock()
		entries = append(entries, journal.Entry{Section: old.section, Data: old.mark(wire.SessionMark{Clean: clean})})
	}
	entries = append(entries, journal.Entry{Section: x.section, Data: mark, Waiter: kept})
	if err := s.cfg.Journal.Append(ctx, entries...); err != nil {
		return nil, s.busy("unavailable", "the server cannot keep anything now", 5*time.Second)
	}
	var at journal.Position
	select {
	case k := <-kept:
		if k.err != nil {
			return nil, s.busy("unavailable", "the server cannot keep anything now", 5*time.Second)
		}
		at = k.at
	case <-ctx.Done():
		return nil, s.busy("unavailable", "the server's journal does not answer", 5*time.Second)
	}
	last, err := s.cfg.View.LastNumbers(ctx, x.node.ID, at)
	if err != nil {
		return nil, s.busy("unavailable", "the server is still reading its journal", 5*time.Second)
	}
	return last, nil
}

// open counts the reader that is to come, unless the server stops.
func (s *Server) open(x *session) bool {
	s.readers.Add(1)
	if !s.stopping.Load() {
		return true
	}
	s.readers.Done()
	s.registry.Remove(x.node.ID, x)
	return false
}

// streamsOf joins what the agent holds with what the view has kept.
func streamsOf(held []wire.StreamRange, last []wire.StreamLast) []stream {
	list := make([]stream, len(held), len(held)+1)
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

// behind says whether the agent knows more of this incarnation than the server does.
// What it no longer holds was acknowledged, so it was kept once.
func (s *Server) behind(hello *wire.Hello, x *session) bool {
	if hello.Incarnation != s.cfg.Journal.Incarnation().ID {
		return false
	}
	if a := s.cfg.Assignments.For(x.node.ID); a != nil && a.Generation.Epoch == hello.Generation.Epoch && a.Generation.Less(hello.Generation) {
		return true
	}
	for i, held := range hello.Streams {
		if held.First > x.streams[i].last+1 {
			return true
		}
	}
	return false
}

func (s *Server) welcome(x *session) *wire.Welcome {
	l, limits := &s.cfg.Limits, x.budget.Limits()
	x.maxOutput.Store(int64(limits.OutputBytes))
	w := &wire.Welcome{
		Protocol: wire.Protocol, Name: x.node.Name, Node: x.node.ID, ServerUnixMs: s.cfg.Now().UnixMilli(),
		Incarnation: s.cfg.Journal.Incarnation().ID, KeepaliveMs: uint32(x.node.Keepalive.Milliseconds()),
		MaxFrame: uint32(l.FrameBytes), MaxUnacked: uint32(l.UnackedBytes), MaxOutput: uint32(limits.OutputBytes),
		ResultsPerSec: uint32(limits.NodeResultsPerSec), Servers: s.cfg.Servers, VersionWanted: s.cfg.Version, Features: x.features(),
	}
	for i := range x.streams {
		w.Last = append(w.Last, wire.StreamLast{StreamKey: x.streams[i].StreamKey, Last: x.streams[i].last})
	}
	return w
}
