package sensu

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// incomingEvent is an event that an agent has sent, while its session handles the event.
type incomingEvent struct {
	*session
	*sensuwire.ReceivedEvent
}

// handleEvent converts an agent's event to a result, and adds the result to the journal's batch. An event of a check
// of the assignment is its result even if the agent's own API sent it. Another event may belong to a passive check
// (passive_check_events.go).
func (e *incomingEvent) handleEvent() (out messageOutcome, cause string) {
	if !e.HasCheck {
		return e.handleMetrics()
	}
	c, tags, proxy := e.findAssignedDefinition()
	if c == nil {
		if c, proxy, out = e.findPassiveDefinition(); c == nil {
			return out, ""
		}
	} else if len(e.Proxy) > 0 && !e.mayReportOn(c, proxy.ID) {
		return e.refuseProxy(), ""
	}
	if code, reason := e.srv.cfg.View.Admit(cmp.Or(proxy.ID, e.Node.ID), c); code != "" {
		return e.refuseAtEventLimit(code, reason), ""
	}
	e.Output = e.redact(c, e.Output)
	values, err := e.readValues(c, tags)
	if err != nil {
		return e.refuseMessage(messageMalformed, err.Error()), ""
	}
	status, above, below := model.Status(e.Status), "", ""
	if e.Status > uint32(model.Unknown) {
		status, above = model.Unknown, fmt.Sprintf("exit code %d: plug-ins end with 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN)\n", int32(e.Status))
	} else {
		status, above, below = applyThresholds(c, status, values)
	}
	if c.DiscardOutput { // the output is discarded, except for lines that the server added
		if above, below = strings.Trim(above+below, "\n"), ""; above == "" {
			above = model.OutputDiscarded
		}
		e.Output = nil
	}
	limit := e.outputLimit(c)
	text, cut := limitOutput(above, e.Output, max(limit-len(below), 0), !c.Sensu)
	if len(text)+len(below) <= limit {
		text = append(text[:len(text):len(text)], below...)
	}
	text, extra, err := e.encodeExtra(c, values, text, limit)
	if err != nil {
		return e.refuseMessage(messageMalformed, err.Error()), ""
	}
	if len(c.Pipelines) > 0 {
		extra = wire.AppendExtra(extra, &wire.Extra{Sensu: e.describeRun(text, len(above), len(below))})
	}
	e.reportRun(c, proxy.ID)
	result := &wire.Result{Status: status, DurationMs: secondsToMs(e.Duration), Output: text, Cut: cut, Extra: extra}
	if proxy.ID == 0 {
		e.answerRuns(c.Unit, e.Issued, result)
	}
	return e.addSignal(e.age(), c.ID, result, proxy)
}

// maxTransit is the longest normal delay of a result. Older results are dated back. The times in an event are whole
// seconds.
const maxTransit = 3 * time.Second

// age returns the delay between the end of a command and the arrival of its result, or 0. The cause is the
// network or a paused server. Otherwise it is 0. The agent's times are compared with the times of the answered
// requests, which are the server's. A time before the session is none of a command that the session can have
// waited for.
func (e *incomingEvent) age() time.Duration {
	if e.Executed == 0 {
		return 0
	}
	if ahead := e.Executed - e.Issued; e.Issued != 0 && (e.clockAhead == nil || ahead < *e.clockAhead) {
		e.clockAhead = &ahead // no command runs before its request
	}
	if e.clockAhead == nil {
		return 0
	}
	now := e.srv.cfg.Now()
	ended := time.Unix(e.Executed-*e.clockAhead, 0).Add(time.Duration(secondsToMs(e.Duration)) * time.Millisecond)
	if age := now.Sub(ended); age > maxTransit && age < now.Sub(time.Unix(0, e.Since)) {
		return age
	}
	return 0
}

