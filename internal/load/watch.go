package load

import (
	"context"
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
}

// Outage is a time in which not all agents had a session.
type Outage struct {
	Second  float64 `json:"second"`  // when it began
	Lost    int     `json:"lost"`    // most agents away at once
	Seconds float64 `json:"seconds"` // until the last was back; negative: not before the end
	Storm   bool    `json:"storm,omitempty"`

	until int64 // welcomes that end a storm: an agent that has not yet noticed its cut is not back
}

// watch samples the run, measures both processes over the measured span, and makes
// the reconnect storm.
func (r *run) watch(ctx context.Context, rep *Report, from, to time.Duration) {
	storm := from + r.cfg.Duration/2
	stormy := r.cfg.Storm
	var outage *Outage
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
			rep.first.metrics = readMetrics(r.cfg.MetricsURL)
		}
		if stormy && now >= storm {
			stormy = false
			outage = &Outage{Second: (now - from).Seconds(), Storm: true, Lost: r.cfg.Agents, until: r.welcomes.Load() + int64(r.cfg.Agents)}
			r.closeAll()
		}
		outage = r.away(rep, outage, now, from)
		if now >= to && rep.last.at == 0 {
			rep.last = r.usage()
			rep.last.metrics = readMetrics(r.cfg.MetricsURL)
		}
		if now >= to && (outage == nil || now >= to+r.cfg.Drain) {
			if outage != nil {
				outage.Seconds = -1
				rep.Outages = append(rep.Outages, *outage)
			}
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

// away follows an outage from the first agent lost to the last one back.
func (r *run) away(rep *Report, o *Outage, now, from time.Duration) *Outage {
	lost := r.cfg.Agents - int(r.connected.Load())
	switch {
	case o == nil && lost > 0:
		return &Outage{Second: (now - from).Seconds(), Lost: lost}
	case o != nil && (lost > 0 || r.welcomes.Load() < o.until):
		o.Lost = max(o.Lost, lost)
	case o != nil: // all back
		o.Seconds = (now - from).Seconds() - o.Second
		rep.Outages = append(rep.Outages, *o)
		return nil
	}
	return o
}

// closeAll cuts every connection at once, as the end of a server does.
func (r *run) closeAll() {
	for _, a := range r.agents {
		a.mu.Lock()
		s := a.session
		a.mu.Unlock()
		if s != nil {
			s.Close()
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

// usage is what both processes used so far.
type usage struct {
	at             time.Duration
	server, loader process
	metrics        map[string]float64
}

func (r *run) usage() usage {
	u := usage{at: time.Duration(r.now()), loader: readProcess(0)}
	if r.cfg.ServerPID > 0 {
		u.server = readProcess(r.cfg.ServerPID)
	}
	return u
}
