package muster

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// handleBatch decodes a batch of results, and appends the accepted results to the journal. It decides about each
// signal and also applies the rate limits.
func (x *session) handleBatch(body []byte) frameOutcome {
	r := x.srv.batches.Get().(*wire.BatchReader)
	defer x.srv.batches.Put(r)
	if err := r.Reset(body); err != nil {
		return x.endForViolation(frameMalformed, err.Error())
	}
	if r.Signals > x.srv.cfg.Limits.BatchSignals {
		return x.endForViolation(batchOversized, fmt.Sprintf("%d signals in one batch, at most %d", r.Signals, x.srv.cfg.Limits.BatchSignals))
	}
	if r.Last() > maxNumber {
		return x.endForViolation(frameMalformed, "a sequence number is above the maximum")
	}
	slot, ok := x.streamIndex(r.StreamKey)
	if !ok {
		return x.endForViolation(tooManyStreams, fmt.Sprintf("more than %d streams in one session", maxStreams))
	}
	last := x.streams[slot].last
	switch {
	case r.Last() <= last: // sent again: kept already, or waiting for its commit
		x.acknowledgeAgain(slot)
		return batchRepeated
	case r.First > last+1:
		return x.endForViolation(numbersMissing, fmt.Sprintf("sequence numbers %d to %d are missing, and no gap record explains the loss", last+1, r.First-1))
	}
	signals, size := r.Signals, len(body)
	j := batchValidator{session: x}
	refused, proxied, cost := j.validateSignals(r)
	patient := r.Gap == nil && !j.urgent && r.Lane == wire.Live // a backlog waits for its window
	if len(refused)+len(proxied) > 0 {
		body = replaceSignals(body, refused, proxied)
		proxied = slices.DeleteFunc(proxied, func(p core.ProxyResult) bool { return p.Number <= last }) // kept already
	}
	if r.Gap != nil {
		x.srv.metrics.signals[droppedBySpool].Add(float64(r.Gap.Last - r.First + 1))
		x.logAgentReport(r.Gap)
	} else {
		x.srv.metrics.signals[admitted].Add(float64(signals - len(refused)))
	}
	if cost[core.LoadValues] > 0 {
		x.waitForWorkerShare()
	}
	if out := x.appendBatch(slot, r, size, body, signals-len(refused), refused, proxied, patient); out != batchKept {
		return out
	}
	cost[core.LoadBytes] = size
	x.chargeBatch(&cost)
	return batchKept
}

// streamIndex returns the session's index of a result stream (numbered sequence), and registers new streams.
// Only the reader adds streams.
func (x *session) streamIndex(key wire.StreamKey) (int, bool) {
	for i := range x.streams {
		if x.streams[i].StreamKey == key {
			return i, true
		}
	}
	if len(x.streams) == maxStreams {
		return 0, false
	}
	x.Mu.Lock()
	x.streams = append(x.streams, sessionStream{StreamKey: key})
	x.Mu.Unlock()
	return len(x.streams) - 1, true
}

// acknowledgeAgain queues an acknowledgement for a batch that the agent sent twice and the journal already has.
// The others are acknowledged when they are committed.
func (x *session) acknowledgeAgain(slot int) {
	x.Mu.Lock()
	x.streams[slot].due = true
	x.srv.acks.AddLocked(x, dueAck)
	x.Mu.Unlock()
}

// replaceSignals encodes a batch again, with an empty keepalive in place of each refused result or value. The batch
// thus keeps all its sequence numbers.
func replaceSignals(body []byte, refused []wire.RefusedSignal, proxied []core.ProxyResult) []byte {
	var r wire.BatchReader
	if err := r.Reset(body); err != nil {
		panic("BUG: batch that was read once cannot be read again: " + err.Error())
	}
	b := wire.Batch{StreamKey: r.StreamKey, First: r.First, NowMs: r.NowMs}
	for number := r.First; number <= r.Last(); number++ {
		var sig wire.Signal
		if !r.Next(&sig) {
			r.SkipDamaged()
		}
		if len(refused) > 0 && refused[0].Number == number {
			sig, refused = wire.Signal{Kind: wire.SignalKeepalive, AtMs: r.NowMs}, refused[1:]
		}
		if len(proxied) > 0 && proxied[0].Number == number {
			sig, proxied = wire.Signal{Kind: sig.Kind, AtMs: sig.AtMs, Node: sig.Node}, proxied[1:]
		}
		b.Signals = append(b.Signals, sig)
	}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	if err != nil {
		panic("BUG: batch that was just encoded cannot be read: " + err.Error())
	}
	return body
}

