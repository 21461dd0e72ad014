//go:build linux

package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// Agent is a muster-agent for tests. It has a state folder and, while it runs, a process.
type Agent struct {
	*Process
	t testing.TB

	Name  string // of the node
	State string
	Token string   // join token
	Args  []string // further flags
	Wrap  []string // command in front of the binary (UseMachineIDs)

	Environ []string // environment in addition to PATH and the token
}

// NewAgent creates a join token, and an agent that will use the token. The node is in the default namespace; no
// process is started. The context file for commands must exist (Client).
func (s *Server) NewAgent(name string, args ...string) *Agent {
	s.t.Helper()
	var token struct{ Token string }
	text := s.CLI("node", "token", "--uses", "1", "-o", "json")
	if err := json.Unmarshal([]byte(text), &token); err != nil || token.Token == "" {
		s.t.Fatalf("join token: %v\n%s", err, text)
	}
	return &Agent{
		t: s.t, Name: name, State: filepath.Join(s.t.TempDir(), name), Token: token.Token,
		Args: append([]string{"--server", s.Listen}, args...),
	}
}

// StartAgent enrols an agent and starts the agent.
func (s *Server) StartAgent(name string, args ...string) *Agent {
	s.t.Helper()
	a := s.NewAgent(name, args...)
	a.Start()
	return a
}

// Start starts the agent's process without waiting.
func (a *Agent) Start() {
	a.t.Helper()
	words := append(append([]string{}, a.Wrap...), Binary(), "agent", "--state-dir", a.State, "--name", a.Name)
	a.Process = LaunchCommand(a.t, append([]string{"MUSTER_TOKEN=" + a.Token, "MUSTER_CONFIG=/dev/null"}, a.Environ...), append(words, a.Args...)...)
}

// CopyState copies the agent's state folder, so that RestoreState can bring the copy back.
func (a *Agent) CopyState() (copied string) {
	a.t.Helper()
	copied = filepath.Join(a.t.TempDir(), "copy")
	CopyFolder(a.t, a.State, copied)
	return copied
}

// RestoreState replaces the agent's state folder by an earlier copy from CopyState. The agent must not run.
func (a *Agent) RestoreState(copied string) {
	a.t.Helper()
	testenv.NoError(a.t, os.RemoveAll(a.State))
	CopyFolder(a.t, copied, a.State)
}

// Clone returns a second agent with a copy of the agent's state folder, like a cloned machine.
func (a *Agent) Clone() *Agent {
	a.t.Helper()
	return &Agent{t: a.t, Name: a.Name, State: a.CopyState(), Token: a.Token, Args: a.Args}
}

// CopyFolder copies a folder with its contents.
func CopyFolder(t testing.TB, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v\n%s", from, err, out)
	}
}

// CountingCheck is a test check that counts its own runs. Tests compare this number with the server's results.
type CountingCheck struct {
	t    testing.TB
	name string
	dir  string
}

// NewCountingCheck declares a test check that counts its own runs, and prints for example "run 3".
func (s *Server) NewCountingCheck(name string, node string, more ...string) *CountingCheck {
	s.t.Helper()
	c := &CountingCheck{t: s.t, name: name, dir: s.t.TempDir()}
	// The last command before the output writes the number: a run that was
	// killed earlier does not count.
	script := fmt.Sprintf("while [ -e %[1]s/hold ]; do sleep 0.05; done; cat %[1]s/more 2>/dev/null; echo x >>%[1]s/runs; echo run $(wc -l <%[1]s/runs); exit $(cat %[1]s/status 2>/dev/null || echo 0)", c.dir)
	s.Apply(fmt.Sprintf("apiVersion: muster/v1\nkind: Check\nmetadata: {name: %s}\nspec:\n  targets: {nodes: [%s]}\n  interval: 1s\n  timeout: 10m\n  command: %q\n%s",
		name, node, script, strings.Join(more, "\n")))
	return c
}

// Runs returns how often the test's check has run.
func (c *CountingCheck) Runs() uint64 {
	c.t.Helper()
	info, err := os.Stat(filepath.Join(c.dir, "runs"))
	if err != nil {
		return 0
	}
	return uint64(info.Size() / 2)
}

// Block makes the next runs of the test check wait for a call of Unblock.
func (c *CountingCheck) Block() { c.t.Helper(); c.writeControlFile("hold", "") }

// Unblock lets blocked runs of the test check continue. Block has stopped them.
func (c *CountingCheck) Unblock() { _ = os.Remove(filepath.Join(c.dir, "hold")) }

// SetExitCode sets the exit code with which the test's check ends in later runs.
func (c *CountingCheck) SetExitCode(code int) {
	c.t.Helper()
	c.writeControlFile("status", fmt.Sprint(code))
}

// SetPrefix sets a text that the check prints before the run number in later outputs.
func (c *CountingCheck) SetPrefix(text string) { c.t.Helper(); c.writeControlFile("more", text) }

// writeControlFile writes a file that changes the behaviour of the check's script. The script reads the file.
func (c *CountingCheck) writeControlFile(name, text string) {
	c.t.Helper()
	testenv.NoError(c.t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
}

// AwaitRuns waits for n more runs of the check.
func (c *CountingCheck) AwaitRuns(n uint64) {
	c.t.Helper()
	want := c.Runs() + n
	Until(c.t, 60*time.Second, fmt.Sprintf("check %s ran %d times", c.name, want), func() (string, bool) {
		return fmt.Sprint(c.Runs()), c.Runs() >= want
	})
}

// Apply applies resources in YAML.
func (s *Server) Apply(yaml string) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "apply.yaml")
	testenv.NoError(s.t, os.WriteFile(file, []byte(yaml), 0o600))
	s.CLI("apply", "-f", file, "--yes")
}

// UseMachineIDs gives the agent another machine id and boot id at its next starts. The test is left out where the
// kernel allows none.
func (a *Agent) UseMachineIDs(machine, boot string) {
	a.t.Helper()
	enter := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		enter = []string{"unshare", "--map-root-user", "--mount"}
	}
	a.Wrap = append(enter, machineIDPrefix(a.t, machine, boot)...)
	probe := append(append([]string{}, a.Wrap...), "true")
	if out, err := exec.Command(probe[0], probe[1:]...).CombinedOutput(); err != nil {
		testenv.Skip(a.t, "no mount namespace is to be had: "+strings.TrimSpace(string(out)), "sudo scripts/nightly.sh blackbox")
	}
}

// machineIDPrefix returns the command-line prefix for running a command with other machine ids.
func machineIDPrefix(t testing.TB, machine, boot string) []string {
	t.Helper()
	return []string{"sh", "-c", `mount --bind "$1/machine-id" /etc/machine-id && mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id && shift && exec "$@"`,
		"sh", writeMachineIDFiles(t, machine, boot)}
}

// writeMachineIDFiles creates a folder with replacements of the system's machine-id and boot_id files.
func writeMachineIDFiles(t testing.TB, machine, boot string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"machine-id": machine, "boot_id": boot} {
		testenv.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644))
	}
	return dir
}
