package alertmanager

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Alert is an alert in the form of Alertmanager's api/v2 (and the older api/v1).
type Alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`

	// Set by Server.setLifetimes.
	lifetime time.Duration // without being repeated; not positive: it has ended
	behind   time.Duration // least delay of the sender's clock; zero: unknown
}

// refusal is a refused alert of a request.
type refusal struct {
	index int
	out   outcome
	why   string
}

// decode reads the alerts of a request. An error refuses the request, a refusal one alert.
func decode(body []byte, l *Limits) (alerts []Alert, refused []refusal, err error) {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '{' {
		return nil, nil, model.Errorf(model.Invalid, "want a list of alerts, not an object").
			WithHint("this is the form of a webhook; the address is for alertmanagers of Prometheus (alerting.alertmanagers) and Grafana's contact point Alertmanager: docs/alerts.md")
	}
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, nil, model.Errorf(model.Invalid, "the alerts cannot be read: %w", err).WithHint("want JSON as Alertmanager's api/v2/alerts has it: docs/alerts.md")
	}
	if len(list) > l.Alerts {
		return nil, nil, model.Errorf(model.TooLarge, "%d alerts in one request, at most %d", len(list), l.Alerts).WithHint("send them in several")
	}
	alerts = make([]Alert, len(list))
	for i, text := range list {
		if err := json.Unmarshal(text, &alerts[i]); err != nil {
			refused = append(refused, refusal{i, malformed, err.Error()})
		} else if why := alerts[i].invalid(l); why != "" {
			refused = append(refused, refusal{i, malformed, why})
		}
	}
	return alerts, refused, nil
}

// invalid returns the reason why an alert is invalid; empty: it is valid.
func (a *Alert) invalid(l *Limits) string {
	if a.Labels["alertname"] == "" {
		return "it has no label alertname"
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

// identity identifies an alert as Alertmanager does: by its labels that are not empty.
func (a *Alert) identity() (id [32]byte) {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		if value := a.Labels[name]; value != "" {
			fmt.Fprintf(h, "%d %s%d %s", len(name), name, len(value), value)
		}
	}
	h.Sum(id[:0])
	return id
}
