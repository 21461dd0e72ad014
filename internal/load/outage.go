package load

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/pause"
)

// storm cuts connections at once, as the end of a server does: each in a goroutine of its
// own, for one after the other the first are back before the last are cut.
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

// away is how many agents of this process have no session, and should.
func (r *run) away() int { return max(0, len(r.agents)-int(r.accounted.Load())) }

// miss notes that an agent has no session and should, or has one again. Caller holds the lock.
func (a *agent) miss(here bool) {
	if !here {
		a.missed = a.run.now()
	} else if a.missed > 0 {
		a.absences = append(a.absences, observe.Absence{From: a.missed, To: a.run.now()})
		a.missed = 0
	}
}

// acking notes the first acknowledgement after an absence. Caller holds the lock.
func (a *agent) acking() {
	if n := len(a.absences); n > 0 && a.absences[n-1].Acked == 0 {
		a.absences[n-1].Acked = a.run.now()
	}
}

// missing returns the absences as ns since the start of the timetable. Caller holds the lock.
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

// look has the server asked whether it is ready, from the first agent lost on.
func (w *watch) look(ctx context.Context, beside *sync.WaitGroup) {
	lost := w.run.away() > 0
	if lost && !w.lost {
		beside.Go(func() { w.run.waitServing(ctx) })
	}
	w.lost = lost
}

// waitServing asks readyz until it says yes, and writes when. Its patience is long: in a
// storm this process is busier than the server, and must not take that for silence.
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
