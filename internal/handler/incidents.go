package handler

import (
	"net/http"
	"net/url"
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
			Summary: body.Cut(w.title, pagerdutySummary), Source: n.Node,
			Severity: ranked(n, [5]string{"info", "warning", "error", "critical", "critical"}), Timestamp: n.Opened.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
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

// ranked returns a service's rank of a severity. ranks are those of information (and of a test), warning, average, high
// and disaster.
func ranked[T any](n *Notification, ranks [5]T) T {
	s, _ := model.ParseSeverity(n.Severity)
	if n.Kind == Test {
		return ranks[0]
	}
	return ranks[min(max(s, model.Information), model.Disaster)-model.Information]
}

// Limits of Opsgenie's Alert API.
const (
	opsgenieMessage     = 130
	opsgenieAlias       = 512
	opsgenieDescription = 15_000
	opsgenieDetail      = 1000 // of ours
	opsgenieDetails     = 8000 // of all together, names and values
	opsgenieTag         = 50
	opsgenieNote        = 25_000
)

// jiraIntegration ends the address of Jira Service Management, which makes, acknowledges and closes
// alerts for an integration, and does nothing else.
const jiraIntegration = "/jsm/ops/integration"

type opsgenieAlert struct {
	Message     string              `json:"message"`
	Alias       string              `json:"alias"`
	Description string              `json:"description"`
	Responders  []map[string]string `json:"responders,omitempty"`
	Tags        []string            `json:"tags,omitempty"`
	Details     map[string]string   `json:"details"`
	Entity      string              `json:"entity"`
	Source      string              `json:"source"`
	Priority    string              `json:"priority"`
}

type opsgenieAction struct {
	User   string `json:"user,omitempty"`
	Source string `json:"source"`
	Note   string `json:"note"`
}

// opsgenie makes a request to https://docs.opsgenie.com/docs/alert-api, which Jira Service Management also serves: create,
// raise, acknowledge and close by alias. An acknowledged alert cannot page again there: a new alert replaces it.
func opsgenie(g *model.Opsgenie, m *Message, w *words) *request {
	n := m.Note
	address := "https://api.opsgenie.com"
	switch {
	case g.URL != "":
		address = strings.TrimRight(g.URL, "/")
	case g.Region == "eu":
		address = "https://api.eu.opsgenie.com"
	}
	r := &request{kind: "opsgenie", key: m.Key, header: [][2]string{{"Authorization", "GenieKey " + g.APIKey.Text}}}
	alias := key(n.incident(), opsgenieAlias)
	act := func(alias, action, note string) *request {
		return &request{kind: r.kind, key: m.Key, header: r.header,
			url:  address + "/v2/alerts/" + url.PathEscape(alias) + "/" + action + "?identifierType=alias",
			body: encode(opsgenieAction{User: key(n.By, 100), Source: "muster", Note: body.Cut(note, opsgenieNote)})}
	}
	switch action := map[string]string{Closed: "close", Acknowledged: "acknowledge"}[n.Kind]; action {
	case "":
		r.strict = true // a 404 here says that the address is wrong
		r.url = address + "/v2/alerts"
		a := opsgenieAlert{
			Message: body.Cut(w.title, opsgenieMessage), Alias: alias, Description: body.Cut(w.text(), opsgenieDescription), Source: "muster",
			Entity: key(n.Node, 512), Priority: ranked(n, [5]string{"P5", "P4", "P3", "P2", "P1"}), Details: details(w.facts, opsgenieDetail, opsgenieDetails),
		}
		for _, who := range g.Responders {
			kind, name, _ := strings.Cut(who, ":")
			by := "name"
			if kind == "user" {
				by = "username"
			}
			a.Responders = append(a.Responders, map[string]string{"type": kind, by: name})
		}
		for _, tag := range g.Tags {
			a.Tags = append(a.Tags, body.Cut(tag, opsgenieTag))
		}
		r.body = encode(a)
		if n.Raised && !strings.HasSuffix(address, jiraIntegration) { // a second create counts up and keeps the priority
			r.then = &request{kind: r.kind, key: m.Key, header: r.header, method: http.MethodPut,
				url: address + "/v2/alerts/" + url.PathEscape(alias) + "/priority?identifierType=alias", body: encode(map[string]string{"priority": a.Priority})}
		} else if n.Instead != "" {
			r.then = act(key(n.Instead, opsgenieAlias), "close", "nobody looks after it any more: it goes on as "+alias)
		}
		return r
	default:
		return act(alias, action, strings.TrimSpace(w.title+"\n"+n.Note))
	}
}
