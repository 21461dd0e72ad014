package subject

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/plan"
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
	from   int    // second of the run when the profile begins; -1: it has begun, or there is no such phase

	ctx   context.Context
	end   context.CancelFunc
	busy  sync.WaitGroup    // guards the following
	files map[string]string // with descriptions
	err   error
}

// NewProfiler returns a profiler for the run of a scenario.
func NewProfiler(ctx context.Context, s *Subject, sc *scenario.Scenario, folder string) *Profiler {
	p := &Profiler{server: s, folder: folder, from: -1}
	p.ctx, p.end = context.WithCancel(ctx)
	t := plan.NewTimetable(sc.Phases, 0)
	for _, x := range t {
		if phase := &sc.Phases[x.Phase]; x.Measured && max(phase.Steady, phase.Step) > 0 {
			seconds := int((x.To - x.From) / int64(time.Second))
			p.span = max(1, min(longestSpan, seconds/4))
			p.from = int((x.From-t.Zero())/int64(time.Second)) + max(0, (seconds-p.span)/2)
			break
		}
	}
	return p
}

// See inspects a second of the run. It does not wait.
func (p *Profiler) See(s report.Sample) {
	if p.server.Admin == "" || p.from < 0 || s.Second < p.from {
		return
	}
	p.from = -1
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
