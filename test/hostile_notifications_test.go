//go:build linux

package test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// hostileHandler is a check that fails, and its handler.
const hostileHandler = `
{kind: Handler, metadata: {name: hook}, spec: {webhook: {url: %q, template: %q}, timeout: 60s}}
---
{kind: Check, metadata: {name: full}, spec: {interval: 1s, command: "echo CRITICAL; exit 2", targets: {groups: [all]}, alert: {handlers: [hook]}}}
`

// TestHugeMessageBecomesDeadLetter sends a huge message from a template, and expects a dead letter and little
// memory use.
func TestHugeMessageBecomesDeadLetter(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.StartAgent("web01")
	before := s.Metric("process_resident_memory_bytes")
	s.Apply(fmt.Sprintf(hostileHandler, "http://127.0.0.1:9", `{{ $a := "0123456789" }}`+strings.Repeat(`{{ $a = print $a $a }}`, 30)))
	s.AwaitOutput("handler dead hook", "the template functions produce more than 4194304 bytes of text")
	if grown := s.Metric("process_resident_memory_bytes") - before; grown > 200<<20 {
		t.Errorf("the server has %.0f MiB more than before", grown/(1<<20))
	}
	s.Stop()
}

// TestDeliveryDuringThreeCrashesBecomesDeadLetter crashes the server three times during a delivery, and expects
// a dead letter. It becomes a dead letter.
func TestDeliveryDuringThreeCrashesBecomesDeadLetter(t *testing.T) {
	t.Parallel()
	requests := make(chan struct{}, 100)
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not seen
		requests <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(func() { hang.CloseClientConnections(); hang.Close() })
	s := harness.StartServer(t)
	s.StartAgent("web01")
	s.Apply(fmt.Sprintf(hostileHandler, hang.URL, ""))
	for range 3 {
		select {
		case <-requests:
		case <-time.After(40 * time.Second):
			t.Fatal("the handler gets no message")
		}
		s.Kill()
		s.Start()
	}
	s.AwaitOutput("handler dead hook", "the server crashed 3 times in a row")
	if len(requests) > 0 {
		t.Errorf("%d further messages", len(requests))
	}
	s.Stop()
}
