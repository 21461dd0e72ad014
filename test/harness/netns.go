//go:build linux

package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-fleet/muster/internal/testenv"
)

// Network is a switch with machines: network namespaces and cables (veth pairs) between
// them. All of it lives in namespaces that processes of the test hold, so that it is gone
// with them, also when the test is killed; nothing of it shows on the machine itself.
type Network struct {
	t      testing.TB
	holder *Process
	n      int
}

// Machine is one of the network: an address, a host name, a machine id and a boot id of
// its own.
type Machine struct {
	t       testing.TB
	network *Network
	holder  *Process
	port    string // of the switch
	id      string // of the machine: 32 digits that begin with its number
	boots   int

	Name    string
	Address string // 10.77.0.N
}

// NewNetwork makes a switch; the test is left out where that cannot be.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	testenv.Root(t)
	testenv.Program(t, "ip", "iproute2", "/usr/sbin", "/sbin")
	if out, err := exec.Command("unshare", "--net", "--mount", "--uts", "true").CombinedOutput(); err != nil {
		testenv.LeftOut(t, "no network namespace is to be had: "+strings.TrimSpace(string(out)), "sudo scripts/nightly.sh blackbox")
	}
	n := &Network{t: t, holder: holdNamespaces(t, "ip link add br0 type bridge && ip link set br0 up")}
	return n
}

// ipPath is for scripts: Debian has ip in /usr/sbin, which is in root's PATH only.
const ipPath = `PATH="$PATH:/usr/sbin:/sbin"; `

// holdNamespaces starts a process with namespaces of its own, and returns when it has run
// the script in them.
func holdNamespaces(t testing.TB, script string, args ...string) *Process {
	t.Helper()
	words := append([]string{"unshare", "--net", "--mount", "--uts", "sh", "-c", ipPath + script + " && echo ready && exec sleep infinity", "sh"}, args...)
	p := LaunchCommand(t, nil, words...)
	Until(t, 20*time.Second, "namespaces are there", func() (string, bool) {
		if p.Ended() {
			t.Fatalf("make namespaces: %s", p.Log())
		}
		return p.Log(), strings.Contains(p.Log(), "ready")
	})
	return p
}

// Machine adds a machine: it runs, and its cable is plugged in.
func (n *Network) Machine(name string) *Machine {
	n.t.Helper()
	n.n++
	m := &Machine{t: n.t, network: n, Name: name, Address: fmt.Sprintf("10.77.0.%d", n.n),
		id: fmt.Sprintf("%08x", n.n) + strings.Repeat(fmt.Sprintf("%x", n.n%16), 24)}
	m.boot()
	return m
}

func (m *Machine) boot() {
	m.t.Helper()
	m.boots++
	m.port = fmt.Sprintf("p%s-%d", m.Address[strings.LastIndexByte(m.Address, '.')+1:], m.boots)
	m.holder = holdNamespaces(m.t, strings.Join([]string{
		`printf %s "$1" >/proc/sys/kernel/hostname`,
		`mount --bind "$2/machine-id" /etc/machine-id`, `mount --bind "$2/boot_id" /proc/sys/kernel/random/boot_id`, `ip link set lo up`,
	}, " && "), m.Name, machineFiles(m.t, m.id, fmt.Sprintf("boot-%d-of-%s", m.boots, m.Name)))
	m.network.runOnSwitch("link", "add", m.port, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(m.holder.PID()))
	m.network.runOnSwitch("link", "set", m.port, "master", "br0", "up")
	m.MustRun(ipPath + "ip addr add " + m.Address + "/24 dev eth0 && ip link set eth0 up")
}

// Crash ends the machine without a word to anybody, and starts it again: it has another
// boot id, and knows nothing of the connections it had.
func (m *Machine) Crash(running ...*Process) {
	m.t.Helper()
	m.Pull() // packets that the kernel sends for killed processes are lost
	for _, p := range append(running, m.holder) {
		p.Kill()
	}
	m.boot()
}

func (n *Network) runOnSwitch(args ...string) {
	n.t.Helper()
	words := append([]string{"--target", fmt.Sprint(n.holder.PID()), "--net", "ip"}, args...)
	cmd := exec.Command("nsenter", words...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("ip %v: %v\n%s", args, err, out)
	}
}

// Command returns the words that begin a command on this machine.
func (m *Machine) Command() []string {
	return []string{"nsenter", "--target", fmt.Sprint(m.holder.PID()), "--net", "--mount", "--uts"}
}

// MustRun runs a shell script on this machine.
func (m *Machine) MustRun(script string) string {
	m.t.Helper()
	words := append(m.Command(), "sh", "-c", script)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("on %s: %s: %v\n%s", m.Name, script, err, out)
	}
	return string(out)
}

// Run runs muster on this machine to its end.
func (m *Machine) Run(env []string, args ...string) Result {
	m.t.Helper()
	return runCommand(m.t, env, append(append(m.Command(), Binary()), args...)...)
}

// Launch starts muster on this machine and does not wait.
func (m *Machine) Launch(env []string, args ...string) *Process {
	m.t.Helper()
	return LaunchCommand(m.t, env, append(append(m.Command(), Binary()), args...)...)
}

// Pull takes the cable out: the link is down at both ends.
func (m *Machine) Pull() { m.t.Helper(); m.network.runOnSwitch("link", "set", m.port, "down") }

// Plug puts it in again.
func (m *Machine) Plug() { m.t.Helper(); m.network.runOnSwitch("link", "set", m.port, "up") }

// MachineID returns the content of the machine's /etc/machine-id.
func (m *Machine) MachineID() string {
	m.t.Helper()
	return strings.TrimSpace(m.MustRun("cat /etc/machine-id"))
}

// Dial connects as a process of this machine does.
func (m *Machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	runtime.LockOSThread() // the thread goes into the namespace and comes back
	here, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer here.Close()
	there, err := os.Open(filepath.Join("/proc", fmt.Sprint(m.holder.PID()), "ns/net"))
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back == nil {
		runtime.UnlockOSThread() // else the thread ends with this goroutine
	}
	return conn, err
}
