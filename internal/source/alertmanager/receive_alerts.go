package alertmanager

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
)

// receive handles the alerts of a request, and returns once the resulting check results are in the journal. An
// error about refused alerts does not affect the others.
func (s *Server) receive(ctx context.Context, by intent.Actor, namespace string, body []byte) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return model.Errorf(model.Unavailable, "the server is still starting and does not accept alerts yet").WithHint("send the alerts again")
	}
	if reason := s.cfg.Charge(namespace, by.User, len(body)); reason != "" {
		return model.Errorf(model.Limited, "refused all alerts of the request: %s", reason).WithHint("send the alerts again in a minute, or raise spec.limits.nodeBytesPerSec of the namespace: muster edit namespace %s", namespace)
	}
	alerts, err := decodeAlerts(body, &s.cfg.Limits)
	if err != nil {
		return err
	}
	s.setLifetimes(by, alerts)
	if err := s.locateAlerts(ctx, by, namespace, alerts); err != nil {
		return err
	}
	changed, err := s.updateEvents(ctx, by, alerts)
	for i := range alerts {
		a := &alerts[i]
		if err != nil && (a.out == alertFires || a.out == alertResolved) {
			a.out = notJournaled
		}
		s.metrics.alerts[a.out].Inc()
	}
	if err != nil {
		s.markUnknown(changed)
		return model.Errorf(model.Unavailable, "cannot write the alerts to the journal: %w", err).WithHint("send the alerts again; see the reason: muster status")
	}
	return refusalError(alerts)
}

// refusalError returns the error for the refused alerts of a request, or nil.
func refusalError(alerts []Alert) error {
	const shown = 5
	class, n, text := model.Invalid, 0, ""
	for i := range alerts {
		a := &alerts[i]
		if a.refusal == "" {
			continue
		}
		if a.out == stateLimit || a.out == tooManyFiring {
			class = model.Limited
		}
		if n++; n <= shown {
			text += fmt.Sprintf("; alert %d (%s): %s", i+1, truncate(oneLine(a.Labels["alertname"]), 200), a.refusal)
		}
	}
	switch {
	case n == 0:
		return nil
	case n > shown:
		text += fmt.Sprintf("; and %d more", n-shown)
	}
	return model.Errorf(class, "refused %d of %d alerts, accepted the others%s", n, len(alerts), text).WithHint("see the limits: docs/alerts.md")
}

// updateEvents applies alerts to the events of their checks and nodes, and writes the changed events. It returns the
// changed events.
func (s *Server) updateEvents(ctx context.Context, by intent.Actor, alerts []Alert) (changed []*alertEvent, err error) {
	s.mu.Lock()
	now := s.readClockLocked()
	touched := map[*alertEvent]bool{}
	for i := range alerts {
		if alerts[i].isUnhandled() {
			if p := s.updateEventLocked(by, &alerts[i], now); p != nil {
				touched[p] = true
			}
		}
	}
	for p := range touched {
		if status, text := p.presentResult(); !p.stateKnown || status != p.status || text != p.output || now-p.written >= minResultAge {
			changed = append(changed, p)
		}
	}
	wait, err := s.writeResultsLocked(ctx, changed, now)
	s.mu.Unlock()
	if err == nil {
		err = wait(ctx)
	}
	return changed, err
}

// updateEventLocked applies one alert to the event of its check and node, and returns the event. It returns nil if the
// alert is refused, or ended without having fired.
func (s *Server) updateEventLocked(by intent.Actor, a *Alert, now time.Duration) *alertEvent {
	definition := a.at.check.Definition
	key := eventKey{a.at.node, definition.Unit}
	p, id := s.events[key], a.labelsHash()
	if a.lifetime <= 0 {
		if a.out = alertResolved; p == nil {
			return nil // the ended alert had not fired
		}
		if p.alerts[id] != nil {
			delete(p.alerts, id)
			s.firing--
		}
		p.ended = a.summaryLine()
		if p.restored != nil {
			p.restored.until = min(p.restored.until, now+repeatWindow)
		}
		return p
	}
	if p == nil || p.alerts[id] == nil {
		if s.firing >= s.cfg.Limits.Firing {
			return a.refuse(tooManyFiring, "%d alerts fire, at most %d", s.firing, s.cfg.Limits.Firing)
		}
		if p != nil && len(p.alerts) >= s.cfg.Limits.FiringTogether {
			return a.refuse(tooManyFiring, "%d alerts of this name fire on %s, at most %d", len(p.alerts), a.at.name, s.cfg.Limits.FiringTogether)
		}
		if code, reason := s.cfg.View.Admit(a.at.node, definition); p == nil && code != "" {
			if s.cfg.Hit != nil {
				s.cfg.Hit(a.at.node, a.at.name, definition.Namespace, core.EventLimitName(code), reason)
			}
			return a.refuse(stateLimit, "%s", reason)
		}
		if p == nil {
			p = &alertEvent{node: a.at.node, namespace: a.at.namespace, check: definition.Name}
			s.events[key] = p
		}
		if p.alerts == nil {
			p.alerts = map[[32]byte]*firingAlert{}
		}
		s.firing++
		p.alerts[id] = new(firingAlert)
	}
	f := p.alerts[id]
	f.until, f.status, f.line, f.text = now+a.lifetime, StatusOf(a.Labels), a.summaryLine(), a.Text()
	f.delay = a.clockDelay(f.delay, by, now)
	a.out = alertFires
	return p
}

// Path is the prefix of the URL paths: PATH/api/v2/alerts for namespace default, and PATH/NAMESPACE/api/v2/alerts.
const Path = "/alertmanager/"

