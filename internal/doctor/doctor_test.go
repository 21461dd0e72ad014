package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// requireFinding returns the finding with the given name, and fails the test if the finding is missing.
func requireFinding(t *testing.T, findings []Finding, what string) Finding {
	t.Helper()
	for _, f := range findings {
		if f.Subject == what {
			return f
		}
	}
	t.Fatalf("no finding about %q in %+v", what, findings)
	return Finding{}
}

// TestFaultsOnThisMachineHaveCommands examines the test machine for 100 million agents, and expects findings
// with repair commands.
func TestFaultsOnThisMachineHaveCommands(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("measured on Linux")
	}
	p := Target{Data: filepath.Join(t.TempDir(), "not", "yet"), Budget: 1 << 60, Agents: 100_000_000, URL: "https://127.0.0.1:1"}
	findings := Examine(t.Context(), p)
	for _, what := range []string{"open files", "free disk", "memory", "server"} {
		if f := requireFinding(t, findings, what); f.Rating == Fine || f.Mend == "" {
			t.Errorf("%s: %+v: want a complaint with the command that mends it", what, f)
		}
	}
	if f := requireFinding(t, findings, "fdatasync"); !strings.Contains(f.Measured, "p50") {
		t.Errorf("%+v", f)
	}
}

// TestUnknownHostNameIsReported examines a server with an unknown host name, and expects a hint about the name.
// The advice to start the server would be wrong.
func TestUnknownHostNameIsReported(t *testing.T) {
	list := examineAddresses(t.Context(), Target{URL: "https://nosuch..invalid:8443"})
	f := requireFinding(t, list, "server")
	if f.Rating != Bad || f.Measured != "cannot find the host nosuch..invalid" || !strings.Contains(f.Mend, "getent hosts nosuch..invalid") {
		t.Errorf("%+v", f)
	}
}

// TestHealthyMachineHasNoFaults examines the test machine for ten agents, and expects no fault in the limit of
// open files.
func TestHealthyMachineHasNoFaults(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("measured on Linux")
	}
	findings := Examine(t.Context(), Target{Data: t.TempDir(), Budget: 1 << 20, Agents: 10})
	if f := requireFinding(t, findings, "open files"); f.Rating != Fine {
		t.Errorf("%+v", f)
	}
}

