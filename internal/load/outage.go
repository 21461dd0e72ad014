package load

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/pause"
)

// outages follows them one after the other. Its lock is nobody's outer one.
type outages struct {
	mu      sync.Mutex
	past    []outage
	present *outage
	command time.Duration // when the command in the middle began, until an outage came of it
}

type outage struct {
	began, over time.Duration // since the run was made
	lost        int           // most at once, of all loaders …
	own         int           // … and of this one
	storm       bool
	command     bool
	until       int64         // welcomes that end a storm: an agent that has not yet noticed its cut is not back
	ready       *atomic.Int64 // when the server was ready, ns since the run was made
	acked       int64
}

// storm cuts connections at once, as the end of a server does: each in a goroutine of its
// own, for one after the other the first are back before the last are cut.
func (t *outages) storm(r *run, agents []*agent, beside *sync.WaitGroup) {
	there := int64(len(agents))
	for _, a := range agents {
		a.mu.Lock()
		if a.fate.back != nil {
			there--
		}
		a.mu.Unlock()
	}
	if there == 0 {
		return // nobody, or agents of another loader, which says so
	}
	t.mu.Lock()
	t.begin(r, &outage{began: time.Duration(r.now()), storm: len(agents) == len(r.agents), lost: int(there), own: int(there), until: r.welcomes.Load() + there})
	t.mu.Unlock()
	for _, a := range agents {
		a.mu.Lock()
		s, away := a.session, a.fate.back != nil
		a.mu.Unlock()
		if s != nil && !away {
			beside.Go(s.Close)
		}
	}
}

// commanded: the next outage is the doing of a command that begins now.
func (t *outages) commanded(r *run) {
	t.mu.Lock()
	t.command = time.Duration(r.now())
	t.mu.Unlock()
}

// ask finds out from when on the server says that it is ready.
func (t *outages) ask(ctx context.Context, r *run, beside *sync.WaitGroup) {
	if r.cfg.AdminURL == "" {
		return
	}
	ready := new(atomic.Int64)
	t.present.ready = ready
	beside.Go(func() { r.waitServing(ctx, ready) })
}

func (t *outages) begin(r *run, o *outage) {
	t.present = o
	r.ackedAt.Store(0)
	r.lostAt.Store(int64(o.began))
}

// away is how many agents of this process have no session, and should.
func (r *run) away() int { return max(0, len(r.agents)-int(r.accounted.Load())) }

// look follows the present outage from the first agent lost to the last one back.
func (t *outages) look(ctx context.Context, r *run, beside *sync.WaitGroup, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.present
	since := int64(now)
	if o != nil {
		since = int64(o.began)
	}
	lost, theirs := r.away(), r.presence(since)
	own := lost
	lost += theirs.Lost
	if o == nil && lost > 0 {
		o = &outage{began: now}
		if t.command > 0 {
			o.began, o.command, t.command = t.command, true, 0
		}
		t.begin(r, o)
	}
	if o == nil {
		return
	}
	o.own = max(o.own, own)
	o.lost = max(o.lost, lost, o.own+theirs.Most)
	if o.ready == nil {
		t.ask(ctx, r, beside)
	}
	if o.acked == 0 {
		if o.acked = r.ackedAt.Load(); o.acked == 0 {
			o.acked = theirs.Acked
		}
	}
	switch {
	case lost > 0 || r.welcomes.Load() < o.until || theirs.Away:
		o.over = 0
	case o.over == 0:
		o.over = now
	}
	if o.over > 0 && o.acked > 0 {
		t.past, t.present = append(t.past, *o), nil
	}
}

// open says whether agents are still away.
func (t *outages) open() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.present != nil && t.present.over == 0
}

// list is what the report shows.
func (t *outages) list(from time.Duration) (list []report.Outage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.past
	if t.present != nil {
		all = append(all, *t.present)
	}
	for _, o := range all {
		since := func(at int64) float64 {
			if at == 0 {
				return -1
			}
			return max(0, time.Duration(at)-o.began).Seconds()
		}
		out := report.Outage{Second: (o.began - from).Seconds(), Lost: o.lost, Storm: o.storm, Command: o.command,
			Acked: since(o.acked), Seconds: since(int64(o.over))}
		if o.ready != nil {
			out.Serving = since(o.ready.Load())
		}
		list = append(list, out)
	}
	return list
}

// acking hears of every acknowledgement: since is when its session was opened.
func (r *run) acking(since int64) {
	if lost := r.lostAt.Load(); lost > 0 && since > lost && r.lostAt.CompareAndSwap(lost, 0) {
		r.ackedAt.Store(r.now())
	}
}

// waitServing asks readyz until it says yes, and notes when. Its patience is long: in a
// storm this process is busier than the server, and must not take that for silence.
func (r *run) waitServing(ctx context.Context, at *atomic.Int64) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		if resp, err := client.Get(r.cfg.AdminURL + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				at.Store(r.now())
				return
			}
		}
		pause.For(ctx, 20*time.Millisecond)
	}
}
