//go:build linux

package test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// pagingService simulates PagerDuty or Opsgenie in a test. It receives messages and sends callbacks.
type pagingService struct {
	name, by string
	handler  string // %q: its address, %q: the secret
	opened   func(r *http.Request, body map[string]any) (key string, ok bool)
	ended    func(r *http.Request, body map[string]any) (key string, ok bool)
	call     func(verb, key, secret string) (body string, head [2]string)
}

const callbackSecret = "the secret that the service shares"

// pagingServices returns the simulated PagerDuty and Opsgenie.
func pagingServices() []pagingService {
	return []pagingService{
		{"PagerDuty", "Ada Lovelace (PagerDuty)", "pagerduty: {routingKey: R0123, url: %q, callback: %q}",
			func(_ *http.Request, body map[string]any) (string, bool) {
				key, _ := body["dedup_key"].(string)
				return key, body["event_action"] == "trigger"
			},
			func(_ *http.Request, body map[string]any) (string, bool) {
				key, _ := body["dedup_key"].(string)
				return key, body["event_action"] == "resolve"
			},
			func(verb, key, secret string) (string, [2]string) {
				text := fmt.Sprintf(`{"event":{"event_type":"incident.%s","agent":{"summary":"Ada Lovelace"},"data":{"incident_key":%q,"html_url":"https://acme.pagerduty.com/incidents/P1"}}}`,
					map[string]string{"acknowledge": "acknowledged", "unacknowledge": "unacknowledged", "resolve": "resolved", "annotate": "annotated"}[verb], key)
				h := hmac.New(sha256.New, []byte(secret))
				h.Write([]byte(text))
				return text, [2]string{"X-PagerDuty-Signature", "v1=" + hex.EncodeToString(h.Sum(nil))}
			}},
		{"Opsgenie", "ada@example.org (Opsgenie)", "opsgenie: {apiKey: k0123, url: %q, callback: %q}",
			func(r *http.Request, body map[string]any) (string, bool) {
				key, _ := body["alias"].(string)
				return key, r.URL.Path == "/v2/alerts"
			},
			func(r *http.Request, _ map[string]any) (string, bool) {
				key, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v2/alerts/"), "/close")
				return key, ok
			},
			func(verb, key, secret string) (string, [2]string) {
				return fmt.Sprintf(`{"action":%q,"alert":{"alias":%q,"username":"ada@example.org"},"integrationName":"muster"}`,
					map[string]string{"acknowledge": "Acknowledge", "unacknowledge": "UnAcknowledge", "resolve": "Close"}[verb], key), [2]string{"Authorization", "Bearer " + secret}
			}},
	}
}

// pagedServer is a server whose default route notifies a simulated paging service.
type pagedServer struct {
	*harness.Server
	t             *testing.T
	service       *pagingService
	token         string
	opened, ended chan string // keys
}

// pageEach notifies the service of each problem, pageGroups of groups by check.
const (
	pageEach   = "kind: Namespace\nmetadata: {name: default}\nspec: {handlers: [pager]}\n"
	pageGroups = "kind: Route\nmetadata: {name: default}\nspec: {groupBy: [check], groupWait: 3s, steps: [{to: [pager], repeat: 1h}]}\n"
)