// TestCertificateLifeIsRated expects a warning or fault for certificates that expire soon. Other certificates have
// neither.
func TestCertificateLifeIsRated(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		ca       bool
		left     time.Duration
		verdict  Rating
		measured string
	}{
		{false, 396 * 24 * time.Hour, Fine, "until 2027-04-01, 396 days"}, {false, 3 * 24 * time.Hour, Warn, "until 2026-03-04, 3 days"},
		{false, 5 * time.Hour, Warn, "until 2026-03-01, 5 hours"}, {false, -time.Hour, Bad, "ended 2026-03-01"},
		{true, 7300 * 24 * time.Hour, Fine, "until 2046-02-24, 7300 days"}, {true, 300 * 24 * time.Hour, Warn, "until 2026-12-26, 300 days"},
	} {
		f := rateCertificateLife(&x509.Certificate{IsCA: c.ca, NotAfter: now.Add(c.left)}, "x.crt", now)
		if f.Rating != c.verdict || f.Measured != c.measured || f.Rating != Fine && (f.Mend == "" || f.Needed == "") {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

// healthyMachine returns a machineReader that simulates a machine without faults. A test can change the
// machine's files.
func healthyMachine() (machineReader, map[string]string) {
	files := map[string]string{
		"/proc/sys/net/core/somaxconn": "4096\n", "/proc/sys/net/ipv4/tcp_max_syn_backlog": "4096\n",
		"/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n", "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   8388608 kB\n",
		"/proc/self/cgroup": "0::/system.slice/muster.service\n",
	}
	return machineReader{
		read: func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		files: func() (uint64, uint64) { return 1024, 524288 },
		disk:  func(string) (int64, string, error) { return 100 << 30, "ext4", nil },
		clock: func() (bool, bool) { return true, true },
	}, files
}

// TestEachFaultIsOneFindingWithCommand adds one fault at a time to a simulated healthy machine, and expects
// exactly one finding. The finding has the command that repairs the fault.
func TestEachFaultIsOneFindingWithCommand(t *testing.T) {
	const group = "/sys/fs/cgroup/system.slice"
	for _, c := range []struct {
		what     string
		examine  func(Target, machineReader) []Finding
		spoil    func(m *machineReader, files map[string]string)
		verdict  Rating
		measured string
		mend     string
	}{
		{"open files", examineOpenFiles, func(m *machineReader, _ map[string]string) { m.files = func() (uint64, uint64) { return 1024, 1024 } }, Bad, "1024 at most", "LimitNOFILE="},
		{"net.core.somaxconn", examineConnectionQueues, func(_ *machineReader, f map[string]string) { f["/proc/sys/net/core/somaxconn"] = "128\n" }, Warn, "128", "sysctl -w net.core.somaxconn=1024"},
		{"net.ipv4.tcp_max_syn_backlog", examineConnectionQueues, func(_ *machineReader, f map[string]string) { f["/proc/sys/net/ipv4/tcp_max_syn_backlog"] = "256\n" }, Warn, "256", "sysctl -w net.ipv4.tcp_max_syn_backlog=1024"},
		{"local ports", examinePortRange, func(_ *machineReader, f map[string]string) {
			f["/proc/sys/net/ipv4/ip_local_port_range"] = "40000 41000\n"
		}, Warn, "1001", "ip_local_port_range="},
		{"memory", examineMemory, func(_ *machineReader, f map[string]string) { f["/proc/meminfo"] = "MemAvailable: 1024 kB\n" }, Warn, "1.0 MiB", "more memory"},
		{"memory", examineMemory, func(_ *machineReader, f map[string]string) {
			f[group+"/muster.service/memory.max"], f[group+"/muster.service/memory.current"] = "104857600\n", "52428800\n"
		}, Warn, "50.0 MiB", "more memory"},
		{"memory", examineMemory, func(_ *machineReader, f map[string]string) { // of the group above
			f[group+"/muster.service/memory.max"], f[group+"/muster.service/memory.current"] = "max\n", "1\n"
			f[group+"/memory.max"], f[group+"/memory.current"] = "2097152\n", "1048576\n"
		}, Warn, "1.0 MiB", "more memory"},
		{"memory", examineMemory, func(_ *machineReader, f map[string]string) { // version 1
			f["/proc/self/cgroup"] = "5:cpu,cpuacct:/x\n4:memory:/x\n"
			f["/sys/fs/cgroup/memory/x/memory.limit_in_bytes"], f["/sys/fs/cgroup/memory/x/memory.usage_in_bytes"] = "3145728", "2097152"
		}, Warn, "1.0 MiB", "more memory"},
		{"free disk", examineDisk, func(m *machineReader, _ map[string]string) {
			m.disk = func(string) (int64, string, error) { return 1 << 30, "ext4", nil }
		}, Warn, "1.0 GiB", "--journal-budget 512MiB"},
		{"free disk", examineDisk, func(m *machineReader, _ map[string]string) {
			m.disk = func(string) (int64, string, error) { return 5 << 20, "ext4", nil }
		}, Bad, "5.0 MiB", "Free space on this disk: df -h "},
		{"disk", examineDisk, func(m *machineReader, _ map[string]string) {
			m.disk = func(string) (int64, string, error) { return 0, "", errors.New("input/output error") }
		}, Bad, "input/output error", "can be read"},
		{"file system", examineDisk, func(m *machineReader, _ map[string]string) {
			m.disk = func(string) (int64, string, error) { return 100 << 30, "nfs", nil }
		}, Bad, "nfs", "local disk"},
		{"file system", examineDisk, func(m *machineReader, _ map[string]string) {
			m.disk = func(string) (int64, string, error) { return 100 << 30, "tmpfs", nil }
		}, Warn, "tmpfs", "survives a restart"},
		{"clock", examineClock, func(m *machineReader, _ map[string]string) { m.clock = func() (bool, bool) { return false, true } }, Warn, "not synchronized", "timedatectl"},
	} {
		m, files := healthyMachine()
		p := Target{Data: t.TempDir(), Budget: 4 << 30, Agents: 1000}
		if f := requireFinding(t, c.examine(p, m), healthyFindingName(c.what, "disk", "free disk")); f.Rating != Fine || f.Mend != "" {
			t.Errorf("a healthy machine: %+v", f)
		}
		c.spoil(&m, files)
		if f := requireFinding(t, c.examine(p, m), c.what); f.Rating != c.verdict || !strings.Contains(f.Measured, c.measured) || !strings.Contains(f.Mend, c.mend) {
			t.Errorf("%s: %+v, want %s, %q and %q", c.what, f, c.verdict, c.measured, c.mend)
		}
	}
}

// healthyFindingName returns the name that a finding has while the tested fault is absent.
func healthyFindingName(what, failure, instead string) string {
	if what == failure {
		return instead
	}
	return what
}

// TestSyncTimesAreRatedByPercentile expects few measured disk syncs to be rated by the slowest, and many by the 99th
// percentile.
func TestSyncTimesAreRatedByPercentile(t *testing.T) {
	if got := rateSyncTimes(nil); got != nil {
		t.Errorf("nothing measured: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := examineSyncTimes(ctx, Target{Data: t.TempDir()}); got != nil {
		t.Errorf("given up before the first: %+v", got)
	}
	const ms = time.Millisecond
	times := func(slow time.Duration, many, of int) []time.Duration {
		return append(slices.Repeat([]time.Duration{ms}, of-many), slices.Repeat([]time.Duration{slow}, many)...)
	}
	for _, c := range []struct {
		times    []time.Duration
		verdict  Rating
		measured string
	}{
		{times(ms, 1, 1), Fine, "p50 1 ms, worst 1 ms of 1"}, {times(80*ms, 1, 100), Warn, "p50 1 ms, worst 80 ms of 100"},
		{times(80*ms, 1, 1000), Fine, "p50 1 ms, p99 1 ms of 1000"}, {times(60*ms, 20, 1000), Warn, "p50 1 ms, p99 60 ms of 1000"},
	} {
		if f := rateSyncTimes(c.times)[0]; f.Rating != c.verdict || f.Measured != c.measured {
			t.Errorf("%+v, want %s %s", f, c.verdict, c.measured)
		}
	}
}

// TestHistoryLagIsReported examines servers whose history database is more or less late, and expects a finding for
// each. The history is up to date, behind, or being rebuilt from the journal.
func TestHistoryLagIsReported(t *testing.T) {
	for _, c := range []struct {
		name, metrics string
		verdict       Rating
		measured      string
	}{
		{"keeps up", "muster_dispatch_behind_seconds 2.5\nmuster_dispatch_behind_bytes 4096\nmuster_dispatch_rederiving 0\n", Fine, "keeps up"},
		{"behind", "# HELP muster_dispatch_behind_seconds x\nmuster_dispatch_behind_seconds 92.4\nmuster_dispatch_behind_bytes 3.2e+09\nmuster_dispatch_rederiving 0\n", Warn, "1m32s behind: the journal must keep 3.0 GiB"},
		{"again", "muster_dispatch_behind_seconds 3\nmuster_dispatch_behind_bytes 3.2e+09\nmuster_dispatch_rederiving 1\n", Warn, "rebuilds changes from the journal"},
		{"another server", "up 1\n", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/metrics" {
					t.Errorf("asked for %s", r.URL)
				}
				fmt.Fprint(w, c.metrics)
			}))
			defer admin.Close()
			got := examineHistoryLag(t.Context(), Target{Admin: admin.URL})
			if c.verdict == "" {
				if len(got) != 0 {
					t.Errorf("found %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Rating != c.verdict || !strings.Contains(got[0].Measured, c.measured) || (got[0].Mend == "") != (c.verdict == Fine) {
				t.Errorf("found %+v, want %s: %s", got, c.verdict, c.measured)
			}
		})
	}
}

