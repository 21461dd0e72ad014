package alertmanager

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// take is the way of a request's alerts, top to bottom: decode, find or make what they are
// of, note what fires, write what differs, wait until that is durable. An error with refused
// alerts is of these alone: the others are taken.
func (s *Server) take(ctx context.Context, by intent.Actor, namespace string, body []byte) error {
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
	s.date(by, alerts, of)
	found, more, err := s.find(ctx, by, namespace, alerts, of)
	if err != nil {
		return err
	}
	refuse(more...)
	refused = append(refused, more...)
	more, changed, err := s.note(ctx, by, alerts, of, found)
	refuse(more...)
	refused = append(refused, more...)
	for i := range of {
		if err != nil && (of[i] == fires || of[i] == resolved) {
			of[i] = unkept
		}
		s.metrics.alerts[of[i]].Inc()
	}
	if err != nil {
		s.unwritten(changed)
		return model.Errorf(model.Unavailable, "the alerts could not be kept: %w", err).WithHint("send them again; muster status says what is wrong")
	}
	return s.refusal(len(alerts), alerts, refused)
}

// refusal is the error for alerts that were not taken.
func (s *Server) refusal(all int, alerts []Alert, refused []refusal) error {
	if len(refused) == 0 {
		return nil
	}
	class := model.Invalid
	for _, r := range refused {
		if r.out == states || r.out == many {
			class = model.Limited
		}
	}
	const shown = 5
	text := ""
	for _, r := range refused[:min(len(refused), shown)] {
		text += fmt.Sprintf("; alert %d (%s): %s", r.index+1, cut(oneLine(alerts[r.index].Labels["alertname"]), 200), r.why)
	}
	if n := len(refused) - shown; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return model.Errorf(class, "%d of %d alerts are refused, the others are taken%s", len(refused), all, text).WithHint("docs/alerts.md says what is taken")
}

// note notes what fires and writes what differs. The places come back for unwritten.
func (s *Server) note(ctx context.Context, by intent.Actor, alerts []Alert, of []outcome, found []spot) (refused []refusal, changed []*place, err error) {
	s.writing.Lock()
	now := s.now()
	touched := map[*place]bool{}
	for i := range alerts {
		if of[i] != outcomes {
			continue
		}
		p, out, why := s.one(by, &alerts[i], &found[i], now)
		if of[i] = out; why != "" {
			refused = append(refused, refusal{i, out, why})
		}
		if p != nil {
			touched[p] = true
		}
	}
	for p := range touched {
		if status, text := p.verdict(); !p.known || status != p.said || text != p.output || now-p.at >= againAfter {
			changed = append(changed, p)
		}
	}
	wait, err := s.write(ctx, changed, now)
	s.writing.Unlock()
	if err == nil {
		err = wait(ctx)
	}
	return refused, changed, err
}

// one notes one alert. nil: nothing came of it.
func (s *Server) one(by intent.Actor, a *Alert, at *spot, now time.Duration) (p *place, out outcome, why string) {
	key := placeKey{at.node, at.check.Chunk.Unit}
	p = s.places[key]
	id := a.identity()
	if a.left <= 0 {
		if p == nil {
			return nil, resolved, "" // nobody said that it fires
		}
		if p.alerts[id] != nil {
			delete(p.alerts, id)
			s.firing--
		}
		p.ended = a.line()
		if p.before != nil {
			p.before.until = min(p.before.until, now+soon)
		}
		return p, resolved, ""
	} else if p == nil || p.alerts[id] == nil {
		if s.firing >= s.cfg.Limits.Firing {
			return nil, many, fmt.Sprintf("%d alerts fire, at most %d", s.firing, s.cfg.Limits.Firing)
		}
		if p != nil && len(p.alerts) >= s.cfg.Limits.FiringTogether {
			return nil, many, fmt.Sprintf("%d alerts of this name fire for %s, at most %d", len(p.alerts), at.name, s.cfg.Limits.FiringTogether)
		}
		if code, reason := s.cfg.View.Admit(at.node, at.check.Chunk); p == nil && code != "" {
			limit := "node_states"
			if code == "namespace_limit" {
				limit = "namespace_states"
			}
			if s.cfg.Hit != nil {
				s.cfg.Hit(at.node, at.name, at.check.Chunk.Namespace, limit, reason)
			}
			return nil, states, reason
		}
		if p == nil {
			p = &place{node: at.node, namespace: at.namespace, check: at.check.Chunk.Name}
			s.places[key] = p
		}
		if p.alerts == nil {
			p.alerts = map[[32]byte]*firing{}
		}
		s.firing++
		p.alerts[id] = &firing{until: now + a.left}
	} else {
		p.alerts[id].until = now + a.left
	}
	f := p.alerts[id]
	f.status, f.line, f.text = statusOf(a.Labels), a.line(), a.text()
	f.lag = a.lagAfter(f.lag, by, now)
	return p, fires, ""
}
