package op

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// inMemoryListener is a network listener whose connections stay within the test process.
type inMemoryListener chan net.Conn

// Accept returns the next connection that the test has opened.
func (p inMemoryListener) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close closes the listener's channel, so that no further connection is accepted.
func (p inMemoryListener) Close() error { return nil }

// Addr returns an empty address.
func (p inMemoryListener) Addr() net.Addr { return &net.UnixAddr{} }

// TestIdleStreamStaysOpen expects a stream without messages to outlive the time limit of one write. HTTP/2 makes no
// difference.
func TestIdleStreamStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h2 http.Protocols
		h2.SetUnencryptedHTTP2(true)
		conns := make(inMemoryListener, 1)
		server := &http.Server{Protocols: &h2, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			out := NewEventStream(w)
			for range 3 {
				if err := out.Write(": here\n"); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * streamWriteTimeout)
			}
		})}
		go func() { _ = server.Serve(conns) }()
		client := &http.Transport{Protocols: &h2, DialContext: func(context.Context, string, string) (net.Conn, error) {
			mine, theirs := net.Pipe()
			conns <- theirs
			return mine, nil
		}}
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server.example.org/", nil)
		answer, err := client.RoundTrip(request)
		testenv.NoError(t, err)
		lines, n := bufio.NewScanner(answer.Body), 0
		for lines.Scan() {
			n++
		}
		if err := lines.Err(); err != nil || n != 3 {
			t.Errorf("%d lines, then: %v", n, err)
		}
		answer.Body.Close()
		time.Sleep(3 * streamWriteTimeout) // the handler's, if the stream broke
		client.CloseIdleConnections()
		close(conns)
		_ = server.Close()
	})
}