// TestUnusableArchivesAreReported expects a finding for each archive of an Asset that agents cannot get. The archives
// come from the server's page about Assets.
func TestUnusableArchivesAreReported(t *testing.T) {
	wrong := func(n int) string {
		one := `{"asset":"default/tools","for":"linux amd64","trouble":"nobody has uploaded it","mend":"muster asset add tools FILE -n default"}`
		return `{"archives":30,"wrong":[` + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + `]}`
	}
	for _, c := range []struct {
		name, says string
		findings   int
		last       Finding
	}{
		{"none", `{"archives":0}`, 0, Finding{}},
		{"whole", `{"archives":3}`, 1, Finding{Rating: Fine, Subject: "assets", Measured: "3 archives, all complete"}},
		{"many bytes", `{"archives":3,"unread":2}`, 1, Finding{Rating: Fine, Subject: "assets", Measured: "3 archives, all present; 2 not verified within the time limit"}},
		{"one", wrong(1), 1, Finding{Rating: Warn, Subject: "asset default/tools for linux amd64", Measured: "nobody has uploaded it", Mend: "muster asset add tools FILE -n default"}},
		{"many", wrong(25), 21, Finding{Rating: Warn, Subject: "assets", Measured: "5 more unusable archives", Mend: "muster asset list"}},
		{"another server", "404 page not found", 0, Finding{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != AssetsPath {
					t.Errorf("asked for %s", r.URL)
				}
				fmt.Fprint(w, c.says)
			}))
			defer admin.Close()
			got := examineAssets(t.Context(), Target{Admin: admin.URL})
			if len(got) != c.findings {
				t.Fatalf("found %+v", got)
			}
			if c.findings == 0 {
				return
			}
			last := got[len(got)-1]
			if last.Needed = ""; last != c.last {
				t.Errorf("found %+v, want %+v", last, c.last)
			}
		})
	}
}

