package probe

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// assertProbe runs a probe and fails the test unless status and output are as expected.
func assertProbe(t *testing.T, env *Env, name string, args map[string]string, status model.Status, parts ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got, text := Run(ctx, env, name, args)
	for _, part := range parts {
		if got != status || !strings.Contains(string(text), part) {
			t.Errorf("%s %v: %s %s\nwant %s …%s…", name, args, got, text, status, part)
		}
	}
	if out := model.ParseOutput(text); out.Malformed != 0 {
		t.Errorf("%s: perfdata cannot be read back: %s", name, text)
	}
	return string(text)
}

// argMap converts an alternating list of names and values to a map of arguments.
func argMap(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// machineWithFiles returns a simulated machine (Env) with the given files in its root folder.
func machineWithFiles(t *testing.T, files map[string]string) *Env {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		full := filepath.Join(root, path)
		testenv.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		testenv.NoError(t, os.WriteFile(full, []byte(text), 0o644))
	}
	return &Env{Root: root}
}

// TestMemorySwapAndLoadThresholds runs the memory, swap and load probes on simulated files, and compares the statuses.
func TestMemorySwapAndLoadThresholds(t *testing.T) {
	env := machineWithFiles(t, map[string]string{
		"/proc/meminfo": "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    80 kB\nSwapTotal: 100 kB\nSwapFree: 10 kB\n",
		"/proc/loadavg": "9.00 3.00 1.00 1/100 1234\n",
		"/proc/stat":    "cpu  1 2 3\ncpu0 1 2\ncpu1 1 2\nintr 5\n",
	})
	assertProbe(t, env, "memory", nil, model.Warning, "MEMORY WARNING - 80.0 KiB of 1000.0 KiB available (8.0%) | memory=942080B;921600;972800;0;1024000")
	assertProbe(t, env, "memory", argMap("crit", "100KiB"), model.Critical, "CRITICAL")
	assertProbe(t, env, "swap", nil, model.Critical, "10.0 KiB of 100.0 KiB")
	assertProbe(t, machineWithFiles(t, map[string]string{"/proc/meminfo": "MemTotal: 5 kB\nSwapTotal: 0 kB\n"}), "swap", nil, model.OK, "no swap")
	assertProbe(t, env, "load", nil, model.Warning, "load average 9.00, 3.00, 1.00 on 2 CPUs | load1=9;8;16;0")
	assertProbe(t, env, "load", argMap("warn", "1", "crit", "2, 2, 2"), model.Critical, "CRITICAL")
	assertProbe(t, env, "load", argMap("warn", "1, 2"), model.Unknown, "one number or three")
	assertProbe(t, machineWithFiles(t, nil), "memory", nil, model.Unknown, "not possible")
}

// TestProcessesAreCountedByName runs the process probe on a small /proc and expects counts by program name.
func TestProcessesAreCountedByName(t *testing.T) {
	env := machineWithFiles(t, map[string]string{
		"/proc/1/stat": "1 (init) S 0", "/proc/2/stat": "2 (a (b) c) R 1", "/proc/3/stat": "3 (sshd) Z 1",
		"/proc/4/stat": "4 (a-very-long-pro) S 1", "/proc/4/cmdline": "/usr/bin/a-very-long-program\x00-d\x00", "/proc/self/stat": "x",
	})
	assertProbe(t, env, "processes", nil, model.OK, "4 processes | processes=4;;;0 zombies=1;20")
	assertProbe(t, env, "processes", argMap("name", "a (b) c"), model.OK, "1 processes of a (b) c")
	assertProbe(t, env, "processes", argMap("name", "a-very-long-program"), model.OK, "1 processes")
	assertProbe(t, env, "processes", argMap("name", "sshd"), model.Critical, "0 processes of sshd")
	assertProbe(t, env, "processes", argMap("zombiesCrit", "0"), model.Critical, "1 zombies")
	assertProbe(t, env, "processes", argMap("warn", "10:"), model.Warning, "4 processes")
}

