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

// An address without a port gets a hint with the usual port.
func TestConnectionRefused(t *testing.T) {
	refused := &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
	for server, want := range map[string]string{
		"https://muster.example.org:8443": "systemctl status muster",
		"muster.example.org":              "https://muster.example.org:8443",
		"https://[2001:db8::1]":           "https://[2001:db8::1]:8443",
	} {
		c, err := New(Context{Server: server})
		if err != nil {
			t.Fatal(err)
		}
		var e *model.Error
		if err := c.c.unreachable(t.Context(), refused); !errors.As(err, &e) || e.Class != model.Unavailable || !strings.Contains(e.Hint, want) || !strings.HasSuffix(e.Message, "connection refused") {
			t.Errorf("%s: %v", server, err)
		}
	}
}
