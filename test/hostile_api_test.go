//go:build linux

package test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/test/harness"
)

// openPaths are answered without a token: they show nothing, or ask for a proof of their own.
var openPaths = map[string]bool{"/livez": true, "/readyz": true, "/api/v1/login": true, "/agent/v1/enrol": true}

// Each API operation answers 401 without a token, and 403 to a viewer if the operation changes data.
func TestEveryOperationNeedsToken(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	viewer := testenv.Value(s.API.Access.CreateToken(t.Context(), v1.TokenRequest{Role: access.Viewer}))(t)
	expired := testenv.Value(s.API.Access.CreateToken(t.Context(), v1.TokenRequest{Role: access.Admin, ExpiresIn: 1}))(t)
	one := &http.Client{Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}}}
	two := &http.Client{Timeout: 20 * time.Second, CheckRedirect: one.CheckRedirect,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	ask := func(c *http.Client, method, path, token string) (int, string) {
		t.Helper()
		request := testenv.Value(http.NewRequest(method, "https://"+s.Listen, nil))(t)
		request.URL.Opaque = "//" + s.Listen + path // the path without normalization
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := c.Do(request)
		require(t, err == nil, "%s %s: %v", method, path, err)
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body)
	}
	_, page := ask(one, "GET", "/api/v1/openapi.json", adminToken(t, s))
	var spec struct {
		Paths map[string]map[string]struct {
			Security []map[string][]string `json:"security"`
		} `json:"paths"`
	}
	err := json.Unmarshal([]byte(page), &spec)
	require(t, err == nil && len(spec.Paths) >= 25, "OpenAPI page: %v, %d paths", err, len(spec.Paths))
	harness.Until(t, 20*time.Second, "the token expires", func() (string, bool) {
		code, body := ask(two, "GET", "/api/v1/me", expired.Secret)
		return body, code == 401
	})
	asked := 0
	for path, operations := range spec.Paths {
		real := strings.NewReplacer("{namespace}", "default", "{name}", "x", "{node}", "x", "{check}", "x", "{id}", "x").Replace(path)
		for method, op := range operations {
			method = strings.ToUpper(method)
			if openPaths[path] {
				assert(t, len(op.Security) == 1 && len(op.Security[0]) == 0, "%s is open, the page does not say so", path)
				continue
			}
			for _, c := range []*http.Client{one, two} {
				for _, token := range []string{"", "mt1.wrong", expired.Secret} {
					code, body := ask(c, method, real, token)
					assert(t, code == 401, "%s %s with token %.6q: %d %.200s", method, real, token, code, body)
					asked++
				}
			}
			reads := strings.HasPrefix(path, "/prometheus/") // also by POST

			if method != "GET" && !reads && path != "/api/v1/logout" && path != "/api/v1/me/password" { // users may do these two for themselves
				want := 403
				if path == "/api/v1/apply" {
					want = 400 // a viewer may request a dry run, which fails for the missing body
				}
				code, body := ask(two, method, real, viewer.Secret)
				assert(t, code == want, "%s %s as a viewer: %d %.200s", method, real, code, body)
			}
		}
	}
	assert(t, asked >= 300, "only %d requests", asked)
	for _, path := range []string{
		"/", "/metrics", "/debug/pprof/", "/debug/states", "/debug/log", "/queues", "/agent/v1/session", "/api/v1/openapi.json", "/api/v1/openapi.yaml", "/api/v2/x",
		"/livez/", "/livez/../api/v1/nodes", "/livez/%2e%2e/api/v1/nodes", "//api/v1/nodes", "/api//v1/nodes", "/api/v1/login/../nodes", "/api/v1/login/", "/api/v1/login%2f..%2fnodes",
		"/API/v1/nodes", "/api/v1/nodes;x", "/api/v1/nodes%00", "/agent/v1/enrol/../../../api/v1/nodes", "/readyz?x=/api/v1/nodes/../", "/*", "/api/v1/login#/../nodes",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "TRACE", "PROPFIND"} {
			code, body := ask(one, method, path, "")
			switch strings.SplitN(path, "?", 2)[0] {
			case "/readyz", "/livez":
				continue
			}
			assert(t, code != 200 && code < 500, "%s %s: %d %.200s", method, path, code, body)
		}
	}
	for path := range openPaths { // an open path answers its own method only
		code, body := ask(one, "DELETE", path, "")
		assert(t, code != 200 && code < 500, "DELETE %s: %d %.200s", path, code, body)
	}

	// Logout ends a session at once, also for open requests.
	testenv.NoError(t, s.API.Access.Logout(t.Context()))
	code, _ := ask(two, "GET", "/api/v1/me", adminToken(t, s))
	assert(t, code == 401, "after logout: %d", code)
	s.Stop()
}