// startPagedServer starts a server whose default route notifies a simulated paging service. It notifies per problem, or per
// group of problems of one check.
func startPagedServer(t *testing.T, service *pagingService, tells string) *pagedServer {
	p := &pagedServer{t: t, service: service, opened: make(chan string, 100), ended: make(chan string, 100)}
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if key, ok := service.opened(r, body); ok {
			p.opened <- key
		}
		if key, ok := service.ended(r, body); ok {
			p.ended <- key
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"result":"Request will be processed","requestId":"1"}`)
	}))
	t.Cleanup(peer.Close)
	p.Server = harness.StartServer(t)
	declared := fmt.Sprintf(service.handler, peer.URL, callbackSecret)
	p.Apply("kind: Handler\nmetadata: {name: pager}\nspec:\n  " + declared + "\n---\nkind: Handler\nmetadata: {name: other}\nspec:\n  " + declared + "\n---\n" + tells)
	p.token = strings.TrimSpace(p.CLI("auth", "token", "create", "--role", "alerts"))
	return p
}

// nextKey waits for the next notification at the paging service, and returns the notification's deduplication
// key. It waits for the message.
func (p *pagedServer) nextKey(of chan string) string { p.t.Helper(); return receiveValue(p.t, of) }

// fireAlert sends a firing alert for each of the given nodes.
func (p *pagedServer) fireAlert(check string, nodes ...string) {
	p.t.Helper()
	var alerts []string
	for _, node := range nodes {
		alerts = append(alerts, fmt.Sprintf(`{"labels":{"alertname":%q,"instance":%q,"severity":"critical"},"endsAt":%q}`, check, node, time.Now().Add(time.Hour).Format(time.RFC3339)))
	}
	code, text := postAlerts(p.t, p.Server, "/alertmanager/api/v2/alerts", "", p.token, "["+strings.Join(alerts, ",")+"]")
	require(p.t, code == 200, "%d %s", code, text)
}

// sendCallback simulates the callback by which the paging service reports a person's action to the server.
func (p *pagedServer) sendCallback(verb, key string) {
	p.t.Helper()
	p.sendCallbackToHandler("pager", verb, key, callbackSecret, 200)
}

// sendCallbackToHandler sends a callback to a handler, and fails the test unless the HTTP status is right.
func (p *pagedServer) sendCallbackToHandler(handler, verb, key, secret string, code int) {
	p.t.Helper()
	text, head := p.service.call(verb, key, secret)
	r := testenv.Value(http.NewRequest(http.MethodPost, "https://"+p.Listen+"/callback/default/"+handler, strings.NewReader(text)))(p.t)
	r.Header.Set(head[0], head[1])
	got, text := sendRequest(p.t, p.Server, r, "", "")
	require(p.t, got == code, "%s %s at %s: %d %s, want %d", verb, key, handler, got, text, code)
}

// expectAcknowledged fails the test unless a person at the paging service has acknowledged the nodes' problems. If
// want is false, nobody may have acknowledged the problems.
func (p *pagedServer) expectAcknowledged(check string, want bool, nodes ...string) {
	p.t.Helper()
	for _, node := range nodes {
		e := getEvent(p.t, p.API, node, check)
		assert(p.t, e.Problem != nil && (e.Problem.Ack != nil) == want && (!want || e.Problem.Ack.By == p.service.by),
			"%s/%s: %+v, want acknowledged %v", node, check, e.Problem, want)
	}
}

// An acknowledgement or resolution at PagerDuty is repeated in Muster under the person's name. Unsigned callbacks are
// refused, repeated ones change nothing, and only problems of this handler are affected.
func TestPagerDutyCallbackAcknowledges(t *testing.T) {
	t.Parallel()
	p := startPagedServer(t, &pagingServices()[0], pageEach)
	p.fireAlert("Disk", "web1")
	problem := p.nextKey(p.opened)
	for _, c := range []struct {
		handler, key, verb, secret string
		code                       int
		acked                      bool
	}{
		{"pager", problem, "acknowledge", "guessed", 401, false},
		{"nobody", problem, "acknowledge", callbackSecret, 401, false},
		{"other", problem, "acknowledge", callbackSecret, 200, false}, // this handler was not notified of the problem
		{"pager", "unknown", "acknowledge", callbackSecret, 200, false},
		{"pager", problem, "annotate", callbackSecret, 200, false},
		{"pager", problem, "acknowledge", callbackSecret, 200, true},
		{"pager", problem, "acknowledge", callbackSecret, 200, true},
		{"pager", problem, "unacknowledge", callbackSecret, 200, false},
		{"pager", problem, "acknowledge", callbackSecret, 200, true},
	} {
		p.sendCallbackToHandler(c.handler, c.verb, c.key, c.secret, c.code)
		p.expectAcknowledged("disk", c.acked, "web1")
	}
	p.Try("describe", "event", "web1/disk").Expect(0, p.service.by)
	p.sendCallback("resolve", problem)
	e := getEvent(t, p.API, "web1", "disk")
	assert(t, e.Problem == nil && e.Status == model.OK, "%+v", e)
	p.Try("get", "handler", "pager", "-o", "yaml").Expect(0, "pagerduty")
	expectEqual(t, "what PagerDuty hears is over", p.nextKey(p.ended), problem)
}

// TestCallbackActsOnWholeMessageGroup acknowledges a grouped notification at the paging service, and expects
// all its problems acknowledged. Other problems stay unacknowledged.
func TestCallbackActsOnWholeMessageGroup(t *testing.T) {
	t.Parallel()
	for _, service := range pagingServices() {
		t.Run(service.name, func(t *testing.T) {
			t.Parallel()
			p := startPagedServer(t, &service, pageGroups)
			all := []string{"web1", "web2", "web3", "web4", "web5"}
			p.fireAlert("Disk", all...)
			group := p.nextKey(p.opened)
			p.fireAlert("Load", "web1")
			require(t, p.nextKey(p.opened) != group, "both groups are %s there", group)
			p.sendCallback("acknowledge", group)
			p.expectAcknowledged("disk", true, all...)
			p.expectAcknowledged("load", false, "web1")
			out := p.CLI("get", "problems", "-o", "wide")
			assert(t, strings.Count(out, service.by) == len(all), "get problems names %s so often:\n%s", service.by, out)
			p.sendCallback("unacknowledge", group)
			p.expectAcknowledged("disk", false, all...)
			p.sendCallback("acknowledge", group)
			p.fireAlert("Disk", "web6") // a later problem of the group, which the service was not notified of
			awaitEvent(t, p.API, "web6", "disk", "web6 has it too", func(e v1.Event) bool { return e.Problem != nil })
			p.expectAcknowledged("disk", true, all...)
			p.expectAcknowledged("disk", false, "web6")
			p.sendCallback("resolve", group)
			for _, node := range all {
				e := getEvent(t, p.API, node, "disk")
				assert(t, e.Problem == nil && e.Status == model.OK, "%s: %+v %+v", node, e, e.Problem)
			}
			p.expectAcknowledged("load", false, "web1")
		})
	}
}

// TestEndedAcknowledgementPagesAgain lets an acknowledgement in Muster expire, and expects a new incident at
// the paging service. The acknowledged incident is closed.
func TestEndedAcknowledgementPagesAgain(t *testing.T) {
	t.Parallel()
	for _, service := range pagingServices() {
		t.Run(service.name, func(t *testing.T) {
			t.Parallel()
			p := startPagedServer(t, &service, pageGroups)
			p.fireAlert("Disk", "web1")
			key := p.nextKey(p.opened)
			p.CLI("event", "ack", "web1/disk", "--for", "1s", "-m", "on it")
			expectEqual(t, "key that opened after a second", p.nextKey(p.opened), key+".1")
			expectEqual(t, "key that the acknowledgement ended", p.nextKey(p.ended), key)
			p.sendCallback("resolve", key)
			require(t, getEvent(t, p.API, "web1", "disk").Problem != nil, "the end of %s, which is over, ended the problem", key)
			p.sendCallback("acknowledge", key+".1")
			p.expectAcknowledged("disk", true, "web1")
			p.sendCallback("resolve", key+".1")
			assert(t, getEvent(t, p.API, "web1", "disk").Problem == nil, "the problem is open")
			expectEqual(t, "key that ended", p.nextKey(p.ended), key+".1")
		})
	}
}

// TestPagerDutyHandlerResolvesIncident expects a PagerDuty handler to open and resolve its incident. The handler has a key
// file; it works also after a refused delivery.
func TestPagerDutyHandlerResolvesIncident(t *testing.T) {
	t.Parallel()
	type event struct {
		Action string `json:"event_action"`
		Key    string `json:"routing_key"`
		Dedup  string `json:"dedup_key"`
	}
	var refuse atomic.Bool
	events := make(chan event, 100)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil || r.URL.Path != "/v2/enqueue" {
			t.Errorf("%s: %v", r.URL, err)
		}
		if refuse.Load() {
			http.Error(w, `{"status":"invalid event"}`, http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		events <- e
	}))
	t.Cleanup(service.Close)
	next := func(action string) event {
		t.Helper()
		e := receiveValue(t, events)
		require(t, e.Action == action && e.Key == "R0123456789ABCDEF0123456789ABCDE", "%+v, want %s", e, action)
		return e
	}
	file := tempFile(t, "key", "R0123456789ABCDEF0123456789ABCDE\n")

	s := harness.StartServer(t)
	s.Apply(fmt.Sprintf("kind: Handler\nmetadata: {name: pager}\nspec:\n  pagerduty: {routingKey: {fromFile: %q}, url: %q}\n---\nkind: Namespace\nmetadata: {name: default}\nspec: {handlers: [pager]}\n", file, service.URL))
	s.Try("handler", "test", "pager").Expect(0, "202 Accepted").ExpectNot("R0123")
	next("trigger")

	refuse.Store(true)
	s.Try("handler", "test", "pager").Expect(2, "400 Bad Request")
	s.StartAgent("web01")
	check := s.NewCountingCheck("disk", "web01")
	check.AwaitRuns(1)
	check.SetExitCode(2)
	s.AwaitOutput("handler dead pager", "CRITICAL: disk on web01: run ")
	refuse.Store(false)
	s.Try("handler", "replay", "pager", "-m", "mended").Expect(0, "1 message queued")
	opened := next("trigger")
	check.SetExitCode(0)
	closed := next("resolve")
	assert(t, closed.Dedup == opened.Dedup, "%+v, %+v", opened, closed)
	s.Try("audit", "run").Expect(0, "a replay of dead letters of handler default/pager: mended")
}

// TestSlowCallbackClientsDelayNoOthers sends slow callbacks without authentication, and expects no delay for other
// clients. The server ends the slow callbacks.
func TestSlowCallbackClientsDelayNoOthers(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--queues", "requests=10")
	s.Apply("kind: Handler\nmetadata: {name: pager}\nspec:\n  " + fmt.Sprintf(pagingServices()[0].handler, "http://127.0.0.1:1", callbackSecret) + "\n")
	ended := make(chan struct{}, 100)
	for range 40 {
		c, err := tls.Dial("tcp", s.Listen, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		testenv.NoError(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "POST /callback/default/pager HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
		testenv.NoError(t, err)
		go func() {
			_, _ = io.Copy(io.Discard, c)
			ended <- struct{}{}
		}()
	}
	harness.Until(t, 30*time.Second, "all places for callbacks are taken", func() (string, bool) {
		r, err := http.NewRequest(http.MethodPost, "https://"+s.Listen+"/callback/default/pager", strings.NewReader("{}"))
		testenv.NoError(t, err)
		code, text := sendRequest(t, s, r, "", "")
		return fmt.Sprint(code, " ", text), code == http.StatusServiceUnavailable
	})
	s.Try("get", "handlers").Expect(0, "pager")
	for range 40 {
		receiveValue(t, ended)
	}
	s.Stop()
}
