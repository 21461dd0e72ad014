package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Part is an interval of a timetable in which the scenario's virtual time runs at one rate. Times are ns since the start
// of the run, or of the timetable.
type Part struct {
	Phase    int     `json:"phase"` // of the scenario
	From     int64   `json:"from"`
	To       int64   `json:"to"`
	Virtual  int64   `json:"virtual"` // the scenario's own time at From
	Rate     float64 `json:"rate"`
	Measured bool    `json:"measured,omitempty"`
	Again    bool    `json:"again,omitempty"` // a step that broke, played once more
	Short    bool    `json:"short,omitempty"` // the run was stopped in it
}

// Name returns the name of a part's phase; that of a step, or of a rate that steps found, has the rate.
func (p *Part) Name(sc *scenario.Scenario) string {
	phase := &sc.Phases[p.Phase]
	name := cmp.Or(phase.Name, phase.Kind())
	if phase.Step > 0 || phase.Of != "" {
		name += fmt.Sprintf(" ×%.4g", p.Rate)
	}
	if p.Again {
		name += " again"
	}
	return name
}

// Never is the real time of a virtual time behind the end of a timetable.
const Never = math.MaxInt64

// Timetable maps the virtual time of a scenario to real time, by consecutive parts. It never changes: a phase that ends
// early makes a new timetable.
type Timetable []Part

// Forever returns a timetable with one part at the scenario's own rate.
func Forever(begin, end int64) Timetable { return Timetable{{From: begin, To: end, Rate: 1}} }

// NewTimetable returns the timetable of the phases that send results.
func NewTimetable(phases []scenario.Phase, begin int64) (t Timetable) {
	held := 1.0
	add := func(phase int, length time.Duration, rate float64, measured bool) {
		if length > 0 {
			t = t.and(Part{Phase: phase, From: begin, To: begin + int64(length), Rate: rate, Measured: measured})
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
	return t
}

// and appends a part after the last one.
func (t Timetable) and(p Part) Timetable {
	if n := len(t); n > 0 {
		p.From, p.To, p.Virtual = t[n-1].To, t[n-1].To+p.To-p.From, t.ended()
	}
	return append(t, p)
}

// ended returns the virtual time at the end.
func (t Timetable) ended() int64 {
	p := &t[len(t)-1]
	return p.Virtual + int64(float64(p.To-p.From)*p.Rate)
}

// Real returns the real time of a virtual time, at most the end. hint is the part of the answer before, because callers
// ask in order.
func (t Timetable) Real(virtual int64, hint *int) int64 {
	for ; *hint < len(t); *hint++ {
		p := &t[*hint]
		if at := p.From + int64(float64(virtual-p.Virtual)/p.Rate); at < p.To {
			return max(at, p.From)
		}
	}
	return Never
}

// At returns the index of the part that contains a time, or -1.
func (t Timetable) At(real int64) int {
	for i := len(t) - 1; i >= 0; i-- {
		if real >= t[i].From {
			if real < t[i].To {
				return i
			}
			return -1
		}
	}
	return -1
}

// End returns the end of the last part.
func (t Timetable) End() int64 {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1].To
}

// Zero returns the start of the measurement, from which the report counts times.
func (t Timetable) Zero() int64 {
	for _, p := range t {
		if p.Measured {
			return p.From
		}
	}
	return t.End()
}

// Saturated returns a timetable in which later phases have rates relative to held, the rate of the last step that held.
func (t Timetable) Saturated(phases []scenario.Phase, steps int, held float64, real int64) (out Timetable) {
	found := false // further steps, which find another one
	for _, p := range t {
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

// EndsSooner reports whether this timetable is the other one, cut off at some time.
func (t Timetable) EndsSooner(than Timetable) bool {
	n := len(t)
	if n == 0 || n > len(than) {
		return false
	}
	for i := range t[:n-1] {
		if t[i] != than[i] {
			return false
		}
	}
	last := t[n-1]
	sooner := last.To <= than[n-1].To
	last.To, last.Short = than[n-1].To, than[n-1].Short
	return sooner && last == than[n-1]
}

// Cut returns a timetable in which the present phase ends now, and the later ones start earlier.
func (t Timetable) Cut(real int64) (out Timetable) {
	i := t.At(real)
	if i < 0 {
		return t
	}
	out = append(out, t[:i+1]...)
	out[i].To = real
	for _, p := range t[i+1:] {
		if p.Phase != t[i].Phase {
			out = out.and(p)
		}
	}
	return out
}

// Repeated returns a timetable that repeats step i, which broke: first half of a step's length at half a rate that held, to
// work off the backlog, then the step, then the later steps. The first attempts of these steps are not measured.
func (t Timetable) Repeated(i int, held float64, real int64) (out Timetable) {
	k := t.At(real)
	out = append(out, t[:k+1]...)
	for n := i + 1; n <= k; n++ {
		out[n].Measured = false
	}
	out[k].To = real
	more := t[i]
	more.Again = true
	out = out.and(Part{Phase: t[i].Phase, Rate: held / 2, To: (t[i].To - t[i].From) / 2}).and(more)
	for _, p := range t[i+1:] {
		out = out.and(p)
	}
	return out
}

// Since returns the timetable with times relative to begin.
func (t Timetable) Since(begin int64) Timetable {
	t = slices.Clone(t)
	for i := range t {
		t[i].From, t[i].To = t[i].From-begin, t[i].To-begin
	}
	return t
}

// Check returns an error unless this is a valid timetable for this number of phases.
func (t Timetable) Check(phases int) error {
	end := int64(0)
	for _, x := range t {
		if x.Phase < 0 || x.Phase >= phases || x.From != end || x.To < x.From || x.Virtual < 0 || !(x.Rate > 0 && x.Rate < 1e6) {
			return model.Errorf(model.Invalid, "what the leading loader sent an invalid timetable")
		}
		end = x.To
	}
	return nil
}

// Stopped returns the timetable cut off at a time.
func (t Timetable) Stopped(real int64) (out Timetable) {
	for _, p := range t {
		if p.From >= real {
			break
		}
		if p.To > real {
			p.To, p.Short = real, true
		}
		out = append(out, p)
	}
	return out
}

// Sped returns the timetable with the same parts, at the rates that speed returns by phase.
func (t Timetable) Sped(speed func(phase int) float64) (out Timetable) {
	for _, p := range t {
		p.Rate = speed(p.Phase)
		out = out.and(p)
	}
	return out
}

// Meant returns the real time of a virtual time, at most the end.
func (t Timetable) Meant(virtual int64) int64 {
	hint := 0
	return t.Real(virtual, &hint)
}

// VirtualAt returns the virtual time of a real time, at most the virtual time of the end.
func (t Timetable) VirtualAt(real int64) int64 {
	for i := len(t) - 1; i >= 0; i-- {
		if p := &t[i]; real >= p.From {
			return p.Virtual + int64(float64(min(real, p.To)-p.From)*p.Rate)
		}
	}
	return -1
}