// TestNamespaceLimitsRefuseResults exceeds the limits of a namespace, and expects refused results in only the
// one namespace. A changed limit applies to open sessions.
func TestNamespaceLimitsRefuseResults(t *testing.T) {
	h := newHostileAgents(t, 6, nil)
	api := h.Client()
	calm := uuid.New()
	h.Apply(`
{apiVersion: muster/v1, kind: Namespace, metadata: {name: calm}}
---
{apiVersion: muster/v1, kind: Node, metadata: {name: calm01, namespace: calm}, spec: {uid: "` + calm.String() + `"}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: pulse, namespace: calm}, spec: {interval: 60s, command: "true", targets: {nodes: [calm01]}}}
`)
	quiet := h.startWellBehavedAgentAs(calm, 10*time.Millisecond)
	harness.Until(t, 30*time.Second, "a neighbour's results are acknowledged", func() (string, bool) { _, n := quiet.readLatency(); return fmt.Sprint(n), n > 20 })
	quiet.resetLatency()
	harness.Until(t, 30*time.Second, "a neighbour's results are acknowledged again", func() (string, bool) { _, n := quiet.readLatency(); return fmt.Sprint(n), n > 100 })
	alone, _ := quiet.resetLatency()

	loud := h.sendHello(1) // its session opens before the limit is set
	limit := func(yaml string) {
		h.Apply("{apiVersion: muster/v1, kind: Namespace, metadata: {name: load}, spec: {limits: {" + yaml + "}}}")
	}
	met := func(name string) float64 {
		return h.Metric("muster_limits_met_total", `namespace="load"`, `limit="`+name+`"`)
	}
	limit("resultsPerSec: 50, nodeResultsPerSec: 100000")

	// Five nodes send as fast as they may: a hundred times the limit.
	stop := make(chan struct{})
	defer close(stop)
	flood := func(e *attacker) {
		for first := uint64(1); ; first += 500 {
			b := &wire.Batch{StreamKey: neighbourKey, First: first}
			for range 500 {
				b.Signals = append(b.Signals, wire.Signal{Kind: wire.SignalKeepalive})
			}
			e.send(wire.AppendBatch(nil, b))
			select {
			case <-stop:
				return
			default:
			}
		}
	}
	go flood(loud)
	for i := 2; i < 6; i++ {
		go flood(h.sendHello(i))
	}
	harness.Until(t, 30*time.Second, "the namespace is at its limit", func() (string, bool) { n := met("namespace_rate"); return fmt.Sprint(n), n >= 3 })
	quiet.resetLatency()
	harness.Until(t, 30*time.Second, "a neighbour's results are acknowledged meanwhile", func() (string, bool) { _, n := quiet.readLatency(); return fmt.Sprint(n), n > 200 })
	beside, n := quiet.resetLatency()
	t.Logf("the slowest of the quiet one's results: %s alone, %s beside a namespace at its limit (%d)", alone, beside, n)
	assert(t, beside <= max(10*alone, time.Second), "the slowest result took %s, %s without the flood", beside, alone)
	h.Try("status").Expect(0, "namespace load reached a limit ", "spec.limits.resultsPerSec")

	// Each other limit refuses by its name, at once after it is set.
	for _, c := range []struct {
		limits, name, code string
		result             func(checks []model.DefinitionID) wire.Signal
	}{
		{"outputBytes: 100", "output", "output", func(c []model.DefinitionID) wire.Signal {
			return wire.ResultSignal(wire.Signal{Definition: c[0]}, wire.Result{Output: []byte(strings.Repeat("x", 101))})
		}},
		{"statesPerNode: 1", "node_states", "node_limit", func(c []model.DefinitionID) wire.Signal {
			return wire.ResultSignal(wire.Signal{Definition: c[1]}, wire.Result{})
		}},
		{"states: 1", "namespace_states", "namespace_limit", func(c []model.DefinitionID) wire.Signal {
			return wire.ResultSignal(wire.Signal{Definition: c[1]}, wire.Result{})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit(c.limits)
			was := met(c.name)
			var e *attacker
			var checks []model.DefinitionID
			var key wire.StreamKey
			var next uint64
			begin := func() {
				e = h.sendHello(0)
				checks, key, next = e.readChecks(t), wire.StreamKey{Stream: wire.StreamID(time.Now().UnixNano())}, 1
			}
			begin()
			defer func() { e.Close() }()
			tried := 0
			harness.Until(t, 20*time.Second, "the server refuses the signal", func() (string, bool) {
				tried++
				b := &wire.Batch{StreamKey: key, First: next, Signals: []wire.Signal{
					wire.ResultSignal(wire.Signal{Definition: checks[0]}, wire.Result{Output: []byte("x")}), c.result(checks)}}
				next += uint64(len(b.Signals))
				e.send(wire.AppendBatch(nil, b))
				for {
					kind, body, err := e.receive()
					if err != nil { // a changed output limit ends sessions, because agents learn it in Welcome
						begin()
						return err.Error(), tried > 200
					}
					var ack wire.Ack
					if kind != wire.KindAck || ack.Decode(body) != nil {
						continue
					}
					for _, r := range ack.Refused {
						if r.Code == c.code && r.Reason != "" {
							return "", met(c.name) > was
						}
					}
					return fmt.Sprintf("%+v", ack), tried > 200
				}
			})
			assert(t, met(c.name) != was, "the limit was not counted")
		})
	}
	t.Run("labels", func(t *testing.T) {
		limit("labels: 2")
		say := func(labels map[string]string) {
			harness.Until(t, 20*time.Second, "a session opens", func() (string, bool) {
				e, err := h.openWebSocket(h.tls(0))
				if err != nil {
					return err.Error(), false
				}
				defer e.Close()
				e.send(wire.AppendHello(nil, &wire.Hello{Protocol: wire.Protocol, Node: nodeUID(0), Labels: labels}))
				kind, body, err := e.receive()
				return fmt.Sprintf("%d %q %v", kind, body, err), kind == wire.KindWelcome
			})
		}
		say(map[string]string{"env": "prod"})
		labelled := func() map[string]string {
			list, err := api.Nodes.States(t.Context(), v1.NodeFilter{Namespace: "load", Name: "load-00000", Limit: 1})
			require(t, err == nil && len(list.Items) == 1, "%v %v", list, err)
			return list.Items[0].Labels
		}
		harness.Until(t, 20*time.Second, "the server knows the label", func() (string, bool) { l := labelled(); return fmt.Sprint(l), l["env"] == "prod" })
		was := met("labels")
		say(map[string]string{"a": "1", "b": "2", "c": "3"})
		say(map[string]string{"bad\nname": "x"})
		assert(t, met("labels") == was+2, "counted %v times", met("labels")-was)
		l := labelled()
		_, taken := l["b"]
		assert(t, !taken && l["env"] == "prod", "labels: %v", l)
	})
	quiet.expectFast(10 * time.Second)
}
