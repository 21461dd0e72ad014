package sensu

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestRealBackend plays against a Sensu backend, if installed, and expects all sent results in both encodings.
func TestRealBackend(t *testing.T) {
	binary := os.Getenv("MUSTER_SENSU_BACKEND")
	if binary == "" {
		testenv.Skip(t, "MUSTER_SENSU_BACKEND names no sensu-backend (docs/load-reference.md says how one is built)", "MUSTER_SENSU_BACKEND=/path/to/sensu-backend go test ./internal/load/sensu -run RealBackend")
	}
	agents, api := startReal(t, binary)
	for _, speaksJSON := range []bool{false, true} {
		sc := &scenario.Scenario{Name: "real", Target: "sensu", Seed: 1,
			Agents: []scenario.Class{
				{Name: "web", Count: 40, Checks: []scenario.Check{{Name: "http", Count: 4, Interval: model.Duration(3 * time.Second), Changes: 0.1, Output: scenario.Output{Like: "http"}}}},
				{Name: "db", Count: 10, Checks: []scenario.Check{{Name: "mysql", Count: 4, Interval: model.Duration(2 * time.Second)}}},
			},
			Phases: []scenario.Phase{{Ramp: model.Duration(10 * time.Second)}, {Steady: model.Duration(12 * time.Second)}, {Drain: model.Duration(20 * time.Second)}},
		}
		sc.Defaults()
		target, err := New(sc, Options{Backends: []string{agents}, User: "agent", Password: "P@ssw0rd!", Namespace: "default", JSON: speaksJSON}, api)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := load.RunTarget(t.Context(), load.Config{Options: play.Options{Scenario: sc}, MaxLag: time.Minute}, target)
		if err != nil {
			t.Fatal(err)
		}
		l := rep.Balance
		t.Logf("JSON %v: %+v, ledger: %v, registered after %.1f s, %v", speaksJSON, rep.Targeted, l, rep.ReadySeconds, rep.Verdict)
		failed := rep.Failed()
		if missed := rep.Targeted.Missed; missed > 0 && missed <= rep.Targeted.Requests/20 && len(failed) == 1 {
			failed = nil // a backend on a busy machine asks for some too late
		}
		if len(failed) > 0 || rep.Lost() || !rep.Valid || l.Compared != 200 || l.Sent < 3*200 || l.Acknowledged != l.Sent || rep.Targeted.Lost > 0 {
			t.Errorf("%q %+v", failed, l)
		}
	}
}

// startReal starts a backend in a folder of its own, on ports that the system chose.
func startReal(t *testing.T, binary string) (agents string, api *API) {
	t.Helper()
	dir, addrs := t.TempDir(), freeAddresses(t)
	port := func(i int) string { _, p, _ := net.SplitHostPort(addrs[i]); return p }
	etcd, peer := "http://"+addrs[3], "http://"+addrs[4]
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(binary, "start", "--state-dir", dir, "--cache-dir", filepath.Join(dir, "cache"), "--agent-host", "127.0.0.1", "--agent-port", port(0),
		"--api-listen-address", addrs[1], "--dashboard-host", "127.0.0.1", "--dashboard-port", port(2), "--etcd-listen-client-urls", etcd, "--etcd-advertise-client-urls", etcd,
		"--etcd-listen-peer-urls", peer, "--etcd-initial-advertise-peer-urls", peer, "--etcd-initial-cluster", "default="+peer, "--log-level", "warn")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		late.Stop()
	})
	api = &API{URL: "http://" + addrs[1], User: "admin", Password: "P@ssw0rd!", Namespace: "default", Client: &http.Client{Timeout: 30 * time.Second}}
	for until := time.Now().Add(2 * time.Minute); ; <-time.After(time.Second) {
		first := exec.Command(binary, "init", "--etcd-client-urls", etcd)
		first.Env = append(os.Environ(), "SENSU_BACKEND_CLUSTER_ADMIN_USERNAME=admin", "SENSU_BACKEND_CLUSTER_ADMIN_PASSWORD=P@ssw0rd!")
		said, err := first.CombinedOutput()
		if _, err2 := api.version(t.Context()); err2 == nil {
			return "ws://" + addrs[0], api
		} else if time.Now().After(until) {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("the backend does not start: %v %v %s\n%s", err, err2, said, text)
		}
	}
}

// freeAddresses returns free loopback addresses.
func freeAddresses(t *testing.T) (list [5]string) {
	t.Helper()
	for i := range list { // all open at once, so that they differ
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		list[i] = l.Addr().String()
	}
	return list
}
