package load

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// part is an interval of the run in which the scenario's virtual time runs at one rate. Times are ns since the run was
// made.
type part = observe.Part

// score maps virtual time to real time, by consecutive parts. It never changes: a phase that ends early makes a new
// score.
type score []part

// forever returns a score with one part at the scenario's own rate.
func forever(begin, end int64) score { return score{{From: begin, To: end, Rate: 1}} }

// newScore returns the score of the phases that send results.
func newScore(phases []scenario.Phase, begin int64) (s score) {
	held := 1.0
	add := func(phase int, length time.Duration, rate float64, measured bool) {
		if length > 0 {
			s = s.and(part{Phase: phase, From: begin, To: begin + int64(length), Rate: rate, Measured: measured})
		}
	}
	for i := range phases {
		p := &phases[i]
		if !p.Measured() {
			continue
		}
		warmup := min(p.Warmup, p.Length())
		for _, rate := range p.Rates() {
			if p.Step > 0 {
				held = rate // until one breaks
			}
			if p.Of != "" {
				rate *= held
			}
			add(i, time.Duration(warmup), rate, false)
			add(i, time.Duration(p.Length()-warmup), rate, true)
		}
	}
	return s
}

// and appends a part after the last one.
func (s score) and(p part) score {
	if n := len(s); n > 0 {
		p.From, p.To, p.Virtual = s[n-1].To, s[n-1].To+p.To-p.From, s.ended()
	}
	return append(s, p)
}

// ended returns the virtual time at the end.
func (s score) ended() int64 {
	p := &s[len(s)-1]
	return p.Virtual + int64(float64(p.To-p.From)*p.Rate)
}

// real returns the real time of a virtual time, at most the end. hint is the part of the answer before, because callers
// ask in order.
func (s score) real(virtual int64, hint *int) int64 {
	for ; *hint < len(s); *hint++ {
		p := &s[*hint]
		if at := p.From + int64(float64(virtual-p.Virtual)/p.Rate); at < p.To {
			return max(at, p.From)
		}
	}
	return never
}

// at returns the index of the part that contains a time, or -1.
func (s score) at(real int64) int {
	for i := len(s) - 1; i >= 0; i-- {
		if real >= s[i].From {
			if real < s[i].To {
				return i
			}
			return -1
		}
	}
	return -1
}

// end returns the end of the last part.
func (s score) end() int64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].To
}

// zero returns the start of the measurement, from which the report counts times.
func (s score) zero() int64 {
	for _, p := range s {
		if p.Measured {
			return p.From
		}
	}
	return s.end()
}

// saturated returns a score in which later phases have rates relative to held, the rate of the last step that held.
func (s score) saturated(phases []scenario.Phase, steps int, held float64, real int64) (out score) {
	found := false // further steps, which find another one
	for _, p := range s {
		found = found || p.Phase > steps && phases[p.Phase].Step > 0
		if of := &phases[p.Phase]; p.Phase > steps && of.Of != "" && !found && p.To > real {
			if p.From < real { // it has begun at a rate that nobody had found yet
				before := p
				before.To, before.Measured = real, false
				out, p.From = out.and(before), real
			}
			p.Rate = of.Rate * held
		}
		out = out.and(p)
	}
	return out
}

// endsSooner reports whether this score is the other one, cut off at some time.
func (s score) endsSooner(than score) bool {
	n := len(s)
	if n == 0 || n > len(than) {
		return false
	}
	for i := range s[:n-1] {
		if s[i] != than[i] {
			return false
		}
	}
	last := s[n-1]
	sooner := last.To <= than[n-1].To
	last.To, last.Short = than[n-1].To, than[n-1].Short
	return sooner && last == than[n-1]
}

// cut returns a score in which the present phase ends now, and the later ones start earlier.
func (s score) cut(real int64) (out score) {
	i := s.at(real)
	if i < 0 {
		return s
	}
	out = append(out, s[:i+1]...)
	out[i].To = real
	for _, p := range s[i+1:] {
		if p.Phase != s[i].Phase {
			out = out.and(p)
		}
	}
	return out
}

// repeated returns a score that repeats step i, which broke: first half of a step's length at half a rate that held, to
// work off the backlog, then the step, then the later steps. The first attempts of these steps are not measured.
func (s score) repeated(i int, held float64, real int64) (out score) {
	k := s.at(real)
	out = append(out, s[:k+1]...)
	for n := i + 1; n <= k; n++ {
		out[n].Measured = false
	}
	out[k].To = real
	more := s[i]
	more.Again = true
	out = out.and(part{Phase: s[i].Phase, Rate: held / 2, To: (s[i].To - s[i].From) / 2}).and(more)
	for _, p := range s[i+1:] {
		out = out.and(p)
	}
	return out
}

// since returns the score with times relative to begin.
func (s score) since(begin int64) score {
	s = slices.Clone(s)
	for i := range s {
		s[i].From, s[i].To = s[i].From-begin, s[i].To-begin
	}
	return s
}

// check returns an error unless this is a valid score for this number of phases.
func (s score) check(phases int) error {
	end := int64(0)
	for _, x := range s {
		if x.Phase < 0 || x.Phase >= phases || x.From != end || x.To < x.From || x.Virtual < 0 || !(x.Rate > 0 && x.Rate < 1e6) {
			return model.Errorf(model.Invalid, "what the loader that leads plays is no score")
		}
		end = x.To
	}
	return nil
}
