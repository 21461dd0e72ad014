package load

import (
	"fmt"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/model"
)

// flip is a problem that opens or closes.
type flip struct {
	at   int64 // ns since the run was made
	open bool
}

// witness follows one event state whose alerts are judged. Of a check the acknowledged
// results say, in order, which alerts must come: each that ends a row of good ones opens
// a problem, each that ends a row of bad ones closes it. Of a machine the fault script
// says it (see silence). Its lock is taken under the agents'.
type witness struct {
	name string // node/check
	now  func() int64

	mu      sync.Mutex
	failing bool
	unclear bool // a deadline has judged in between: the results alone do not say what must come
	must    []flip
	came    []flip
}

// result is one that was acknowledged, and when it was meant to be made.
func (w *witness) result(status model.Status, intended int64) {
	failing := status != model.OK
	w.mu.Lock()
	defer w.mu.Unlock()
	if failing != w.failing {
		w.failing = failing
		w.must = append(w.must, flip{at: intended, open: failing})
	}
}

// told is an alert.
func (w *witness) told(t flip) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.at = w.now()
	w.came = append(w.came, t)
}

// blow is one fault as its alerts are judged: whom it struck and from when to when.
type blow struct {
	at, until int64 // ns since the run was made; until zero: it lasted to the end
	states    []*witness
	offline   map[*witness]bool // of the states, machines that had no session when it struck: since when nobody hears of them is not its doing
	machines  bool              // the states are machines that stood still …
	timeout   int64             // … and are missed after so long
	unsure    bool              // the server itself was away meanwhile: machines may be missed later

	alerts, missing, extra int
	detected, cleared      *hdrhistogram.Histogram
	example                string // of the first thing that was wrong
}

// machine adds one that stood still, whose agent knows when it had a session.
func (b *blow) machine(w *witness, a *agent) {
	b.states = append(b.states, w)
	if a == nil || a.attended(b.at, b.at) {
		return
	}
	if b.offline == nil {
		b.offline = map[*witness]bool{}
	}
	b.offline[w] = true
}

func (b *blow) wrong(count *int, w *witness, format string, args ...any) {
	*count++
	if b.example == "" {
		b.example = w.name + ": " + fmt.Sprintf(format, args...)
	}
}

// early is how much sooner than its result was meant an alert may come: senders wake up a moment too
// soon, and the clocks of several loaders are not quite one. What comes sooner is of no such result:
// paired with it, an alert that was made up would stand for one that is missing.
const early = int64(1e9)

// judge judges a check's state: what must come and what came are paired in order,
// openings and closings apart. of finds the blow that a flip at some instant belongs to;
// struck: it struck the state, which otherwise only must not be wrong.
func (w *witness) judge(struck bool, of func(at int64) *blow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unclear {
		return
	}
	for _, open := range []bool{true, false} {
		must, came := flipsOf(w.must, open), flipsOf(w.came, open)
		counted, all := map[*blow]bool{}, len(came)
		for _, m := range must {
			for ; len(came) > 0 && came[0].at < m.at-early; came = came[1:] {
				b := of(came[0].at)
				b.wrong(&b.extra, w, "an alert that it %s, %.1f s before it did", verb(open), float64(m.at-came[0].at)/1e9)
			}
			b := of(m.at)
			own := struck && !counted[b] && b.owns(m)
			if own {
				counted[b] = true
				b.alerts++
			}
			if len(came) == 0 {
				b.wrong(&b.missing, w, "no alert that it %s", verb(open))
				continue
			}
			switch c := came[0]; {
			case own && open:
				record(b.detected, c.at-b.at, 1)
			case own:
				record(b.cleared, c.at-b.until, 1)
			}
			came = came[1:]
		}
		for _, c := range came {
			b := of(c.at)
			b.wrong(&b.extra, w, "an alert that it %s, %d of them and %d had to come", verb(open), all, len(must))
		}
	}
}

// owns says whether a state turned because of the blow, not by itself: it fails while the
// blow lasts, or is well once it is over.
func (b *blow) owns(t flip) bool {
	if t.open {
		return t.at >= b.at && (b.until == 0 || t.at <= b.until)
	}
	return b.until > 0 && t.at >= b.until
}

func verb(open bool) string {
	if open {
		return "fails"
	}
	return "is well again"
}

func flipsOf(all []flip, open bool) (list []flip) {
	for _, t := range all {
		if t.open == open {
			list = append(list, t)
		}
	}
	return list
}

// silence judges one machine that stood still from b.at on: one alert that it is silent,
// if it was so for longer than its time-out, and one that it is back. Of one that was away
// already the first may have come before.
func (b *blow) silence(w *witness, end int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	till := b.until
	if till == 0 {
		till = end
	}
	var opened, closed []flip
	before := false
	for _, t := range w.came {
		switch {
		case t.at < b.at:
			before = t.open
		case t.open && t.at <= till+judge.Slack:
			if opened = append(opened, t); len(opened) == 1 {
				closed = nil // was of the one before
			}
		case !t.open && (before || len(opened) > 0):
			closed = append(closed, t)
		}
	}
	if len(opened) == 0 && !before {
		if till-b.at > b.timeout+judge.Slack && !b.unsure {
			b.alerts++
			b.wrong(&b.missing, w, "silent for %d s, and nobody was notified", (till-b.at)/1e9)
		}
		return
	}
	b.alerts++
	if len(opened) > 0 && !b.offline[w] {
		record(b.detected, opened[0].at-b.at, 1)
	}
	for range len(opened) - 1 {
		b.wrong(&b.extra, w, "notified %d times that it is silent", len(opened))
	}
	if b.until > 0 {
		b.alerts++
		if len(closed) == 0 {
			b.wrong(&b.missing, w, "no alert that it is back")
		} else {
			record(b.cleared, closed[0].at-b.until, 1)
		}
	}
}

// judgeBlows fills in what is to be said of each blow; those of checks must not be mixed
// with those of machines. others are states of checks that none of them struck; what is said
// of other machines is read from history (silent.go).
func judgeBlows(blows []*blow, others []*witness, end int64) {
	if len(blows) == 0 {
		return
	}
	struck := map[*witness][]*blow{}
	for _, b := range blows {
		b.detected, b.cleared = hdrhistogram.New(1, maxLatency, 3), hdrhistogram.New(1, maxLatency, 3)
		for _, w := range b.states {
			struck[w] = append(struck[w], b)
		}
	}
	for w, own := range struck {
		if !own[0].machines {
			w.judge(true, func(at int64) *blow { return latest(own, at) })
			continue
		}
		for _, b := range own {
			b.silence(w, end)
		}
	}
	for _, w := range others {
		w.judge(false, func(at int64) *blow { return latest(blows, at) })
	}
}

// latest is the last of the blows that began before an instant; the first, if none did.
func latest(blows []*blow, at int64) *blow {
	found := blows[0]
	for _, b := range blows {
		if b.at <= at && b.at >= found.at {
			found = b
		}
	}
	return found
}
