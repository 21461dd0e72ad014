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

// AlertEvery is how often open problems are sent again, and alertKept how far ahead the end
// of an alert is set each time: Alertmanager forgets alerts at its restart and learns them
// anew within a minute; while Muster is away for less than an hour, none ends by itself.
const (
	AlertEvery = time.Minute
	alertKept  = time.Hour
)

type alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// alertmanager posts one alert to each member of the cluster, as Prometheus does.
func (o *Out) alertmanager(ctx context.Context, a *model.Alertmanager, m *Message, w *words) (Receipt, error) {
	opened := m.Note
	if m.Note.Kind != Opened && m.Opened != nil {
		var err error
		if opened, err = m.Opened(ctx); err != nil {
			return Receipt{}, err
		}
		opened = cmp.Or(opened, m.Note)
	}
	return o.alerts(ctx, m, a, []alert{o.alert(a, m.Note, opened, w)})
}

// ResendProblems sends open problems to a handler of kind alertmanager again, which forgets them otherwise.
func (o *Out) ResendProblems(ctx context.Context, spec *model.HandlerSpec, notes []*Notification) error {
	spec, hidden, err := spec.Reveal(o.reader(ctx))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	var list []alert
	for _, n := range notes {
		list = append(list, o.alert(spec.Alertmanager, n, n, o.words(n, spec.ShowLabels)))
	}
	m := &Message{hider: hide.New(hidden)}
	_, err = o.alerts(ctx, m, spec.Alertmanager, list)
	return redactError(err, m.hider)
}

// alert has the labels of the opening, whatever the node's are now: by them Alertmanager
// knows it again.
func (o *Out) alert(a *model.Alertmanager, n, opened *Notification, w *words) alert {
	out := alert{
		Labels: map[string]string{}, StartsAt: n.Opened.UTC(), EndsAt: o.opts.Now().UTC().Add(alertKept).Truncate(time.Second), GeneratorURL: w.link,
		Annotations: map[string]string{"summary": w.title, "description": w.output, "problem": n.Problem, "status": n.Status},
	}
	if len(w.commands) > 0 {
		out.Annotations["type"] = strings.Join(w.commands, "\n")
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

// alerts posts to all members. One that took them hands them to the others.
func (o *Out) alerts(ctx context.Context, m *Message, a *model.Alertmanager, list []alert) (Receipt, error) {
	var receipt Receipt
	var failed []error
	busy, hopeless := time.Duration(0), 0
	body := encode(list)
	for _, address := range a.URLs {
		one, err := o.post(ctx, m, &request{
			kind: "alertmanager", url: strings.TrimRight(address, "/") + "/api/v2/alerts", key: m.Key, ca: a.CA, body: body,
			header: authorization(a.Username, a.Password.Text, a.Token.Text),
		})
		receipt.Sent = one.Sent
		receipt.Answer = strings.TrimSpace(receipt.Answer + "\n" + strings.TrimSpace(address+" "+one.Answer))
		if wait := FailureOf(err); wait.Final {
			hopeless++
		} else {
			busy = max(busy, wait.After)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", address, err))
		}
	}
	switch {
	case len(failed) < len(a.URLs):
		return receipt, nil
	case hopeless == len(a.URLs):
		return receipt, FinalError(errors.Join(failed...))
	}
	return receipt, &Failure{Err: errors.Join(failed...), After: busy}
}

// labelName is a name that Alertmanager takes in every version: letters, digits and _.
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
