package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/model"
)

// FuzzRequest sends any request of somebody who may do everything: what is wrong with it
// is said in one form, and is never the server's fault.
func FuzzRequest(f *testing.F) {
	r := apitest.New(f)
	r.Nodes("default", map[string]string{"env": "prod"}, "web01", "web02")
	r.Apply(`{apiVersion: muster/v1, kind: Check, metadata: {name: disk}, spec: {interval: 60s, command: check_disk, targets: {groups: [all]}}}`)
	r.Result("default", "web01", "disk", model.Critical, "DISK CRITICAL: / is full")
	const applied = `{"resources":[{"apiVersion":"muster/v1","kind":"Check","metadata":{"name":"x"},"spec":{"interval":"60s","command":"true","targets":{"where":"node.labels.env == 'prod'"}}}],"dryRun":true,"message":"m"}`
	for _, seed := range [][4]string{
		{"GET", "/api/v1/events?limit=1&where=event.status%3D%3DCRITICAL&status=CRITICAL&after=AA", "", ""},
		{"GET", "/api/v1/namespaces/default/events/web01/disk/history?limit=5", "", ""},
		{"GET", "/api/v1/problems?open=true&after=AAAAAAAAAAA", "", ""}, {"GET", "/api/v1/changes?kind=Check&after=x", "", ""},
		{"GET", "/api/v1/nodestates?selector=env%3Dprod&limit=0", "", ""}, {"GET", "/api/v1/status?namespace=none", "", ""},
		{"POST", "/api/v1/apply", applied, ""}, {"POST", "/api/v1/apply", applied[:80], ""}, {"POST", "/api/v1/jointokens", `{"namespace":"default","groups":["a"],"maxUses":-1}`, ""},
		{"PUT", "/api/v1/namespaces/default/checks/disk?dryRun=true", applied[14:160], `W/"0000000000000000-1"`},
		{"DELETE", "/api/v1/namespaces/default/checks/disk?dryRun=1", "", `"57"`}, {"POST", "/api/v1/tokens", `{"user":"admin","role":"viewer"}`, ""},
		{"GET", "/api/v1/kinds", "", ""}, {"BREW", "/", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	listed := documented(f, r)
	f.Fuzz(func(t *testing.T, method, target, body, etag string) {
		q, err := http.NewRequest(method, "https://muster.example"+target, strings.NewReader(body))
		if err != nil || !strings.HasPrefix(target, "/") || strings.Contains(q.URL.Path, "watch") || strings.Contains(q.URL.Path, "logout") {
			return // no request, one without end, one that takes our token away
		}
		q.Header = http.Header{"Authorization": {"Bearer " + r.Token}, "Content-Type": {"application/json"}}
		if etag != "" {
			q.Header.Set("If-Match", etag)
		}
		q.RemoteAddr = "192.0.2.1:4711"
		w := httptest.NewRecorder()
		r.Handler.ServeHTTP(w, q)
		var said struct {
			Status int
			Title  string
		}
		switch {
		case w.Code >= 500 || w.Code == http.StatusUnauthorized && q.URL.Path != "/api/v1/login":
			t.Fatalf("%s %s: %d %s", method, target, w.Code, w.Body)
		case w.Code >= 400 && (json.Unmarshal(w.Body.Bytes(), &said) != nil || said.Status != w.Code || said.Title == ""):
			t.Fatalf("%s %s: %d in another form: %s", method, target, w.Code, w.Body)
		case w.Code > 400 && listed(q) != nil && !slices.Contains(listed(q), strconv.Itoa(w.Code)):
			t.Fatalf("%s %s: %d, the page says %v: %s", method, target, w.Code, listed(q), w.Body)
		}
	})
}
