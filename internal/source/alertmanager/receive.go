package alertmanager

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
)

// receive handles the alerts of a request, in order: decode them, find or create their checks and nodes, update the events,
// write changed events, wait until the results are durable. An error about refused alerts does not affect the others.
func (s *Server) receive(ctx context.Context, by intent.Actor, namespace string, body []byte) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return model.Errorf(model.Unavailable, "the server is starting").WithHint("send it again")
	}
	alerts, refused, err := decode(body, &s.cfg.Limits)
	if err != nil {
		return err
	}
	of := make([]outcome, len(alerts))
	for i := range of {
		of[i] = outcomes
	}
	refuse := func(list ...refusal) {
		for _, r := range list {
			of[r.index] = r.out
		}
	}
	refuse(refused...)
	s.setLifetimes(by, alerts, of)
	found, more, err := s.locateAll(ctx, by, namespace, alerts, of)
	if err != nil {
		return err
	}
	refuse(more...)
	refused = append(refused, more...)
	more, changed, err := s.update(ctx, by, alerts, of, found)
	refuse(more...)
	refused = append(refused, more...)
	for i := range of {
		if err != nil && (of[i] == fires || of[i] == resolved) {
			of[i] = unkept
		}
		s.metrics.alerts[of[i]].Inc()
	}
	if err != nil {
		s.markUnknown(changed)
		return model.Errorf(model.Unavailable, "cannot write the alerts to the journal: %w", err).WithHint("send them again; muster status says what is wrong")
	}
	return refusalError(len(alerts), alerts, refused)
}

// refusalError returns the error for refused alerts; nil: there are none.
func refusalError(all int, alerts []Alert, refused []refusal) error {
	if len(refused) == 0 {
		return nil
	}
	class := model.Invalid
	for _, r := range refused {
		if r.out == states || r.out == tooMany {
			class = model.Limited
		}
	}
	const shown = 5
	text := ""
	for _, r := range refused[:min(len(refused), shown)] {
		text += fmt.Sprintf("; alert %d (%s): %s", r.index+1, truncate(oneLine(alerts[r.index].Labels["alertname"]), 200), r.why)
	}
	if n := len(refused) - shown; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return model.Errorf(class, "%d of %d alerts are refused, the others are taken%s", len(refused), all, text).WithHint("docs/alerts.md lists the limits")
}

// update updates the events by the alerts and writes the changed ones, which it returns for markUnknown.
func (s *Server) update(ctx context.Context, by intent.Actor, alerts []Alert, of []outcome, found []location) (refused []refusal, changed []*alertEvent, err error) {
	s.mu.Lock()
	now := s.nowLocked()
	touched := map[*alertEvent]bool{}
	for i := range alerts {
		if of[i] != outcomes {
			continue
		}
		p, out, why := s.updateOneLocked(by, &alerts[i], &found[i], now)
		if of[i] = out; why != "" {
			refused = append(refused, refusal{i, out, why})
		}
		if p != nil {
			touched[p] = true
		}
	}
	for p := range touched {
		if status, text := p.verdict(); !p.known || status != p.status || text != p.output || now-p.written >= minResultAge {
			changed = append(changed, p)
		}
	}
	wait, err := s.writeLocked(ctx, changed, now)
	s.mu.Unlock()
	if err == nil {
		err = wait(ctx)
	}
	return refused, changed, err
}

// updateOneLocked updates the event of one alert; nil: there is none.
func (s *Server) updateOneLocked(by intent.Actor, a *Alert, at *location, now time.Duration) (p *alertEvent, out outcome, why string) {
	key := eventKey{at.node, at.check.Chunk.Unit}
	p = s.events[key]
	id := a.identity()
	if a.lifetime <= 0 {
		if p == nil {
			return nil, resolved, "" // it did not fire
		}
		if p.alerts[id] != nil {
			delete(p.alerts, id)
			s.firing--
		}
		p.ended = a.line()
		if p.restored != nil {
			p.restored.until = min(p.restored.until, now+repeatWindow)
		}
		return p, resolved, ""
	} else if p == nil || p.alerts[id] == nil {
		if s.firing >= s.cfg.Limits.Firing {
			return nil, tooMany, fmt.Sprintf("%d alerts fire, at most %d", s.firing, s.cfg.Limits.Firing)
		}
		if p != nil && len(p.alerts) >= s.cfg.Limits.FiringTogether {
			return nil, tooMany, fmt.Sprintf("%d alerts of this name fire on %s, at most %d", len(p.alerts), at.name, s.cfg.Limits.FiringTogether)
		}
		if code, reason := s.cfg.View.Admit(at.node, at.check.Chunk); p == nil && code != "" {
			if s.cfg.Hit != nil {
				s.cfg.Hit(at.node, at.name, at.check.Chunk.Namespace, core.StatesLimit(code), reason)
			}
			return nil, states, reason
		}
		if p == nil {
			p = &alertEvent{node: at.node, namespace: at.namespace, check: at.check.Chunk.Name}
			s.events[key] = p
		}
		if p.alerts == nil {
			p.alerts = map[[32]byte]*firing{}
		}
		s.firing++
		p.alerts[id] = &firing{until: now + a.lifetime}
	} else {
		p.alerts[id].until = now + a.lifetime
	}
	f := p.alerts[id]
	f.status, f.line, f.text = statusOf(a.Labels), a.line(), a.text()
	f.delay = a.clockDelay(f.delay, by, now)
	return p, fires, ""
}