// An acknowledgement token is the number of a batch that the journal hands to Committed. It has three values: the
// index (slot) of the stream, the bytes of the batch (in units of 64) and its last sequence number.
const (
	numberBits = 45
	sizeBits   = 15
	maxNumber  = 1<<numberBits - 1
)

// encodeAckToken packs the stream, size and last sequence number of a batch into an integer, for the acknowledgement.
// The stream is an index. The journal returns the integer with the commit of the batch.
func encodeAckToken(slot, size int, last uint64) uint64 {
	return uint64(slot)<<(numberBits+sizeBits) | uint64((size+63)/64)<<numberBits | last
}

// decodeAckToken unpacks the stream, size and last sequence number of a batch from the integer of encodeAckToken. The
// journal returns the integer of encodeAckToken with the commit of the batch.
func decodeAckToken(t uint64) (slot, size int, last uint64) {
	return int(t >> (numberBits + sizeBits)), int(t>>numberBits&(1<<sizeBits-1)) * 64, t & maxNumber
}

// appendBatch writes a batch of results to the journal. It waits while the session's window or the journal is full: so
// the reader stops.
func (x *session) appendBatch(slot int, r *wire.BatchReader, size int, body []byte, signals int, refused []wire.RefusedSignal, proxied []core.ProxyResult, patient bool) frameOutcome {
	last := r.Last()
	t := encodeAckToken(slot, size, last)
	_, size, _ = decodeAckToken(t)
	if !x.Acquire(size, x.srv.cfg.Limits.UnackedBytes) {
		return sessionDisplaced
	}
	defer x.Release()
	x.streams[slot].last = last
	x.refused = append(x.refused, refused...)
	x.Mu.Unlock()

	rec := x.srv.records.Get().(*core.BatchEncoder)
	entries := rec.Encode(&core.Batch{Node: x.Node.ID, Section: x.Section, Stream: r.StreamKey, NowMs: r.NowMs, Body: body,
		Signals: signals, Proxied: proxied, Waiter: x, Token: t, Patient: patient, Aged: true, Stall: x.stalled})
	err := x.srv.cfg.Journal.Append(x.srv.life.Base, entries...)
	rec.Reset()
	x.srv.records.Put(rec)
	if err != nil {
		return x.endForViolation(journalRefused, "the server cannot write its journal now")
	}
	return batchKept
}

// Committed records which batches of the agent the journal has committed, and queues their acknowledgement. It
// runs on the journal's goroutine and only marks the acknowledgement as due: one message acknowledges many
// commits.
func (x *session) Committed(t uint64, _ journal.Position, err error) {
	slot, size, last := decodeAckToken(t)
	x.Mu.Lock()
	defer x.Mu.Unlock()
	x.Commit(size, err)
	switch {
	case errors.Is(err, journal.ErrStalled):
		x.refuseLocked(x.srv.newStallRefusal())
		return
	case err != nil:
		x.srv.pushes.AddLocked(x, dueClose)
		return
	}
	st := &x.streams[slot]
	st.acked, st.due = max(st.acked, last), true
	x.srv.acks.AddLocked(x, dueAck)
}

// batchValidator decides about each result and other signal (numbered item) of an agent's batch, accepted or
// refused.
type batchValidator struct {
	*session
	agentAssignment *directory.Assignment // assignment that the agent holds; nil: unknown
	outputBytes     int                   // limit on the output of a result
	urgent          bool                  // the batch has signals besides values and keepalives
	samples         wire.SampleReader     // of results

	// validateSignal sets the fields below for the signal that it judged last.
	proxy      directory.ProxyNode // the proxy node of the result
	roundRobin model.CheckID       // the round-robin check of the result; zero: none
	rows       uint32              // values in the block; zero: the signal is none
}

