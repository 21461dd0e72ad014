//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// generatorChecks is the load of Sensu's own performance tests: ten checks with the canned result of its agents, each
// every ten seconds.
const generatorChecks = 10

// generatorServer is a server for Sensu's load generator (cmd/loadit of sensu-go). It has the checks of the
// generator's agents.
type generatorServer struct {
	*harness.Server
	t      *testing.T
	listen string
}

// newGeneratorServer starts a server with the checks for Sensu's load generator. If the generator is not named, it
// skips the test.
func newGeneratorServer(t *testing.T) *generatorServer {
	t.Helper()
	if os.Getenv("MUSTER_SENSU_LOADIT") == "" {
		testenv.Skip(t, "there is no load generator of Sensu Go 6", "MUSTER_SENSU_LOADIT=/path/to/loadit go test ./test -run SensuGenerator")
	}
	listen := harness.ReservePort(t)
	s := &generatorServer{harness.StartServer(t, "--sensu-listen", listen, "--sensu-tls", "off"), t, listen}
	s.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", tempFile(t, "password", "P@ssw0rd!"))
	checks := ""
	for i := range generatorChecks {
		checks += strings.Replace(sensuCheck(fmt.Sprintf("check%d", i+1), "!sensu_test_check!", ""), `"interval": 1`, `"interval": 10`, 1)
	}
	importSensu(t, s.Server, checks)
	return s
}

// launchAgents starts n simulated Sensu agents, and waits until each check has a result. The file lsb-release saves
// the generator a process lsb_release per agent: with it a busy machine starts 14 agents a second.
func (s *generatorServer) launchAgents(n int) {
	s.t.Helper()
	pprof := harness.ReservePort(s.t)
	etc := s.t.TempDir()
	writeFile(s.t, filepath.Join(etc, "lsb-release"), "DISTRIB_ID=Debian\nDISTRIB_RELEASE=12\n")
	harness.LaunchCommand(s.t, []string{"HOST_ETC=" + etc}, os.Getenv("MUSTER_SENSU_LOADIT"), "-count", fmt.Sprint(n), "-backends", "ws://"+s.listen, "-subscriptions", "web", "-prom", "",
		"-pprof-port", pprof[strings.LastIndexByte(pprof, ':')+1:])
	harness.Until(s.t, 6*time.Minute, "every check of every agent has a result", func() (string, bool) {
		results, nodes := s.Metric("muster_sensu_messages_total", `outcome="kept"`), s.Metric("muster_sensu_sessions")
		return fmt.Sprintf("%v agents, %v results", nodes, results), nodes == float64(n) && results >= float64(n*generatorChecks)
	})
}

// TestSensuGeneratorSurvivesRestart restarts the server under 1,000 agents of Sensu's load generator, and expects all
// agents to reconnect. The restart follows a kill; no event turns bad, and each agent's results continue.
func TestSensuGeneratorSurvivesRestart(t *testing.T) {
	const agents = 1000
	s := newGeneratorServer(t)
	s.launchAgents(agents)
	before := s.FleetStates()
	s.Kill()
	s.Start()
	began := time.Now()
	harness.Until(t, time.Minute, "all agents are back", func() (string, bool) {
		n := s.Metric("muster_sensu_sessions")
		return fmt.Sprint(n), n == agents
	})
	t.Logf("figure: %d agents of Sensu's load generator were back %.1f s after the server", agents, time.Since(began).Seconds())
	harness.Until(t, time.Minute, "each check of each agent has a new result", func() (string, bool) {
		fresh := 0
		for key, state := range s.FleetStates() {
			if state.Results > before[key].Results+1 { // one may have been on its way
				fresh++
			}
		}
		return fmt.Sprint(fresh), fresh == agents*generatorChecks
	})
	s.Try("get", "events", "--status", "warning,critical,unknown").Expect(0).ExpectNot("test-host")
	s.Try("get", "problems").Expect(0).ExpectNot("test-host")
}

// TestSensuGeneratorCost prints the server's processor time per message of Sensu's load generator.
func TestSensuGeneratorCost(t *testing.T) {
	if os.Getenv("MUSTER_TEST_LONG") == "" {
		t.Skip("measures for eight minutes on an idle machine: MUSTER_TEST_LONG=1")
	}
	for _, c := range []struct {
		agents int
		asked  float64 // µs
	}{{1000, 40}, {2000, 30}, {5000, 25}} {
		t.Run(fmt.Sprint(c.agents), func(t *testing.T) {
			s := newGeneratorServer(t)
			idle, at := processorTime(t, s.PID()), time.Now()
			awaitTime(t, 15*time.Second)
			idleShare := (processorTime(t, s.PID()) - idle).Seconds() / time.Since(at).Seconds()
			s.launchAgents(c.agents)
			awaitTime(t, 20*time.Second)
			before, cpu := s.Metric("muster_sensu_messages_total"), processorTime(t, s.PID())
			at = time.Now()
			awaitTime(t, 90*time.Second)
			all, used, took := s.Metric("muster_sensu_messages_total"), processorTime(t, s.PID())-cpu, time.Since(at)
			messages, kept := all-before, s.Metric("muster_sensu_messages_total", `outcome="kept"`)+s.Metric("muster_sensu_messages_total", `outcome="keepalive"`)
			assert(t, kept >= all, "%v of %v messages were kept", kept, all)
			rate, cores := messages/took.Seconds(), used.Seconds()/took.Seconds()
			load := strings.Fields(string(readFile(t, "/proc/loadavg")))[0]
			t.Logf("figure: %d agents: %.0f messages/s, %.3f cores, %.3f when idle, %.1f µs per message; asked: at most %.0f; load of the machine %s", c.agents, rate, cores,
				idleShare, 1e6*(cores-idleShare)/rate, c.asked, load)
		})
	}
}

// awaitTime waits for a duration, for example as long as a measurement takes.
func awaitTime(t *testing.T, d time.Duration) {
	t.Helper()
	began := time.Now()
	harness.Until(t, 2*d, fmt.Sprint(d, " have passed"), func() (string, bool) { return "", time.Since(began) >= d })
}

// processorTime returns the user and system time that a process has used.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	text := string(readFile(t, fmt.Sprintf("/proc/%d/stat", pid)))
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	var user, system int64
	_, err := fmt.Sscan(strings.Join(slices.Concat(fields[11:13]), " "), &user, &system)
	testenv.NoError(t, err)
	hz, err := exec.CommandContext(t.Context(), "getconf", "CLK_TCK").Output()
	testenv.NoError(t, err)
	var ticks int64
	_, err = fmt.Sscan(string(hz), &ticks)
	testenv.NoError(t, err)
	return time.Duration(user+system) * time.Second / time.Duration(ticks)
}
