package load

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/pause"
)

// storm closes connections at the same time, as the end of a server does, each in a goroutine of its own.
func (s *faultScript) storm(ctx context.Context, agents []*agent) {
	s.beside.Go(func() { s.run.waitServing(ctx) })
	for _, a := range agents {
		a.mu.Lock()
		session, away := a.session, a.fate.back != nil
		a.mu.Unlock()
		if session != nil && !away {
			s.beside.Go(session.Close)
		}
	}
}

// away returns how many agents of this process have no session although they should.
func (r *run) away() int { return max(0, len(r.agents)-int(r.accounted.Load())) }

// miss records that an agent lost its session although it should have one, or that it has one again. Caller holds the
// lock.
func (a *agent) miss(here bool) {
	if !here {
		a.missed = a.run.now()
	} else if a.missed > 0 {
		a.absences = append(a.absences, observe.Absence{From: a.missed, To: a.run.now()})
		a.missed = 0
	}
}

// acking records the first acknowledgement after an absence. Caller holds the lock.
func (a *agent) acking() {
	if n := len(a.absences); n > 0 && a.absences[n-1].Acked == 0 {
		a.absences[n-1].Acked = a.run.now()
	}
}

// missing returns the agent's absences in ns since the start of the timetable. Caller holds the lock.
func (a *agent) missing() (list []observe.Absence) {
	begin := a.run.begin.Load()
	for _, x := range a.absences {
		x.From, x.To = x.From-begin, x.To-begin
		if x.Acked > 0 {
			x.Acked -= begin
		}
		list = append(list, x)
	}
	if a.missed > 0 {
		list = append(list, observe.Absence{From: a.missed - begin, To: observe.Lasts})
	}
	return list
}

// look starts to ask the server whether it is ready, when the first agent is lost.
func (w *watch) look(ctx context.Context, beside *sync.WaitGroup) {
	lost := w.run.away() > 0
	if lost && !w.lost {
		beside.Go(func() { w.run.waitServing(ctx) })
	}
	w.lost = lost
}

// waitServing asks readyz until the server is ready, and logs the time. Its timeout is long, because in a storm of
// reconnects this process is busier than the server.
func (r *run) waitServing(ctx context.Context) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for r.cfg.AdminURL != "" && ctx.Err() == nil {
		if resp, err := client.Get(r.cfg.AdminURL + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				r.log.Append(observe.Line{At: r.sinceStart(), Mark: observe.MarkReady})
				return
			}
		}
		pause.For(ctx, 20*time.Millisecond)
	}
}
