//go:build linux

package policy

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/muster-fleet/muster/internal/testenv"
)

// aptNode returns a test node with the machine's real apt and dpkg. Its packages are in a folder. Its repository has
// the package muster-probe in two versions.
func aptNode(t *testing.T) *testNode {
	for _, program := range []string{"apt-get", "dpkg", "dpkg-deb", "dpkg-query"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Skip(t, "the machine has no "+program, "run the test as root on Debian or Ubuntu")
		}
	}
	if os.Getuid() != 0 {
		testenv.Skip(t, "dpkg needs root", "sudo go test ./internal/agent/policy -run Apt")
	}
	n := newTestNode(t)
	for _, folder := range []string{"tree/var/lib/dpkg/info", "tree/var/lib/dpkg/updates", "tree/var/lib/dpkg/triggers", "repo", "etc", "state/lists/partial", "cache/archives/partial", "log"} {
		testenv.NoError(t, os.MkdirAll(n.path(folder), 0o755))
	}
	n.write("tree/var/lib/dpkg/status", "")
	n.write("apt.conf", strings.ReplaceAll(`
Dir::State "$N/state"; Dir::State::status "$N/tree/var/lib/dpkg/status"; Dir::Cache "$N/cache"; Dir::Log "$N/log";
Dir::Etc "$N/etc"; Dir::Etc::sourcelist "$N/etc/sources.list"; Dir::Etc::sourceparts "/dev/null";
Acquire::Languages "none"; APT::Sandbox::User "root"; APT::Architecture "amd64";
DPkg::Options { "--root=$N/tree"; "--force-not-root"; "--log=$N/log/dpkg.log"; };
`, "$N", n.folder))
	n.write("etc/sources.list", "deb [trusted=yes] file:"+n.path("repo")+" ./\n")
	n.Runner.Environ = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "APT_CONFIG=" + n.path("apt.conf"), "DPKG_ADMINDIR=" + n.path("tree/var/lib/dpkg")}
	command := func(argv ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		c.Env = n.Runner.Environ
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", argv, err, out)
		}
	}
	var index strings.Builder
	for _, version := range []string{"1.0-1", "2.0-1"} {
		control := "Package: muster-probe\nVersion: " + version + "\nArchitecture: all\nMaintainer: Muster <muster@example.com>\nDescription: package of a test\n"
		n.write("build/DEBIAN/control", control)
		n.write("build/usr/share/muster-probe/version", version+"\n")
		file := "muster-probe_" + version + "_all.deb"
		command("dpkg-deb", "--root-owner-group", "-b", n.path("build"), n.path("repo/"+file))
		data := n.read("repo/" + file)
		fmt.Fprintf(&index, "%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, file, len(data), sha256.Sum256([]byte(data)))
	}
	n.write("repo/Packages", index.String())
	command("apt-get", "-q", "update")
	return n
}

// TestAptInstallsAndRemovesPackages installs, replaces and removes a package with the real apt, and compares
// the statuses of the policy. While another program holds the lock of dpkg, it expects an error.
func TestAptInstallsAndRemovesPackages(t *testing.T) {
	n := aptNode(t)
	expect := func(enforce bool, method, status, message string) {
		t.Helper()
		if got, messages := n.run(enforce, `{"component": "a", "package": {"name": "muster-probe", `+method+`}}`); got != status || !strings.Contains(messages, message) {
			t.Fatalf("%s: %s: %q, want %s: %q", method, got, messages, status, message)
		}
	}
	const newest, older, absent = `"state": "present"`, `"version": "1.0-1"`, `"state": "absent"`
	expect(false, newest, "non-compliant", "is not installed")
	expect(true, newest, "repaired", "is not installed")
	expect(true, newest, "success", "")
	expect(false, `"version": "2.0-1"`, "compliant", "")
	expect(false, older, "non-compliant", "has version 2.0-1, not 1.0-1")
	expect(true, older, "repaired", "has version 2.0-1, not 1.0-1")
	if version := n.read("tree/usr/share/muster-probe/version"); version != "1.0-1\n" {
		t.Errorf("the file of the package has %q", version)
	}
	expect(true, absent, "repaired", "1.0-1 is installed")
	expect(false, absent, "compliant", "")
	expect(true, `"version": "3.0"`, "error", "Version '3.0' for 'muster-probe' was not found")
	if testing.Short() {
		return // apt waits half a minute for the lock
	}
	lock, err := os.OpenFile(n.path("tree/var/lib/dpkg/lock-frontend"), os.O_CREATE|os.O_RDWR, 0o600)
	testenv.NoError(t, err)
	defer lock.Close()
	testenv.NoError(t, unix.FcntlFlock(lock.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	expect(true, newest, "error", "Unable to acquire the dpkg frontend lock")
	testenv.NoError(t, lock.Close())
	expect(true, newest, "repaired", "is not installed")
}
