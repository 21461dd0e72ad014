package inventory

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/testenv"
)

// newTestMachine returns a machine with an empty root folder, and a function that writes its files. A content "->
// TARGET" makes a link.
func newTestMachine(t *testing.T) (m *Machine, write func(name, content string)) {
	t.Helper()
	root, scripts := t.TempDir(), t.TempDir()
	write = func(name, content string) {
		t.Helper()
		file, mode := filepath.Join(root, name), os.FileMode(0o644)
		if script, ok := strings.CutPrefix(name, "scripts/"); ok {
			file, mode = filepath.Join(scripts, script), 0o755
		}
		if strings.HasPrefix(content, "#!") {
			mode = 0o755
		}
		testenv.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			testenv.NoError(t, os.Symlink(target, file))
			return
		}
		testenv.NoError(t, os.WriteFile(file, []byte(content), mode))
	}
	return &Machine{
		Root: os.DirFS(root), Addresses: func() map[string][]netip.Prefix {
			return map[string][]netip.Prefix{"eth0": {netip.MustParsePrefix("192.0.2.7/24"), netip.MustParsePrefix("fe80::1/64")}}
		},
		SizeOf: func(string) uint64 { return 1000 }, Runner: &run.Runner{Dir: root}, ScriptsDir: scripts, Warn: func(message string) { t.Log(message) },
	}, write
}

// formatEntries formats the entries of an inventory, one per line.
func formatEntries(list []inventory.Entry) string {
	var b strings.Builder
	for _, e := range list {
		b.WriteString(inventory.SchemaOf(e.Section()).Name + " " + strings.Join(e.Wire().Fields, "|") + "\n")
	}
	return b.String()
}

// TestCollectReadsFilesOfTheMachine collects the inventory of a simulated machine from its files, and compares all entries.
func TestCollectReadsFilesOfTheMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the files are of Linux")
	}
	m, write := newTestMachine(t)
	m.Facts = map[string]string{"hostname": "web01", "cpus": "2", "addresses": "192.0.2.7"}
	m.Environ = []string{"LANG=C", "DB_PASSWORD=hunter2", "PROXY=http://me:secret@proxy:3128", "PWD=/"}
	write("proc/cpuinfo", "processor: 0\nmodel name\t: Fast CPU\n")
	write("proc/meminfo", "SwapTotal: 2 kB\n")
	write("sys/class/net/eth0/mtu", "1500\n")
	write("sys/class/net/eth0/address", "02:00:00:00:00:01\n")
	write("sys/class/net/eth0/operstate", "up\n")
	write("sys/class/net/veth1/mtu", "1500\n")
	write("sys/block/sda/size", "8\n")
	write("proc/self/mounts", "/dev/sda1 /my\\040data ext4 rw 0 0\nproc /proc proc rw 0 0\nnas:/x /x nfs4 rw 0 0\n")
	write("var/lib/dpkg/status", "Package: tar\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.34+dfsg-1.2\nDescription: x\n y: z\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n\nPackage: old\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n")
	write("var/lib/dpkg/updates/0000", "Package: old\nStatus: install ok half-configured\nArchitecture: amd64\nVersion: 2\n")
	write("var/lib/dpkg/updates/0001", "Package: old\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2\n")
	write("lib/apk/db/installed", "C:Q1x\nP:musl\nV:1.2.4-r2\nA:x86_64\nF:lib\nR:x\n\n")
	write("etc/passwd", "root:x:0:0:The Root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\n")
	write("etc/group", "wheel:x:10:ann,bob\n")
	write("run/systemd/system/x", "")
	write("usr/lib/systemd/system/cron.service", "[Unit]\n[Install]\n")
	write("usr/lib/systemd/system/idle.service", "[Unit]\n\n[Install]\nWantedBy=x\n")
	write("usr/lib/systemd/system/getty@.service", "[Install]\n")
	write("usr/lib/systemd/system/bad.service", "[Install]\n")
	write("etc/systemd/system/bad.service", "-> /dev/null")
	write("etc/systemd/system/alias.service", "-> /usr/lib/systemd/system/cron.service")
	write("etc/systemd/system/multi-user.target.wants/cron.service", "-> /usr/lib/systemd/system/cron.service")
	write("etc/systemd/system/getty.target.wants/getty@tty1.service", "-> /usr/lib/systemd/system/getty@.service")
	write("sys/fs/cgroup/system.slice/cron.service/tasks", "")
	write("etc/init.d/old", "#!/bin/sh\n")
	write("etc/rc3.d/S20old", "-> ../init.d/old")
	stat := func(name, parent, started string) string {
		return "7 (" + name + ") S " + parent + strings.Repeat(" 0", 17) + " " + started + " 0\n"
	}
	write("proc/uptime", "1000.00 1.0\n")
	write("proc/7/stat", stat("a-long-daemon-n", "1", "100"))
	write("proc/7/cmdline", "/usr/bin/a-long-daemon-name\x00-x\x00")
	write("proc/7/status", "Name: x\nUid:\t1000\t1000\n")
	write("proc/7/fd/3", "-> socket:[4711]")
	write("proc/8/stat", stat("kworker/0:1", "2", "100"))
	write("proc/9/stat", stat("check_disk", "1", "99000"))
	write("proc/net/tcp", "sl local\n 0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 4711 1\n 1: 0100007F:0016 00000000:0000 01 0:0 0:0 0 0 0 4712 1\n")
	write("proc/net/tcp6", "sl local\n 0: 00000000000000000000000001000000:0019 0:0 0A 0:0 0:0 0 0 0 99 1\n")
	write("proc/net/udp", "sl local\n 0: 00000000:0035 0:0 07 0:0 0:0 0 0 0 98 1\n 1: 00000000:FFF0 0:0 07 0:0 0:0 0 0 0 97 1\n")
	write("scripts/site", "#!/bin/sh\necho '{\"rack\": \"b7\", \"owner\": {\"team\": \"web\"}}'\n")
	write("scripts/broken", "#!/bin/sh\necho oops; exit 1\n")
	const want = `system hostname|web01
system init|systemd
hardware cpuModel|Fast CPU
hardware cpus|2
hardware swap|2048
network eth0|02:00:00:00:00:01|1500|192.0.2.7/24|up
storage /dev/sda1|mount|1000|/my data|ext4
storage nas:/x|mount||/x|nfs4
storage sda|disk|4096
packages musl|1.2.4-r2|x86_64|apk
packages old|2|amd64|deb
packages tar|1.34+dfsg-1.2|amd64|deb
services bad|masked|stopped|systemd
services cron|enabled|running|systemd
services getty@tty1|enabled|stopped|systemd
services idle|disabled|stopped|systemd
services old|enabled||sysv
users ann|1000|1000|/home/ann|/bin/sh
users root|0|0|/root|/bin/bash
groups wheel|10|ann,bob
ports a-long-daemon-name|tcp|127.0.0.1|8080
ports unknown|tcp|::1|25
ports unknown|udp|0.0.0.0|53
processes a-long-daemon-name|ann
environment DB_PASSWORD|(hidden)
environment LANG|C
environment PROXY|(hidden)
custom owner|{"team": "web"}
custom rack|b7
`
	if got := formatEntries(m.Collect(context.Background())); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	before := m.ChangeStamp()
	write("etc/group", "wheel:x:10:ann\n")
	if m.ChangeStamp() == before {
		t.Error("the stamp did not change with /etc/group")
	}
}

