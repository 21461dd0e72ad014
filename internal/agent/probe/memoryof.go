package probe

import (
	"sync"
	"time"
)

const (
	sampleEvery = 10 * time.Minute
	sampleCount = 144       // a day
	slopeSpan   = time.Hour // below this nothing is said about the future
)

// Memory is the state of one check between its runs, until the agent stops. The zero value is ready.
type Memory struct {
	mu      sync.Mutex
	trends  map[string]*trend
	hanging map[string]bool
	counted map[string]uint64
}

// more returns the growth of a counter since the last call.
func (m *Memory) more(counter string, now uint64) uint64 {
	if m == nil {
		return now
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.counted[counter]
	if m.counted == nil {
		m.counted = map[string]uint64{}
	}
	m.counted[counter] = now
	return now - before
}

type trend struct {
	at   []time.Duration // since the first sample
	left []float64
	zero time.Time
}

// daysUntilNone adds a sample of the free amount and extrapolates the days until none is left, from the
// slope over at most a day. ok is false in the first hour, and where the amount does not shrink.
func (m *Memory) daysUntilNone(key string, now time.Time, left float64) (days float64, ok bool) {
	if m == nil {
		return 0, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trends == nil {
		m.trends = map[string]*trend{}
	}
	t := m.trends[key]
	if t == nil {
		t = &trend{zero: now}
		m.trends[key] = t
	}
	at := now.Sub(t.zero)
	if n := len(t.at); n > 0 && at < t.at[n-1] {
		*t = trend{zero: now} // the clock was set back
		at = 0
	}
	if n := len(t.at); n == 0 || at-t.at[n-1] >= sampleEvery {
		if n == sampleCount {
			t.at, t.left = t.at[:copy(t.at, t.at[1:])], t.left[:copy(t.left, t.left[1:])]
		}
		t.at, t.left = append(t.at, at), append(t.left, left)
	}
	if at-t.at[0] < slopeSpan {
		return 0, false
	}
	// Least squares over the samples and now.
	var n, sx, sy, sxx, sxy float64
	add := func(x, y float64) { n++; sx += x; sy += y; sxx += x * x; sxy += x * y }
	for i := range t.at {
		add(t.at[i].Hours()/24, t.left[i])
	}
	add(at.Hours()/24, left)
	perDay := (n*sxy - sx*sy) / (n*sxx - sx*sx)
	if !(perDay < 0) {
		return 0, false
	}
	return left / -perDay, true
}

// startCall marks a call that may hang; false: an earlier one still hangs.
func (m *Memory) startCall(what string) bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hanging[what] {
		return false
	}
	if m.hanging == nil {
		m.hanging = map[string]bool{}
	}
	m.hanging[what] = true
	return true
}

// endCall ends a call of startCall.
func (m *Memory) endCall(what string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.hanging, what)
}
