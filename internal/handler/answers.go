package handler

import (
	"fmt"
	"net/http"
	"strings"
)

// outcome is the effect of an answer on a message.
type outcome int

const (
	taken   outcome = iota
	retried         // with back-off, no sooner than Retry-After says
	final           // a dead letter at once: another attempt would be answered alike
)

func (o outcome) String() string { return [...]string{"taken", "tried again", "given up"}[o] }

// rule maps the answers of a service to an outcome. The first rule that fits applies; a kind's own rules come first.
type rule struct {
	kind     string // empty: of every kind that speaks HTTP
	from, to int    // status
	outcome  outcome
	why      string
}

// rules are all there are: docs/handlers.md shows this table.
func rules() []rule {
	return []rule{
		{"pagerduty", 400, 400, final, "PagerDuty does not take the event: a wrong routing key, or a field that is wrong"},
		{"pagerduty", 429, 429, retried, "too many events for this routing key"},
		{"opsgenie", 404, 404, taken, "an alert to acknowledge, raise or close is gone already (an alert that cannot be made: given up)"},
		{"opsgenie", 401, 403, final, "the key is wrong, or its integration is switched off or may not write"},
		{"opsgenie", 422, 422, final, "a field is wrong"},
		{"slack", 403, 404, final, "the webhook, its app or its channel is gone, or may not be written to"},
		{"slack", 410, 410, final, "the channel was archived"},
		{"teams", 401, 404, final, "the workflow was deleted or switched off, or its address is wrong"},
		{"teams", 413, 413, final, "the card is larger than Teams takes (Muster cuts it before)"},
		{"ntfy", 401, 403, final, "the token may not write to this topic"},
		{"ntfy", 429, 429, retried, "more messages than the server allows"},
		{"alertmanager", 400, 400, final, "a label is wrong"},
		{"", 200, 299, taken, ""},
		{"", 408, 408, retried, "the request took too long"},
		{"", 425, 425, retried, "too early"},
		{"", 429, 429, retried, "too many requests"},
		{"", 500, 599, retried, "the service has a fault, or is overloaded"},
		{"", 300, 499, final, "whatever else: a redirect, a wrong address, no permission"},
	}
}

// judge finds the rule for an answer.
func judge(kind string, status int) outcome {
	for _, r := range rules() {
		if (r.kind == "" || r.kind == kind) && r.from <= status && status <= r.to {
			return r.outcome
		}
	}
	return final
}

// AnswersPage is the table of docs/handlers.md.
func AnswersPage() string {
	var b strings.Builder
	b.WriteString("| handler | answer | the message is | because |\n|---|---|---|---|\n")
	for _, r := range rules() {
		kind, status := r.kind, fmt.Sprint(r.from)
		if kind == "" {
			kind = "all by HTTP"
		}
		if r.to != r.from {
			status += fmt.Sprintf("–%d", r.to)
		} else if text := http.StatusText(r.from); text != "" {
			status += " " + text
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", kind, status, r.outcome, r.why)
	}
	for _, r := range [][3]string{
		{"email", "4xx of SMTP", "tried again; where it is about one of several recipients, the others get the mail at once"},
		{"email", "5xx of SMTP", "given up; where it is about one of several recipients, the others get the mail, and `muster why` names that one"},
		{"tcp, stream", "the line was taken by the connection", "taken"}, {"udp", "the datagram left", "taken"},
		{"command", "exit code 0", "taken"}, {"command", "any other end", "tried again"},
		{"all", "no connection, no answer in time, a certificate that is not trusted", "tried again"},
		{"all", "a secret that cannot be read, a property that is not set, a handler that does not exist", "tried again"},
	} {
		fmt.Fprintf(&b, "| %s | %s | %s | |\n", r[0], r[1], r[2])
	}
	return b.String()
}