// TestRebootIsPendingForANewerKernel runs the reboot probe, and expects a pending reboot only after a kernel update.
// An installed kernel is then newer than the running kernel.
func TestRebootIsPendingForANewerKernel(t *testing.T) {
	judge := func(env *Env, running string) string {
		r := &report{name: "reboot"}
		addReboot(env, r, model.Warning, running)
		_, text := r.statusAndOutput()
		return string(text)
	}
	kernels := map[string]string{"/boot/vmlinuz-6.1.0-9-amd64": "", "/boot/vmlinuz-6.1.0-10-amd64": "", "/boot/vmlinuz-6.5.0-1-cloud-amd64": ""}
	for _, c := range []struct{ running, want string }{
		{"6.1.0-9-amd64", "REBOOT WARNING - kernel 6.1.0-10-amd64 is installed, 6.1.0-9-amd64 is running"},
		{"6.1.0-10-amd64", "REBOOT OK"},
		{"6.18.44-own", "REBOOT OK"}, // not one of those in /boot: a container
	} {
		if got := judge(machineWithFiles(t, kernels), c.running); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s", c.running, got)
		}
	}
	flag := machineWithFiles(t, map[string]string{"/run/reboot-required": "", "/run/reboot-required.pkgs": "linux-image\nlibc6\n"})
	if got := judge(flag, "6.1"); !strings.Contains(got, "a reboot is required by linux-image, libc6") {
		t.Error(got)
	}
}

// TestFailedUnitsAreListed runs the systemd probe with failed units and expects their names.
func TestFailedUnitsAreListed(t *testing.T) {
	assertProbe(t, machineWithFiles(t, nil), "systemd", nil, model.OK, "does not run systemd")
	p, _ := Find("systemd")
	listing := "ssh.service loaded failed failed OpenSSH\nbackup.service loaded failed failed Backup\n"
	for _, c := range []struct {
		args map[string]string
		want string
	}{
		{nil, "SYSTEMD CRITICAL - ssh.service failed; backup.service failed | failed=2;;;0"},
		{argMap("exclude", "ssh*, back*"), "SYSTEMD OK - no unit has failed"},
		{argMap("unit", "nginx.*"), "SYSTEMD WARNING"},
	} {
		a, errs := p.parseArguments(c.args, false)
		r := &report{name: "systemd"}
		addFailedUnits(a, r, listing)
		if _, text := r.statusAndOutput(); len(errs) > 0 || !strings.HasPrefix(string(text), c.want) {
			t.Errorf("%s, want %s", text, c.want)
		}
	}
}

// TestClockOffsetIsComparedWithThresholds runs the clock probe with several offsets and expects the status by the
// thresholds.
func TestClockOffsetIsComparedWithThresholds(t *testing.T) {
	offset := 1500 * time.Millisecond
	env := &Env{ServerOffset: func() (time.Duration, bool) { return offset, true }}
	if runtime.GOOS != "linux" {
		t.Skip("the kernel's clock is read on Linux only")
	}
	assertProbe(t, env, "clock", nil, model.Warning, "1.5 s ahead, says the Muster server; synchronize the clock of that machine: timedatectl set-ntp true | offset=1.5s;-1:1;-10:10")
	offset = -20 * time.Second
	assertProbe(t, env, "clock", nil, model.Critical, "20.0 s behind")
	assertProbe(t, env, "clock", argMap("server", "127.0.0.1:1"), model.Unknown, "NTP server 127.0.0.1:1")
}

// TestFileAgeAndSizeAreComparedWithThresholds runs the file probe on old and new files and expects the status by the
// thresholds.
func TestFileAgeAndSizeAreComparedWithThresholds(t *testing.T) {
	now := time.Now()
	env := machineWithFiles(t, map[string]string{"/b/old": "12345", "/b/new": "1"})
	env.Now = func() time.Time { return now }
	for name, age := range map[string]time.Duration{"old": 72 * time.Hour, "new": time.Hour} {
		testenv.NoError(t, os.Chtimes(env.pathBelowRoot("/b/"+name), now, now.Add(-age)))
	}
	assertProbe(t, env, "file", argMap("path", "/b/*", "critAge", "26h"), model.OK, "new is 60 minutes old", "age=3600s;;93600")
	assertProbe(t, env, "file", argMap("path", "/b/old", "warnAge", "1d", "critAge", "7d"), model.Warning, "old is 3 days old")
	assertProbe(t, env, "file", argMap("path", "/b/none"), model.Critical, "does not exist")
	assertProbe(t, env, "file", argMap("path", "/b/none", "exists", "false"), model.OK, "does not exist")
	assertProbe(t, env, "file", argMap("path", "/b/old", "exists", "false"), model.Critical, "exists")
	assertProbe(t, env, "file", argMap("path", "/b/new", "minSize", "2B"), model.Critical, "less than 2")
	assertProbe(t, env, "file", argMap("path", "/b/old", "maxSize", "2B"), model.Critical, "more than 2")
	assertProbe(t, env, "file", nil, model.Unknown, "probe file needs the argument path")
}

