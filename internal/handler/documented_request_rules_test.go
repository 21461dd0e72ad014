package handler

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/model"
)

// documentedRules returns, for each external service, a function that validates requests by the service's
// documentation.
func documentedRules() map[string]func(*capturedRequest) error {
	return map[string]func(*capturedRequest) error{
		"webhook": func(c *capturedRequest) error {
			if c.header.Get("Idempotency-Key") == "" {
				return errors.New("no key")
			}
			if stamp := c.header.Get("Muster-Timestamp"); stamp != "" { // docs/handlers.md documents the signature
				mac := hmac.New(sha256.New, []byte("s3cret-key"))
				fmt.Fprintf(mac, "%s.%s", stamp, c.body)
				if got := c.header.Get("Muster-Signature"); got != "v1="+hex.EncodeToString(mac.Sum(nil)) {
					return fmt.Errorf("signature %q", got)
				}
			}
			return checkRequest(c, "POST", "^/hook$", "")
		},
		"pagerduty":    checkPagerdutyRequest,
		"opsgenie":     checkOpsgenieRequest,
		"alertmanager": checkAlertmanagerRequest,
		"slack":        checkSlackRequest,
		"mattermost":   checkMattermostRequest,
		"teams":        checkTeamsRequest,
		"ntfy":         checkNtfyRequest,
	}
}

// checkRequest returns an error unless method, path and content type of a request are as expected.
func checkRequest(c *capturedRequest, method, path, typ string) error {
	if c.method != method || !regexp.MustCompile(path).MatchString(c.uri) {
		return fmt.Errorf("%s %s is not served", c.method, c.uri)
	}
	if typ != "" && c.header.Get("Content-Type") != typ {
		return fmt.Errorf("Content-Type %q", c.header.Get("Content-Type"))
	}
	return nil
}

// readObject decodes the JSON body of a received request, and checks its required fields and length limits. It
// fails if a required field is missing, or a field exceeds its limit (in characters).
func readObject(c *capturedRequest, required []string, limits map[string]int) (map[string]any, error) {
	var v map[string]any
	if err := json.Unmarshal(c.body, &v); err != nil {
		return nil, err
	}
	for _, name := range required {
		if valueAt(v, name) == nil {
			return nil, fmt.Errorf("%s is missing", name)
		}
	}
	for name, most := range limits {
		if s, ok := valueAt(v, name).(string); ok && utf8.RuneCountInString(s) > most {
			return nil, fmt.Errorf("%s has %d characters, at most %d", name, utf8.RuneCountInString(s), most)
		}
	}
	return v, nil
}

