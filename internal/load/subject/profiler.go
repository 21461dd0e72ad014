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
	brokenFor   = 2 // seconds in a row in which an objective is missed
)

// Profiler takes profiles of the server during a run: once in the middle of the first measured phase without faults, and
// once where an objective is missed, or results are refused or not acknowledged, in another phase without faults.
type Profiler struct {
	server *Subject
	folder string             // of the report
	faults map[int]bool       // phases with faults, by their numbers from 1
	limits map[string]float64 // upper limits of figures
	span   int                // seconds of a profile
	phase  int                // the number of the first measured phase without faults; zero: there is none
	middle int                // second of the phase when the profile begins

	from   int             // the first second of phase; -1: not yet
	taken  map[string]bool // steady, broken
	missed map[string]int  // seconds in a row, by figure
	last   int             // the phase of missed

	ctx   context.Context
	end   context.CancelFunc
	busy  sync.WaitGroup
	mu    sync.Mutex // guards the following
	now   bool       // one is being taken
	files map[string]string
	errs  []error
}

// NewProfiler returns a profiler for the run of a scenario. goals are objectives of the command line.
func NewProfiler(ctx context.Context, s *Subject, sc *scenario.Scenario, goals []report.Goal, folder string) *Profiler {
	p := &Profiler{server: s, folder: folder, from: -1, span: 1, taken: map[string]bool{}, limits: map[string]float64{}, missed: map[string]int{}, faults: map[int]bool{}, files: map[string]string{}}
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
	for i, phase := range sc.Phases {
		p.faults[i+1] = phase.Fault > 0
		if long := time.Duration(max(phase.Steady, phase.Step) - phase.Warmup); long > 0 && p.phase == 0 {
			seconds := int(long / time.Second)
			p.phase, p.span = i+1, max(1, min(longestSpan, seconds/4))
			if p.middle = max(0, (seconds-p.span)/2); !first { // the warm-up before the first phase is not among the seconds
				p.middle += int(time.Duration(phase.Warmup) / time.Second)
			}
		}
		first = first && !phase.Measured()
	}
	return p
}

// See inspects a second of the run. It does not wait.
func (p *Profiler) See(s report.Sample) {
	if s.Second < 0 || p.server.Admin == "" {
		return
	}
	if s.Nth == p.phase && p.from < 0 {
		p.from = s.Second
	}
	if s.Nth == p.phase && s.Second >= p.from+p.middle {
		p.take("steady", fmt.Sprintf("from second %d", s.Second))
	}
	if missed := p.misses(&s); len(missed) > 0 {
		p.take("broken", fmt.Sprintf("from second %d: %s", s.Second, strings.Join(missed, "; ")))
	}
}

// misses returns the objectives that have been missed for some seconds. A second without a figure leaves its count.
func (p *Profiler) misses(s *report.Sample) (list []string) {
	if s.Nth != p.last {
		p.last = s.Nth
		clear(p.missed)
	}
	if p.faults[s.Nth] {
		return nil
	}
	count := func(name string, missed bool) {
		if p.missed[name]++; !missed {
			p.missed[name] = 0
		}
		if p.missed[name] >= brokenFor {
			list = append(list, name)
		}
	}
	count("results are refused", s.Refused > 0)
	count("results are not acknowledged", s.Offered > 0 && s.Acked < s.Offered/2)
	figures := s.Figures()
	for _, name := range slices.Sorted(maps.Keys(p.limits)) {
		if v, ok := figures[name]; ok {
			count(name, v > p.limits[name])
		}
	}
	return list
}

// take begins a profile, once for each name, unless another is being taken.
func (p *Profiler) take(name, when string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now || p.taken[name] {
		return
	}
	p.now, p.taken[name] = true, true
	p.busy.Go(func() {
		files, err := p.server.Profile(p.ctx, filepath.Join(p.folder, "profiles"), name, p.span)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now = false
		for file, content := range files {
			p.files[file] = content + ", " + when
		}
		if err != nil {
			p.errs = append(p.errs, err)
		}
	})
}

// Close waits for the profile that is being taken, and adds the files to the report. Without a report it does not wait. A
// report is complete without profiles: the errors are warnings.
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