// TestTCPAnswerIsComparedWithExpectation runs the TCP probe against a test server, and compares the status for each
// answer.
func TestTCPAnswerIsComparedWithExpectation(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 100)
				n, _ := c.Read(buf)
				_, _ = c.Write([]byte("+PONG " + string(buf[:n])))
			}()
		}
	}()
	address := l.Addr().String()
	assertProbe(t, &Env{}, "tcp", argMap("address", address), model.OK, "answers in", "time=")
	assertProbe(t, &Env{}, "tcp", argMap("address", address, "send", `PING\r\n`, "expect", "+PONG PING"), model.OK, "OK")
	assertProbe(t, &Env{}, "tcp", argMap("address", address, "send", "x", "expect", "nothing"), model.Critical, `expected "nothing", got "+PONG x"`)
	assertProbe(t, &Env{}, "tcp", argMap("address", "127.0.0.1:1"), model.Critical, "refused")
}

// TestHTTPAnswerAndCertificateAreComparedWithThresholds runs the HTTP probe against a test server, and compares the
// probe's status. HTTP status, body, redirects and certificate decide about it.
func TestHTTPAnswerAndCertificateAreComparedWithThresholds(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/bad":
			http.Error(w, "broken", http.StatusInternalServerError)
		default:
			_, _ = w.Write([]byte("all is well on " + r.Host))
		}
	})
	plain := httptest.NewServer(handler)
	defer plain.Close()
	secure := httptest.NewTLSServer(handler)
	defer secure.Close()
	leaf := secure.Certificate()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	testenv.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}), 0o644))
	assertProbe(t, &Env{}, "http", argMap("url", plain.URL, "body", "well on shop", "host", "shop"), model.OK, "HTTP 200 OK in")
	assertProbe(t, &Env{}, "http", argMap("url", plain.URL+"/bad"), model.Critical, "status 500", "want 200-399")
	assertProbe(t, &Env{}, "http", argMap("url", plain.URL+"/bad", "status", "500"), model.OK, "OK")
	assertProbe(t, &Env{}, "http", argMap("url", plain.URL+"/moved", "status", "302"), model.OK, "302")
	assertProbe(t, &Env{}, "http", argMap("url", plain.URL+"/moved", "status", "200", "follow", "true"), model.OK, "200")
	assertProbe(t, &Env{}, "http", argMap("url", plain.URL, "body", "terrible"), model.Critical, "body does not match terrible")
	assertProbe(t, &Env{}, "http", argMap("url", plain.URL, "bodyNot", "well"), model.Critical, "body matches well")
	assertProbe(t, &Env{}, "http", argMap("url", plain.URL, "crit", "1ns"), model.Critical, "HTTP 200 OK in")
	assertProbe(t, &Env{}, "http", argMap("url", secure.URL), model.Critical, "certificate")
	assertProbe(t, &Env{}, "http", argMap("url", secure.URL, "ca", ca), model.OK, "certificate of example.com expires in")

	address := secure.Listener.Addr().String()
	assertProbe(t, &Env{}, "cert", argMap("address", address, "ca", ca, "serverName", "example.com"), model.OK, "expires in")
	assertProbe(t, &Env{}, "cert", argMap("address", address), model.Critical, "certificate")
	soon := &Env{Now: func() time.Time { return leaf.NotAfter.Add(-10 * 24 * time.Hour) }}
	assertProbe(t, soon, "cert", argMap("file", ca), model.Warning, "expires in 10 days", "days=10d;21:;7:")
	gone := &Env{Now: func() time.Time { return leaf.NotAfter.Add(72 * time.Hour) }}
	assertProbe(t, gone, "cert", argMap("address", address, "ca", ca, "serverName", "example.com"), model.Critical, "expired 3 days ago")
	assertProbe(t, &Env{}, "cert", nil, model.Unknown, "set either file or address")
}

// TestDiskProbeTurnsCriticalOnAFullDisk fills a small tmpfs and expects CRITICAL from the disk probe.
func TestDiskProbeTurnsCriticalOnAFullDisk(t *testing.T) {
	testenv.SkipUnlessRoot(t)
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=100", "muster-test", dir).CombinedOutput(); err != nil {
		testenv.Skip(t, "a tmpfs cannot be mounted: "+strings.TrimSpace(string(out)), "sudo make check, outside a container")
	}
	defer exec.Command("umount", dir).Run()
	args := argMap("path", dir)
	assertProbe(t, &Env{}, "disk", args, model.OK, "free of 4.0 MiB")
	fill := filepath.Join(dir, "fill")
	testenv.NoError(t, os.WriteFile(fill, make([]byte, 3800<<10), 0o600))
	assertProbe(t, &Env{}, "disk", args, model.Warning, "DISK WARNING")
	testenv.NoError(t, os.WriteFile(fill, make([]byte, 4000<<10), 0o600))
	assertProbe(t, &Env{}, "disk", args, model.Critical, "DISK CRITICAL - "+dir)
	testenv.NoError(t, os.Remove(fill))
	for i := range 96 {
		_ = os.WriteFile(filepath.Join(dir, string(rune('A'+i%26))+string(rune('a'+i/26))), nil, 0o600)
	}
	assertProbe(t, &Env{}, "disk", args, model.Critical, "of the inodes free")
	assertProbe(t, &Env{}, "disk", argMap("path", dir+"/none"), model.Unknown, "no such file")
}

