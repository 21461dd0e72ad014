package sensuctl

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// fakeAPI is an API that knows everybody and has one of everything.
func fakeAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/api/v1/me":
		_, _ = w.Write([]byte(`{"user":"admin","role":"admin","token":"1"}`))
	case "/api/v1/checks/default/x":
		_, _ = w.Write([]byte(`{"kind":"Check","metadata":{"name":"x","namespace":"default"},"spec":{"command":"true","interval":"10s","targets":{"nodes":["a"]}}}`))
	case "/api/v1/checks":
		_, _ = w.Write([]byte(`{"items":[{"kind":"Check","metadata":{"name":"x","namespace":"default"},"spec":{"command":["a","b"],"cron":"* * * * *"}}]}`))
	default:
		_, _ = w.Write([]byte(`{}`))
	}
}

// FuzzRequest lets somebody who is known send anything: it is answered, with JSON or not at all.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/api/core/v2/namespaces/default/checks", "fieldSelector=check.name == x", "")
	f.Add("GET", "/api/core/v2/namespaces/default/checks/x", "", "")
	f.Add("GET", "/api/core/v2/namespaces/default/silenced/subscriptions/web", "limit=-1&continue=x", "")
	f.Add("PUT", "/api/core/v2/namespaces/default/checks/x", "", `{"metadata":{"name":"x"},"command":"true {{ .labels.a }}","interval":10,"subscriptions":["a"],"handlers":["b"],"check_hooks":[{"critical":["h"]}],"output_metric_handlers":["m"]}`)
	f.Add("PUT", "/api/core/v2/namespaces/default/handlers/x", "", `{"type":"Handler","spec":{"type":"set","handlers":["a","b"],"filters":["f"],"mutator":"m"}}`)
	f.Add("PUT", "/api/core/v2/namespaces/default/pipelines/x", "", `{"workflows":[{"name":"a","handler":{"name":"h"},"filters":[{"name":"f"}],"mutator":{"name":"m"}}]}`)
	f.Add("PUT", "/api/core/v2/namespaces/default/entities/x", "", `{"entity_class":"proxy","subscriptions":["a"]}`)
	f.Add("PUT", "/api/core/v2/namespaces/default/silenced/a:b", "", `{"subscription":"a","check":"b","expire":60}`)
	f.Add("POST", "/api/core/v2/namespaces/default/silenced", "", `{"check":"b","begin":1,"expire_at":99999999999}`)
	f.Add("PUT", "/api/core/v2/namespaces/default/events/a/b", "", `{"check":{"status":0,"output":"Resolved manually by sensuctl"}}`)
	f.Add("PUT", "/api/core/v2/namespaces/x", "", `{"name":"x"}`)
	f.Add("DELETE", "/api/core/v2/namespaces/default/silenced/%2A:x", "", "")
	f.Add("GET", "/api/core/v3/namespaces/a%2fb/entity-configs", "", "")
	f.Add("POST", "/auth/token", "", "{}")
	s := New(Options{API: http.HandlerFunc(fakeAPI), Now: func() time.Time { return time.Unix(1_795_000_000, 0) }})
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		r, err := http.NewRequest(method, "http://muster"+path, strings.NewReader(body))
		if err != nil || !IsSensuPath(r.URL.EscapedPath()) {
			return
		}
		r.URL.RawQuery = query
		r.RemoteAddr = "192.0.2.1:1234"
		r.Header.Set("Authorization", "Bearer x")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		text := w.Body.Bytes()
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && len(text) > 0 && !json.Valid(text) {
			t.Errorf("%s %s: %s", method, path, text)
		}
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%s %s %q: %s", method, path, body, text)
		}
	})
}