// describeRun returns the event fields that only handlers of events in Sensu's format need. The result's text
// has lines of the server before and after the agent's output.
func (e *incomingEvent) describeRun(text []byte, above, below int) *wire.SensuRun {
	run := &wire.SensuRun{ExitCode: e.Status, Sequence: uint64(max(e.Sequence, 0)), Issued: uint64(max(e.Issued, 0))}
	trimmed := bytes.TrimRight(e.Output, trimmedSpace)
	if len(trimmed) > 0 {
		run.OutputFrom, run.OutputTo = uint32(above), uint32(max(len(text)-below, above))
	}
	run.Tail = string(e.Output[len(trimmed):min(len(e.Output), len(trimmed)+maxTailBytes)])
	return run
}

const (
	trimmedSpace = " \t\r\n" // white space that is cut off the end of an output
	maxTailBytes = 64
)

// findAssignedDefinition finds the check that produced an event among the node's assigned checks. It returns nil if
// the check is not assigned.
func (e *incomingEvent) findAssignedDefinition() (c *model.CheckDefinition, tags map[string]string, proxy directory.ProxyNode) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	j := findJob(e.list, e.Check, e.Proxy)
	if j == nil {
		return nil, nil, proxy
	}
	if e.Issued >= j.issued {
		j.unanswered = false
	}
	if j.previous != nil && e.Issued != 0 && e.Issued < j.since {
		return j.previous, j.prepared.tags, j.proxy
	}
	return j.prepared.definition, j.prepared.tags, j.proxy
}

// limitOutput joins a line from the server with a check's output, and truncates the text to a limit. The result
// is valid UTF-8 of at most limit bytes. marked adds a mark to a cut text; Sensu has none.
func limitOutput(line string, output []byte, limit int, marked bool) (text []byte, cut uint64) {
	text = bytes.TrimRight(output, trimmedSpace)
	if line != "" {
		text = append([]byte(line), text...)
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		text = bytes.ReplaceAll(bytes.ToValidUTF8(text, []byte("\uFFFD")), []byte{0}, []byte("\uFFFD"))
	}
	const markBytes = 40
	if len(text) > limit {
		end := limit
		if marked {
			end = max(0, limit-markBytes)
		}
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		cut = uint64(len(text) - end)
		text = text[:end:end]
		if marked {
			text = fmt.Appendf(text, "… [cut %d bytes]", cut)
		}
	}
	if len(text) == 0 {
		return []byte("(no output)"), 0
	}
	return text, cut
}

// secondsToMs converts seconds from an agent to milliseconds. A number that is not positive becomes zero.
func secondsToMs(seconds float64) uint32 {
	if !(seconds > 0) {
		return 0
	}
	return uint32(min(seconds*1000, 1<<31))
}

// signalRecord collects results and keepalives for one write to the journal.
type signalRecord struct {
	core.BatchEncoder
	signals []byte // encoded signals
	body    []byte // body of the last signal
	counts  [outcomes]int
	bytes   int                // bytes of the messages, which are charged to the limits
	proxied []core.ProxyResult // their numbers count from 0 within the record
	frame   []byte
}

// addSignal appends a result to the journal record, or appends a keepalive if result is nil.
func (r *signalRecord) addSignal(atMs uint64, definition model.DefinitionID, result *wire.Result, proxy directory.ProxyNode) {
	signal, out := wire.Signal{Kind: wire.SignalKeepalive, AtMs: atMs}, keepaliveKept
	if result != nil {
		r.body = wire.AppendResult(r.body[:0], result)
		signal, out = wire.Signal{Kind: wire.SignalResult, Definition: definition, Node: proxy.ID, AtMs: atMs, Body: r.body}, resultKept
	}
	if proxy.ID != 0 {
		r.proxied = append(r.proxied, core.ProxyResult{ProxyNode: proxy, Number: uint64(r.counts[keepaliveKept] + r.counts[resultKept]), Signal: wire.AppendSignalMessage(nil, &signal)})
		r.signals = wire.AppendSignal(r.signals, &wire.Signal{Kind: wire.SignalResult, AtMs: atMs, Node: proxy.ID})
	} else {
		r.signals = wire.AppendSignal(r.signals, &signal)
	}
	r.counts[out]++
	r.bytes += len(signal.Body) + 64
}

// release empties the record and returns the memory to the pool of records.
func (r *signalRecord) release(s *Server) {
	r.Reset()
	clear(r.proxied)
	r.signals, r.bytes, r.counts, r.proxied = r.signals[:0], 0, [outcomes]int{}, r.proxied[:0]
	s.records.Put(r)
}

