package collect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestHTTPRequests sends requests of items to a local server, and compares values and errors.
func TestHTTPRequests(t *testing.T) {
	handler := http.NewServeMux()
	handler.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		if r.Method != http.MethodHead {
			fmt.Fprintf(w, "%s %s %s %s:%s %s", r.Method, r.URL.RawQuery, r.Header.Get("X-Token"), user, password, body)
		}
	})
	handler.HandleFunc("/json", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"a": [1]}`)
	})
	handler.HandleFunc("/missing", http.NotFound)
	handler.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(make([]byte, maxMaster+1)) })
	server := httptest.NewServer(handler)
	defer server.Close()
	other := httptest.NewServer(handler)
	defer other.Close()
	handler.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/echo", http.StatusFound) })
	handler.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/echo", http.StatusTemporaryRedirect)
	})
	handler.HandleFunc("/quotes", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(`"`, maxMaster/2))
	})
	handler.HandleFunc("/metadata", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	token := map[string]string{"X-Token": "t0p"}
	for _, c := range []struct {
		path      string
		request   model.HTTPRequest
		want      string
		wantError string
	}{
		{"/echo?a=1", model.HTTPRequest{Query: map[string]string{"b": "x y&z"}, Headers: token, User: "me", Password: "p:w"}, "GET a=1&b=x+y%26z t0p me:p:w ", ""},
		{"/echo", model.HTTPRequest{Method: "POST", Body: "hello"}, "POST   : hello", ""},
		{"/echo", model.HTTPRequest{Method: "HEAD", Retrieve: "headers"}, "HTTP/1.1 200 OK\r\nContent-Type: \r\n\r\n", ""},
		{"/echo", model.HTTPRequest{Retrieve: "both"}, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nContent-Type: \r\n\r\nGET   : ", ""},
		{"/json", model.HTTPRequest{AsJSON: true, Retrieve: "both"}, `{"header":{"Content-Length":"10","Content-Type":"application/json; charset=utf-8"},"body":{"a":[1]}}`, ""},
		{"/echo", model.HTTPRequest{AsJSON: true}, `{"body":"GET   : "}`, ""},
		{"/echo?type=application/json", model.HTTPRequest{AsJSON: true}, "", "not valid JSON"},
		{"/missing", model.HTTPRequest{}, "", "status 404 Not Found, expected 200"},
		{"/missing", model.HTTPRequest{Status: "200-299, 404"}, "404 page not found\n", ""},
		{"/long", model.HTTPRequest{}, "", "over 512 KiB"},
		{"/quotes", model.HTTPRequest{AsJSON: true}, "", "over 512 KiB"},
		{"/here", model.HTTPRequest{Headers: token}, "GET  t0p : ", ""},
		{"/here", model.HTTPRequest{NoRedirects: true}, "", "status 302 Found"},
		{"/away", model.HTTPRequest{Headers: token, User: "me", Password: "pw"}, "GET   : ", ""}, // no secrets for another server
		{"/away", model.HTTPRequest{Method: "POST", Body: "secret"}, "", "to another server is not followed"},
		{"/metadata", model.HTTPRequest{}, "", "the redirect leads to 169.254.169.254, a link-local address"},
	} {
		c.request.URL = server.URL + c.path
		got, err := requestText(t.Context(), &c.request)
		if c.wantError == "" && err != nil || c.wantError != "" && (err == nil || !strings.Contains(err.Error(), c.wantError)) || got != c.want {
			t.Errorf("%s %+v = %q, error %v, want %q %s", c.path, c.request, got, err, c.want, c.wantError)
		}
	}
	if _, err := requestText(t.Context(), &model.HTTPRequest{URL: "http://127.0.0.1:1/?token=s3cret"}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("an error with the address: %v", err)
	}
	secure := httptest.NewTLSServer(handler)
	defer secure.Close()
	for insecure, wantError := range map[bool]string{true: "", false: "certificate"} {
		if _, err := requestText(t.Context(), &model.HTTPRequest{URL: secure.URL + "/json", Insecure: insecure}); (err == nil) != insecure || err != nil && !strings.Contains(err.Error(), wantError) {
			t.Errorf("insecure %v: %v", insecure, err)
		}
	}
}

// TestHTTPItemsAreCollected collects items by requests with macros, and expects long answers whole. A macro is secret: the
// answers have no secret.
func TestHTTPItemsAreCollected(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Header.Get("X-Token"), strings.Repeat("x", 100_000))
	}))
	defer server.Close()
	interval := model.Interval("10s")
	definition := &model.TemplateDefinition{
		Definition: model.Definition{ID: 5, Unit: 1000}, Macros: map[string]string{"{$URL}": server.URL}, Secrets: []model.DefinitionSecret{{Env: "{$TOKEN}", Name: "default/token"}},
		Items: []model.Item{
			{Key: "shop.orders", Type: "text", Interval: interval, HTTP: &model.HTTPRequest{URL: "{$URL}/orders", Headers: map[string]string{"X-Token": "{$TOKEN}"}}},
			{Key: "shop.unknown", Type: "text", Interval: interval, HTTP: &model.HTTPRequest{URL: "{$NOSUCH}/"}},
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex // guards the next
	var got []string
	began := time.Now()
	w := New(Config{
		Root: t.TempDir(), Boot: func() time.Duration { return time.Since(began) }, FirstWithin: time.Millisecond,
		Secrets: func(context.Context, []model.DefinitionSecret) (map[string]string, error) {
			return map[string]string{"{$TOKEN}": "hunter22"}, nil
		},
		Emit: func(s *wire.Signal, _ *Position) {
			var b wire.ValueBlock
			var r wire.ColumnReader
			testenv.NoError(t, b.Decode(s.Body))
			testenv.NoError(t, r.Reset(&b))
			mu.Lock()
			defer mu.Unlock()
			for v := (wire.BlockValue{}); r.Next(&v); {
				text := v.Value.String()
				got = append(got, fmt.Sprintf("%d %v %d %s", v.Position, v.Unsupported, len(text), text[:min(len(text), 30)]))
			}
			if len(got) == 2 {
				cancel()
			}
		},
	})
	w.Set([]*model.TemplateDefinition{definition}, func(string) ([]byte, string, bool) { return nil, "", false })
	w.Run(ctx)
	slices.Sort(got)
	want := []string{"0 false 100009 (hidden) xxxxxxxxxxxxxxxxxxxxx", "1 true 39 macro {$NOSUCH} has no value: set it in"}
	if len(got) != 2 || got[0] != want[0] || !strings.Contains(got[1], "{$NOSUCH}") {
		t.Errorf("got %q, want %q", got, want)
	}
}
