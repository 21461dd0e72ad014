package event

import (
	"fmt"
	"strconv"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/wire"
)

// applyReport updates the event of a directive with the report of one run. The event shows whether the node complies.
// The event exists from the first run on that is not compliant until the node has complied for complianceRetention; a
// run from the backlog makes none, because a newer one may have come before it.
func (w *eventApplier) applyReport(p *eventPartition, n uint32, signal *wire.Signal, from *shard.SignalOrigin) shard.Outcome {
	c := w.Definition(signal.Definition).AsDirective()
	if c == nil {
		return shard.UnknownDefinition
	}
	r, err := w.Report()
	if err == nil && int(r.Components) != len(c.Components) {
		err = fmt.Errorf("the report has %d components, expected %d", r.Components, len(c.Components))
	}
	if err == nil {
		err = policy.Codes(r.Codes).Check(len(c.Components))
	}
	if err != nil {
		w.Logger().Error("report in the journal cannot be read and is left out", "commit", w.Position.Number, "node", p.Node(n).ID, "number", from.Number, "error", err)
		return shard.Malformed
	}
	executed := w.Received - from.Age(signal.AtMs)
	if p.ignoresResult(p.Node(n).ID, c.Unit, executed) {
		return shard.Forgotten
	}
	open, failed := countOpenComponents(r, c)
	id, found := p.findSource(n, c.Unit, model.ComplianceInstance)
	graced := open > 0 && r.HeldMs < uint64(c.Grace/time.Millisecond)
	if graced && (!found || p.slots.slot(id).status == model.OK) {
		return shard.Applied // a new or changed directive is no problem yet
	}
	if !found {
		if open == 0 || from.Stream.Lane == wire.Backlog {
			return shard.Applied
		}
		id, _ = p.addState(n, c.Unit, model.ComplianceInstance)
	}
	s := p.slots.slot(id)
	if s.historyLen > 0 && executed < s.executed {
		return shard.Late
	}
	s.countResult(from.Stream.Stream, from.Number)
	rules := c.EventRules(model.ComplianceInstance)
	w.text = appendReportText(w.text[:0], c, r, open)
	w.updateStatus(p, id, s, rules, statusUpdate{status: reportStatus(failed, open, rules), executed: executed, output: w.text})
	if s.status == model.OK && s.flags&flagProblemOpen == 0 && w.Received-s.changed >= int64(complianceRetention) {
		w.deleteEvent(p, id, "")
	}
	return shard.Applied
}

// complianceRetention is how long a node keeps the event of a directive with which it complies.
const complianceRetention = 7 * 24 * time.Hour

// countOpenComponents counts the components (checked parts) of a directive that a run found neither compliant
// nor waived. failed is true if one of them is not compliant, could not be repaired, or is unexpected.
func countOpenComponents(r *wire.Report, c *model.DirectiveDefinition) (open int, failed bool) {
	codes, n := policy.Codes(r.Codes), len(c.Components)
	if len(c.Blocks) == 0 {
		open, failed = codes.Unfulfilled(n), codes.Failed(n)
	} else {
		counts, _ := codes.CountStatuses(n, c.Blocks)
		open, failed = counts.Unfulfilled(), counts.Failed()
	}
	unexpected := len(wire.UnexpectedComponents(r.Exceptions, n))
	return open + unexpected, failed || unexpected > 0
}

// reportStatus returns the status of a directive's event after a run. A failed or unexpected component is a problem.
// The status is UNKNOWN if some components (their number is open) were not checked, else OK.
func reportStatus(failed bool, open int, rules *model.CheckDefinition) model.Status {
	switch {
	case failed:
		return rules.TriggerStatus()
	case open > 0:
		return model.Unknown
	}
	return model.OK
}

// maxReportText bounds the output of a directive's event, in bytes.
const maxReportText = 4096

// appendReportText appends to b the output text for the event of a directive. The output has the number of
// compliant components, and each component that is not compliant. The first of these is on the first line,
// which lists and messages show. Each other one has a line of its own.
func appendReportText(b []byte, c *model.DirectiveDefinition, r *wire.Report, open int) []byte {
	codes, n := policy.Codes(r.Codes), len(c.Components)
	counted, waived, unexpected := n, codes.Waived(n), wire.UnexpectedComponents(r.Exceptions, n)
	if len(c.Blocks) > 0 {
		counts, _ := codes.CountStatuses(n, c.Blocks)
		counted, waived = counts.Total(), counts[policy.Waived]
	}
	b = strconv.AppendInt(b, int64(counted+len(unexpected)-open-waived), 10)
	b = append(append(append(b, " of "...), model.CountNoun(counted, "component")...), " compliant"...)
	if waived > 0 {
		b = fmt.Appendf(b, ", %d waived", waived)
	}
	if len(unexpected) > 0 {
		b = fmt.Appendf(b, ", %d unexpected", len(unexpected))
	}
	if r.Ended != "" {
		b = append(append(b, "; "...), r.Ended...)
	}
	next, separator := 0, "; "
	for i := codes.NextUnfulfilled(0, n); i < n; i = codes.NextUnfulfilled(i+1, n) {
		if policy.NeverCounts(i, c.Blocks) {
			continue
		}
		for next < len(r.Exceptions) && int(r.Exceptions[next].Position) < i {
			next++
		}
		if len(b) > maxReportText {
			return append(b, "\n\u2026"...)
		}
		b = append(append(b, separator...), c.Components[i].Name...)
		separator = "\n"
		b = append(append(b, ": "...), codes.At(i).String()...)
		if next < len(r.Exceptions) && int(r.Exceptions[next].Position) == i {
			b = append(append(b, ": "...), r.Exceptions[next].Message...)
		}
	}
	for _, e := range unexpected {
		if len(b) > maxReportText {
			return append(b, "\n\u2026"...)
		}
		b = fmt.Appendf(b, "%s%s: %s", separator, policy.Unexpected, e.Message)
		separator = "\n"
	}
	return b
}
