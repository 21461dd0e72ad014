package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"maps"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// statusUpdate is a new status for an event, caused by a result, missed deadline or operator.
type statusUpdate struct {
	status     model.Status
	executed   int64
	output     []byte
	extra      []byte // further fields of the result, encoded: see check_output_store.go
	expired    bool   // by a deadline: no number of further results is awaited
	byOperator bool   // by an operator: likewise

	verdict *wire.Verdict // of a trigger or alert: its problem has the labels of this; nil: the status is not of a verdict
}

// setTexts copies the labels and the description of a verdict to a problem. It reports whether they differed.
func setTexts(problem *model.Problem, v *wire.Verdict) bool {
	if v == nil || maps.Equal(problem.Labels, v.Labels) && problem.Description == v.Description {
		return false
	}
	problem.Labels, problem.Description = v.Labels, v.Description
	return true
}

// updateStatus sets the new status of an event, and notifies pipelines and watchers of the change. c is nil
// only where a definition is no longer known (resolving by hand): then the state keeps the id of the last one.
func (w *eventApplier) updateStatus(p *eventPartition, id uint32, s *stateSlot, c *model.CheckDefinition, v statusUpdate) {
	status, flags := s.status, s.flags
	w.setStatus(p, id, s, c, v)
	every := c != nil && len(c.Pipelines) > 0 || s.check == model.KeepaliveCheck && p.Node(s.node).EveryKeepalive
	p.recordRun(id, s, every, v.extra)
	if every || s.check == model.KeepaliveCheck && s.status != status || s.check == model.MetricsCheck && hasValuePipelines(v.extra) {
		w.emitObservation(p, id, s, flags, v.extra)
	}
	w.view.watchers.reportChange(p, id)
}

// setStatus sets the status of an event, and updates its history, counters and problem. It updates counters, history,
// output, flapping and the problem.
func (w *eventApplier) setStatus(p *eventPartition, id uint32, s *stateSlot, c *model.CheckDefinition, v statusUpdate) {
	failAfter, recoverAfter, severity := uint32(1), uint32(1), model.DefaultSeverity(v.status)
	if c != nil {
		failAfter, recoverAfter, severity = max(c.FailAfter, 1), max(c.RecoverAfter, 1), c.Severities[v.status&3]
		s.definition = c.ID
	}
	severity = min(severity, model.Disaster)
	first, previous, since := s.historyLen == 0, s.status, s.changed
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
	s.appendHistory(v.status)
	s.received, s.executed = w.Received, v.executed
	if !failing {
		s.lastOK = v.executed
	}
	s.flags &^= flagExpired | flagAwaitsHeartbeat
	if v.expired {
		s.flags |= flagExpired
	}
	p.setStatusAndSeverity(id, s, v.status, severity)
	newText := failing && !changed && !differOnlyInNumbers(p.outputText(s), v.output)
	p.storeOutput(s, v.output, v.extra)

	if changed {
		if t := w.emitTransition(p, StatusChanged, s); t != nil {
			t.Previous, t.First, t.Output = previous, first, string(v.output)
			if !first {
				t.Since = since
			}
		}
	}
	if s.check == model.WatchdogCheck {
		if t := w.emitTransition(p, Beat, s); t != nil {
			t.Output = string(v.output)
		}
	}
	w.updateFlapping(p, s, c, v.output)
	open, flapping := s.flags&flagProblemOpen != 0, s.flags&flagFlapping != 0
	if newText && open && p.problems[id].KeptOutputs < model.MaxProblemOutputs {
		w.emitTextChange(p, id, s, v.output)
	}
	switch {
	case failing && !open && (s.streak >= failAfter || v.expired || flapping):
		w.openProblem(p, id, s, &v)
	case failing && open:
		next := *p.problems[id]
		worse := severity > next.Severity
		if worse {
			next.Status, next.Severity = v.status, severity
		}
		if setTexts(&next, v.verdict) || worse {
			p.setProblem(id, s, &next)
		}
	case !failing && open && (s.streak >= recoverAfter && !flapping || v.byOperator):
		w.closeProblem(p, id, s, string(v.output))
	}
}

