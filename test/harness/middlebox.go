//go:build linux

package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// Daemon is a program of somebody else that stands between agents and servers: the
// Debian package, run with a configuration of the test's.
type Daemon struct {
	*Process
	t       testing.TB
	words   []string
	Address string
	Dir     string
}

// Start starts it and waits until it listens.
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

// HAProxy balances TCP, from each address to a server's; both are host:port. The line
// is added to every server line; connections that are silent are cut.
func HAProxy(t testing.TB, silent time.Duration, line string, passes map[string]string) *Daemon {
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
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.words = []string{program, "-db", "-f", file}
	d.Start()
	return d
}

// Squid is a forward proxy that asks for a user and a password and finds hosts in a list
// of its own.
type Squid struct{ *Daemon }

// SquidUser and SquidPassword are the credentials of the proxy.
const (
	SquidUser     = "agent"
	SquidPassword = "pass word@1"
	squidEntry    = SquidUser + ":$apr1$muster$ztcQPoShqCDDkz7hqtjbp/\n"
)

// NewSquid starts one; hosts are names that it finds at 127.0.0.1, and ports those to
// which it opens tunnels.
func NewSquid(t testing.TB, hosts []string, ports ...string) *Squid {
	t.Helper()
	program := testenv.Program(t, "squid", "squid", "/usr/sbin")
	login := testenv.Program(t, "basic_ncsa_auth", "squid", "/usr/lib/squid")
	dir, err := os.MkdirTemp("", "muster-squid-") // t.TempDir is root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) // at last
	s := &Squid{&Daemon{t: t, Dir: dir, Address: Port(t)}}
	for name, text := range map[string]string{
		"users": squidEntry, "hosts": "127.0.0.1 " + strings.Join(hosts, " ") + "\n",
		"squid.conf": strings.NewReplacer("DIR", dir, "ADDRESS", s.Address, "LOGIN", login, "PORTS", strings.Join(ports, " ")).Replace(squidConf),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 { // it gives up root by itself
		giveToUser(t, dir, "proxy")
	}
	// The name belongs to its shared memory, which outlives a kill.
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

// Tunnels returns the lines of its log.
func (s *Squid) Tunnels() []string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir, "access.log"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func giveToUser(t testing.TB, dir, name string) {
	t.Helper()
	who, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	if out, err := exec.Command("chown", "-R", fmt.Sprintf("%d:%d", uid, gid), dir).CombinedOutput(); err != nil {
		t.Fatalf("chown: %v\n%s", err, out)
	}
}
