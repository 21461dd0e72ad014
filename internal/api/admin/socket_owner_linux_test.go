package admin

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestProfilesNeedTheServersUser requests profiles as several users, and expects answers only for the server's user.
func TestProfilesNeedTheServersUser(t *testing.T) {
	s := httptest.NewUnstartedServer(LocalOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	s.Config.ConnContext = WithClientCheck
	s.Start()
	defer s.Close()
	answer, err := http.Get(s.URL + "/debug/log")
	testenv.NoError(t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("a request of the server's own user got %s", answer.Status)
	}

	testenv.SkipUnlessRoot(t)
	curl := testenv.Program(t, "curl", "curl")
	nobody, err := user.Lookup("nobody")
	if err != nil {
		testenv.Skip(t, "there is no user nobody", "useradd nobody")
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	for path, want := range map[string]string{"/debug/log": "403", "/debug/pprof/heap": "403", "/metrics": "200"} {
		c := exec.Command(curl, "-s", "-o", "/dev/null", "-w", "%{http_code}", s.URL+path)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		out, err := c.Output()
		testenv.NoError(t, err)
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("%s: user nobody got %s, want %s", path, got, want)
		}
	}
}

// TestSocketUser opens a TCP connection, and expects socketUser to return the user id of the test process. The
// client may have closed the connection for writing; after a full close the test expects an error. The
// connections are of IPv4, of IPv6, and of IPv4 to a listener of IPv6.
func TestSocketUser(t *testing.T) {
	for _, c := range []struct{ listen, dial string }{{"127.0.0.1:0", "127.0.0.1"}, {"[::1]:0", "::1"}, {"[::]:0", "127.0.0.1"}} {
		listener, err := net.Listen("tcp", c.listen)
		if err != nil && c.listen != "127.0.0.1:0" {
			t.Logf("%s: %v", c.listen, err) // this machine has no IPv6
			continue
		}
		testenv.NoError(t, err)
		defer listener.Close()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		client, err := net.Dial("tcp", net.JoinHostPort(c.dial, port))
		testenv.NoError(t, err)
		defer client.Close()
		server, err := listener.Accept()
		testenv.NoError(t, err)
		defer server.Close()
		at, here := addrPort(server.RemoteAddr()), addrPort(server.LocalAddr())
		if user, err := socketUser(at, here); err != nil || user != uint32(os.Geteuid()) {
			t.Errorf("%s: user %d, %v, want %d", c.listen, user, err, os.Geteuid())
		}
		if err := checkClientUser(at, here); err != nil {
			t.Errorf("%s: %v", c.listen, err)
		}
		testenv.NoError(t, client.(*net.TCPConn).CloseWrite())
		if err := checkClientUser(at, here); err != nil {
			t.Errorf("%s: closed for writing: %v", c.listen, err)
		}
		client.Close()
		if err := checkClientUser(at, here); err == nil || strings.Contains(err.Error(), "tcp_diag") {
			t.Errorf("%s: a closed socket: %v", c.listen, err)
		}
	}
}

// BenchmarkSocketUser measures one look-up of the user of a TCP socket. Its time does not depend on the number
// of connections of the machine.
func BenchmarkSocketUser(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.NoError(b, err)
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	testenv.NoError(b, err)
	defer client.Close()
	at, to := addrPort(client.LocalAddr()), addrPort(client.RemoteAddr())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := socketUser(at, to); err != nil {
			b.Fatal(err)
		}
	}
}