// openProblem opens a problem for a failing event, and records the change for the dispatcher. The transition is
// ProblemOpened.
func (w *eventApplier) openProblem(p *eventPartition, id uint32, s *stateSlot, v *statusUpdate) {
	output := string(v.output)
	problem := &model.Problem{
		ID:     problemID(w.Position.Number, w.Received, p.Node(s.node).ID, s.check, w.transitionIndex),
		NodeID: p.Node(s.node).ID, Source: p.source(s), Definition: s.definition,
		Status: s.status, Severity: s.severity,
		Opened: unixNano(w.Received), Output: output,
	}
	setTexts(problem, v.verdict)
	p.setProblem(id, s, problem)
	if t := w.emitTransition(p, ProblemOpened, s); t != nil {
		t.Output, t.Problem, t.Hooks = output, problem, p.decodeExtra(s).Hooks
	}
}

// closeProblem closes the problem of an event, and records the change for the dispatcher. The transition is
// ProblemClosed.
func (w *eventApplier) closeProblem(p *eventPartition, id uint32, s *stateSlot, output string) {
	closed := *p.problems[id]
	closed.Closed = unixNano(w.Received)
	p.setProblem(id, s, nil)
	if t := w.emitTransition(p, ProblemClosed, s); t != nil {
		t.Output, t.Problem, t.Hooks = output, &closed, p.decodeExtra(s).Hooks
	}
}

// problemID computes the id of a problem from its journal position and receive time. A replay gives the same id.
// Sixteen characters, easy to select and to say, in the order of time to the second: tables by id grow at their end.
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

