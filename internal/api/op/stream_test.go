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

// pipes is a listener of connections within the process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// A stream in which nothing happens for longer than one write may take stays open, over
// HTTP/2 too, where an old deadline ends a stream that nobody writes to.
func TestQuietStreamStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h2 http.Protocols
		h2.SetUnencryptedHTTP2(true)
		conns := make(pipes, 1)
		server := &http.Server{Protocols: &h2, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			out := NewEventStream(w)
			for range 3 {
				if err := out.Write(": here\n"); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * streamWrite)
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
		time.Sleep(3 * streamWrite) // the handler's, if the stream broke
		client.CloseIdleConnections()
		close(conns)
		_ = server.Close()
	})
}