// valueAt returns the value at a path of member names in nested JSON objects
func valueAt(v any, path string) any {
	for _, name := range strings.Split(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// requireOneOf returns an error unless a value is one of the given words.
func requireOneOf(v any, words ...string) error {
	if s, _ := v.(string); !slices.Contains(words, s) {
		return fmt.Errorf("%v is none of %v", v, words)
	}
	return nil
}

// checkPagerdutyRequest returns an error unless a request matches PagerDuty's documentation. See
// https://developer.pagerduty.com/docs/send-alert-event.
func checkPagerdutyRequest(c *capturedRequest) error {
	v, err := readObject(c, []string{"routing_key", "event_action", "dedup_key"}, map[string]int{"routing_key": 32, "dedup_key": 255, "payload.summary": 1024})
	if err != nil {
		return err
	}
	if len(c.body) > 512<<10 {
		return fmt.Errorf("%d bytes, at most 512 KB", len(c.body))
	}
	if len(v["routing_key"].(string)) != 32 {
		return errors.New("a routing key has 32 characters")
	}
	if v["event_action"] == "trigger" {
		for _, name := range []string{"payload.summary", "payload.source", "payload.severity"} {
			if s, _ := valueAt(v, name).(string); s == "" {
				return fmt.Errorf("%s is missing", name)
			}
		}
		if err := requireOneOf(valueAt(v, "payload.severity"), "critical", "warning", "error", "info"); err != nil {
			return err
		}
		if _, err := time.Parse(time.RFC3339, valueAt(v, "payload.timestamp").(string)); err != nil {
			return err
		}
	}
	return errors.Join(requireOneOf(v["event_action"], "trigger", "acknowledge", "resolve"), checkRequest(c, "POST", "^/v2/enqueue$", "application/json"))
}

// checkOpsgenieRequest returns an error unless a request matches Opsgenie's documentation. See
// https://docs.opsgenie.com/docs/alert-api.
func checkOpsgenieRequest(c *capturedRequest) error {
	if c.header.Get("Authorization") != "GenieKey genie-key" {
		return errors.New("who are you?")
	}
	if c.method == "PUT" { // https://docs.opsgenie.com/docs/alert-api-continued: nothing else is in the body
		v, err := readObject(c, []string{"priority"}, nil)
		if err == nil && len(v) != 1 {
			err = fmt.Errorf("%v", v)
		}
		return errors.Join(err, requireOneOf(v["priority"], "P1", "P2", "P3", "P4", "P5"), checkRequest(c, "PUT", `^/v2/alerts/[^/]+/priority\?identifierType=alias$`, "application/json"))
	}
	if strings.Contains(c.uri, "identifierType") {
		_, err := readObject(c, nil, map[string]int{"user": 100, "source": 100, "note": 25000})
		return errors.Join(err, checkRequest(c, "POST", `^/v2/alerts/[^/]+/(close|acknowledge)\?identifierType=alias$`, "application/json"))
	}
	v, err := readObject(c, []string{"message", "alias"}, map[string]int{"message": 130, "alias": 512, "description": 15000, "entity": 512, "source": 100})
	if err != nil {
		return err
	}
	size := 0
	for name, value := range v["details"].(map[string]any) {
		size += utf8.RuneCountInString(name + value.(string))
	}
	if size > 8000 {
		return fmt.Errorf("details of %d characters", size)
	}
	if list, ok := v["responders"].([]any); ok {
		for _, r := range list {
			if err := requireOneOf(valueAt(r, "type"), "team", "user", "escalation", "schedule"); err != nil {
				return err
			}
		}
	}
	return errors.Join(requireOneOf(v["priority"], "P1", "P2", "P3", "P4", "P5"), checkRequest(c, "POST", "^/v2/alerts$", "application/json"))
}

// checkAlertmanagerRequest returns an error unless a request matches Alertmanager's documentation. See
// https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml.
func checkAlertmanagerRequest(c *capturedRequest) error {
	var list []struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
	}
	if err := json.Unmarshal(c.body, &list); err != nil {
		return err
	}
	for _, a := range list {
		if a.Labels["alertname"] == "" || a.StartsAt.IsZero() || a.EndsAt.Before(a.StartsAt) {
			return fmt.Errorf("%+v", a)
		}
		for name := range a.Labels {
			if !regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`).MatchString(name) {
				return fmt.Errorf("label %q", name)
			}
		}
	}
	if user := "Basic " + base64.StdEncoding.EncodeToString([]byte("muster:s3cret")); c.header.Get("Authorization") != user {
		return errors.New("who are you?")
	}
	return checkRequest(c, "POST", "^/api/v2/alerts$", "application/json")
}

// checkSlackRequest returns an error unless a request matches Slack's documentation. See
// https://api.slack.com/messaging/webhooks and https://api.slack.com/reference/block-kit/blocks.
func checkSlackRequest(c *capturedRequest) error {
	v, err := readObject(c, []string{"text"}, map[string]int{"text": 40000})
	if err != nil {
		return err
	}
	for _, a := range v["attachments"].([]any) {
		blocks := valueAt(a, "blocks").([]any)
		if len(blocks) > 50 {
			return errors.New("more than 50 blocks")
		}
		for _, b := range blocks {
			most := map[any]int{"header": 150, "section": 3000}[valueAt(b, "type")]
			text, _ := valueAt(b, "text.text").(string)
			if n := utf8.RuneCountInString(text); most == 0 || n == 0 || n > most {
				return fmt.Errorf("a %v of %d characters", valueAt(b, "type"), n)
			}
			if valueAt(b, "text.type") == "mrkdwn" && regexp.MustCompile(`<[!@#]`).MatchString(text) {
				return errors.New("somebody's output calls a channel")
			}
		}
	}
	return checkRequest(c, "POST", "^/services/T0/B0/xyz$", "application/json")
}

// checkMattermostRequest returns an error unless a request matches Mattermost's documentation. See
// https://developers.mattermost.com/integrate/webhooks/incoming/.
func checkMattermostRequest(c *capturedRequest) error {
	v, err := readObject(c, []string{"attachments"}, nil)
	if err != nil {
		return err
	}
	if len(c.body) > 760_000 { // the limit of a post's properties, which include attachments
		return fmt.Errorf("%d bytes", len(c.body))
	}
	for _, a := range v["attachments"].([]any) {
		if s, _ := valueAt(a, "fallback").(string); s == "" {
			return errors.New("no fallback")
		}
		if text, _ := valueAt(a, "text").(string); utf8.RuneCountInString(text) > 7600 || strings.Count(text, "```")%2 != 0 {
			return fmt.Errorf("text: %q", text)
		}
	}
	return checkRequest(c, "POST", "^/hooks/xyz$", "application/json")
}

// checkTeamsRequest returns an error unless a request matches the documentation of Teams. See
// https://learn.microsoft.com/connectors/teams/ and adaptivecards.io/explorer.
func checkTeamsRequest(c *capturedRequest) error {
	v, err := readObject(c, []string{"type", "attachments"}, nil)
	if err != nil {
		return err
	}
	if len(c.body) > 28<<10 {
		return fmt.Errorf("%d bytes, at most 28 KB", len(c.body))
	}
	for _, a := range v["attachments"].([]any) {
		if valueAt(a, "contentType") != "application/vnd.microsoft.card.adaptive" || valueAt(a, "content.type") != "AdaptiveCard" || valueAt(a, "content.version") == nil {
			return fmt.Errorf("no adaptive card: %v", a)
		}
		for _, e := range valueAt(a, "content.body").([]any) {
			if err := requireOneOf(valueAt(e, "type"), "RichTextBlock", "FactSet"); err != nil {
				return err
			}
		}
	}
	return errors.Join(requireOneOf(v["type"], "message"), checkRequest(c, "POST", "^/workflows/xyz$", "application/json"))
}

// checkNtfyRequest returns an error unless a request matches ntfy's documentation. See
// https://docs.ntfy.sh/publish/#publish-as-json.
func checkNtfyRequest(c *capturedRequest) error {
	v, err := readObject(c, []string{"topic"}, nil)
	if err != nil {
		return err
	}
	if len(v["message"].(string)) > 4096 || len(v["title"].(string)) > 1024 {
		return errors.New("longer than ntfy takes as a message")
	}
	if len(c.body) > 2*4096 { // ntfy's server/server.go limits the bytes of JSON
		return fmt.Errorf("%d bytes of JSON", len(c.body))
	}
	if p, _ := v["priority"].(float64); p < 1 || p > 5 {
		return fmt.Errorf("priority %v", v["priority"])
	}
	if c.header.Get("Authorization") != "Bearer tk_abc" {
		return errors.New("who are you?")
	}
	return checkRequest(c, "POST", "^/$", "application/json")
}

// TestOpsgenieRaisesThePriority raises a problem's severity, and expects a second request, which raises the
// priority of Opsgenie's alert. The second request raises the priority of the alert. The message is taken when
// both requests are.
func TestOpsgenieRaisesThePriority(t *testing.T) {
	worse := *testNotifications()[Reminder]
	worse.SeverityRaised = true
	p := newFakeService(t, checkOpsgenieRequest)
	out := newTestSender(t, Options{})
	status := map[string]int{}
	asked := func() (methods string) {
		for len(p.got) > 0 {
			methods += (<-p.got).method + " "
		}
		return methods
	}
	inner := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		p.answer = func(w http.ResponseWriter) { w.WriteHeader(max(status[method], http.StatusAccepted)) }
		inner.ServeHTTP(w, r)
	})
	send := func() error {
		receipt, err := out.Send(t.Context(), httpServices(p.URL)["opsgenie"], worse.message(t))
		if n := strings.Count(receipt.Answer, "202"); err == nil && (n != 2 || !strings.Contains(receipt.Sent, "\nPUT ")) {
			t.Errorf("the receipt is of %d requests:\n%s", n, receipt.Sent)
		}
		return err
	}
	if err := send(); err != nil || asked() != "POST PUT " {
		t.Errorf("%v", err)
	}
	status["PUT"] = http.StatusServiceUnavailable
	if err := send(); err == nil || IsFinal(err) || asked() != "POST PUT " {
		t.Errorf("%v", err)
	}
	status["POST"] = http.StatusUnprocessableEntity
	if err := send(); !IsFinal(err) || asked() != "POST " {
		t.Errorf("%v", err)
	}
	for _, spec := range []model.Opsgenie{{URL: "https://api.atlassian.com/jsm/ops/integration/"}, {URL: "https://genie.example.org"}, {Region: "eu"}} {
		r := newOpsgenieRequest(&spec, worse.message(t), out.messageText(&worse, nil))
		if (r.next != nil) == strings.Contains(spec.URL, "jsm") {
			t.Errorf("%q %q: next request %+v", spec.URL, spec.Region, r.next)
		}
	}
}

