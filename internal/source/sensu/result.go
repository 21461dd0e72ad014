package sensu

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// event is the way of one event, top to bottom: find the check that it is of, judge it, hand
// it to the journal. Who asked for it does not matter: what a check of the assignment
// returned is its result, also when it comes by the agent's own API; one that the assignment
// does not name may be a passive check's (unasked.go).
func (x *session) event(said *sensuwire.Said) (out outcome, cause string) {
	if !said.HasCheck {
		return x.measured(said)
	}
	c, about := x.chunkOf(said)
	if c == nil {
		if c, about, out = x.unasked(said); c == nil {
			return out, ""
		}
	} else if len(said.Proxy) > 0 && !x.speaks(c, about.ID) {
		return x.notOurs(said), ""
	}
	if code, reason := x.srv.cfg.View.Admit(cmp.Or(about.ID, x.node.ID), c); code != "" {
		return x.full(code, reason), ""
	}
	said.Output = x.hidden(c, said.Output)
	values, err := x.valuesOf(said, c)
	if err != nil {
		return x.complain(malformed, err.Error()), ""
	}
	status, above, below := model.Status(said.Status), "", ""
	if said.Status > uint32(model.Unknown) {
		status, above = model.Unknown, fmt.Sprintf("exit code %d: plug-ins end with 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN)\n", int32(said.Status))
	} else {
		status, above, below = held(c, status, values)
	}
	if c.DiscardOutput { // but for what we say ourselves
		if above, below = strings.Trim(above+below, "\n"), ""; above == "" {
			above = model.OutputDiscarded
		}
		said.Output = nil
	}
	keep := x.outputRoom(c)
	text, cut := cutText(above, said.Output, max(keep-len(below), 0))
	if len(text)+len(below) <= keep {
		text = append(text[:len(text):len(text)], below...)
	}
	text, extra, err := x.beside(said, c, values, text, keep)
	if err != nil {
		return x.complain(malformed, err.Error()), ""
	}
	var ms uint32
	if said.Duration > 0 { // not a number is none
		ms = uint32(min(said.Duration*1000, 1<<31))
	}
	x.ran(c, about.ID)
	result := &wire.Result{Status: status, DurationMs: ms, Output: text, Cut: cut, Extra: extra}
	if about.ID == 0 {
		x.answer(c.Unit, said.Issued, result)
	}
	return x.add(c.ID, result, about)
}

// chunkOf is the definition that an event is judged by, that under which its run was asked
// for, and the proxy node that it is about, if any.
func (x *session) chunkOf(said *sensuwire.Said) (c *model.CheckChunk, about directory.ProxyNode) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	j := find(x.jobs, said.Check, said.Proxy)
	if j == nil {
		return nil, about
	}
	if said.Issued >= j.issued {
		j.waits = false
	}
	if j.before != nil && said.Issued != 0 && said.Issued < j.from {
		return j.before, j.about
	}
	return j.recipe.chunk, j.about
}

// cutText puts a cause and an output together in at most keep bytes, as text.
func cutText(cause string, output []byte, keep int) (text []byte, cut uint64) {
	text = bytes.TrimRight(output, " \t\r\n")
	if cause != "" {
		text = append([]byte(cause), text...)
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		text = bytes.ReplaceAll(bytes.ToValidUTF8(text, []byte("\uFFFD")), []byte{0}, []byte("\uFFFD"))
	}
	const room = 40 // of the mark
	if len(text) > keep {
		end := max(0, keep-room)
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		cut = uint64(len(text) - end)
		text = fmt.Appendf(text[:end:end], "… [cut %d bytes]", cut)
	}
	if len(text) == 0 {
		return []byte("(no output)"), 0
	}
	return text, cut
}

// record collects the signals of one batch for the journal.
type record struct {
	core.Record
	signals []byte // encoded
	body    []byte // of the last of them
	n       [outcomes]int
	size    int                // of what is charged for it
	about   []core.ProxyResult // its numbers count within the record, from 0
	frame   []byte
}

