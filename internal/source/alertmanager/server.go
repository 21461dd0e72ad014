package alertmanager

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// Server receives alerts.
type Server struct {
	cfg     Config
	metrics *metrics
	ready   chan struct{} // closed when the events that are open at the start are loaded

	creation sync.Mutex // of checks and nodes

	mu        sync.Mutex
	clock     time.Duration // of this process: it stops with it
	clockRead time.Time     // time of day of the last reading
	events    map[eventKey]*alertEvent
	firing    int                      // alerts
	pastEnds  map[senderAlert]pastEnd  // see setLifetimes
	warned    map[string]time.Duration // by sender: last log line on its clock
}

// New checks the configuration and registers the metrics. Requests wait for Run.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, ready: make(chan struct{}), events: map[eventKey]*alertEvent{}, pastEnds: map[senderAlert]pastEnd{}, warned: map[string]time.Duration{}, clockRead: cfg.Now()}
	s.metrics = newMetrics(cfg.Registerer, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(s.firing)
	})
	return s, nil
}

// Run ends alerts that senders no longer repeat, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	if err := s.loadOpenEvents(ctx); err != nil {
		return err
	}
	close(s.ready)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := s.endExpired(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("cannot record ended alerts; trying again", "err", err)
			}
		}
	}
}

// loadOpenEvents loads the events of alerts that were open when the server stopped.
func (s *Server) loadOpenEvents(ctx context.Context) error {
	checks := s.cfg.Plan.PassiveChecks("", "")
	if len(checks) == 0 {
		return nil
	}
	q := event.Query{Checks: checks, Statuses: []model.Status{model.Warning, model.Critical, model.Unknown}, Limit: event.MaxLimit}
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		page, err := s.cfg.View.List(ctx, q)
		if err != nil {
			return fmt.Errorf("list events of alerts: %w", err)
		}
		for i := range page.States {
			st := &page.States[i]
			namespace, check, ok := s.cfg.Plan.CheckName(st.Check)
			if !ok || st.Stream != 0 || st.Expired { // of an agent, or expired: alerts do not end it
				continue
			}
			s.events[eventKey{st.Node, st.Check}] = &alertEvent{
				node: st.Node, namespace: namespace, check: check, known: true, status: st.Status, output: st.Output,
				restored: &firing{status: st.Status, text: st.Output, line: oneLine(st.Output), until: s.clock + repeatTime(st.Output)},
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// nowLocked reads the clock.
func (s *Server) nowLocked() time.Duration {
	at := s.cfg.Now()
	s.clock += min(max(0, at.Sub(s.clockRead)), 2*tick)
	s.clockRead = at
	return s.clock
}

// endExpired ends alerts that senders no longer repeat, and writes the changed events, also those whose last write failed.
func (s *Server) endExpired(ctx context.Context) error {
	s.mu.Lock()
	now := s.nowLocked()
	s.forgetSendersLocked(now)
	var changed []*alertEvent
	for key, p := range s.events {
		n := p.endExpired(now)
		s.firing -= n
		s.metrics.ended.Add(float64(n))
		if status, text := p.verdict(); !p.known || status != p.status || text != p.output {
			changed = append(changed, p)
		} else if p.isIdle() {
			delete(s.events, key)
		}
	}
	wait, err := s.writeLocked(ctx, changed, now)
	s.mu.Unlock()
	if err == nil {
		err = wait(ctx)
	}
	if err != nil {
		s.markUnknown(changed)
	}
	return err
}

// writeLocked hands a result of each event to the journal. The caller calls markUnknown if they do not become durable.
func (s *Server) writeLocked(ctx context.Context, list []*alertEvent, now time.Duration) (wait func(context.Context) error, err error) {
	var results []Result
	for _, p := range list {
		check, ok := s.cfg.Plan.PassiveCheck(p.namespace, p.check)
		status, text := p.verdict()
		ended := len(p.alerts) == 0 && p.restored == nil
		p.known, p.written = true, now
		before := p.status
		p.status, p.output = status, text
		if !ok || check.Chunk == nil || check.Disabled {
			continue // deleted with its events, or disabled
		}
		if ended && before == model.OK {
			continue // it was OK all the time; a TTL expires if no sender repeats it
		}
		results = append(results, Result{Node: p.node, Chunk: check.Chunk, Status: status, Output: truncate(text, max(check.Chunk.MaxOutput, 1024))})
	}
	if len(results) == 0 {
		return func(context.Context) error { return nil }, nil
	}
	s.metrics.results.Add(float64(len(results)))
	return s.cfg.Write(ctx, results)
}

// markUnknown notes that the last results of these events may be lost: the next tick writes them.
func (s *Server) markUnknown(list []*alertEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range list {
		p.known, p.status = false, model.Unknown
	}
}
