package sensuctl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/testenv"
)

// testServer serves Sensu's API to tests of sensuctl's requests, over real stores. It records requests and
// answers in a transcript.
type testServer struct {
	*apitest.Server
	t          *testing.T
	server     *Server
	registry   *prometheus.Registry
	token      string
	transcript bytes.Buffer
}

// newTestServer returns a server of Sensu's API for tests, on real stores.
func newTestServer(t *testing.T) *testServer {
	w := &testServer{Server: apitest.NewServer(t), t: t, registry: prometheus.NewRegistry()}
	w.server = New(Options{API: w.Handler, Now: w.Now, Registerer: w.registry})
	w.token = w.Token
	return w
}

// loginAs creates a user, and sends the user's token with the test's next requests.
func (w *testServer) loginAs(user, role string) {
	w.t.Helper()
	secret, _, err := w.Access.CreateToken(context.Background(), intent.Actor{User: "server"}, access.AccessToken{User: user, Grants: access.Grants{Role: role}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.token = secret
}

// request sends a request to the test server as sensuctl does, and returns the answer.
func (w *testServer) request(method, path, body string) *http.Response {
	w.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.serveRequest(r)
}

// serveRequest passes an HTTP request directly to the server's handler, and returns the answer.
func (w *testServer) serveRequest(r *http.Request) *http.Response {
	answer := httptest.NewRecorder()
	w.server.ServeHTTP(answer, r)
	return answer.Result()
}

// expectStatus sends a request, compares the status of the answer and returns the body.
func (w *testServer) expectStatus(status int, method, path, body string) string {
	w.t.Helper()
	answer := w.request(method, path, body)
	data := testenv.Value(io.ReadAll(answer.Body))(w.t)
	if answer.StatusCode != status {
		w.t.Errorf("%s %s: %d, want %d: %s", method, path, answer.StatusCode, status, data)
	}
	return string(data)
}

// recordExchange sends a request and appends request and answer to the transcript.
func (w *testServer) recordExchange(method, path, body string) {
	w.t.Helper()
	answer := w.request(method, path, body)
	data := testenv.Value(io.ReadAll(answer.Body))(w.t)
	fmt.Fprintf(&w.transcript, "> %s %s\n", method, path)
	if body != "" {
		fmt.Fprintf(&w.transcript, "> %s\n", body)
	}
	fmt.Fprintf(&w.transcript, "< %d\n", answer.StatusCode)
	if next := answer.Header.Get("Sensu-Continue"); next != "" {
		fmt.Fprintf(&w.transcript, "< Sensu-Continue\n")
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, data, "", " ") == nil {
		data = pretty.Bytes()
	}
	fmt.Fprintf(&w.transcript, "%s\n\n", bytes.TrimSpace(data))
}

// compareTranscript compares the recorded requests and answers with a golden file.
func (w *testServer) compareTranscript(name string) {
	w.t.Helper()
	file := filepath.Join("testdata", name)
	testenv.Golden(w.t, file, w.transcript.Bytes())
}