// add appends the signal of a result, or a keepalive where there is none.
func (r *record) add(atMs uint64, chunk model.ChunkID, result *wire.Result, about directory.ProxyNode) {
	signal := wire.Signal{Kind: wire.SignalKeepalive, AtMs: atMs}
	if result != nil {
		r.body = wire.AppendResult(r.body[:0], result)
		signal = wire.Signal{Kind: wire.SignalResult, Chunk: chunk, Node: about.ID, AtMs: atMs, Body: r.body}
	}
	if about.ID != 0 {
		r.about = append(r.about, core.ProxyResult{ProxyNode: about, Number: uint64(r.n[alive] + r.n[kept]), Signal: wire.AppendSignalMessage(nil, &signal)})
		r.signals = wire.AppendSignal(r.signals, &wire.Signal{Kind: wire.SignalResult, AtMs: atMs, Node: about.ID})
	} else {
		r.signals = wire.AppendSignal(r.signals, &signal)
	}
	if result == nil {
		r.n[alive]++
	} else {
		r.n[kept]++
	}
	r.size += len(signal.Body) + 64
}

// mostPending bounds what is handed over at once, in bytes.
const mostPending = 64 << 10

// pending is the outcome of what handOver has to keep: it counts it.
const pending = outcomes

// add notes what was said. Who reads on without a wait hands it over together.
func (x *session) add(chunk model.ChunkID, result *wire.Result, about directory.ProxyNode) (out outcome, cause string) {
	if x.pending == nil {
		x.pending = x.srv.records.Get().(*record)
	}
	x.pending.add(uint64(x.srv.boot()/1e6), chunk, result, about)
	if x.pending.size >= mostPending {
		cause = x.handOver()
	}
	return pending, cause
}

// handOver gives the journal what was said; not empty: why the session ends.
func (x *session) handOver() (cause string) {
	r := x.pending
	if r == nil {
		return ""
	}
	x.pending = nil
	return x.commit(r)
}

// keep hands one result over that the server makes by itself.
func (x *session) keep(chunk model.ChunkID, result *wire.Result, about directory.ProxyNode) {
	r := x.srv.records.Get().(*record)
	r.add(uint64(x.srv.boot()/1e6), chunk, result, about)
	r.n = [outcomes]int{} // nobody sent it
	x.commitOf(r, 1)
}

// commit hands a record over and counts what became of its messages.
func (x *session) commit(r *record) (cause string) {
	n := r.n
	out, cause := x.commitOf(r, n[alive]+n[kept])
	if cause == "" {
		x.srv.metrics.messages[alive].Add(float64(n[alive]))
		x.srv.metrics.messages[kept].Add(float64(n[kept]))
	} else {
		x.srv.metrics.messages[out].Add(float64(n[alive] + n[kept]))
	}
	return cause
}

// commitOf hands n signals to the journal, waiting while too much of this session is there
// already or the journal is full: that is how we stop reading. The numbers are ours: the
// protocol has none, so nothing comes twice.
func (x *session) commitOf(rec *record, n int) (out outcome, cause string) {
	defer rec.back(x.srv)
	size := rec.size
	if !x.Acquire(size, x.srv.cfg.Limits.UnackedBytes) {
		return displaced, "displaced"
	}
	defer x.Release()
	x.Mu.Unlock()

	first := x.numbers.last + 1
	x.numbers.last += uint64(n)
	stream, now := wire.StreamKey{Stream: x.numbers.stream}, uint64(x.srv.boot()/1e6)
	rec.frame = append(wire.AppendBatchHeader(rec.frame[:0], stream, first, now, len(rec.signals)), rec.signals...)
	_, body, err := wire.FrameKind(rec.frame)
	if err != nil {
		panic("BUG: batch that was just encoded cannot be read: " + err.Error())
	}
	for i := range rec.about {
		rec.about[i].Number += first
	}
	entries := rec.Entries(&core.Batch{Node: x.node.ID, Section: x.section, Stream: stream, NowMs: now, Body: body,
		Signals: n, Proxied: rec.about, Waiter: x, Token: uint64(size)})
	if err := x.srv.cfg.Journal.Append(x.srv.base, entries...); err != nil {
		x.numbers.last -= uint64(n)
		return unkept, "unkept"
	}
	return kept, ""
}

func (r *record) back(s *Server) {
	r.Reset()
	clear(r.about)
	r.signals, r.size, r.n, r.about = r.signals[:0], 0, [outcomes]int{}, r.about[:0]
	s.records.Put(r)
}

// Committed implements journal.Waiter. It runs on the journal's goroutine and only marks.
func (x *session) Committed(size uint64, _ journal.Position, err error) {
	x.Mu.Lock()
	x.Commit(int(size), err)
	x.Mu.Unlock()
	if err != nil {
		x.numbers.broken.Store(true)
		x.due(dueClose)
	}
}
