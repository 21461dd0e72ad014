package subject

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

const (
	longestSpan = 8 // seconds of a profile
	mostBroken  = 3 // profiles of what broke: the first tell most
)

// Profiler takes profiles of the server while a run goes on: once in the middle of the first
// measured phase in which nothing is broken on purpose, and whenever an objective breaks for some seconds, or results are
// refused or stay away, once for each phase.
type Profiler struct {
	server *Subject
	folder string // of the report
	nth    int    // of the scenario's phases, from 1: the first in which nothing is broken on purpose; zero: there is none
	from   int    // the second in which that began; -1: it did not
	middle int    // how many seconds later its profile begins
	span   int    // seconds

	steady bool               // taken
	seen   map[string]bool    // phases whose trouble is taken
	limits map[string]float64 // of figures from above, of the whole run
	bad    map[string]int     // seconds in a row
	broken string             // the phase of bad
	faults map[int]bool       // phases with faults, by their numbers

	busy  sync.WaitGroup
	ctx   context.Context
	end   context.CancelFunc
	mu    sync.Mutex // guards what follows
	now   bool       // one is being taken
	files map[string]string
	errs  []error
}

// NewProfiler makes one for a scenario's run, whose See is called every second. goals are
// objectives beside the scenario's.
func NewProfiler(ctx context.Context, s *Subject, sc *scenario.Scenario, goals []report.Goal, folder string) *Profiler {
	p := &Profiler{server: s, folder: folder, from: -1, span: 1, seen: map[string]bool{}, limits: map[string]float64{}, bad: map[string]int{}, faults: map[int]bool{}, files: map[string]string{}}
	p.ctx, p.end = context.WithCancel(ctx)
	for _, f := range scenario.Figures() {
		if limit, err := sc.Objectives[f.Name].In(f.Unit); err == nil && !f.Least {
			p.limits[f.Name] = limit
		}
		for _, g := range goals {
			if g.Name == f.Name && !f.Least {
				p.limits[f.Name] = g.Want
			}
		}
	}
	first := true
	for i := range sc.Phases {
		p.faults[i+1] = sc.Phases[i].Fault > 0
	}
	for i, phase := range sc.Phases {
		if long := time.Duration(max(phase.Steady, phase.Soak, phase.Step) - phase.Warmup); long > 0 {
			seconds := int(long / time.Second)
			p.nth, p.span = i+1, max(1, min(longestSpan, seconds/4))
			if p.middle = max(0, (seconds-p.span)/2); !first { // the warm-up before the first is not among the seconds
				p.middle += int(time.Duration(phase.Warmup) / time.Second)
			}
			break
		}
		first = first && !phase.Measured()
	}
	return p
}

// See looks at a second of the run. It does not wait.
func (p *Profiler) See(s report.Sample) {
	if s.Second < 0 || p.server.Admin == "" {
		return
	}
	wrong := p.wrong(&s)
	if s.Nth == p.nth && p.from < 0 {
		p.from = s.Second
	}
	if !p.steady && s.Nth == p.nth && s.Second >= p.from+p.middle {
		p.steady = true
		p.take("steady", fmt.Sprintf("from second %d", s.Second))
		return
	}
	if len(wrong) > 0 && !p.seen[s.Phase] && len(p.seen) < mostBroken {
		if p.take(fmt.Sprintf("broken-%d", len(p.seen)+1), fmt.Sprintf("from second %d: %s", s.Second, strings.Join(wrong, "; "))) {
			p.seen[s.Phase] = true
		}
	}
}

// brokenFor is the number of seconds in a row after which an objective counts as broken.
const brokenFor = 2

// wrong names the objectives that are broken. A second that does not show a figure leaves it as it was. Nothing is wrong
// in a fault phase.
func (p *Profiler) wrong(s *report.Sample) (list []string) {
	if s.Phase != p.broken {
		p.broken = s.Phase
		clear(p.bad)
	}
	if p.faults[s.Nth] {
		return nil
	}
	note := func(what string, wrong bool) {
		if p.bad[what]++; !wrong {
			p.bad[what] = 0
		}
		if p.bad[what] >= brokenFor {
			list = append(list, what)
		}
	}
	note("results are refused", s.Refused > 0)
	note("results stay away", s.Offered > 0 && s.Acked < s.Offered/2)
	figures := s.Figures()
	for _, name := range slices.Sorted(maps.Keys(p.limits)) {
		if v, ok := figures[name]; ok {
			note(name, v > p.limits[name])
		}
	}
	return list
}

// take begins a profile, unless one is being taken. when is for people: since when, and why.
func (p *Profiler) take(prefix, when string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now {
		return false
	}
	p.now = true
	p.busy.Go(func() {
		files, err := p.server.Profile(p.ctx, filepath.Join(p.folder, "profiles"), prefix, p.span)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now = false
		for name, what := range files {
			p.files[name] = what + ", " + when
		}
		if err != nil {
			p.errs = append(p.errs, err)
		}
	})
	return true
}

// Close waits for what is being taken, and adds to the report what was. The errors say what
// could not be taken: a report is whole without it. Without a report it does not wait.
func (p *Profiler) Close(rep *report.Report) []error {
	if rep == nil {
		p.end()
	}
	p.busy.Wait()
	p.end()
	if rep == nil {
		return nil
	}
	for name, description := range p.files {
		rep.AddFile(name, description)
	}
	return p.errs
}
