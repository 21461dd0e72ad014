package load

import (
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// part is a stretch of the run in which virtual time, the scenario's own, runs at one
// rate. Times are ns since the run was made; virtual ones since the timetable's beginning.
type part struct {
	phase    int // in the scenario
	from, to int64
	virtual  int64 // at from
	rate     float64
	measured bool
	again    bool // a step that broke, played once more
	short    bool // the run was stopped in it
}

// score maps virtual time to real time: parts follow each other without holes. It never
// changes; a phase that ends early is another score.
type score []part

// forever is one part at the scenario's own rate.
func forever(begin, end int64) score { return score{{from: begin, to: end, rate: 1}} }

// newScore lays the phases that send out behind each other.
func newScore(phases []scenario.Phase, begin int64) (s score) {
	at, held := part{from: begin}, 1.0
	add := func(phase int, length time.Duration, rate float64, measured bool) {
		if length <= 0 {
			return
		}
		at.phase, at.rate, at.measured, at.to = phase, rate, measured, at.from+int64(length)
		s = append(s, at)
		at = at.after()
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

// after is the beginning of the part behind p.
func (p part) after() part {
	return part{from: p.to, virtual: p.virtual + int64(float64(p.to-p.from)*p.rate)}
}

// real is when something is meant to happen that the timetable has at a virtual time;
// never behind the end. hint is the part that the answer before lay in: time goes on.
func (s score) real(virtual int64, hint *int) int64 {
	for ; *hint < len(s); *hint++ {
		p := &s[*hint]
		if at := p.from + int64(float64(virtual-p.virtual)/p.rate); at < p.to {
			return max(at, p.from)
		}
	}
	return never
}

// at is the part that an instant lies in; -1: none.
func (s score) at(real int64) int {
	for i := len(s) - 1; i >= 0; i-- {
		if real >= s[i].from {
			if real < s[i].to {
				return i
			}
			return -1
		}
	}
	return -1
}

func (s score) end() int64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].to
}

// zero is when the measurement begins: the report's times are counted from there.
func (s score) zero() int64 {
	for _, p := range s {
		if p.measured {
			return p.from
		}
	}
	return s.end()
}

// saturated gives the parts behind an instant whose rates are of the saturation that the
// steps of a phase find their rates: held is that of the last one that held.
func (s score) saturated(phases []scenario.Phase, steps int, held float64, real int64) (out score) {
	at := part{from: s[0].from}
	at.virtual = s[0].virtual
	found := false // further steps, which find another one
	for _, p := range s {
		found = found || p.phase > steps && phases[p.phase].Step > 0
		p.virtual, p.to, p.from = at.virtual, at.from+p.to-p.from, at.from
		if of := &phases[p.phase]; p.phase > steps && of.Of != "" && !found && p.to > real {
			if p.from < real { // it has begun at a rate that nobody had found yet
				before := p
				before.to, before.measured = real, false
				out = append(out, before)
				at = before.after()
				p.from, p.virtual = at.from, at.virtual
			}
			p.rate = of.Rate * held
		}
		out = append(out, p)
		at = p.after()
	}
	return out
}

// endsSooner says whether this is another score up to some instant, and nothing behind that.
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
	sooner := last.to <= than[n-1].to
	last.to = than[n-1].to
	return sooner && last == than[n-1]
}

// cut ends the phase that an instant lies in there; what follows comes earlier.
func (s score) cut(real int64) (out score) {
	i := s.at(real)
	if i < 0 {
		return s
	}
	out = append(out, s[:i+1]...)
	out[i].to = real
	at := out[i].after()
	for _, p := range s[i+1:] {
		if p.phase == s[i].phase {
			continue
		}
		p.to = at.from + p.to - p.from
		p.from, p.virtual = at.from, at.virtual
		out = append(out, p)
		at = p.after()
	}
	return out
}

// repeated has step i, which broke, played once more from an instant on, which lies in a
// later part of its phase: for half as long as it lasts at half a rate that held, so that what
// it left behind is worked off, then itself, then the steps behind it. What was played of those
// is not measured.
func (s score) repeated(i int, held float64, real int64) (out score) {
	k := s.at(real)
	out = append(out, s[:k+1]...)
	for n := i + 1; n <= k; n++ {
		out[n].measured = false
	}
	out[k].to = real
	at := out[k].after()
	add := func(p part, length int64) {
		p.from, p.virtual, p.to = at.from, at.virtual, at.from+length
		out = append(out, p)
		at = p.after()
	}
	add(part{phase: s[i].phase, rate: held / 2}, (s[i].to-s[i].from)/2)
	more := s[i]
	more.again = true
	add(more, s[i].to-s[i].from)
	for _, p := range s[i+1:] {
		add(p, p.to-p.from)
	}
	return out
}

// spans are the parts for the log and for other loaders.
func (s score) spans(begin int64) (list []observe.Part) {
	for _, p := range s {
		list = append(list, observe.Part{Phase: p.phase, From: p.from - begin, To: p.to - begin, Virtual: p.virtual, Rate: p.rate, Measured: p.measured, Again: p.again, Short: p.short})
	}
	return list
}

// name is the name of a part's phase.
func (p part) name(sc *scenario.Scenario) string { return score{p}.spans(0)[0].Name(sc) }

// scoreOf is what spans were made of; it refuses what is no score of so many phases.
func scoreOf(list []observe.Part, begin int64, phases int) (s score, err error) {
	end := int64(0)
	for _, x := range list {
		if x.Phase < 0 || x.Phase >= phases || x.From != end || x.To < x.From || x.Virtual < 0 || !(x.Rate > 0 && x.Rate < 1e6) {
			return nil, model.Errorf(model.Invalid, "what the loader that leads plays is no score")
		}
		end = x.To
		s = append(s, part{phase: x.Phase, from: x.From + begin, to: x.To + begin, virtual: x.Virtual, rate: x.Rate, measured: x.Measured})
	}
	return s, nil
}