const (
	calledKey = "0123456789abcdef0123"
	// As PagerDuty's documents have it, shortened to what is said of an incident.
	pagerdutyCalls = `{"event":{"id":"01CEYCB1JL","event_type":"incident.acknowledged","resource_type":"incident","occurred_at":"2026-11-22T16:00:00.000Z","agent":{"html_url":"https://acme.pagerduty.com/users/PLH1HKV","id":"PLH1HKV","self":"https://api.pagerduty.com/users/PLH1HKV","summary":"Ada  Lovelace","type":"user_reference"},"client":null,"data":{"id":"PGR0VU2","type":"incident","html_url":"https://acme.pagerduty.com/incidents/PGR0VU2","number":2,"status":"acknowledged","incident_key":"p1234","title":"disk"}}}`
	opsgenieCalls  = `{"action":"Acknowledge","alert":{"alertId":"052652ac","message":"disk","tags":["muster"],"tinyId":"23","entity":"web01","alias":"p1234","userId":"daed1180","username":"ada@example.org"},"source":{"name":"web","type":"web"},"integrationName":"muster","integrationId":"d3bf6b1f"}`
)

// TestCallbacksNeedAValidSignature sends callbacks with right, wrong and missing signatures, and expects errors for
// invalid signatures.
func TestCallbacksNeedAValidSignature(t *testing.T) {
	pagerduty := &model.HandlerSpec{PagerDuty: &model.PagerDuty{}}
	opsgenie := &model.HandlerSpec{Opsgenie: &model.Opsgenie{}}
	sign := func(text string) string {
		return "v1=" + hexHMAC("the secret before", text) + ",v1=" + hexHMAC(calledKey, text)
	}
	head := func(name, value string) http.Header {
		h := http.Header{}
		h.Set(name, value)
		return h
	}
	pd := func(text string) http.Header { return head("X-PagerDuty-Signature", sign(text)) }
	og := head("Authorization", "Bearer "+calledKey)
	of := func(old, new string) string { return strings.Replace(pagerdutyCalls, old, new, 1) }
	for _, c := range []struct {
		what   string
		spec   *model.HandlerSpec
		secret string
		header http.Header
		text   string
		want   Callback
		class  model.Class // class of the error; want is compared without an error
		err    bool
	}{
		{"PagerDuty", pagerduty, calledKey, pd(pagerdutyCalls), pagerdutyCalls, Callback{"acknowledge", "p1234", "Ada Lovelace (PagerDuty)", "https://acme.pagerduty.com/incidents/PGR0VU2", "p1234"}, 0, false},
		{"resolved", pagerduty, calledKey, pd(of("acknowledged", "resolved")), of("acknowledged", "resolved"), Callback{"resolve", "p1234", "Ada Lovelace (PagerDuty)", "https://acme.pagerduty.com/incidents/PGR0VU2", "p1234"}, 0, false},
		{"nobody in particular", pagerduty, calledKey, pd(of("Ada  Lovelace", "")), of("Ada  Lovelace", ""), Callback{"acknowledge", "p1234", "somebody (PagerDuty)", "https://acme.pagerduty.com/incidents/PGR0VU2", "p1234"}, 0, false},
		{"something else", pagerduty, calledKey, pd(of("acknowledged", "annotated")), of("acknowledged", "annotated"), Callback{}, 0, false},
		{"a trial", pagerduty, calledKey, pd(`{"event":{"event_type":"pagey.ping"}}`), `{"event":{"event_type":"pagey.ping"}}`, Callback{}, 0, false},
		{"another body", pagerduty, calledKey, pd(pagerdutyCalls), of("p1234", "p1235"), Callback{}, model.Unauthenticated, true},
		{"another secret", pagerduty, "another secret of theirs", pd(pagerdutyCalls), pagerdutyCalls, Callback{}, model.Unauthenticated, true},
		{"no signature", pagerduty, calledKey, http.Header{}, pagerdutyCalls, Callback{}, model.Unauthenticated, true},
		{"no secret", pagerduty, "", head("X-PagerDuty-Signature", "v1="+hexHMAC("", pagerdutyCalls)), pagerdutyCalls, Callback{}, model.Unauthenticated, true},
		{"signed, and no JSON", pagerduty, calledKey, pd("{"), "{", Callback{}, model.Invalid, true},
		{"Opsgenie", opsgenie, calledKey, og, opsgenieCalls, Callback{"acknowledge", "p1234", "ada@example.org (Opsgenie)", "", "p1234"}, 0, false},
		{"closed", opsgenie, calledKey, og, strings.Replace(opsgenieCalls, "Acknowledge", "Close", 1), Callback{"resolve", "p1234", "ada@example.org (Opsgenie)", "", "p1234"}, 0, false},
		{"unacknowledged, after an acknowledgement ended", opsgenie, calledKey, og, strings.NewReplacer("Acknowledge", "UnAcknowledge", "p1234", "p1234.2").Replace(opsgenieCalls), Callback{"unacknowledge", "p1234", "ada@example.org (Opsgenie)", "", "p1234.2"}, 0, false},
		{"made", opsgenie, calledKey, og, strings.Replace(opsgenieCalls, "Acknowledge", "Create", 1), Callback{}, 0, false},
		{"another header", opsgenie, calledKey, head("Authorization", "Bearer x"), opsgenieCalls, Callback{}, model.Unauthenticated, true},
		{"no secret", opsgenie, "", head("Authorization", "Bearer "), opsgenieCalls, Callback{}, model.Unauthenticated, true},
	} {
		got, err := ReadCallback(c.spec, c.secret, c.header, []byte(c.text))
		if got != c.want || (err != nil) != c.err || c.err && model.ClassOf(err) != c.class {
			t.Errorf("%s: %+v %v, want %+v", c.what, got, err, c.want)
		}
	}
}

