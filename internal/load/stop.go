package load

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Stopped says how far a run went that somebody ended before its time. The phase that was played
// is short then: it is shown, and not judged.
type Stopped struct {
	After float64 `json:"after"`           // seconds since the timetable began, warm-ups included …
	Of    float64 `json:"of"`              // … and how many they were to be
	Phase string  `json:"phase,omitempty"` // the one that was cut short
	Whole int     `json:"whole"`           // measured phases, or steps, that were played to their end
	By    string  `json:"by,omitempty"`    // who asked, where it was not the loader that leads
}

// String is short enough for a title: stopped after 3m20s of 10m0s.
func (s *Stopped) String() string {
	seconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)).Round(time.Second) }
	text := fmt.Sprintf("stopped after %s of %s", seconds(s.After), seconds(s.Of))
	if s.By != "" {
		text += " by " + s.By
	}
	return text
}

// sentence is what the verdict says of it.
func (s *Stopped) sentence() string {
	name := cmp.Or(s.Phase, "the phase that was played")
	if s.Whole == 0 {
		return fmt.Sprintf("%s: no phase was played to its end, and no objective is judged", s)
	}
	return fmt.Sprintf("%s: %s was cut short and is not judged", s, name)
}

// OnlyStopped says whether nothing is wrong with a run but that it was stopped.
func (rep *Report) OnlyStopped() bool {
	return rep.Stopped != nil && rep.Valid && len(rep.Verdict) == 1
}

// stopped ends everything at an instant: the part that it lies in is short, and nothing follows.
func (s score) stopped(real int64) (out score) {
	for _, p := range s {
		if p.from >= real {
			break
		}
		if p.to > real {
			p.to, p.short = real, true
		}
		out = append(out, p)
	}
	return out
}

// stop ends the timetable where somebody asked for it. What has begun is undone and drained as at
// any end; other loaders hear of it as of a phase that ends.
func (w *watch) stop(now int64) {
	r := w.run
	if r.stopped.Load() != nil {
		return
	}
	var by string
	select {
	case by = <-r.cfg.Stop:
	default:
		return
	}
	s, begin := r.present(), r.begin.Load()
	soon := max(now, begin) + 2*int64(newScoreWithin)
	if r.cfg.Others != nil {
		soon += int64(cutWithin)
	}
	i := s.at(soon)
	if i < 0 {
		return // it is over anyway
	}
	short := s.stopped(soon)
	whole := 0
	for _, p := range short {
		if p.measured && !p.short {
			whole++
		}
	}
	r.stopped.Store(&Stopped{After: time.Duration(soon - begin).Seconds(), Of: time.Duration(s.end() - begin).Seconds(), Phase: r.phaseName(s[i]), Whole: whole, By: by})
	r.follow(short)
	r.askNoMore()
	if r.cfg.Others != nil {
		r.cfg.Others.Follow(time.Duration(soon-begin), short.spans(begin))
	}
}

// anyWhole says whether a part that counts was played to its end.
func (w *watch) anyWhole() bool {
	for i, p := range w.run.present() {
		if !p.short && w.countsIfWhole(i) {
			return true
		}
	}
	return false
}

// judgeable are the goals that a stopped run can be held to: those that were measured, where a
// phase was whole.
func (rep *Report) judgeable(goals []Goal) []Goal {
	if rep.Stopped == nil {
		return goals
	}
	if rep.Stopped.Whole == 0 {
		return nil
	}
	var left []string
	goals = slices.DeleteFunc(goals, func(g Goal) bool {
		if g.Why != "" {
			left = append(left, g.Name)
		}
		return g.Why != ""
	})
	if len(left) > 0 {
		rep.Label = append(rep.Label, "not judged, because the run was stopped before: "+strings.Join(left, ", "))
	}
	return goals
}