// validateSignals accepts or refuses each result or other signal of a batch, and returns the rate-limit cost. A
// refusal is final: the agent gets the refusal, and a keepalive takes the number in the journal. A result about
// a proxy node is kept with that node. A gap is charged, too: it becomes a row of history for each definition
// that it names.
func (j *batchValidator) validateSignals(r *wire.BatchReader) (refused []wire.RefusedSignal, proxied []core.ProxyResult, cost core.TrafficCost) {
	if r.Gap != nil {
		cost[core.LoadResults] = 1 + len(r.Gap.Counts)
		return nil, nil, cost
	}
	j.Mu.Lock()
	j.agentAssignment = j.assignment.sent
	j.Mu.Unlock()
	j.outputBytes = j.Budget.Limits().OutputBytes
	var sig wire.Signal
	number := r.First
	for left := r.Signals; left > 0; left-- {
		v, code, reason := refusedMalformed, "", "the signal cannot be decoded"
		if r.Next(&sig) {
			if v, code, reason = j.validateSignal(&sig); v == admitted && sig.Node != 0 {
				proxied = append(proxied, core.ProxyResult{ProxyNode: j.proxy, Signal: r.Raw(), Number: number})
			}
			if v == admitted && j.roundRobin != 0 && j.srv.cfg.OnRan != nil {
				j.srv.cfg.OnRan(j.roundRobin, sig.Node, time.Duration(r.NowMs-min(sig.AtMs, r.NowMs))*time.Millisecond)
			}
		} else if err := r.Err(); err != nil {
			reason = err.Error()
			r.SkipDamaged()
		}
		switch {
		case v == admitted && sig.Kind == wire.SignalValueBlock:
			cost[core.LoadValues] += int(j.rows)
			j.values.Store(true)
		case v == admitted && sig.Kind != wire.SignalResult && sig.Kind != wire.SignalKeepalive:
			cost[core.LoadReports]++
			j.urgent = true
		default:
			cost[core.LoadResults]++
			j.urgent = j.urgent || sig.Kind != wire.SignalKeepalive
		}
		if v != admitted {
			j.srv.metrics.signals[v].Inc()
			code = cmp.Or(code, verdictNames[v])
			refused = append(refused, wire.RefusedSignal{StreamKey: r.StreamKey, Number: number, Code: code, Reason: reason})
			j.logRefusal(v, code, reason)
			if limit := limitOfRefusal(v, code); limit != "" {
				j.Budget.Hit(limit, reason)
			}
		}
		number++
	}
	return refused, proxied, cost
}

// limitOfRefusal returns the name of the limit that caused the refusal of a result. It is empty if the refusal
// has another reason.
func limitOfRefusal(v signalDecision, code string) string {
	switch v {
	case refusedOutput:
		return "output"
	case refusedStates:
		return core.EventLimitName(code)
	}
	return ""
}

// logRefusal logs the first refusal of each kind in a session. The metrics count all.
func (j *batchValidator) logRefusal(v signalDecision, code, reason string) {
	if j.logged[v] {
		return
	}
	j.logged[v] = true
	j.srv.cfg.Log.Warn("refused a signal permanently; one line per session and code, see muster_session_signals_total", "node", j.Node.Name, "code", code, "reason", reason)
}

// logAgentReport logs a problem that an agent reports about itself, once per session.
func (x *session) logAgentReport(g *wire.Gap) {
	report := []wire.GapCount{{Kind: wire.SignalKeepalive, Definition: model.BuiltinDefinitionID(model.KeepaliveCheck)}}
	if !x.reportLogged && slices.Equal(g.Counts, report) {
		x.reportLogged = true
		x.srv.cfg.Log.Warn("an agent reports a failure of its own", "node", x.Node.Name, "report", g.Reason)
	}
}

// validateSignal decides whether to accept one result (signal), or to refuse the result with a reason. It asks the event
// view for each result, because the event may have been deleted since the last result.
func (j *batchValidator) validateSignal(sig *wire.Signal) (v signalDecision, code, reason string) {
	j.roundRobin, j.rows = 0, 0
	switch sig.Kind {
	case wire.SignalKeepalive:
		return admitted, "", ""
	case wire.SignalResult:
	default:
		return j.validateHeader(sig)
	}
	var r wire.Result
	if err := r.Decode(sig.Body); err != nil {
		return refusedMalformed, "", err.Error()
	}
	if size := len(r.Output) + len(r.Extra) + len(r.Samples); size > j.outputBytes {
		return refusedOutput, "", fmt.Sprintf("output of %d bytes, at most %d", size, j.outputBytes)
	}
	if len(r.Extra) > 0 {
		if _, err := wire.DecodeExtra(r.Extra); err != nil {
			return refusedMalformed, "", err.Error()
		}
	}
	if len(r.Samples) > 0 {
		if err := j.samples.Validate(r.Samples); err != nil {
			return refusedMalformed, "", err.Error()
		}
	}
	check := j.allowedDefinition(sig.Definition).AsCheck()
	if check == nil {
		return refusedDefinition, "", unknownDefinitionText(sig.Definition)
	}
	if check.RoundRobin {
		j.roundRobin = check.Unit
	}
	target := j.Node.ID
	if sig.Node != 0 || check.Proxy {
		if reason := j.authorizeProxy(sig, check); reason != "" {
			return refusedProxy, "", reason
		}
		target = sig.Node
	}
	if code, reason := j.srv.cfg.View.Admit(target, check); code != "" {
		return refusedStates, code, reason
	}
	return admitted, "", ""
}