// TestDiskProbeReadsLocalMounts runs the disk probe on a simulated mount table, and expects only local file systems.
// The probe leaves out bind mounts, network and virtual file systems.
func TestDiskProbeReadsLocalMounts(t *testing.T) {
	env := machineWithFiles(t, map[string]string{"/proc/self/mountinfo": `22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
23 22 8:1 /x /mnt/bind rw - ext4 /dev/sda1 rw
24 22 8:2 / /data\040set rw - xfs /dev/sdb rw
34 22 8:3 / /home ro - ext4 /dev/sdc rw
35 22 8:4 / /old rw - ext4 /dev/sdd ro
36 22 8:5 /etc/hosts /etc/hosts ro - ext4 /dev/sde rw
25 22 0:5 / /proc rw - proc proc rw
26 22 0:6 / /net rw - nfs4 srv:/ rw
27 22 7:0 / /snap/x ro,nodev - squashfs /dev/loop0 ro
28 22 0:7 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
`})
	got, err := env.localMounts()
	if err != nil || strings.Join(got, "|") != "/|/data set|/home" {
		t.Errorf("%q %v", got, err)
	}
}

// TestAgentProbeReportsSpoolAndCounters runs the probe "agent", and expects the agent's counters and spool size. A
// full spool (log of unsent results) must give WARNING.
func TestAgentProbeReportsSpoolAndCounters(t *testing.T) {
	self := AgentCounters{Unacknowledged: 3, SpoolBytes: 1 << 20, SpoolMost: 32 << 20, Runs: 70, Late: 2}
	offset := time.Duration(0)
	env := &Env{Memory: &SavedState{}, AgentCounters: func() AgentCounters { return self }, ServerOffset: func() (time.Duration, bool) { return offset, true }}
	assertProbe(t, env, "agent", nil, model.OK, "3 signals in the spool, 1.0 MiB of 32.0 MiB (half of the spool's size)", "runs=70c", "late=2c", "spool=1048576B;")
	self.SpoolBytes = 20 << 20
	assertProbe(t, env, "agent", nil, model.Warning, "20.0 MiB of 32.0 MiB")
	assertProbe(t, env, "agent", argMap("warn", "10%"), model.OK, "20.0 MiB")
	self.SpoolBytes, self.Refused = 0, 4
	assertProbe(t, env, "agent", nil, model.Warning, "the server refused 4 results: see the reason in the server's log")
	assertProbe(t, env, "agent", nil, model.OK, "refused=4c") // reported once
	self.Evicted = 9
	assertProbe(t, env, "agent", nil, model.Warning, "the spool dropped 9 signals: it was full, or they were too old or damaged")
	self.Blocked = os.ErrPermission
	assertProbe(t, env, "agent", nil, model.Critical, "cannot write to its disk: permission denied")
	self.Blocked, offset = nil, -time.Hour
	assertProbe(t, env, "agent", nil, model.Warning, "the clock is 60 minutes behind, compared with the Muster server")
	assertProbe(t, &Env{}, "agent", nil, model.Unknown, "the probe \"agent\" works only in a running agent")
}

// TestDiskProbePredictsDaysUntilFull adds samples of shrinking free space and expects the days until the disk is full.
func TestDiskProbePredictsDaysUntilFull(t *testing.T) {
	var m SavedState
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	left := 1000.0
	var days float64
	var known bool
	for i := range 12 * 36 { // 36 hours of 5 minutes, 240 a day
		days, known = m.daysUntilUsedUp("/", now, left)
		if known != (i >= 12) {
			t.Fatalf("known %v after %d samples", known, i)
		}
		now, left = now.Add(5*time.Minute), left-240.0/288
	}
	if want := left / 240; days < want-0.05 || days > want+0.05 {
		t.Errorf("full in %.2f days, want %.2f", days, want)
	}
	if _, known := m.daysUntilUsedUp("/", now.Add(-time.Hour), left); known {
		t.Error("days until full are known after the clock was set back")
	}
	env := &Env{Now: func() time.Time { return now }, Memory: &m}
	p, _ := Find("disk")
	a, _ := p.parseArguments(argMap("daysCrit", "10"), false)
	r := &report{name: "disk"}
	for i := range 20 {
		now = now.Add(10 * time.Minute)
		r = &report{name: "disk"}
		addFileSystem(env, a, r, "/x", diskUsage{total: 1000, avail: 500 - float64(i), used: 500})
	}
	if s, text := r.statusAndOutput(); s != model.Critical || !strings.Contains(string(text), "days at this rate") {
		t.Errorf("%s", text)
	}
}

