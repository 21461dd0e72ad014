package alertmanager

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// Server takes alerts in.
type Server struct {
	cfg     Config
	metrics *metrics
	ready   chan struct{} // closed when what was open at the start is known

	making sync.Mutex

	writing sync.Mutex
	clock   time.Duration // of this process: it stands still with it
	last    time.Time     // when it was moved
	places  map[placeKey]*place
	firing  int
	ends    map[ending]end           // see date
	warned  map[string]time.Duration // senders whose clock is wrong, and when the log said so
}

// New checks the configuration and registers the metrics; what comes in waits for Run.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, ready: make(chan struct{}), places: map[placeKey]*place{}, ends: map[ending]end{}, warned: map[string]time.Duration{}, last: cfg.Now()}
	s.metrics = newMetrics(cfg.Registerer, func() float64 {
		s.writing.Lock()
		defer s.writing.Unlock()
		return float64(s.firing)
	})
	return s, nil
}

// Run ends what nobody says any more, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
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
			if err := s.end(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("alerts that ended could not be recorded; trying again", "err", err)
			}
		}
	}
}

// open finds what an earlier life of this server left open.
func (s *Server) open(ctx context.Context) error {
	checks := s.cfg.Plan.PassiveChecks("", "")
	if len(checks) == 0 {
		return nil
	}
	q := event.Query{Checks: checks, Statuses: []model.Status{model.Warning, model.Critical, model.Unknown}, Limit: event.MaxLimit}
	s.writing.Lock()
	defer s.writing.Unlock()
	for {
		page, err := s.cfg.View.List(ctx, q)
		if err != nil {
			return fmt.Errorf("look for events of alerts: %w", err)
		}
		for i := range page.States {
			st := &page.States[i]
			namespace, check, ok := s.cfg.Plan.CheckName(st.Check)
			if !ok || st.Stream != 0 || st.Expired { // an agent said it, or silence: it is not ours to end
				continue
			}
			s.places[placeKey{st.Node, st.Check}] = &place{
				node: st.Node, namespace: namespace, check: check, known: true, said: st.Status, output: st.Output,
				before: &firing{status: st.Status, text: st.Output, line: oneLine(st.Output), until: s.clock + saidAgain(st.Output)},
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// now moves the clock. The caller holds writing.
func (s *Server) now() time.Duration {
	at := s.cfg.Now()
	s.clock += min(max(0, at.Sub(s.last)), 2*tick)
	s.last = at
	return s.clock
}

// end looks for what nobody says any more, and writes it; also what could not be written before.
func (s *Server) end(ctx context.Context) error {
	s.writing.Lock()
	now := s.now()
	s.forget(now)
	var changed []*place
	for key, p := range s.places {
		n := p.end(now)
		s.firing -= n
		s.metrics.ended.Add(float64(n))
		if status, text := p.verdict(); !p.known || status != p.said || text != p.output {
			changed = append(changed, p)
		} else if p.empty() {
			delete(s.places, key)
		}
	}
	wait, err := s.write(ctx, changed, now)
	s.writing.Unlock()
	if err == nil {
		err = wait(ctx)
	}
	if err != nil {
		s.unwritten(changed)
	}
	return err
}

// write makes results of places and hands them to the journal. The caller holds writing, and
// calls unwritten if they do not come to be durable.
func (s *Server) write(ctx context.Context, list []*place, now time.Duration) (wait func(context.Context) error, err error) {
	var results []Result
	for _, p := range list {
		check, ok := s.cfg.Plan.PassiveCheck(p.namespace, p.check)
		status, text := p.verdict()
		ended := len(p.alerts) == 0 && p.before == nil
		p.known, p.at = true, now
		was := p.said
		p.said, p.output = status, text
		if !ok || check.Chunk == nil || check.Disabled {
			continue // deleted meanwhile, and its events with it; or unwanted
		}
		if ended && was == model.OK {
			continue // it was fine all the time: with a TTL, that nobody says it is what counts
		}
		results = append(results, Result{Node: p.node, Chunk: check.Chunk, Status: status, Output: cut(text, max(check.Chunk.MaxOutput, 1024))})
	}
	if len(results) == 0 {
		return func(context.Context) error { return nil }, nil
	}
	s.metrics.results.Add(float64(len(results)))
	return s.cfg.Write(ctx, results)
}

// unwritten notes that nobody knows what these events say: the next tick writes them.
func (s *Server) unwritten(list []*place) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for _, p := range list {
		p.known, p.said = false, model.Unknown
	}
}
