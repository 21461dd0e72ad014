//go:build linux

package harness

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-fleet/muster/internal/testenv"
)

// Network is a virtual switch with simulated machines. Machines are network namespaces, connected by veth pairs.
// Processes of the test hold the namespaces, so that they end with it, also when it is killed; the machine itself
// shows none of them.
type Network struct {
	t      testing.TB
	holder *Process
	n      int
}

// Machine is a simulated machine of a Network. It has an address, host name, machine id and boot id of its own.
type Machine struct {
	t       testing.TB
	network *Network
	holder  *Process
	port    string // its port on the switch
	id      string // machine id: 32 digits that begin with its number
	boots   int

	Name    string
	Address string // 10.77.0.N
}

// NewNetwork creates a virtual switch for simulated machines. If the kernel forbids it, the test is skipped.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	testenv.SkipUnlessRoot(t)
	testenv.Program(t, "ip", "iproute2", "/usr/sbin", "/sbin")
	if out, err := exec.Command("unshare", "--net", "--mount", "--uts", "true").CombinedOutput(); err != nil {
		testenv.Skip(t, "no network namespace is to be had: "+strings.TrimSpace(string(out)), "sudo scripts/nightly.sh blackbox")
	}
	n := &Network{t: t, holder: createNamespaces(t, "ip link add br0 type bridge && ip link set br0 up")}
	return n
}

// ipPath is for scripts: Debian has ip in /usr/sbin, which is in root's PATH only.
const ipPath = `PATH="$PATH:/usr/sbin:/sbin"; `

// createNamespaces runs a script in new Linux namespaces, and keeps the namespaces alive. It starts a process that keeps
// the namespaces alive.
func createNamespaces(t testing.TB, script string, args ...string) *Process {
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

// Machine adds a running machine to the network, with its cable plugged in.
func (n *Network) Machine(name string) *Machine {
	n.t.Helper()
	n.n++
	m := &Machine{t: n.t, network: n, Name: name, Address: fmt.Sprintf("10.77.0.%d", n.n),
		id: fmt.Sprintf("%08x", n.n) + strings.Repeat(fmt.Sprintf("%x", n.n%16), 24)}
	m.boot()
	return m
}

// boot creates the simulated machine with its namespaces, host name, ids and network interface.
func (m *Machine) boot() {
	m.t.Helper()
	m.boots++
	m.port = fmt.Sprintf("p%s-%d", m.Address[strings.LastIndexByte(m.Address, '.')+1:], m.boots)
	m.holder = createNamespaces(m.t, strings.Join([]string{
		`printf %s "$1" >/proc/sys/kernel/hostname`,
		`mount --bind "$2/machine-id" /etc/machine-id`, `mount --bind "$2/boot_id" /proc/sys/kernel/random/boot_id`, `ip link set lo up`,
	}, " && "), m.Name, writeMachineIDFiles(m.t, m.id, fmt.Sprintf("boot-%d-of-%s", m.boots, m.Name)))
	m.network.runOnSwitch("link", "add", m.port, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(m.holder.PID()))
	m.network.runOnSwitch("link", "set", m.port, "master", "br0", "up")
	m.MustRun(ipPath + "ip addr add " + m.Address + "/24 dev eth0 && ip link set eth0 up")
}

// Crash kills the machine without any packet to its peers, and boots the machine again. It then has a new boot
// id and no connections.
func (m *Machine) Crash(running ...*Process) {
	m.t.Helper()
	m.UnplugCable() // without the cable, packets of the kernel for killed processes are lost
	for _, p := range append(running, m.holder) {
		p.Kill()
	}
	m.boot()
}

// runOnSwitch runs a command of the tool ip on the simulated network's virtual switch.
func (n *Network) runOnSwitch(args ...string) {
	n.t.Helper()
	words := append([]string{"--target", fmt.Sprint(n.holder.PID()), "--net", "ip"}, args...)
	cmd := exec.Command("nsenter", words...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("ip %v: %v\n%s", args, err, out)
	}
}

// CommandPrefix returns the command-line prefix for running a command on the simulated machine.
func (m *Machine) CommandPrefix() []string {
	return []string{"nsenter", "--target", fmt.Sprint(m.holder.PID()), "--net", "--mount", "--uts"}
}

// MustRun runs a shell script on the machine.
func (m *Machine) MustRun(script string) string {
	m.t.Helper()
	words := append(m.CommandPrefix(), "sh", "-c", script)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("on %s: %s: %v\n%s", m.Name, script, err, out)
	}
	return string(out)
}