// validateHeader accepts or refuses a report, inventory or block of values without decoding the body. It does
// not decode the body.
func (j *batchValidator) validateHeader(sig *wire.Signal) (v signalDecision, code, reason string) {
	switch {
	case sig.Kind == wire.SignalInventory && j.srv.cfg.Inventories == nil, sig.Kind != wire.SignalInventory && !slices.Contains(j.srv.cfg.Kinds, sig.Kind):
		return refusedKind, "", "this server does not accept a " + sig.Kind.String()
	case sig.Node != 0:
		return refusedProxy, "", fmt.Sprintf("a %s names node %d: only results may name proxy nodes", sig.Kind, sig.Node)
	case sig.Kind == wire.SignalInventory: // of the agent itself, without a definition
		if reason := j.srv.cfg.Inventories.Admit(j.Node.Namespace, sig.Body); reason != "" {
			return refusedMalformed, "inventory", reason
		}
	case j.allowedDefinition(sig.Definition) == nil:
		return refusedDefinition, "", unknownDefinitionText(sig.Definition)
	case sig.Kind == wire.SignalReport:
		if reason := j.foreignCertificate(sig.Body); reason != "" {
			return refusedMalformed, "certificate", reason
		}
	case sig.Kind == wire.SignalValueBlock:
		var b wire.ValueBlock
		if err := b.Decode(sig.Body); err != nil {
			return refusedMalformed, "", err.Error()
		}
		if b.Log.Item != 0 {
			return refusedMalformed, "", "a value block with the position in a log is for agents of Zabbix"
		}
		j.rows = b.Rows
	}
	return admitted, "", ""
}

// foreignCertificate returns an error text for a report that was signed with another certificate than the session's.
// Else the text is empty, and the certificate is the session's. The server keeps it with signatures of the node's
// runs.
func (j *batchValidator) foreignCertificate(report []byte) string {
	der, err := wire.ReportCertificate(report)
	if err != nil {
		return err.Error()
	}
	if der == nil || !j.proven.Load() {
		return ""
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return "the report brings a certificate that cannot be read: " + err.Error()
	}
	if uid, err := pki.NodeOf(cert); err != nil || uid != j.UID || pki.FingerprintOf(cert) != j.Node.Key {
		return "the report brings the certificate of another node or key"
	}
	return ""
}

// unknownDefinitionText returns the refusal text for a result of a check that is not assigned to the node.
func unknownDefinitionText(id model.DefinitionID) string {
	return fmt.Sprintf("the node's assignment has no definition %d", id)
}

// authorizeProxy returns why the agent may not send a result about a proxy node, or an empty text. A node
// reports only on proxy nodes that its assignment names, also by an older definition.
func (j *batchValidator) authorizeProxy(sig *wire.Signal, c *model.CheckDefinition) string {
	switch {
	case !c.Proxy:
		return fmt.Sprintf("the result names node %d, but definition %d is not a proxy check", sig.Node, c.ID)
	case sig.Node == 0:
		return fmt.Sprintf("definition %d is a proxy check, but the result names no proxy node", c.ID)
	}
	sent := cmp.Or(j.agentAssignment, j.srv.cfg.Assignments.AssignmentOf(j.Node.ID))
	var ok bool
	if j.proxy, ok = sent.ProxyNode(c.Unit, sig.Node); !ok {
		return fmt.Sprintf("this node's assignment has no proxy node %d for check %s", sig.Node, c.Name)
	}
	return ""
}

// allowedDefinition returns the compiled check with an id, or nil if the node may not send its results. An older
// definition that the assignment no longer has must be of the node's namespace, whose handlers get the messages, and
// no check of the server itself.
func (j *batchValidator) allowedDefinition(id model.DefinitionID) *model.Definition {
	if j.agentAssignment != nil {
		if i, ok := definitionIndex(j.agentAssignment.Definitions, id); ok {
			return j.agentAssignment.Definitions[i]
		}
	}
	c := j.srv.cfg.Assignments.Definition(id)
	switch {
	case c == nil,
		j.Node.ID == model.ServerNode && c.Unit != model.WatchdogCheck,
		j.Node.ID != model.ServerNode && (c.Unit < model.FirstCheck || c.Namespace != j.Node.Namespace && c.Namespace != model.SharedNamespace):
		return nil
	}
	return c
}

// definitionIndex returns the index of a compiled check in a list sorted by id. It is a loop of its own, because
// slices.BinarySearchFunc calls a function per step, once per result.
func definitionIndex(definitions []*model.Definition, id model.DefinitionID) (int, bool) {
	low, high := 0, len(definitions)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if definitions[mid].ID < id {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(definitions) && definitions[low].ID == id
}
