//go:build linux

package test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/test/harness"
)

// open are the paths that answer without a token: they tell nothing, or ask for a proof
// of their own.
var open = map[string]bool{"/livez": true, "/readyz": true, "/api/v1/login": true, "/agent/v1/enrol": true}

// Every operation of the OpenAPI page, and every spelling of a path that might slip past,
// answers 401 without a token on the real listener, in both kinds of HTTP; what changes
// something answers 403 to who may only look.
func TestEveryOperationNeedsToken(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	api := s.Client()
	viewer, err := api.Access.CreateToken(t.Context(), v1.TokenRequest{Role: access.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	expired, err := api.Access.CreateToken(t.Context(), v1.TokenRequest{Role: access.Admin, ExpiresIn: 1})
	if err != nil {
		t.Fatal(err)
	}
	one := &http.Client{Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}}}
	two := &http.Client{Timeout: 20 * time.Second, CheckRedirect: one.CheckRedirect,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	ask := func(c *http.Client, method, path, token string) (int, string) {
		t.Helper()
		request, err := http.NewRequest(method, "https://"+s.Listen, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.URL.Opaque = "//" + s.Listen + path // as it is written
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := c.Do(request)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
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
	if err := json.Unmarshal([]byte(page), &spec); err != nil || len(spec.Paths) < 25 {
		t.Fatalf("OpenAPI page: %v, %d paths", err, len(spec.Paths))
	}
	harness.Until(t, 20*time.Second, "the token expires", func() (string, bool) {
		code, body := ask(two, "GET", "/api/v1/me", expired.Secret)
		return body, code == 401
	})
	asked := 0
	for path, operations := range spec.Paths {
		real := strings.NewReplacer("{namespace}", "default", "{name}", "x", "{node}", "x", "{check}", "x", "{id}", "x").Replace(path)
		for method, op := range operations {
			method = strings.ToUpper(method)
			if open[path] {
				if len(op.Security) != 1 || len(op.Security[0]) != 0 {
					t.Errorf("%s is open, the page does not say so", path)
				}
				continue
			}
			for _, c := range []*http.Client{one, two} {
				for _, token := range []string{"", "mt1.wrong", expired.Secret} {
					if code, body := ask(c, method, real, token); code != 401 {
						t.Errorf("%s %s with token %.6q: %d %.200s", method, real, token, code, body)
					}
					asked++
				}
			}
			if method != "GET" && path != "/api/v1/logout" && path != "/api/v1/me/password" { // these two are one's own
				want := 403
				if path == "/api/v1/apply" {
					want = 400 // a viewer may ask what an apply would do: what is refused is in its body, and there is none
				}
				if code, body := ask(two, method, real, viewer.Secret); code != want {
					t.Errorf("%s %s as a viewer: %d %.200s", method, real, code, body)
				}
			}
		}
	}
	if asked < 300 {
		t.Errorf("only %d requests", asked)
	}
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
			if code == 200 || code >= 500 {
				t.Errorf("%s %s: %d %.200s", method, path, code, body)
			}
		}
	}
	for path := range open { // open is not everything
		if code, body := ask(one, "DELETE", path, ""); code == 200 || code >= 500 {
			t.Errorf("DELETE %s: %d %.200s", path, code, body)
		}
	}

	// A session ends with logout, at once, also for what is under way.
	if err := api.Access.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, _ := ask(two, "GET", "/api/v1/me", adminToken(t, s)); code != 401 {
		t.Errorf("after logout: %d", code)
	}
	s.Stop()
}
