package handler

import (
	"cmp"
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
	pagerdutyDetail  = 16 << 10 // one value of custom_details, in bytes
	pagerdutyDetails = 64 << 10 // all values of custom_details together: an event has at most 512 KB, and JSON writes a byte as up to six
)

// newPagerDutyRequest returns the request to PagerDuty's Events API for a message. It triggers, acknowledges or resolves an
// alert, with one dedup_key per problem. PagerDuty calls nobody for another trigger of an acknowledged incident, and
// cannot remove an acknowledgement: then a new incident replaces the acknowledged one.
func newPagerDutyRequest(p *model.PagerDuty, m *Message, w *messageText) *request {
	n := m.Note
	r := &request{kind: "pagerduty", key: m.Key, url: strings.TrimRight(cmp.Or(p.URL, "https://events.pagerduty.com"), "/") + "/v2/enqueue"}
	event := func(action, incident string, more ...jsonField) []byte {
		return encodeJSON(append(jsonObject{{"routing_key", p.RoutingKey.Text}, {"event_action", action}, {"dedup_key", truncateID(incident, pagerdutyDedup)}}, more...))
	}
	switch n.Kind {
	case Closed:
		r.body = event("resolve", n.incidentID())
	case Acknowledged:
		r.body = event("acknowledge", n.incidentID())
	default:
		facts := boundedFacts(w.facts, pagerdutyDetail, pagerdutyDetails)
		facts["output"] = body.Cut(w.output, pagerdutyDetail)
		if len(w.commands) > 0 {
			facts["to type"] = strings.Join(w.commands, "\n")
		}
		var links []jsonObject
		if w.link != "" {
			links = []jsonObject{{{"href", w.link}, {"text", "the problem in Muster"}}}
		}
		payload := jsonObject{{"summary", body.Cut(w.title, pagerdutySummary)}, {"source", n.Node},
			{"severity", rankSeverity(n, [5]string{"info", "warning", "error", "critical", "critical"})},
			{"timestamp", n.Opened.UTC().Format("2006-01-02T15:04:05.000Z07:00")}, {"component", n.Subject()}, {"group", n.Space},
			{"class?", n.Severity}, {"custom_details", facts}}
		r.body = event("trigger", n.incidentID(), jsonField{"payload", payload}, jsonField{"client", "Muster"}, jsonField{"client_url?", w.link}, jsonField{"links?", links})
	}
	if n.Replaces != "" {
		ends := *r
		ends.body = event("resolve", n.Replaces)
		r.next = &ends
	}
	return r
}

// rankSeverity chooses, for the severity of a notification, the corresponding one of a service's own five
// levels. ranks has the ranks for information (and tests), warning, average, high and disaster.
func rankSeverity[T any](n *Notification, ranks [5]T) T {
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
	opsgenieDetail      = 1000 // one value of details, in bytes
	opsgenieDetails     = 8000 // names and values of all details together
	opsgenieTag         = 50
	opsgenieNote        = 25_000
)

// jiraIntegration is the end of the address of Jira Service Management. Its integration can only create, acknowledge and
// close alerts.
const jiraIntegration = "/jsm/ops/integration"

// newOpsgenieRequest returns the request to the Opsgenie alert API for a message. It creates, raises, acknowledges or closes an
// alert, with one alias per problem. An acknowledged alert cannot call a person again: then a new alert replaces it.
func newOpsgenieRequest(g *model.Opsgenie, m *Message, w *messageText) *request {
	n := m.Note
	address := "https://api.opsgenie.com"
	switch {
	case g.URL != "":
		address = strings.TrimRight(g.URL, "/")
	case g.Region == "eu":
		address = "https://api.eu.opsgenie.com"
	}
	r := &request{kind: "opsgenie", key: m.Key, header: [][2]string{{"Authorization", "GenieKey " + g.APIKey.Text}}}
	alias := truncateID(n.incidentID(), opsgenieAlias)
	to := func(alias, action string) string {
		return address + "/v2/alerts/" + url.PathEscape(alias) + "/" + action + "?identifierType=alias"
	}
	act := func(alias, action, note string) *request {
		return &request{kind: r.kind, key: m.Key, header: r.header, url: to(alias, action),
			body: encodeJSON(jsonObject{{"user?", truncateID(n.By, 100)}, {"source", "muster"}, {"note", body.Cut(note, opsgenieNote)}})}
	}
	if action := map[string]string{Closed: "close", Acknowledged: "acknowledge"}[n.Kind]; action != "" {
		return act(alias, action, strings.TrimSpace(w.title+"\n"+n.Note))
	}
	r.commonRules = true // a 404 here means a wrong address
	r.url = address + "/v2/alerts"
	var responders []map[string]string
	for _, who := range g.Responders {
		kind, name, _ := strings.Cut(who, ":")
		by := "name"
		if kind == "user" {
			by = "username"
		}
		responders = append(responders, map[string]string{"type": kind, by: name})
	}
	var tags []string
	for _, tag := range g.Tags {
		tags = append(tags, body.Cut(tag, opsgenieTag))
	}
	priority := rankSeverity(n, [5]string{"P5", "P4", "P3", "P2", "P1"})
	r.body = encodeJSON(jsonObject{{"message", body.Cut(w.title, opsgenieMessage)}, {"alias", alias},
		{"description", body.Cut(w.plainText(), opsgenieDescription)}, {"responders?", responders}, {"tags?", tags},
		{"details", boundedFacts(w.facts, opsgenieDetail, opsgenieDetails)}, {"entity", truncateID(n.Node, 512)}, {"source", "muster"}, {"priority", priority}})
	if n.SeverityRaised && !strings.HasSuffix(address, jiraIntegration) { // a repeated create leaves the priority
		r.next = &request{kind: r.kind, key: m.Key, header: r.header, method: http.MethodPut, url: to(alias, "priority"),
			body: encodeJSON(jsonObject{{"priority", priority}})}
	} else if n.Replaces != "" {
		r.next = act(truncateID(n.Replaces, opsgenieAlias), "close", "the acknowledgement has ended; the incident continues as "+alias)
	}
	return r
}
