package client

import (
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// Who left the port out is told which one was tried.
func TestNobodyListens(t *testing.T) {
	refused := &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
	for server, want := range map[string]string{
		"https://muster.example.org:8443": "is it running?",
		"muster.example.org":              "without a port that is https's own; servers usually listen at https://muster.example.org:8443",
		"https://[2001:db8::1]":           "https://[2001:db8::1]:8443",
	} {
		c, err := New(Context{Server: server})
		if err != nil {
			t.Fatal(err)
		}
		var said *model.Error
		if err := c.explain(t.Context(), refused); !errors.As(err, &said) || said.Class != model.Unavailable || !strings.Contains(said.Hint, want) || !strings.HasSuffix(said.Message, "connection refused") {
			t.Errorf("%s: %v", server, err)
		}
	}
}