// TestPackagesOfThisMachine compares the packages that the agent reads from dpkg's files with the list of dpkg-query.
func TestPackagesOfThisMachine(t *testing.T) {
	testenv.Program(t, "dpkg-query", "dpkg")
	out, err := exec.Command("dpkg-query", "-W", "-f", `${db:Status-Status}|packages ${Package}|${Version}|${Architecture}|deb\n`).Output()
	testenv.NoError(t, err)
	var want []string
	for line := range strings.Lines(string(out)) {
		if line, ok := strings.CutPrefix(line, "installed|"); ok {
			want = append(want, line)
		}
	}
	m := Local(nil, &run.Runner{}, t.TempDir(), func(message string) { t.Error(message) })
	got := slices.Collect(strings.Lines(formatEntries(inventory.Normalize(m.packages(context.Background())))))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d packages, dpkg-query lists %d", len(got), len(want))
	}
}

// TestRPMPackages runs a fake rpm program and compares the packages that the agent reads from its output.
func TestRPMPackages(t *testing.T) {
	m, write := newTestMachine(t)
	write("var/lib/rpm/rpmdb.sqlite", "")
	write("bin/rpm", "#!/bin/sh\n[ $1 = -qa ] && printf 'bash\\t5.1.8-6.el9\\tx86_64\\nopenssl-libs\\t1:3.0.7-16.el9_2\\tx86_64\\ngpg-pubkey\\tfd431d51-4ae0493b\\t(none)\\n'\n")
	m.Runner.Environ = []string{"PATH=" + m.Runner.Dir + "/bin:/bin:/usr/bin"}
	if got := formatEntries(m.packages(context.Background())); got != "packages bash|5.1.8-6.el9|x86_64|rpm\npackages openssl-libs|1:3.0.7-16.el9_2|x86_64|rpm\n" {
		t.Errorf("got %s", got)
	}
}

// FuzzDecodeProperties decodes random bytes as a script's output, and expects an error or valid entries. A valid entry
// is one that a server accepts.
func FuzzDecodeProperties(f *testing.F) {
	f.Add([]byte(`{"rack": "b7", "n": 1.50, "": "x", "o": {"a": null}}`))
	f.Fuzz(func(t *testing.T, output []byte) {
		list, err := decodeProperties(output)
		if err != nil {
			return
		}
		for _, e := range inventory.Normalize(list) {
			if again, ok := inventory.ParseEntry(e.Wire()); !ok || again != e {
				t.Fatalf("entry %q is read as %q", e, again)
			}
		}
	})
}
