package load

import (
	"context"
	"sync"
	"time"
)

// Sample is one second of a run, for the progress line and the report.
type Sample struct {
	Second    int     `json:"second"` // since the measurement began; negative: warming up
	Sent      uint64  `json:"sent"`   // results handed to sessions, per second
	Acked     uint64  `json:"acked"`  // per second
	Connected int     `json:"connected"`
	ServerCPU float64 `json:"serverCpu,omitempty"` // cores
	LoaderCPU float64 `json:"loaderCpu,omitempty"`
	ServerRSS int64   `json:"serverRss,omitempty"` // bytes
	LoaderRSS int64   `json:"loaderRss,omitempty"`

	// Of a scenario. Latencies in milliseconds, of what was acknowledged in this second.
	Phase      string             `json:"phase,omitempty"`
	Offered    uint64             `json:"offered,omitempty"` // meant to be sent in this second
	Refused    uint64             `json:"refused,omitempty"`
	Latency    *Latency           `json:"latencyMs,omitempty"`
	Lag        float64            `json:"lagMs,omitempty"`      // of the generator, p99
	Heap       float64            `json:"serverHeap,omitempty"` // bytes in use
	Goroutines float64            `json:"serverGoroutines,omitempty"`
	GC         float64            `json:"serverGcMs,omitempty"` // pauses in this second
	Commits    float64            `json:"commits,omitempty"`    // of the journal
	Syncs      float64            `json:"syncs,omitempty"`
	CommitMs   float64            `json:"commitMs,omitempty"` // mean
	Written    float64            `json:"written,omitempty"`  // bytes sent to storage by the server
	Queues     map[string]float64 `json:"queues,omitempty"`   // depths, by name
}

// watch samples the run, measures both processes over the measured span, and does
// what is to be done in the middle.
func (r *run) watch(ctx context.Context, rep *Report, from, to time.Duration) {
	middle, done := from+r.cfg.Duration/2, false
	var beside sync.WaitGroup
	defer beside.Wait()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var trouble outages
	var lastSent, lastAcked uint64
	next := from - r.cfg.Warmup + time.Second
	prev := r.usage()
	measured := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
		now := time.Duration(r.now())
		if !measured && now >= from {
			measured = true
			rep.first = r.usage()
			rep.first.metrics = readMetrics(r.cfg.AdminURL)
		}
		if !done && now >= middle {
			done = true
			if r.cfg.Storm {
				trouble.storm(asking, r, &beside, now)
			}
			if r.cfg.Halfway != nil {
				trouble.command = now
				beside.Go(func() { rep.halfway = r.cfg.Halfway(ctx) })
			}
		}
		trouble.look(asking, r, &beside, now)
		if now >= to && rep.last.at == 0 {
			rep.last = r.usage()
			rep.last.metrics = readMetrics(r.cfg.AdminURL)
		}
		if now >= to && (!trouble.open() || now >= to+r.cfg.Drain) {
			rep.Outages = trouble.list(from)
			return
		}
		if now < next {
			continue
		}
		next += time.Second
		u := r.usage()
		sent, acked := r.totals()
		s := Sample{Second: int((now - from) / time.Second), Sent: sent - lastSent, Acked: acked - lastAcked, Connected: int(r.connected.Load()),
			ServerCPU: u.server.cores(prev.server, u.at-prev.at), LoaderCPU: u.loader.cores(prev.loader, u.at-prev.at), ServerRSS: u.server.rss}
		lastSent, lastAcked, prev = sent, acked, u
		rep.Samples = append(rep.Samples, s)
		if r.cfg.Progress != nil {
			r.cfg.Progress(s)
		}
	}
}

// totals sums the ledgers.
func (r *run) totals() (sent, acked uint64) {
	for _, a := range r.agents {
		a.mu.Lock()
		sent += a.ledger.sent
		acked += a.ledger.acked
		a.mu.Unlock()
	}
	return sent, acked
}

// usage is what both processes, and all of the machine, used so far.
type usage struct {
	at             time.Duration
	server, loader process
	busy           time.Duration // of all cores, by everybody
	metrics        map[string]float64
}

func (r *run) usage() usage {
	u := usage{at: time.Duration(r.now()), loader: readProcess(0), busy: busyTime()}
	if r.cfg.ServerPID != nil {
		if pid := r.cfg.ServerPID(); pid > 0 {
			u.server = readProcess(pid)
		}
	}
	return u
}
