package admin

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestProfilesNeedTheServersUser requests profiles from processes of several users and expects only those of the
// server's user to get them
func TestProfilesNeedTheServersUser(t *testing.T) {
	s := httptest.NewUnstartedServer(LocalOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	s.Config.ConnContext = WithConn
	s.Start()
	defer s.Close()
	answer, err := http.Get(s.URL + "/debug/log")
	testenv.NoError(t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("a request of the server's own user got %s", answer.Status)
	}

	testenv.Root(t)
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
