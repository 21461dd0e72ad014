package play

import (
	"fmt"
	"net"
	"syscall"
	"testing"
)

// TestCauseHasNoPortOfOurs expects that the text of a connection error lacks the local port.
func TestCauseHasNoPortOfOurs(t *testing.T) {
	here, there := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40001}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443}
	err := fmt.Errorf("open session: %w", &net.OpError{Op: "read", Net: "tcp", Source: here, Addr: there, Err: syscall.ECONNRESET})
	if got, want := cause(err), "open session: read tcp 127.0.0.1:8443: connection reset by peer"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