// hexHMAC returns the hexadecimal HMAC-SHA256 of a text, with which PagerDuty signs callbacks.
func hexHMAC(secret, text string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

// FuzzCallback parses random callbacks of PagerDuty and Opsgenie, and expects a person's name in each accepted
// callback.
func FuzzCallback(f *testing.F) {
	f.Add(true, "v1=00", []byte(pagerdutyCalls))
	f.Add(false, "Bearer x", []byte(opsgenieCalls))
	f.Fuzz(func(t *testing.T, first bool, proof string, text []byte) {
		spec, header := &model.HandlerSpec{Opsgenie: &model.Opsgenie{}}, http.Header{"Authorization": {"Bearer " + calledKey}}
		if first {
			spec, header = &model.HandlerSpec{PagerDuty: &model.PagerDuty{}}, http.Header{"X-Pagerduty-Signature": {proof, "v1=" + hexHMAC(calledKey, string(text))}}
		}
		c, err := ReadCallback(spec, calledKey, header, text)
		if c.Verb != "" && (err != nil || c.By == "" || len(c.By) > maxPersonName+20) || model.ClassOf(err) == model.Unauthenticated && err != nil {
			t.Errorf("%+v %v", c, err)
		}
		if _, err := ReadCallback(spec, calledKey, http.Header{"X-Pagerduty-Signature": {proof}, "Authorization": {proof}}, text); err == nil {
			t.Errorf("taken with %q", proof)
		}
	})
}

// TestAlertmanagerClusterRetriesUnlessAllRefuse expects a message to be delivered if one Alertmanager of the cluster
// accepts the message. It is given up only if all members refuse it permanently.
func TestAlertmanagerClusterRetriesUnlessAllRefuse(t *testing.T) {
	member := func(status int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(server.Close)
		return server.URL
	}
	out := newTestSender(t, Options{})
	for _, c := range []struct {
		statuses        []int
		accepted, final bool
	}{
		{[]int{400, 200}, true, false},
		{[]int{400, 503}, false, false},
		{[]int{503, 400}, false, false},
		{[]int{400, 400}, false, true},
	} {
		spec := &model.HandlerSpec{Alertmanager: &model.Alertmanager{}}
		for _, status := range c.statuses {
			spec.Alertmanager.URLs = append(spec.Alertmanager.URLs, member(status))
		}
		_, err := out.Send(t.Context(), spec, testNotifications()[Opened].message(t))
		if (err == nil) != c.accepted || err != nil && IsFinal(err) != c.final {
			t.Errorf("members answer %v: %v", c.statuses, err)
		}
	}
}

// TestEveryMessageHasDisplayNameAndRunbook expects the display name and the runbook of the check in every
// message about a problem.
func TestEveryMessageHasDisplayNameAndRunbook(t *testing.T) {
	o := New(Options{})
	for kind, n := range testNotifications() {
		text := o.messageText(n, nil).plainText()
		if kind == Summary || kind == Test {
			n.Problems = []ListedProblem{{Runbook: n.Runbook}, {Runbook: "https://wiki.example.org/load"}}
			text = o.messageText(n, nil).plainText()
		} else if !strings.Contains(text, "disk ("+n.DisplayName+")") {
			t.Errorf("%s has no display name:\n%s", kind, text)
		}
		if strings.Count(text, n.Runbook) != 1 {
			t.Errorf("%s does not have the runbook once:\n%s", kind, text)
		}
	}
}
