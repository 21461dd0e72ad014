package handler

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

const (
	calledKey = "0123456789abcdef0123"
	// As PagerDuty's documents have it, shortened to what is said of an incident.
	pagerdutyCalls = `{"event":{"id":"01CEYCB1JL","event_type":"incident.acknowledged","resource_type":"incident","occurred_at":"2026-11-22T16:00:00.000Z","agent":{"html_url":"https://acme.pagerduty.com/users/PLH1HKV","id":"PLH1HKV","self":"https://api.pagerduty.com/users/PLH1HKV","summary":"Ada  Lovelace","type":"user_reference"},"client":null,"data":{"id":"PGR0VU2","type":"incident","html_url":"https://acme.pagerduty.com/incidents/PGR0VU2","number":2,"status":"acknowledged","incident_key":"p1234","title":"disk"}}}`
	opsgenieCalls  = `{"action":"Acknowledge","alert":{"alertId":"052652ac","message":"disk","tags":["muster"],"tinyId":"23","entity":"web01","alias":"p1234","userId":"daed1180","username":"ada@example.org"},"source":{"name":"web","type":"web"},"integrationName":"muster","integrationId":"d3bf6b1f"}`
)

func TestCallbacks(t *testing.T) {
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
		class  model.Class // of the error; want is compared where there is none
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

// hexHMAC is what PagerDuty signs with.
func hexHMAC(secret, text string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

func FuzzCallback(f *testing.F) {
	f.Add(true, "v1=00", []byte(pagerdutyCalls))
	f.Add(false, "Bearer x", []byte(opsgenieCalls))
	f.Fuzz(func(t *testing.T, first bool, proof string, text []byte) {
		spec, header := &model.HandlerSpec{Opsgenie: &model.Opsgenie{}}, http.Header{"Authorization": {"Bearer " + calledKey}}
		if first {
			spec, header = &model.HandlerSpec{PagerDuty: &model.PagerDuty{}}, http.Header{"X-Pagerduty-Signature": {proof, "v1=" + hexHMAC(calledKey, string(text))}}
		}
		c, err := ReadCallback(spec, calledKey, header, text)
		if c.Verb != "" && (err != nil || c.By == "" || len(c.By) > maxBy+20) || model.ClassOf(err) == model.Unauthenticated && err != nil {
			t.Errorf("%+v %v", c, err)
		}
		if _, err := ReadCallback(spec, calledKey, http.Header{"X-Pagerduty-Signature": {proof}, "Authorization": {proof}}, text); err == nil {
			t.Errorf("taken with %q", proof)
		}
	})
}