// Serve handles an HTTP request with alerts, posted by Prometheus or Grafana as to an Alertmanager. The error
// is for its sender.
func (s *Server) Serve(r *http.Request, address string) error {
	err := s.serve(r, address)
	result := "ok"
	if err != nil {
		result = model.ClassOf(err).Label()
	}
	s.metrics.requests.WithLabelValues(result).Inc()
	return err
}

// serve checks the path, method and sender of a request, then handles its alerts.
func (s *Server) serve(r *http.Request, address string) error {
	namespace, ok := s.login.NamespaceOf(r.URL.Path, "api/v2/alerts", "api/v1/alerts")
	if !ok {
		return model.Errorf(model.NotFound, "path %s does not exist", r.URL.Path).
			WithHint("send alerts by POST %sapi/v2/alerts, or %sNAMESPACE/api/v2/alerts: docs/alerts.md", Path, Path)
	}
	if r.Method != http.MethodPost {
		return model.Errorf(model.Invalid, "send alerts by POST; list them: muster get events --selector source=alertmanager").WithHint("create silences with muster silence: docs/alerts.md")
	}
	user, err := s.login.Authenticate(r, namespace)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, s.cfg.Limits.BodyBytes+1))
	if err != nil {
		return model.Errorf(model.Invalid, "cannot read the request's body to its end: %w", err)
	}
	if int64(len(body)) > s.cfg.Limits.BodyBytes {
		return model.Errorf(model.TooLarge, "the request's body is larger than the limit of %s", model.Size(s.cfg.Limits.BodyBytes)).WithHint("send fewer alerts at once")
	}
	return s.receive(r.Context(), intent.Actor{User: user, Address: address}, namespace, body)
}

// Alert is an alert in the form of Alertmanager's api/v2 (and the older api/v1).
type Alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`

	out         alertOutcome  // the value outcomes means: not decided yet
	refusal     string        // reason of its refusal; empty: it is not refused
	lifetime    time.Duration // time for which the alert fires without being repeated; not positive: it has ended
	senderDelay time.Duration // least delay of the sender's clock; zero: unknown
	at          alertLocation
}

// isUnhandled reports whether the server has neither refused nor handled the alert yet.
func (a *Alert) isUnhandled() bool { return a.out == outcomes }

// refuse marks the alert as refused, with the outcome for metrics and the reason for its sender. It returns nil,
// because such an alert has no event.
func (a *Alert) refuse(out alertOutcome, format string, args ...any) *alertEvent {
	a.out, a.refusal = out, fmt.Sprintf(format, args...)
	return nil
}

// decodeAlerts decodes the alerts of a request. It refuses each invalid alert alone; an error refuses the whole
// request.
func decodeAlerts(body []byte, l *Limits) ([]Alert, error) {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '{' {
		return nil, model.Errorf(model.Invalid, "expected a JSON list of alerts, got a JSON object").
			WithHint("this is a webhook's body; send alerts as Prometheus (alerting.alertmanagers) or Grafana's contact point Alertmanager: docs/alerts.md")
	}
	list, err := splitList(body, l.Alerts)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "cannot decode the JSON list of alerts: %w", err).WithHint("expected JSON as for Alertmanager's api/v2/alerts: docs/alerts.md")
	}
	if len(list) > l.Alerts {
		return nil, model.Errorf(model.TooLarge, "the request has more than %d alerts, the limit", l.Alerts).WithHint("send the alerts in several requests")
	}
	alerts := make([]Alert, len(list))
	for i, text := range list {
		a := &alerts[i]
		a.out = outcomes
		if err := json.Unmarshal(text, a); err != nil {
			a.refuse(alertMalformed, "%v", err)
		} else if why := a.invalidReason(l); why != "" {
			a.refuse(alertMalformed, "%s", why)
		}
	}
	return alerts, nil
}

// splitList splits a JSON list into its still encoded elements. A long list ends after one element more than
// most, because each needs more memory than its text.
func splitList(body []byte, most int) (list []json.RawMessage, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	start, err := d.Token()
	if err != nil || start == nil {
		return nil, err
	}
	if start != json.Delim('[') {
		return nil, errors.New("it is no list")
	}
	for d.More() {
		var element json.RawMessage
		if err := d.Decode(&element); err != nil {
			return nil, err
		}
		if list = append(list, element); len(list) > most {
			return list, nil
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the list")
	}
	return list, nil
}

// invalidReason returns the reason why an alert is invalid, or an empty text if the alert is valid.
func (a *Alert) invalidReason(l *Limits) string {
	if a.Labels["alertname"] == "" {
		return "the alert has no label alertname"
	}
	for _, of := range []struct {
		what string
		m    map[string]string
		most int
	}{{"label", a.Labels, l.LabelBytes}, {"annotation", a.Annotations, l.TextBytes}} {
		if len(of.m) > l.Labels {
			return fmt.Sprintf("%d %ss, at most %d", len(of.m), of.what, l.Labels)
		}
		for name, value := range of.m {
			if len(name) > l.NameBytes {
				return fmt.Sprintf("the name of a %s has %d bytes, at most %d", of.what, len(name), l.NameBytes)
			}
			if len(value) > of.most {
				return fmt.Sprintf("%s %s has %d bytes, at most %d", of.what, strconv.Quote(name), len(value), of.most)
			}
		}
	}
	if len(a.GeneratorURL) > l.TextBytes {
		return fmt.Sprintf("generatorURL has %d bytes, at most %d", len(a.GeneratorURL), l.TextBytes)
	}
	return ""
}

// labelsHash returns a hash of an alert's non-empty labels, which identifies the alert. The hash identifies the alert,
// as in Alertmanager.
func (a *Alert) labelsHash() (id [32]byte) {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		if value := a.Labels[name]; value != "" {
			fmt.Fprintf(h, "%d %s%d %s", len(name), name, len(value), value)
		}
	}
	h.Sum(id[:0])
	return id
}