// TestLintFindsFaultsOfArguments passes invalid names and arguments of probes to Lint, and expects an error with a
// suggestion.
func TestLintFindsFaultsOfArguments(t *testing.T) {
	for _, c := range []struct {
		name string
		args map[string]string
		want string
	}{
		{"disk", argMap("warn", "20%", "path", "{{ .props.x }}"), ""},
		{"dist", nil, `unknown probe "dist"`},
		{"disk", argMap("wran", "1%"), "did you mean warn?"},
		{"disk", argMap("warn", "lots"), "warn: invalid value \"lots\": expected the amount that must stay free, such as 10"},
		{"tcp", nil, "needs the argument address"},
		{"http", argMap("url", "{{ .props.u }}", "body", "("), "body: "},
		{"cert", argMap("warn", "21"), "no unit"},
	} {
		errs := Lint(c.name, c.args)
		if c.want == "" && len(errs) > 0 || c.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want)) {
			t.Errorf("%s %v: %v, want %q", c.name, c.args, errs, c.want)
		}
	}
	for _, p := range All() { // every default can be read
		for _, arg := range p.Args {
			if _, err := arg.Type.parseValue(arg.Default); arg.Default != "" && err != nil {
				t.Errorf("%s %s: %v", p.Name, arg.Name, err)
			}
		}
	}
	if len(All()) != 14 {
		t.Errorf("%d probes", len(All()))
	}
}

// TestProbesPageIsUpToDate compares docs/reference/probes.md with the table of probes. The command go test -update
// rewrites the page.
func TestProbesPageIsUpToDate(t *testing.T) {
	path := "../../../docs/reference/probes.md"
	want := ReferencePage()
	testenv.Golden(t, path, want)
}

// BenchmarkDisk measures one run of the disk probe.
func BenchmarkDisk(b *testing.B) {
	var m SavedState
	env := &Env{Memory: &m}
	b.ReportAllocs()
	for b.Loop() {
		Run(b.Context(), env, "disk", nil)
	}
}

// FuzzArgs passes random arguments to every probe, and expects Lint and the probe to agree. Lint must accept the
// arguments that the probe accepts, and no others.
func FuzzArgs(f *testing.F) {
	for _, value := range []string{"", "10%", "5GiB", "-1", "1e400", "NaN", "~:10", "@1:2", "30s", "true", "a,b,,c", "(", "(?i)x", "{{ .props.x }}", "101%"} {
		f.Add("warn", value)
		f.Add("match", value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		for _, p := range All() {
			given := map[string]string{}
			for _, arg := range p.Args {
				given[arg.Name] = value
			}
			given[name] = value
			linted, wrong := p.parseArguments(given, true)
			for _, err := range wrong {
				if err.Error() == "" {
					t.Errorf("probe %s returns an error without a text", p.Name)
				}
			}
			run, errs := p.parseArguments(given, false)
			if !strings.Contains(value, "{{") && (len(wrong) != len(errs) || !reflect.DeepEqual(keysOf(linted), keysOf(run))) {
				t.Errorf("%s %v: lint says %v, the run %v", p.Name, given, wrong, errs)
			}
		}
	})
}

// keysOf returns the names of the given arguments as a set.
func keysOf(a argValues) map[string]bool {
	out := map[string]bool{}
	for name := range a {
		out[name] = true
	}
	return out
}

// FuzzCertificates reads random bytes as a PEM file and expects the certificate that expires first, or an error
func FuzzCertificates(f *testing.F) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	server.Close()
	f.Add(certificate)
	f.Add(append([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), certificate...))
	f.Add(certificate[:len(certificate)/2])
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		certs, err := decodeCertificates(data)
		if (err == nil) != (len(certs) > 0) {
			t.Fatalf("%d certificates, %v", len(certs), err)
		}
		if err == nil {
			for first, i := firstToExpire(certs), 0; i < len(certs); i++ {
				if certs[i].NotAfter.Before(first.NotAfter) {
					t.Fatalf("%s is not the first of %d to expire", first.NotAfter, len(certs))
				}
			}
		}
	})
}
