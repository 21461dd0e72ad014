package play

import (
	"cmp"
	"errors"
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// maxFrameBytes closes a frame that holds this much output, as agents do.
const maxFrameBytes = 128 << 10

// frameRoom is the most bytes that a frame needs in addition to its signals and the last output: its header, the header
// of that result, and a result that the server must refuse.
const frameRoom = 256

// holds returns the range of signals that are not acknowledged yet. Caller holds the lock.
func (a *agent) holds() wire.StreamRange {
	h := wire.StreamRange{StreamKey: wire.StreamKey{Stream: a.stream}, First: a.ledger.Sent + 1, Last: a.ledger.Sent}
	if a.filling != nil {
		h.Last -= uint64(len(a.filling.each))
		h.First = h.Last + 1
	}
	if len(a.held) > 0 {
		f := a.held[0]
		h.First = f.first + uint64(f.done)
		h.OldestAgeMs = uint64(max(0, a.fleet.Now()-f.due)) / 1e6
	}
	return h
}

// kept drops acknowledged signals; heard is as in ledger.pass. Caller holds the lock.
func (a *agent) kept(l wire.StreamLast, heard bool) {
	now, last, gone := a.fleet.Now(), a.believe(l), 0
	for _, f := range a.held {
		if f.first+uint64(f.done) > last {
			break
		}
		a.settle(f, last, heard, now)
		if f.done < len(f.each) {
			break
		}
		a.spooled -= len(f.signals)
		a.repeat(f)
		a.fleet.frames.Put(f)
		gone++
	}
	a.held = append(a.held[:0], a.held[gone:]...)
	a.sent = max(0, a.sent-gone)
}

// repeatOneIn is how many acknowledged frames share one repetition.
const repeatOneIn = 1000

// repeat sends an acknowledged frame again, one in repeatOneIn of them: the server must take none of its signals twice, and
// no connection has to break for that. Caller holds the lock.
func (a *agent) repeat(f *frame) {
	if outputs.Mix(uint64(a.stream)^f.first)%repeatOneIn > 0 || a.session == nil || a.fate.back != nil {
		return
	}
	buf := a.fleet.scratch.Get().(*[]byte)
	defer a.fleet.scratch.Put(buf)
	f.done = 0
	*buf = appendBatch(*buf, []*frame{f}, a.stream, a.fleet.bootMs(a.fleet.Now()))
	if a.session.SendFrame(wire.StreamKey{Stream: a.stream}, f.last(), *buf) == nil {
		a.book.mu.Lock()
		a.book.counts.Repeated += uint64(len(f.each))
		a.book.mu.Unlock()
	}
}

// settle settles the signals of a frame up to a number.
func (a *agent) settle(f *frame, last uint64, heard bool, now int64) {
	b := a.book
	b.mu.Lock()
	defer b.mu.Unlock()
	until := int(min(last-f.first+1, uint64(len(f.each))))
	usual := min(f.due, f.each[0].intended+f.linger) // Slow has them wait longer: that is the server's doing
	beyond := now - usual
	for to := 0; f.done < until; {
		from := f.done
		var t *observe.Tally
		t, to = b.alike(f, f.done, until)
		if beyond <= int64(inTime) {
			t.Class(f.class).Answered += f.weight(f.done, to)
			t.InTime += f.weight(f.done, to)
		}
		kept := int64(0)
		for ; f.done < to; f.done++ {
			number, sign := f.first+uint64(f.done), &f.each[f.done]
			reason, refused := a.ledger.pass(a.stream, number, sign, heard)
			a.passed(number, sign, heard, refused, now)
			if refused {
				b.counts.Refusals[reason]++
				t.Refused++
				continue
			}
			if sign.check == wrongCheck {
				b.counts.WrongTaken++
			}
			kept += sign.weight()
			t.Whole.Record(now-sign.intended, sign.weight())
		}
		if kept > 0 {
			t.Acked += uint64(kept)
			t.Beyond.Record(beyond, kept)
			b.current(f, from, to, beyond, uint64(kept))
		}
	}
}

// pump sends the closed frames, as far as the session accepts them. Caller holds the lock.
func (a *agent) pump() {
	if a.session == nil || a.fate.back != nil || a.sent == len(a.held) {
		return
	}
	buf := a.fleet.scratch.Get().(*[]byte)
	defer a.fleet.scratch.Put(buf)
	for a.sent < len(a.held) {
		now := a.fleet.Now()
		a.speaks(now)
		frames := a.together()
		*buf = appendBatch(*buf, frames, a.stream, a.fleet.bootMs(now))
		last := frames[len(frames)-1].last()
		err := a.session.SendFrame(wire.StreamKey{Stream: a.stream}, last, *buf)
		if !errors.Is(err, link.ErrWindowFull) {
			a.ledger.shown = max(a.ledger.shown, last) // perhaps whole, whatever the error
		}
		if err != nil {
			return // full: the next acknowledgement goes on; ended: the next session does
		}
		a.sent += len(frames)
	}
}

// together returns the frames that leave in one batch: all signals that waited for a session and fit a frame, or the
// next frame.
func (a *agent) together() []*frame {
	n, signals, bytes := a.sent+1, len(a.held[a.sent].each), len(a.held[a.sent].signals)
	for ; n < len(a.held) && a.held[n-1].unit != "" && a.held[n].unit != ""; n++ {
		signals, bytes = signals+len(a.held[n].each), bytes+len(a.held[n].signals)
		if signals > wire.MaxSignals || bytes > maxFrameBytes {
			break
		}
	}
	return a.held[a.sent:n]
}

// add puts a result into the frame that is being filled, and says whether that is to leave
// at once. It was made at an instant: later than intended where the server gave the turn
// late. A spool that is full takes none: it is counted, and has no number. Caller holds the
// lock.
func (a *agent) add(what task, intended, at int64) (leaves, began bool) {
	c := what.check
	a.runs++
	if a.spooled >= a.fleet.cfg.Spool {
		a.lost++
		a.book.spoolFull(intended, "", 1, a.class.number)
		return false, false
	}
	definition, says := a.set.definitions[c], a.class.checks[c].says
	who, node := a.index, model.NodeID(0)
	var status model.Status
	var changed bool
	if what.about > 0 {
		p := &a.class.checks[c].about.pairs[what.about-1]
		who, node = p.thing, a.set.things[c][what.about-1]
		status, changed = p.next(says, c, definition, what.seq, intended)
	} else {
		own := says.Status(who, c, definition, what.seq, a.status[c], what.first)
		if a.class.checks[c].tells && !what.first {
			own = a.storm(c, own, intended, what.seq)
		}
		status, changed = a.fate.status(c, own, own != a.status[c], intended)
		a.status[c] = own
	}
	buf := a.fleet.scratch.Get().(*[]byte)
	*buf = says.Output((*buf)[:0], who, c, definition, what.seq, status)
	output, cut := *buf, 0
	room := cmp.Or(a.maxBatch, wire.MaxFrame) - frameRoom
	if len(output) > room { // no frame of this server takes it: cut, as agents do
		output, cut = output[:room], len(output)-room
	}
	if a.filling != nil && (a.filling.unit != "" || len(a.filling.signals)+len(output) > room) {
		a.leave(at)
	}
	f, began := a.fill(at, "", a.class.linger)
	before := len(f.signals)
	result := &wire.Result{Status: status, DurationMs: 5, Output: output, Cut: uint64(cut)}
	said := len(*buf)
	*buf = wire.AppendResult(*buf, result)
	f.add(&wire.Signal{Kind: wire.SignalResult, Definition: definition.ID, Node: node, AtMs: a.fleet.bootMs(at), Body: (*buf)[said:]}, result, intended, c)
	last := &f.each[len(f.each)-1]
	last.about, last.late = uint16(what.about), uint16(min((at-intended)/lateUnit, math.MaxUint16))
	a.fleet.scratch.Put(buf)
	a.ledger.Sent++
	if a.fate.wrong {
		wrong := &wire.Result{Status: status, DurationMs: 5}
		signal := wire.ResultSignal(wire.Signal{Definition: wrongDefinition, AtMs: a.fleet.bootMs(at)}, *wrong)
		f.add(&signal, wrong, intended, wrongCheck)
		a.ledger.Sent++
		a.fleet.note(func(n *notes) { n.counts.Wrong++ })
	}
	a.spooled += len(f.signals) - before
	full := len(f.each)+1 >= wire.MaxSignals || len(f.signals) >= maxFrameBytes
	early := changed || a.class.perFrame > 0 && len(f.each) >= a.class.perFrame
	switch slow := a.pace.IsSlowed(time.Duration(at)); {
	case full, early && !slow:
		return true, began
	case slow: // another Slow since may have named an earlier time
		return at >= a.due(f), began
	}
	return false, began
}

// storm draws the status of a check with alerts several times in phases that speed alerts up, so that it changes more
// often. Caller holds the agent's lock.
func (a *agent) storm(c int, own model.Status, intended int64, seq uint64) model.Status {
	fleet := a.fleet
	if !fleet.storms || own != a.status[c] {
		return own
	}
	s := fleet.Present()
	i := s.At(intended)
	if i < 0 {
		return own
	}
	says, definition := a.class.checks[c].says, a.set.definitions[c]
	for n := 1; n < int(fleet.cfg.Scenario.Phases[s[i].Phase].Speed(scenario.Alerts)) && own == a.status[c]; n++ {
		own = says.Status(a.index, c, definition, outputs.Mix(seq^uint64(n)<<56), a.status[c], false)
	}
	return own
}

// signalCheck is the check of a signal with values or a run of a directive.
const signalCheck = -3

// What a fault of the kind `wrong` sends beside each result: it names a definition that
// no server has.
const (
	wrongCheck                         = -2
	wrongDefinition model.DefinitionID = 0xfffe_ffff
)

// fill returns the frame that is being filled; began: it is a new one. Caller holds the lock.
func (a *agent) fill(intended int64, unit report.Unit, linger int64) (f *frame, began bool) {
	if a.filling != nil {
		return a.filling, false
	}
	f = a.fleet.frames.Get().(*frame)
	f.reset(a.ledger.Sent+1, int64(a.pace.SendTime(time.Duration(intended), time.Duration(linger))))
	f.class, f.unit, f.linger = a.class.number, unit, linger
	a.filling = f
	return f, true
}

// due returns the time at which the open frame must leave. Caller holds the lock.
func (a *agent) due(f *frame) int64 {
	return int64(a.pace.SendTime(time.Duration(f.each[0].intended), time.Duration(f.linger)))
}

// leave closes the open frame and sends it. Caller holds the lock.
func (a *agent) leave(due int64) {
	f := a.filling
	if f == nil {
		return
	}
	a.filling = nil
	f.due = min(f.due, due)
	a.book.frame(f, a.fleet.Now())
	a.held = append(a.held, f)
	a.pump()
}

// alive sends a keepalive if the agent sent nothing for its interval. Its intended time is the agent's first tick after
// that interval, which next returns.
func (a *agent) alive(now int64, next func(at int64) int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == nil || a.fate.back != nil || a.set == nil || a.keepalive == 0 || a.filling != nil {
		return
	}
	intended := next(max(a.lastSend+a.keepalive, a.since))
	if intended > now {
		return
	}
	f, _ := a.fill(intended, "", a.class.linger)
	f.add(&wire.Signal{Kind: wire.SignalKeepalive, AtMs: a.fleet.bootMs(now)}, &wire.Result{}, intended, -1)
	a.spooled += len(f.signals)
	a.ledger.Sent++
	a.leave(intended)
}
