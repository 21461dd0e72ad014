package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/model"
)

// AlertEvery is the interval at which open problems are repeated: an Alertmanager that restarted and lost its alerts has them
// again within it. alertKept is the time from a repeat to the end of its alert: no alert ends while Muster is down for less.
const (
	AlertEvery = time.Minute
	alertKept  = time.Hour
)

// alert is one alert in Alertmanager's JSON form.
type alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// sendToAlertmanager posts an alert to every member of an Alertmanager cluster, as Prometheus does.
func (o *Sender) sendToAlertmanager(ctx context.Context, a *model.Alertmanager, m *Message, w *messageText) (Receipt, error) {
	opened := m.Note
	if m.Note.Kind != Opened && m.Opened != nil {
		var err error
		if opened, err = m.Opened(ctx); err != nil {
			return Receipt{}, err
		}
		opened = cmp.Or(opened, m.Note)
	}
	return o.postAlerts(ctx, m, a, []alert{o.newAlert(a, m.Note, opened, w)})
}

// ResendProblems posts the open problems to an Alertmanager again, because Alertmanager forgets unrepeated alerts
func (o *Sender) ResendProblems(ctx context.Context, spec *model.HandlerSpec, notes []*Notification) error {
	spec, hidden, err := spec.Reveal(o.secretReader(ctx))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	var list []alert
	for _, n := range notes {
		list = append(list, o.newAlert(spec.Alertmanager, n, n, o.messageText(n, spec.ShowLabels)))
	}
	m := &Message{hider: hide.New(hidden)}
	_, err = o.postAlerts(ctx, m, spec.Alertmanager, list)
	return redactError(err, m.hider)
}

// newAlert converts a notification to an alert in Alertmanager's form, with the labels from the problem's
// opening. It has the labels of the opening, because labels identify an alert, even if the node has other
// labels now.
func (o *Sender) newAlert(a *model.Alertmanager, n, opened *Notification, w *messageText) alert {
	out := alert{
		Labels: map[string]string{}, StartsAt: n.Opened.UTC(), EndsAt: o.opts.Now().UTC().Add(alertKept).Truncate(time.Second), GeneratorURL: w.link,
		Annotations: map[string]string{"summary": w.title, "description": w.output, "problem": n.Problem, "status": n.Status},
	}
	if len(w.commands) > 0 {
		out.Annotations["type"] = strings.Join(w.commands, "\n")
	}
	for name, value := range map[string]string{"runbook_url": n.Runbook, "display_name": n.DisplayName} {
		if value != "" {
			out.Annotations[name] = value
		}
	}
	for name, value := range opened.Labels {
		out.Labels[labelName(name)] = value
	}
	maps.Copy(out.Labels, map[string]string{
		"alertname": n.Source.Name, "instance": opened.Node, "node": opened.Node, "namespace": n.Space, "severity": opened.Severity,
	})
	if n.Source.Instance != "" {
		out.Labels["source_instance"] = n.Source.Instance
	}
	for name, value := range a.Labels {
		out.Labels[labelName(name)] = value
	}
	if n.Kind == Closed {
		out.EndsAt = n.Closed.UTC()
	}
	if n.Kind == Test {
		out.EndsAt = o.opts.Now().UTC().Add(AlertEvery).Truncate(time.Second)
	}
	return out
}

// postAlerts posts alerts to all members of an Alertmanager cluster. It succeeds if one member accepts them, because
// that member passes them to the others.
func (o *Sender) postAlerts(ctx context.Context, m *Message, a *model.Alertmanager, list []alert) (Receipt, error) {
	var receipt Receipt
	var failed []error
	wait, final := time.Duration(0), 0
	body := encodeJSON(list)
	for _, address := range a.URLs {
		one, err := o.postRequests(ctx, m, &request{
			kind: "alertmanager", url: strings.TrimRight(address, "/") + "/api/v2/alerts", key: m.Key, ca: a.CA, body: body,
			header: authorization(a.Username, a.Password.Text, a.Token.Text),
		})
		receipt.Sent = one.Sent
		receipt.Answer = strings.TrimSpace(receipt.Answer + "\n" + strings.TrimSpace(address+" "+one.Answer))
		if failure := FailureOf(err); failure.Final {
			final++
		} else {
			wait = max(wait, failure.After)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", address, err))
		}
	}
	switch {
	case len(failed) < len(a.URLs):
		return receipt, nil
	case final == len(a.URLs):
		return receipt, FinalError(errors.Join(failed...))
	}
	return receipt, &Failure{Err: errors.Join(failed...), After: wait}
}

// labelName replaces characters that Alertmanager refuses in a label name. Letters, digits and _ stay.
func labelName(s string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
	if out == "" || out[0] >= '0' && out[0] <= '9' {
		out = "_" + out
	}
	return out
}
