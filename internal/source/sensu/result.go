package sensu

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/wire"
)

// incoming is one event that a session's reader handles.
type incoming struct {
	*session
	*sensuwire.Received
}

// handle makes a result of an event, in order: find its check, judge it, hand it to the journal. An event of a check of the
// assignment is its result even if the agent's own API sent it. Another event may belong to a passive check
// (passive_event.go).
func (e *incoming) handle() (out outcome, cause string) {
	if !e.HasCheck {
		return e.handleMetrics()
	}
	c, proxy := e.assignedChunk()
	if c == nil {
		if c, proxy, out = e.passiveChunk(); c == nil {
			return out, ""
		}
	} else if len(e.Proxy) > 0 && !e.mayReportOn(c, proxy.ID) {
		return e.refuseProxy(), ""
	}
	if code, reason := e.srv.cfg.View.Admit(cmp.Or(proxy.ID, e.Node.ID), c); code != "" {
		return e.refuseState(code, reason), ""
	}
	e.Output = e.redact(c, e.Output)
	values, err := e.values(c)
	if err != nil {
		return e.refuse(malformed, err.Error()), ""
	}
	status, above, below := model.Status(e.Status), "", ""
	if e.Status > uint32(model.Unknown) {
		status, above = model.Unknown, fmt.Sprintf("exit code %d: plug-ins end with 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN)\n", int32(e.Status))
	} else {
		status, above, below = applyThresholds(c, status, values)
	}
	if c.DiscardOutput { // except for the lines of the server
		if above, below = strings.Trim(above+below, "\n"), ""; above == "" {
			above = model.OutputDiscarded
		}
		e.Output = nil
	}
	limit := e.outputLimit(c)
	text, cut := limitOutput(above, e.Output, max(limit-len(below), 0))
	if len(text)+len(below) <= limit {
		text = append(text[:len(text):len(text)], below...)
	}
	text, extra, err := e.extra(c, values, text, limit)
	if err != nil {
		return e.refuse(malformed, err.Error()), ""
	}
	e.reportRun(c, proxy.ID)
	result := &wire.Result{Status: status, DurationMs: milliseconds(e.Duration), Output: text, Cut: cut, Extra: extra}
	if proxy.ID == 0 {
		e.answerRuns(c.Unit, e.Issued, result)
	}
	return e.add(c.ID, result, proxy)
}

// assignedChunk returns the chunk by which an event is judged, the one under which its run was requested, and its proxy
// node, if any; nil: the assignment does not name the check.
func (e *incoming) assignedChunk() (c *model.CheckChunk, proxy directory.ProxyNode) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	j := findJob(e.list, e.Check, e.Proxy)
	if j == nil {
		return nil, proxy
	}
	if e.Issued >= j.issued {
		j.unanswered = false
	}
	if j.previous != nil && e.Issued != 0 && e.Issued < j.since {
		return j.previous, j.proxy
	}
	return j.recipe.chunk, j.proxy
}

// limitOutput joins a line of the server and an output, as valid text of at most limit bytes.
func limitOutput(line string, output []byte, limit int) (text []byte, cut uint64) {
	text = bytes.TrimRight(output, " \t\r\n")
	if line != "" {
		text = append([]byte(line), text...)
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		text = bytes.ReplaceAll(bytes.ToValidUTF8(text, []byte("\uFFFD")), []byte{0}, []byte("\uFFFD"))
	}
	const markBytes = 40
	if len(text) > limit {
		end := max(0, limit-markBytes)
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

// milliseconds converts seconds of an agent; anything but a positive number is zero.
func milliseconds(seconds float64) uint32 {
	if !(seconds > 0) {
		return 0
	}
	return uint32(min(seconds*1000, 1<<31))
}
