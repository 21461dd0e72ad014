package event

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// verdict is a new status for a state, from a result, a deadline or an operator.
type verdict struct {
	status   model.Status
	executed int64
	output   []byte
	extra    []byte // further fields of the result, encoded: see extra.go
	expired  bool   // by a deadline: no number of further results is awaited
	byHand   bool   // by an operator: likewise
}

// judge gives a state its next status, and shows it to the readers of every event and to
// watchers. c is nil only where a chunk is no longer known (resolving by hand): then the state
// keeps the id of the last one.
func (w *worker) judge(p *partition, id uint32, s *slot, c *model.CheckChunk, v verdict) {
	status, flags := s.status, s.flags
	w.setStatus(p, id, s, c, v)
	w.observe(p, id, s, c, status, flags, v.extra)
	w.view.watchers.changed(p, id)
}

// setStatus applies a verdict: counters, status history, output, flapping and the problem, with
// the transitions that reactions record.
func (w *worker) setStatus(p *partition, id uint32, s *slot, c *model.CheckChunk, v verdict) {
	failAfter, recoverAfter, severity := uint32(1), uint32(1), model.DefaultSeverity(v.status)
	if c != nil {
		failAfter, recoverAfter, severity = max(c.FailAfter, 1), max(c.RecoverAfter, 1), c.Severities[v.status&3]
		s.chunk = c.ID
	}
	severity = min(severity, model.Disaster)
	first, previous := s.historyLen == 0, s.status
	changed := previous != v.status
	failing := v.status != model.OK

	switch {
	case first:
		s.changed, s.occurrences, s.streak = w.Received, 0, 0
	case changed:
		s.changed, s.occurrences = w.Received, 0
		s.stateChanges++
		if failing != (previous != model.OK) {
			s.streak = 0
		}
	}
	s.occurrences++
	s.streak++
	switch {
	case first, failing && changed && previous == model.OK:
		s.watermark = 1
	case s.occurrences > s.watermark:
		s.watermark++
	}
	s.remember(v.status)
	s.received, s.executed = w.Received, v.executed
	if !failing {
		s.lastOK = v.executed
	}
	s.flags &^= flagExpired | flagWaits
	if v.expired {
		s.flags |= flagExpired
	}
	p.mark(id, s, v.status, severity)
	newText := failing && !changed && !sameWords(p.output(s), v.output)
	p.storeOutput(s, v.output, v.extra)

	if changed {
		if t := w.emit(p, StatusChanged, s); t != nil {
			t.Previous, t.First, t.Output = previous, first, string(v.output)
		}
	}
	if s.check == model.WatchdogCheck {
		if t := w.emit(p, Beat, s); t != nil {
			t.Output = string(v.output)
		}
	}
	w.flap(p, s, c, v.output)
	open, flapping := s.flags&flagOpen != 0, s.flags&flagFlapping != 0
	if newText && open && p.problems[id].KeptOutputs < model.MaxProblemOutputs {
		w.changeText(p, id, s, v.output)
	}
	switch {
	case failing && !open && (s.streak >= failAfter || v.expired || flapping):
		w.openProblem(p, id, s, string(v.output))
	case failing && open:
		if was := p.problems[id]; severity > was.Severity {
			worse := *was
			worse.Status, worse.Severity = v.status, severity
			p.setProblem(id, s, &worse)
		}
	case !failing && open && (s.streak >= recoverAfter && !flapping || v.byHand):
		w.closeProblem(p, id, s, string(v.output))
	}
}

func (w *worker) openProblem(p *partition, id uint32, s *slot, output string) {
	problem := &model.Problem{
		ID:     problemID(w.Position.Number, w.Received, p.Node(s.node).ID, s.check, w.index),
		NodeID: p.Node(s.node).ID, Source: model.CheckSource(s.check), Chunk: s.chunk,
		Status: s.status, Severity: s.severity,
		Opened: unixNano(w.Received), Output: output,
	}
	p.setProblem(id, s, problem)
	if t := w.emit(p, ProblemOpened, s); t != nil {
		t.Output, t.Problem, t.Hooks = output, problem, p.extra(s).Hooks
	}
}

func (w *worker) closeProblem(p *partition, id uint32, s *slot, output string) {
	closed := *p.problems[id]
	closed.Closed = unixNano(w.Received)
	p.setProblem(id, s, nil)
	if t := w.emit(p, ProblemClosed, s); t != nil {
		t.Output, t.Problem, t.Hooks = output, &closed, p.extra(s).Hooks
	}
}

// problemID derives an id from where in the journal the problem opened: the same
// after any replay, and no other's; the receive time tells two lives of the data
// apart. Sixteen characters, easy to select and to say, in the order of time to the
// second: tables by id grow at their end.
func problemID(commit uint64, received int64, node model.NodeID, check model.CheckID, index uint32) string {
	var b [28]byte
	binary.BigEndian.PutUint64(b[0:], commit)
	binary.BigEndian.PutUint64(b[8:], uint64(received))
	binary.BigEndian.PutUint32(b[16:], uint32(node))
	binary.BigEndian.PutUint32(b[20:], uint32(check))
	binary.BigEndian.PutUint32(b[24:], index)
	sum := sha256.Sum256(b[:])
	binary.BigEndian.PutUint32(sum[:], uint32(received/int64(time.Second))) // until 2106
	const alphabet = "23456789abcdefghijkmnpqrstuvwxyz"                     // without l, o, 0, 1; in the order of bytes
	return base32.NewEncoding(alphabet).EncodeToString(sum[:10])
}

func unixNano(ns int64) time.Time { return time.Unix(0, ns).UTC() }
