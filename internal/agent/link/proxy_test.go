package link

import (
	"strings"
	"testing"
)

// A proxy's address that cannot be read is not passed over, and no message has its password.
func TestProxyThatCannotBeRead(t *testing.T) {
	for proxy, want := range map[string]string{
		"http://agent:se%zzcret@127.0.0.1:1": "HTTPS_PROXY cannot be read",
		"http://agent:se/cret@127.0.0.1:1":   "HTTPS_PROXY cannot be read",
		"socks5://agent:secret@127.0.0.1:1":  `has the scheme "socks5"`,
		"agent:secret@127.0.0.1:1":           "no connection to the proxy http://agent:xxxxx@127.0.0.1:1: connect: connection refused",
		"http://agent:p@secret@127.0.0.1:1":  "no connection to the proxy http://agent:xxxxx@127.0.0.1:1",
	} {
		dial := NewDialer(func(name string) string { return map[string]string{"HTTPS_PROXY": proxy}[name] })
		_, err := dial(t.Context(), "tcp", "192.0.2.1:8443")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v, want %s", proxy, err, want)
		}
	}
}