// TestFullDiskNamesTheLargestFiles expects the text about a full disk to list the largest files first. A database
// counts together with its log file.
func TestFullDiskNamesTheLargestFiles(t *testing.T) {
	data := t.TempDir()
	for name, size := range map[string]int64{"history.db": 1 << 20, "history.db-wal": 4 << 20, "intent.db": 2 << 20, "journal/1.log": 3 << 20, "pki/ca.pem": 1 << 10} {
		path := filepath.Join(data, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
	}
	text := FullDiskText(data, filepath.Join(data, "journal"))
	want := fmt.Sprintf("Largest here: %[1]s/history.db 5.0 MiB, %[1]s/journal 3.0 MiB, %[1]s/intent.db 2.0 MiB. Free space on this disk: df -h %[1]s/journal; du -xah ", data)
	if !strings.HasPrefix(text, want) || !strings.HasSuffix(text, " | sort -h | tail") {
		t.Errorf("got %q, want %q", text, want)
	}
}

// TestSeriesFolder expects findings about a missing folder of the series store and about a damaged block. Each finding
// has the path and the command.
func TestSeriesFolder(t *testing.T) {
	p := Target{Data: t.TempDir()}
	if got := examineSeries(p); got != nil {
		t.Errorf("no server has run here: %v", got)
	}
	testenv.NoError(t, os.Mkdir(p.journalFolder(), 0o700))
	folder := filepath.Join(p.Data, "series")
	if got := examineSeries(p); len(got) != 1 || got[0].Rating != Warn || !strings.Contains(got[0].Measured, folder) || !strings.Contains(got[0].Mend, "anew") {
		t.Errorf("missing: %v", got)
	}
	for _, of := range []string{folder, filepath.Join(folder, "head"), filepath.Join(folder, "trends")} {
		block := filepath.Join(of, "01ARZ3NDEKTSV4RRFFQ69G5FAV.damaged")
		testenv.NoError(t, os.MkdirAll(block, 0o700))
		if got := examineSeries(p); len(got) != 2 || got[0].Rating != Warn || !strings.Contains(got[0].Measured, block) || !strings.Contains(got[0].Mend, "rm -r "+block) || got[1].Rating != Fine {
			t.Errorf("damaged: %v", got)
		}
		testenv.NoError(t, os.Remove(block))
	}
	if got := examineSeries(p); len(got) != 1 || got[0].Rating != Fine {
		t.Errorf("whole: %v", got)
	}
}