// unixNano converts nanoseconds since 1970 to a UTC time
func unixNano(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// flappingPercent returns the percentage of status changes in a full history of statuses. As in Nagios, the youngest
// change counts 1.18 and the oldest 0.80.
func (s *stateSlot) flappingPercent() uint32 {
	if s.historyLen < model.HistoryDepth {
		return 0
	}
	sum := uint32(0)
	differs := s.history ^ s.history>>2
	for i := range uint32(model.HistoryDepth - 1) { // from the youngest
		if differs>>(2*i)&3 != 0 {
			sum += 118 - 2*i
		}
	}
	return sum / (model.HistoryDepth - 1)
}

// updateFlapping starts or ends the flapping of an event, by the percentage of status changes in its history. Between
// the two thresholds it changes nothing.
func (w *eventApplier) updateFlapping(p *eventPartition, s *stateSlot, c *model.CheckDefinition, output []byte) {
	was, is := s.flags&flagFlapping != 0, false
	if c != nil && c.FlapStart > 0 {
		if change := s.flappingPercent(); was {
			is = change > c.FlapEnd
		} else {
			is = change >= c.FlapStart
		}
	}
	kind := FlappingStarted
	switch {
	case was == is:
		return
	case is:
		s.flags |= flagFlapping
	default:
		s.flags &^= flagFlapping
		kind = FlappingEnded
	}
	if t := w.emitTransition(p, kind, s); t != nil {
		t.Output = string(output)
	}
}

// emitTextChange reports the new output text of an open problem to the dispatcher. The transition is TextChanged.
func (w *eventApplier) emitTextChange(p *eventPartition, id uint32, s *stateSlot, output []byte) {
	next := *p.problems[id]
	next.KeptOutputs++
	p.setProblem(id, s, &next)
	if t := w.emitTransition(p, TextChanged, s); t != nil {
		t.Output, t.Problem = string(output), &next
	}
}

// differOnlyInNumbers reports whether two outputs are equal except for numbers. An example are outputs about a disk
// that fills up.
func differOnlyInNumbers(a, b []byte) bool {
	number := func(c byte) bool { return c >= '0' && c <= '9' || c == '.' || c == ',' }
	for {
		for len(a) > 0 && number(a[0]) {
			a = a[1:]
		}
		for len(b) > 0 && number(b[0]) {
			b = b[1:]
		}
		if len(a) == 0 || len(b) == 0 {
			return len(a) == len(b)
		}
		if a[0] != b[0] {
			return false
		}
		a, b = a[1:], b[1:]
	}
}

// Observation is a copy of an event for the pipelines, after each result, missed deadline or operator's action.
// Pipelines kept from Sensu evaluate each of them; docs/decisions/0012-every-event.md says why the view makes them.
type Observation struct {
	State                // without Beside
	Extra         []byte // further fields of the result, encoded: wire.DecodeExtra
	FlappingBegan bool
	FlappingEnded bool
}

// emitObservation gives a copy of the event to the pipelines imported from Sensu. flags are from before the verdict.
func (w *eventApplier) emitObservation(p *eventPartition, id uint32, s *stateSlot, flags slotFlags, extra []byte) {
	t := w.emitTransition(p, Observed, s)
	if t == nil {
		return
	}
	flapped, flaps := flags&flagFlapping != 0, s.flags&flagFlapping != 0
	t.Observation = &Observation{Extra: bytes.Clone(extra), FlappingBegan: flaps && !flapped, FlappingEnded: flapped && !flaps}
	p.copyState(id, &t.Observation.State)
	t.Observation.Runs = p.latestRuns(id)
	t.Observation.Output = string(p.outputText(s))
}

// hasValuePipelines reports whether values without a check name any pipelines that must receive the values.
func hasValuePipelines(extra []byte) bool {
	x, _ := wire.DecodeExtra(extra) // the session validated it; malformed bytes name none
	return len(x.Pipelines) > 0
}

// TransitionKind is the kind of a change of an event, such as an opened or closed problem
type TransitionKind uint8

const (
	// StatusChanged means that a result or a deadline changed the status of an event.
	StatusChanged TransitionKind = 1
	// ProblemOpened follows the StatusChanged that caused it.
	ProblemOpened TransitionKind = 2
	// ProblemClosed follows the StatusChanged that caused it.
	ProblemClosed TransitionKind = 3
	// ResultsLost means that an agent's spool dropped results of this check.
	ResultsLost TransitionKind = 4
	// LateResult is a result older than the present state, for history only.
	LateResult TransitionKind = 5
	// Acknowledged means that a person takes care of the problem.
	Acknowledged TransitionKind = 6
	// Unacknowledged means that a person took the acknowledgement back.
	Unacknowledged TransitionKind = 7
	// FlappingStarted follows the StatusChanged that caused it, if there was one.
	FlappingStarted TransitionKind = 8
	// FlappingEnded follows the StatusChanged that caused it, if there was one.
	FlappingEnded TransitionKind = 9
	// TextChanged means that the output of an open problem changed in more than its numbers. Each
	// problem has model.MaxProblemOutputs of them at most.
	TextChanged TransitionKind = 10
	// Beat is a synthetic result of the watchdog. History does not keep it.
	Beat TransitionKind = 11
	// Observed carries an Observation for the readers of every event. It follows all other
	// transitions of the same verdict; history does not keep it.
	Observed TransitionKind = 12
	// Deregistered means that an ephemeral node was forgotten, and handlers are notified.
	Deregistered TransitionKind = 13
)

// Transition is one change of an event, such as an opened problem. The dispatcher handles each exactly once, and in
// order per partition. It owns its memory.
type Transition struct {
	At journal.Position // of the commit that caused it
	// Index is the order within (commit, partition), from 0. Observed transitions are numbered
	// apart, so that pipelines change the number, and the problem id, of nothing else.
	Index      uint32
	Partition  model.Partition
	Kind       TransitionKind
	Node       model.NodeID
	Namespace  model.NamespaceID
	Source     model.Source
	Definition model.DefinitionID
	Status     model.Status
	Previous   model.Status
	First      bool  // for StatusChanged: there was no status before, Previous means nothing
	Since      int64 // for StatusChanged: start of the status Previous, Unix ns; 0: First
	Severity   model.Severity
	Received   int64 // Unix ns, journal time
	Executed   int64 // Unix ns
	Output     string
	Problem    *model.Problem     // for ProblemOpened, ProblemClosed, Acknowledged, Unacknowledged and TextChanged
	Hooks      []model.HookResult // for ProblemOpened and ProblemClosed
	Count      uint64             // for ResultsLost
	Expired    bool               // caused by a deadline

	Observation  *Observation       // for Observed, which has no Output
	Registered   bool               // for Observed: the node is new
	Deregistered *wire.ForgetRecord // for Deregistered, and for the Observed transitions of the removed node
}

// Lifecycle reports whether the change is the registration or deregistration of a node. Others are about a check of
// the node.
func (t *Transition) Lifecycle() bool {
	return t.Registered || t.Deregistered != nil && t.Source.Check() == model.KeepaliveCheck
}