// maxPendingBytes limits the size of the results and keepalives in one commit.
const maxPendingBytes = 64 << 10

// pendingOutcome is the outcome of a message that waits for its commit. The method commitPending counts the final
// outcome.
const pendingOutcome = outcomes

// addSignal adds a result (or keepalive, if result is nil) to the batch for the next journal write. Signals of
// messages that arrived together become one commit. age is how long ago its command ended.
func (x *session) addSignal(age time.Duration, definition model.DefinitionID, result *wire.Result, proxy directory.ProxyNode) (out messageOutcome, cause string) {
	if x.pending == nil {
		x.pending = x.srv.records.Get().(*signalRecord)
	}
	x.pending.addSignal(uint64((x.srv.monotonicTime()-int64(age))/1e6), definition, result, proxy)
	if x.pending.bytes >= maxPendingBytes {
		cause = x.commitPending()
	}
	return pendingOutcome, cause
}

// commitPending appends the waiting results and keepalives to the journal, and counts their outcomes. A cause ends the
// session.
func (x *session) commitPending() (cause string) {
	r := x.pending
	if r == nil {
		return ""
	}
	x.pending = nil
	counts := r.counts
	out := x.commitRecord(r, counts[keepaliveKept]+counts[resultKept])
	if out == resultKept {
		x.srv.metrics.messages[keepaliveKept].Add(float64(counts[keepaliveKept]))
		x.srv.metrics.messages[resultKept].Add(float64(counts[resultKept]))
		return ""
	}
	x.srv.metrics.messages[out].Add(float64(counts[keepaliveKept] + counts[resultKept]))
	return outcomeNames[out]
}

// commitServerResult appends a result that the server itself made to the journal. Such a result came with no message,
// so it is not counted by an outcome.
func (x *session) commitServerResult(definition model.DefinitionID, result *wire.Result, proxy directory.ProxyNode) {
	r := x.srv.records.Get().(*signalRecord)
	r.addSignal(uint64(x.srv.monotonicTime()/1e6), definition, result, proxy)
	r.counts = [outcomes]int{}
	_ = x.commitRecord(r, 1)
}

// commitRecord writes a batch of n results and keepalives to the journal. It waits while the session's window or the
// journal is full: so the reader stops. The server numbers the signals, because the protocol has no numbers; so
// nothing is sent twice.
func (x *session) commitRecord(rec *signalRecord, n int) messageOutcome {
	defer rec.release(x.srv)
	size := rec.bytes
	if !x.Acquire(size, x.srv.cfg.Limits.UnackedBytes) {
		return sessionDisplaced
	}
	defer x.Release()
	x.Mu.Unlock()

	first := x.numbers.last + 1
	x.numbers.last += uint64(n)
	stream, now := wire.StreamKey{Stream: x.numbers.stream}, uint64(x.srv.monotonicTime()/1e6)
	rec.frame = append(wire.AppendBatchHeader(rec.frame[:0], stream, first, now, len(rec.signals)), rec.signals...)
	_, body, err := wire.FrameKind(rec.frame)
	if err != nil {
		panic("BUG: batch that was just encoded cannot be read: " + err.Error())
	}
	for i := range rec.proxied {
		rec.proxied[i].Number += first
	}
	entries := rec.Encode(&core.Batch{Node: x.Node.ID, Section: x.Section, Stream: stream, NowMs: now, Body: body,
		Signals: n, Proxied: rec.proxied, Waiter: x, Token: uint64(size)})
	if err := x.srv.cfg.Journal.Append(x.srv.life.Base, entries...); err != nil {
		x.numbers.last -= uint64(n)
		return notJournaled
	}
	return resultKept
}

// Committed counts written bytes of the session as durable, and ends the session after a failed journal write.
// It runs on the journal's goroutine and does not block.
func (x *session) Committed(size uint64, _ journal.Position, err error) {
	x.Mu.Lock()
	x.Commit(int(size), err)
	x.Mu.Unlock()
	if err != nil {
		x.numbers.broken.Store(true)
		x.srv.outbox.Add(x, dueClose)
	}
}
