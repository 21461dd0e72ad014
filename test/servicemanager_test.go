//go:build linux

package test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// The service manager hears when the server is ready, how it is, and why it did not start.
func TestServiceManagerNotification(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	hears := func(want string) {
		t.Helper()
		message := make([]byte, 4096)
		for said := ""; !strings.Contains(said, want); {
			if err := manager.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := manager.Read(message)
			if err != nil {
				t.Fatalf("waiting for %q, heard %q: %v", want, said, err)
			}
			said = string(message[:n])
		}
	}
	s := harness.NewServer(t)
	s.Environ = append(s.Environ, "NOTIFY_SOCKET="+socket)
	s.Launch()
	hears("STATUS=opens " + s.Data)
	hears("READY=1")
	if _, ok := s.Ready(); !ok {
		t.Error("it said that it is ready, and is not")
	}
	hears("STATUS=ready at " + s.Listen + "; agents connected: 0")
	s.Login()
	s.NewAgent("web01").Start()
	hears("; agents connected: 1")
	second := harness.NewServer(t)
	second.Data, second.Environ = s.Data, s.Environ
	second.Launch()
	hears("is in use by process")
	s.Stop()
	hears("STOPPING=1")
}