// Run runs a muster command on the machine, and waits for its end.
func (m *Machine) Run(env []string, args ...string) Result {
	m.t.Helper()
	return runCommand(m.t, env, append(append(m.CommandPrefix(), Binary()), args...)...)
}

// Launch starts a muster process on the machine without waiting.
func (m *Machine) Launch(env []string, args ...string) *Process {
	m.t.Helper()
	return LaunchCommand(m.t, env, append(append(m.CommandPrefix(), Binary()), args...)...)
}

// UnplugCable unplugs the machine's network cable. Both ends see the link down.
func (m *Machine) UnplugCable() { m.t.Helper(); m.network.runOnSwitch("link", "set", m.port, "down") }

// PlugCable plugs the machine's network cable in again.
func (m *Machine) PlugCable() { m.t.Helper(); m.network.runOnSwitch("link", "set", m.port, "up") }

// MachineID returns the content of the machine's /etc/machine-id.
func (m *Machine) MachineID() string {
	m.t.Helper()
	return strings.TrimSpace(m.MustRun("cat /etc/machine-id"))
}

// Dial opens a network connection from the simulated machine.
func (m *Machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	runtime.LockOSThread() // the thread enters the machine's namespace and returns
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

// Proxy is a TCP proxy for tests that can drop the server's answers.
type Proxy struct {
	Address string
	Stop    func()       // ends the proxy and its connections
	muted   atomic.Int64 // connections up to this number get no more bytes
	last    atomic.Int64
}

// NewProxy starts a proxy on a free port. The proxy ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	return NewProxyAt(t, "127.0.0.1:0", to)
}

// NewProxyAt starts a proxy that listens at a given address.
func NewProxyAt(t testing.TB, address, to string) *Proxy {
	t.Helper()
	l := testenv.Value(net.Listen("tcp", address))(t)
	p := &Proxy{Address: l.Addr().String()}
	var passing sync.WaitGroup
	ended := make(chan struct{})
	passing.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			number := p.last.Add(1)
			passing.Go(func() { p.forward(from, to, number, ended) })
		}
	})
	p.Stop = sync.OnceFunc(func() {
		l.Close()
		close(ended)
		passing.Wait()
	})
	t.Cleanup(p.Stop)
	return p
}

// DropAnswers makes the proxy drop the server's bytes on existing connections from now on. The clients' bytes still go
// to the server.
func (p *Proxy) DropAnswers() { p.muted.Store(p.last.Load()) }

// forward forwards one connection to the server.
func (p *Proxy) forward(from net.Conn, to string, number int64, ended <-chan struct{}) {
	defer from.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(server, from); done <- struct{}{} }()
	go func() { _, _ = io.Copy(&answerConn{from, p, number}, server); done <- struct{}{} }()
	select {
	case <-done:
	case <-ended:
	}
}

// answerConn passes the server's bytes on one proxied connection to the client. After DropAnswers it drops the
// bytes.
type answerConn struct {
	net.Conn
	proxy  *Proxy
	number int64
}

// Write forwards the server's bytes to the client. After DropAnswers it drops the bytes.
func (a *answerConn) Write(b []byte) (int, error) {
	if a.number <= a.proxy.muted.Load() {
		return len(b), nil
	}
	return a.Conn.Write(b)
}

// Daemon is a running helper program between agents and server, such as the load balancer HAProxy.
type Daemon struct {
	*Process
	t       testing.TB
	words   []string
	Address string
	Dir     string
}

// Start starts the program, and waits until the program accepts connections.
func (d *Daemon) Start() {
	d.t.Helper()
	d.Process = LaunchCommand(d.t, nil, d.words...)
	Until(d.t, 30*time.Second, d.words[0]+" listens", func() (string, bool) {
		if d.Ended() {
			d.t.Fatalf("%s ended:\n%s", d.words[0], d.Log())
		}
		nc, err := net.Dial("tcp", d.Address)
		if err != nil {
			return err.Error(), false
		}
		nc.Close()
		return "", true
	})
}

