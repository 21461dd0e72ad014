package handler

import (
	"strings"

	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
)

// Limits of PagerDuty's Events API v2.
const (
	pagerdutySummary = 1024
	pagerdutyDedup   = 255
	pagerdutyDetail  = 16 << 10 // of ours
	pagerdutyDetails = 64 << 10 // of ours, of all labels together: an event has at most 512 KB, and JSON writes a byte as up to six
)

type pagerdutyEvent struct {
	RoutingKey string            `json:"routing_key"`
	Action     string            `json:"event_action"`
	Dedup      string            `json:"dedup_key"`
	Payload    *pagerdutyPayload `json:"payload,omitempty"` // of a trigger
	Client     string            `json:"client,omitempty"`
	ClientURL  string            `json:"client_url,omitempty"`
	Links      []pagerdutyLink   `json:"links,omitempty"`
}

type pagerdutyPayload struct {
	Summary   string            `json:"summary"`
	Source    string            `json:"source"`
	Severity  string            `json:"severity"`
	Timestamp string            `json:"timestamp"`
	Component string            `json:"component"`
	Group     string            `json:"group"`
	Class     string            `json:"class,omitempty"`
	Details   map[string]string `json:"custom_details"`
}

type pagerdutyLink struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

// pagerduty is https://developer.pagerduty.com/docs/send-alert-event: trigger, acknowledge
// and resolve under one dedup_key. An acknowledged incident calls nobody for another trigger, and cannot
// be unacknowledged: a new one takes its place.
func pagerduty(p *model.PagerDuty, m *Message, w *words) *request {
	n := m.Note
	e := pagerdutyEvent{RoutingKey: p.RoutingKey.Text, Action: "trigger", Dedup: key(n.incident(), pagerdutyDedup)}
	switch n.Kind {
	case Closed:
		e.Action = "resolve"
	case Acknowledged:
		e.Action = "acknowledge"
	default:
		e.Client, e.ClientURL = "Muster", w.link
		e.Payload = &pagerdutyPayload{
			Summary: body.Cut(w.title, pagerdutySummary), Source: n.Node, Severity: pagerdutySeverity(n), Timestamp: n.Opened.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
			Component: n.Subject(), Group: n.Space, Class: n.Severity,
			Details: details(w.facts, pagerdutyDetail, pagerdutyDetails),
		}
		e.Payload.Details["output"] = body.Cut(w.output, pagerdutyDetail)
		if len(w.commands) > 0 {
			e.Payload.Details["to type"] = strings.Join(w.commands, "\n")
		}
		if w.link != "" {
			e.Links = []pagerdutyLink{{w.link, "the problem in Muster"}}
		}
	}
	address := p.URL
	if address == "" {
		address = "https://events.pagerduty.com"
	}
	r := &request{kind: "pagerduty", url: strings.TrimRight(address, "/") + "/v2/enqueue", key: m.Key, body: encode(e)}
	if n.Instead != "" {
		ends := *r
		ends.body = encode(pagerdutyEvent{RoutingKey: e.RoutingKey, Action: "resolve", Dedup: key(n.Instead, pagerdutyDedup)})
		r.then = &ends
	}
	return r
}

// pagerdutySeverity is one of theirs.
func pagerdutySeverity(n *Notification) string {
	switch s := n.severity(); {
	case n.Kind == Test:
		return "info"
	case s >= model.High:
		return "critical"
	case s == model.Average:
		return "error"
	case s == model.SeverityWarning:
		return "warning"
	}
	return "info"
}
