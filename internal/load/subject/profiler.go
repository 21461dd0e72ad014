package subject

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// longestSpan is the longest time of a profile, in seconds.
const longestSpan = 8

// Profiler takes profiles of the server once during a run: in the middle of the first measured phase without faults.
type Profiler struct {
	server *Subject
	folder string // of the report
	span   int    // seconds of a profile
	phase  int    // the number of that phase, from 1; zero: there is none
	middle int    // second of the phase when the profile begins
	from   int    // the first second of phase; -1: not yet
	taken  bool   // the profile has begun

	ctx   context.Context
	end   context.CancelFunc
	busy  sync.WaitGroup    // guards the following
	files map[string]string // with descriptions
	err   error
}

// NewProfiler returns a profiler for the run of a scenario.
func NewProfiler(ctx context.Context, s *Subject, sc *scenario.Scenario, folder string) *Profiler {
	p := &Profiler{server: s, folder: folder, from: -1, span: 1}
	p.ctx, p.end = context.WithCancel(ctx)
	first := true
	for i, phase := range sc.Phases {
		if long := time.Duration(max(phase.Steady, phase.Step) - phase.Warmup); long > 0 {
			seconds := int(long / time.Second)
			p.phase, p.span = i+1, max(1, min(longestSpan, seconds/4))
			if p.middle = max(0, (seconds-p.span)/2); !first { // the warm-up before the first phase is not among the seconds
				p.middle += int(time.Duration(phase.Warmup) / time.Second)
			}
			break
		}
		first = first && !phase.Measured()
	}
	return p
}

// See inspects a second of the run. It does not wait.
func (p *Profiler) See(s report.Sample) {
	if s.Second < 0 || p.server.Admin == "" || s.Nth != p.phase || p.taken {
		return
	}
	if p.from < 0 {
		p.from = s.Second
	}
	if s.Second < p.from+p.middle {
		return
	}
	p.taken = true
	p.busy.Go(func() {
		p.files, p.err = p.server.Profile(p.ctx, filepath.Join(p.folder, "profiles"), "steady", p.span)
		for file, content := range p.files {
			p.files[file] = fmt.Sprintf("%s, from second %d", content, s.Second)
		}
	})
}

// Close waits for the profile that is being taken, and adds the files to the report. Without a report it does not wait. A
// report is complete without profiles: the error is a warning.
func (p *Profiler) Close(rep *report.Report) error {
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
	return p.err
}