// StartHAProxy starts the load balancer HAProxy, which forwards TCP connections from given addresses to a
// server. It forwards TCP connections from each given address to a server's address. The line is added to every
// server line; connections that are silent are cut.
func StartHAProxy(t testing.TB, silent time.Duration, line string, passes map[string]string) *Daemon {
	t.Helper()
	program := testenv.Program(t, "haproxy", "haproxy", "/usr/sbin")
	d := &Daemon{t: t, Dir: t.TempDir()}
	text := fmt.Sprintf("global\n  maxconn 200\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client %[1]dms\n  timeout server %[1]dms\n", silent.Milliseconds())
	n := 0
	for from, to := range passes {
		d.Address = from
		text += fmt.Sprintf("frontend f%[1]d\n  bind %[2]s\n  default_backend b%[1]d\nbackend b%[1]d\n  server one %[3]s %[4]s\n", n, from, to, line)
		n++
	}
	file := filepath.Join(d.Dir, "haproxy.cfg")
	testenv.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	d.words = []string{program, "-db", "-f", file}
	d.Start()
	return d
}

// Squid is an HTTP proxy that asks for a user and a password. It resolves names from a list of its own.
type Squid struct{ *Daemon }

// SquidUser and SquidPassword are the credentials of the proxy.
const (
	SquidUser     = "agent"
	SquidPassword = "pass word@1"
	squidEntry    = SquidUser + ":$apr1$muster$ztcQPoShqCDDkz7hqtjbp/\n"
)

// NewSquid starts the HTTP proxy Squid for tests. It has a list of host names for 127.0.0.1 and a list of allowed
// ports.
func NewSquid(t testing.TB, hosts []string, ports ...string) *Squid {
	t.Helper()
	program := testenv.Program(t, "squid", "squid", "/usr/sbin")
	login := testenv.Program(t, "basic_ncsa_auth", "squid", "/usr/lib/squid")
	dir, err := os.MkdirTemp("", "muster-squid-") // t.TempDir is root's alone
	testenv.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) }) // runs after the other cleanups
	s := &Squid{&Daemon{t: t, Dir: dir, Address: ReservePort(t)}}
	for name, text := range map[string]string{
		"users": squidEntry, "hosts": "127.0.0.1 " + strings.Join(hosts, " ") + "\n",
		"squid.conf": strings.NewReplacer("DIR", dir, "ADDRESS", s.Address, "LOGIN", login, "PORTS", strings.Join(ports, " ")).Replace(squidConf),
	} {
		testenv.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if os.Geteuid() == 0 { // squid drops root rights by itself
		changeOwner(t, dir, "proxy")
	}
	// The name marks squid's shared memory, which survives a kill.
	name := fmt.Sprintf("muster%d", rand.Uint32())
	s.words = []string{program, "-N", "-n", name, "-f", filepath.Join(dir, "squid.conf")}
	t.Cleanup(func() {
		s.Kill()
		left, _ := filepath.Glob("/dev/shm/" + name + "-*")
		for _, file := range left {
			_ = os.Remove(file)
		}
		if log, err := os.ReadFile(filepath.Join(dir, "cache.log")); err == nil && t.Failed() {
			t.Logf("squid said:\n%s", tail(string(log), 20))
		}
	})
	s.Start()
	return s
}

const squidConf = `http_port ADDRESS
pid_filename DIR/squid.pid
access_log stdio:DIR/access.log
cache_log DIR/cache.log
coredump_dir DIR
hosts_file DIR/hosts
dns_nameservers 127.0.0.1
visible_hostname proxy.test
cache deny all
cache_mem 4 MB
max_filedescriptors 1024
shutdown_lifetime 1 seconds
pinger_enable off
auth_param basic program LOGIN DIR/users
auth_param basic children 2 startup=1 idle=1
auth_param basic realm muster
acl known proxy_auth REQUIRED
acl agents port PORTS
acl CONNECT method CONNECT
http_access deny !agents
http_access allow CONNECT known
http_access deny all
`

// LogLines returns the lines of the HTTP proxy's access log.
func (s *Squid) LogLines() []string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir, "access.log"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// changeOwner makes a user the owner of a folder. Then a program of this user can use the folder.
func changeOwner(t testing.TB, dir, name string) {
	t.Helper()
	who := testenv.Value(user.Lookup(name))(t)
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	if out, err := exec.Command("chown", "-R", fmt.Sprintf("%d:%d", uid, gid), dir).CombinedOutput(); err != nil {
		t.Fatalf("chown: %v\n%s", err, out)
	}
}
