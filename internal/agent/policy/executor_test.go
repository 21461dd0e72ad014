//go:build unix

package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/model"
	rules "github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// testNode is a temporary folder that stands for a machine, with an executor of policy directives.
type testNode struct {
	t testing.TB
	Executor
	folder string
}

// newTestNode returns a test node in an empty folder, with fake programs for dpkg, apt and systemd. The fakes keep
// their state in files.
func newTestNode(t testing.TB) *testNode {
	n := &testNode{t: t, folder: t.TempDir()}
	bin := filepath.Join(n.folder, "bin")
	n.write("bin/dpkg-query", "#!/bin/sh\nshift 4\ncode=0\nfor name; do "+
		"cat "+n.folder+"/dpkg/$name 2>/dev/null || { echo dpkg-query: no packages found matching $name >&2; code=1; }; done\nexit $code\n")
	n.write("bin/apt-get", "#!/bin/sh\n[ -e "+n.folder+"/locked ] && { echo E: Could not get lock; exit 100; }\nfor last; do :; done\nname=${last%=*}\nversion=${last#*=}; [ $version = $name ] && version=1.0\n"+
		"case \"$*\" in *remove*) rm "+n.folder+"/dpkg/$name;; *) printf '%s\\tamd64\\t%s\\tinstalled\\n' $name $version >"+n.folder+"/dpkg/$name;; esac\n")
	n.write("bin/systemctl", "#!/bin/sh\ncase $1 in restart) echo active >"+n.folder+"/systemd/is-active.$3;; daemon-reload) :;; is-*) cat "+n.folder+"/systemd/$1.$3 || echo unknown;; start) echo active >"+n.folder+"/systemd/is-active.$3;;"+
		" stop) echo inactive >"+n.folder+"/systemd/is-active.$3;; enable|disable) echo ${1}d >"+n.folder+"/systemd/is-enabled.$3;; esac\n")
	for _, folder := range []string{"dpkg", "systemd", "sysctl.d", "cron.d", "sys", "modules.d", "units"} {
		testenv.NoError(t, os.MkdirAll(n.path(folder), 0o755))
	}
	n.Runner = &run.Runner{Environ: []string{"PATH=" + bin + ":/usr/bin:/bin"}}
	n.Facts = func() map[string]string { return map[string]string{"os": "linux"} }
	n.ProcSys, n.SysctlFolder, n.LibModules = n.path("proc"), n.path("sysctl.d"), n.path("lib")
	n.SystemdFolder = n.path("units")
	n.CronFolder, n.SysModule, n.ModulesFolder = n.path("cron.d"), n.path("sys"), n.path("modules.d")
	n.write("bin/modprobe", "#!/bin/sh\nfor name; do :; done\nname=$(echo $name | tr - _)\ncase $1 in -r) rmdir "+n.folder+"/sys/$name;; *) mkdir "+n.folder+"/sys/$name;; esac\n")
	return n
}

// path returns the path of a file inside the test node's folder.
func (n *testNode) path(name string) string { return filepath.Join(n.folder, name) }

// write writes a file into the test node's folder.
func (n *testNode) write(name, content string) {
	n.t.Helper()
	testenv.NoError(n.t, os.MkdirAll(filepath.Dir(n.path(name)), 0o755))
	testenv.NoError(n.t, os.WriteFile(n.path(name), []byte(content), 0o755))
}

// read returns the content of a file in the test node's folder.
func (n *testNode) read(name string) string {
	n.t.Helper()
	data, err := os.ReadFile(n.path(name))
	testenv.NoError(n.t, err)
	return string(data)
}

// files lists the test node's files with modes, sizes and times. Any write of a file changes the list.
func (n *testNode) files() string {
	n.t.Helper()
	var b strings.Builder
	testenv.NoError(n.t, filepath.WalkDir(n.folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err == nil {
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return err
	}))
	return b.String()
}

// directive returns a directive (policy rule) that contains the given policy methods, for tests. In their
// arguments, $N stands for the test node's folder.
func (n *testNode) directive(enforce bool, methods string) *model.DirectiveDefinition {
	n.t.Helper()
	var technique model.TechniqueSpec
	testenv.NoError(n.t, json.Unmarshal([]byte(`{"parameters":[{"name":"word","default":"hello"}],"methods":[`+strings.ReplaceAll(methods, "$N", n.folder)+`]}`), &technique))
	compiled, err := rules.Compile(&technique, nil)
	testenv.NoError(n.t, err)
	c := &model.DirectiveDefinition{Components: compiled.Components, Parameters: compiled.Parameters, Mode: model.ModeAudit, Timeout: time.Minute}
	if enforce {
		c.Mode = model.ModeEnforce
	}
	return c
}

// run runs policy methods on the test node, and returns their compliance statuses as text, with all messages.
func (n *testNode) run(enforce bool, methods string) (statuses, messages string) {
	n.t.Helper()
	n.Enforce = true
	c := n.directive(enforce, methods)
	r, ok := n.Run(n.t.Context(), c, func(name string) ([]byte, string, bool) { return []byte(`"world"`), "", name == "place" }, notWaived)
	if err := rules.Codes(r.Codes).Check(len(c.Components)); !ok || err != nil {
		n.t.Fatalf("report %+v, %v", r, err)
	}
	return statusText(&r), messageText(&r)
}

// notWaived returns false, because the tests have no Waiver (permitted exception).
func notWaived(string) bool { return false }

// statusText returns the statuses of a report, separated by commas.
func statusText(r *wire.Report) string {
	list := make([]string, r.Components)
	for i := range list {
		list[i] = rules.Codes(r.Codes).At(i).String()
	}
	return strings.Join(list, ", ")
}

// messageText returns the messages of a report, one per line.
func messageText(r *wire.Report) string {
	var b strings.Builder
	for _, e := range r.Exceptions {
		fmt.Fprintf(&b, "%d %s\n", e.Position, e.Message)
	}
	return b.String()
}

// sysvPrograms returns a function that gives a test node an init script in place of systemd. The argument names the
// program for start links.
func sysvPrograms(links string) func(n *testNode) {
	return func(n *testNode) {
		n.write("bin/service", "#!/bin/sh\ncase $2 in start) : >"+n.folder+"/running;; stop) /bin/rm "+n.folder+"/running;; status) [ -e "+n.folder+"/running ] || exit 3;; esac\n")
		n.write("bin/"+links, "#!/bin/sh\ncase \"$*\" in 'ssh defaults'|'--add ssh') : >"+n.folder+"/rc3.d/K20ssh;; 'ssh enable'|'ssh on') : >"+n.folder+"/rc3.d/S20ssh;;"+
			" 'ssh disable'|'ssh off') /bin/rm "+n.folder+"/rc3.d/S20ssh;; *) exit 9;; esac\n")
		testenv.NoError(n.t, os.MkdirAll(n.path("rc3.d"), 0o755))
		testenv.NoError(n.t, os.Remove(n.path("bin/systemctl")))
		n.Runner.Environ, n.RunLevelFolder = []string{"PATH=" + n.path("bin")}, n.folder // without the systemctl of this machine
	}
}

// TestMethodsAuditAndRepair runs each method in audit mode and then twice in enforce mode, and compares the
// statuses. The audit reports and changes nothing, enforce repairs, and the next run finds nothing to do.
func TestMethodsAuditAndRepair(t *testing.T) {
	for name, c := range map[string]struct {
		method, audit string // the message of the audit has this
		before, after func(n *testNode)
	}{
		"fileContent": {
			`"fileContent": {"path": "$N/motd", "content": "{{ .params.word }} {{ .props.place }}\n"}`, `line 1 is "bye", not "hello world"`,
			func(n *testNode) { n.write("motd", "bye\n") },
			func(n *testNode) {
				if info, err := os.Stat(n.path("motd")); n.read("motd") != "hello world\n" || err != nil || info.Mode().Perm() != 0o755 {
					n.t.Errorf("content %q, %v, %v: the mode has to stay", n.read("motd"), info, err)
				}
			},
		},
		"fileContent of a new file": {`"fileContent": {"path": "$N/new", "content": "x"}`, "does not exist", nil, func(n *testNode) { n.read("new") }},
		"fileContent behind a link": {
			`"fileContent": {"path": "$N/link", "content": "x"}`, "line 1",
			func(n *testNode) { n.write("real", "y"); testenv.NoError(n.t, os.Symlink("real", n.path("link"))) },
			func(n *testNode) {
				if to, err := os.Readlink(n.path("link")); err != nil || to != "real" || n.read("real") != "x" {
					n.t.Errorf("the link is %q, %v", to, err)
				}
			},
		},
		"filePresent": {`"filePresent": {"path": "$N/f"}`, "does not exist", nil, func(n *testNode) { n.read("f") }},
		"fileAbsent": {
			`"fileAbsent": {"path": "$N/f"}`, "exists", func(n *testNode) { n.write("f", "") },
			func(n *testNode) {
				if _, err := os.Lstat(n.path("f")); !os.IsNotExist(err) {
					n.t.Error("the file exists")
				}
			},
		},
		"directory": {`"directory": {"path": "$N/a/b"}`, "does not exist", nil, func(n *testNode) { testenv.NoError(n.t, os.Remove(n.path("a/b"))) }},
		"fileLines": {
			`"fileLines": {"path": "$N/f", "lines": ["a", "c"]}`, `lacks "c"`, func(n *testNode) { n.write("f", "a\nb") },
			func(n *testNode) {
				if n.read("f") != "a\nb\nc\n" {
					n.t.Errorf("%q", n.read("f"))
				}
			},
		},
		"fileLines absent": {
			`"fileLines": {"path": "$N/f", "lines": ["a"], "absent": true}`, `has "a"`, func(n *testNode) { n.write("f", "a\nb\na\n") },
			func(n *testNode) {
				if n.read("f") != "b\n" {
					n.t.Errorf("%q", n.read("f"))
				}
			},
		},
		"fileKeyValue": {
			`"fileKeyValue": {"path": "$N/f", "key": "Root", "value": "no", "separator": " "}`, `Root is "yes", not "no"`,
			func(n *testNode) { n.write("f", "# Root no\nRootless yes\n  Root\tyes\nPort 22\n") },
			func(n *testNode) {
				if n.read("f") != "# Root no\nRootless yes\nRoot no\nPort 22\n" {
					n.t.Errorf("%q", n.read("f"))
				}
			},
		},
		"fileKeyValue of no line": {
			`"fileKeyValue": {"path": "$N/f", "key": "a", "value": "1"}`, "has no line with a", func(n *testNode) { n.write("f", "ab = 1\n") },
			func(n *testNode) {
				if n.read("f") != "ab = 1\na=1\n" {
					n.t.Errorf("%q", n.read("f"))
				}
			},
		},
		"fileBlock": {
			`"fileBlock": {"path": "$N/f", "name": "proxy", "content": "a\n{{ .params.word }}\n"}`, "block proxy has other lines",
			func(n *testNode) { n.write("f", "first\n# BEGIN proxy\nold\n# END proxy\nlast\n") },
			func(n *testNode) {
				if n.read("f") != "first\n# BEGIN proxy\na\nhello\n# END proxy\nlast\n" {
					n.t.Errorf("%q", n.read("f"))
				}
			},
		},
		"fileBlock of a new file": {
			`"fileBlock": {"path": "$N/f", "name": "x", "content": "a", "comment": "//"}`, "has no block x", nil,
			func(n *testNode) {
				if n.read("f") != "// BEGIN x\na\n// END x\n" {
					n.t.Errorf("%q", n.read("f"))
				}
			},
		},
		"fileBlock absent": {
			`"fileBlock": {"path": "$N/f", "name": "x", "absent": true}`, "has the block x", func(n *testNode) { n.write("f", "a\n# BEGIN x\nb\n# END x\nc\n") },
			func(n *testNode) {
				if n.read("f") != "a\nc\n" {
					n.t.Errorf("%q", n.read("f"))
				}
			},
		},
		"fileIni": {
			`"fileIni": {"path": "$N/f", "section": "b", "key": "k", "value": "{{ .params.word }}"}`, `k is "1", not "hello"`,
			func(n *testNode) { n.write("f", "k=0\n[a]\nk=0\n[b]\n; k = 2\n k=1\n[c]\nk=0\n") },
			func(n *testNode) {
				if n.read("f") != "k=0\n[a]\nk=0\n[b]\n; k = 2\nk = hello\n[c]\nk=0\n" {
					n.t.Errorf("%q", n.read("f"))
				}
			},
		},
		"fileIni of no key": {
			`"fileIni": {"path": "$N/f", "section": "a", "key": "k", "value": "1"}`, "has no key k in section [a]", func(n *testNode) { n.write("f", "[a]\nb = 2\n\n[c]\n") },
			func(n *testNode) {
				if n.read("f") != "[a]\nb = 2\nk = 1\n\n[c]\n" {
					n.t.Errorf("%q", n.read("f"))
				}
			},
		},
		"fileIni of no section": {
			`"fileIni": {"path": "$N/f", "section": "a", "key": "k", "value": "1"}`, "has no section [a]", func(n *testNode) { n.write("f", "k = 0\n") },
			func(n *testNode) {
				if n.read("f") != "k = 0\n[a]\nk = 1\n" {
					n.t.Errorf("%q", n.read("f"))
				}
			},
		},
		"symlink": {
			`"symlink": {"path": "$N/l", "target": "$N/f"}`, "leads to elsewhere, not ", func(n *testNode) { testenv.NoError(n.t, os.Symlink("elsewhere", n.path("l"))) },
			func(n *testNode) {
				if to, err := os.Readlink(n.path("l")); err != nil || to != n.path("f") {
					n.t.Errorf("the link is %q, %v", to, err)
				}
			},
		},
		"kernelModule": {
			`"kernelModule": {"name": "br-netfilter"}`, "kernel module br-netfilter is not loaded", nil,
			func(n *testNode) {
				if n.read("modules.d/60-muster.conf") != "br-netfilter\n" {
					n.t.Errorf("%q", n.read("modules.d/60-muster.conf"))
				}
			},
		},
		"kernelModule after a start": {`"kernelModule": {"name": "loop"}`, "60-muster.conf does not exist", func(n *testNode) { n.write("sys/loop/refcnt", "0") }, nil},
		"kernelModule in the kernel": {
			`"kernelModule": {"name": "nf-tables"}`, "60-muster.conf does not exist", func(n *testNode) {
				n.write("proc/kernel/osrelease", "6.1.0\n")
				n.write("lib/6.1.0/modules.builtin", "kernel/fs/ext4/ext4.ko\nkernel/net/nf_tables.ko\n")
			}, nil,
		},
		"kernelModule absent": {
			`"kernelModule": {"name": "usb", "state": "absent"}`, "kernel module usb is loaded", func(n *testNode) {
				testenv.NoError(n.t, os.Mkdir(n.path("sys/usb"), 0o755))
				n.write("modules.d/60-muster.conf", "usb\nloop\n")
			},
			func(n *testNode) {
				if n.read("modules.d/60-muster.conf") != "loop\n" {
					n.t.Errorf("%q", n.read("modules.d/60-muster.conf"))
				}
			},
		},
		"cron": {
			`"cron": {"name": "backup", "schedule": "15 3 * * *", "command": "backup {{ .params.word }}"}`, "backup does not exist", nil,
			func(n *testNode) {
				if n.read("cron.d/backup") != "15 3 * * * root backup 'hello'\n" {
					n.t.Errorf("%q", n.read("cron.d/backup"))
				}
			},
		},
		"cron absent": {`"cron": {"name": "backup", "state": "absent"}`, "backup exists", func(n *testNode) { n.write("cron.d/backup", "") }, nil},
		"filePermissions": {
			`"filePermissions": {"path": "$N/f", "mode": "0640", "owner": "` + fmt.Sprint(os.Getuid()) + `"}`, "mode 0755, not 0640", func(n *testNode) { n.write("f", "") },
			func(n *testNode) {
				if info, err := os.Stat(n.path("f")); err != nil || info.Mode().Perm() != 0o640 {
					n.t.Errorf("%v, %v", info, err)
				}
			},
		},
		"command":         {`"command": {"check": "test -e $N/{{ .params.word }}", "apply": ["touch", "$N/hello"]}`, "exit code 1", nil, func(n *testNode) { n.read("hello") }},
		"package present": {`"package": {"name": "nginx", "version": "1.2-3"}`, "nginx has version 1.0, not 1.2-3", func(n *testNode) { n.write("dpkg/nginx", "nginx\tamd64\t1.0\tinstalled\n") }, nil},
		"package missing": {`"package": {"name": "nginx"}`, "nginx is not installed", nil, nil},
		"package absent":  {`"package": {"name": "nginx", "state": "absent"}`, "nginx 1.0 is installed", func(n *testNode) { n.write("dpkg/nginx", "nginx\tamd64\t1.0\tinstalled\n") }, nil},
		"service": {
			`"service": {"name": "ssh", "state": "running", "boot": "enabled"}`, "ssh is failed, not running; service ssh is disabled, not enabled",
			func(n *testNode) {
				n.write("systemd/is-active.ssh", "failed")
				n.write("systemd/is-enabled.ssh", "disabled")
			}, nil,
		},
		"service stopped":     {`"service": {"name": "ssh", "state": "stopped"}`, "ssh is active, not stopped", func(n *testNode) { n.write("systemd/is-active.ssh", "active") }, nil},
		"service of System V": {`"service": {"name": "ssh", "state": "running", "boot": "enabled"}`, "ssh is stopped, not running; service ssh is disabled, not enabled", sysvPrograms("update-rc.d"), nil},
		"service of System V stopped": {
			`"service": {"name": "ssh", "state": "stopped", "boot": "disabled"}`, "ssh is running, not stopped; service ssh is enabled, not disabled",
			func(n *testNode) { sysvPrograms("chkconfig")(n); n.write("running", ""); n.write("rc3.d/S20ssh", "") }, nil,
		},
		"timer": {
			`"timer": {"name": "backup", "calendar": "daily", "command": "echo \"50 % of $HOME\""}`, "backup.service does not exist", nil,
			func(n *testNode) {
				if n.read("units/backup.service") != "# This file is managed by Muster.\n[Service]\nType=oneshot\nUser=root\nExecStart=/bin/sh -c \"echo \\\"50 %% of $$HOME\\\"\"\n" ||
					!strings.Contains(n.read("units/backup.timer"), "OnCalendar=daily\n") || n.read("systemd/is-enabled.backup.timer") != "enabled\n" {
					n.t.Errorf("%s\n%s", n.read("units/backup.service"), n.read("units/backup.timer"))
				}
			},
		},
		"timer that stands still": {
			`"timer": {"name": "backup", "calendar": "daily", "command": "true"}`, "backup.timer is inactive, not running",
			func(n *testNode) {
				n.run(true, `{"component": "a", "timer": {"name": "backup", "calendar": "daily", "command": "true"}}`)
				n.write("systemd/is-active.backup.timer", "inactive")
			}, nil,
		},
		"timer absent": {
			`"timer": {"name": "backup", "state": "absent"}`, "backup.timer exists", func(n *testNode) { n.write("units/backup.timer", "") }, nil,
		},
		"sysctl": {
			`"sysctl": {"key": "net.ipv4.ip_forward", "value": "1"}`, "is 0, not 1", func(n *testNode) { n.write("proc/net/ipv4/ip_forward", "0\n") },
			func(n *testNode) {
				if n.read("sysctl.d/60-muster.conf") != "net.ipv4.ip_forward = 1\n" {
					n.t.Errorf("%q", n.read("sysctl.d/60-muster.conf"))
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newTestNode(t)
			if c.before != nil {
				c.before(n)
			}
			methods := `{"component": "a", ` + c.method + `}`
			before := n.files()
			for range 2 { // an audit changes nothing
				if status, messages := n.run(false, methods); status != "non-compliant" || !strings.Contains(messages, c.audit) {
					t.Fatalf("audit: %s: %s", status, messages)
				}
			}
			if after := n.files(); after != before {
				t.Fatalf("the audit changed files:\n%s\nwere\n%s", after, before)
			}
			if status, messages := n.run(true, methods); status != "repaired" || !strings.Contains(messages, c.audit) {
				t.Fatalf("enforce: %s: %s", status, messages)
			}
			before = n.files()
			if status, messages := n.run(true, methods); status != "success" || messages != "" {
				t.Errorf("enforce again: %s: %s", status, messages)
			}
			if status, messages := n.run(false, methods); status != "compliant" || messages != "" {
				t.Errorf("audit again: %s: %s", status, messages)
			}
			if after := n.files(); after != before {
				t.Errorf("the second run changed files:\n%s\nwere\n%s", after, before)
			}
			if c.after != nil {
				c.after(n)
			}
			if left, _ := filepath.Glob(n.path(".muster-*")); len(left) > 0 {
				t.Errorf("temporary files are left: %v", left)
			}
		})
	}
}

// TestCheckAndRepairFailuresDiffer expects "could not check" after a failed check, and "error" after a failed repair.
func TestCheckAndRepairFailuresDiffer(t *testing.T) {
	n := newTestNode(t)
	n.write("dpkg/held", "held\tamd64\t1.0\tinstalled\n")
	n.write("open", "# BEGIN x\nline\n")
	for _, c := range []struct{ method, audit, enforce, message string }{
		{`"fileContent": {"path": "$N/bin", "content": "x"}`, "could not check", "could not check", "is not a regular file, but a folder"},
		{`"fileContent": {"path": "$N/no/f", "content": "x"}`, "non-compliant", "error", "the repair failed: open "},
		{`"filePresent": {"path": "$N/bin"}`, "non-compliant", "error", "is a folder, not a file"},
		{`"fileAbsent": {"path": "$N/bin"}`, "non-compliant", "error", "fileAbsent removes files only"},
		{`"fileContent": {"path": "$N/{{ .props.unset }}", "content": "x"}`, "could not check", "could not check", `"unset" is not set`},
		{`"filePermissions": {"path": "$N/bin", "owner": "nobody-has-this-name"}`, "could not check", "could not check", "does not exist"},
		{`"command": {"check": "exit 3"}`, "non-compliant", "error", "has no command that applies"},
		{`"command": {"check": "no-such-program"}`, "could not check", "could not check", "cannot run"},
		{`"command": {"check": ["no-such-program"]}`, "could not check", "could not check", "no-such-program"},
		{`"command": {"check": "false", "apply": "true"}`, "non-compliant", "error", "still so after the repair"},
		{`"command": {"apply": "true"}`, "not applicable", "repaired", ""},
		{`"command": {"apply": "echo broken; exit 4"}`, "not applicable", "error", "exit code 4: broken"},
		{`"package": {"name": "--force"}`, "could not check", "could not check", "is not a name and version"},
		{`"service": {"name": "odd", "state": "running"}`, "non-compliant", "repaired", "odd is unknown"},
		{`"fileBlock": {"path": "$N/open", "name": "x"}`, "could not check", "could not check", "no last line \"# END x\" after it"},
		{`"fileIni": {"path": "$N/f.ini", "key": "a", "value": "1\n2"}`, "could not check", "could not check", "line break"},
		{`"symlink": {"path": "$N/bin", "target": "/"}`, "non-compliant", "error", "symlink replaces links only"},
		{`"cron": {"name": "a.b", "schedule": "@daily", "command": "true"}`, "could not check", "could not check", "is not a file name that cron reads"},
		{`"kernelModule": {"name": "../x"}`, "could not check", "could not check", "is not the name of a kernel module"},
		{`"user": {"name": "-x"}`, "could not check", "could not check", "is not a valid name of a user"},
		{`"timer": {"name": "../x", "calendar": "daily", "command": "true"}`, "could not check", "could not check", "is not a valid name of a timer"},
		{`"fileACL": {"path": "$N/none", "entries": ["user:{{ .props.place }}:r-x,other::rwx"]}`, "could not check", "could not check", "is not an entry of an access control list"},
		{`"http": {"url": "http://127.0.0.1:1/"}`, "non-compliant", "error", "http only checks"},
		{`"sysctl": {"key": "no.such.key", "value": "1"}`, "could not check", "could not check", "no such file"},
		{`"sysctl": {"key": "..", "value": "1"}`, "could not check", "could not check", "is not a kernel parameter"},
	} {
		methods := `{"component": "a", ` + c.method + `}`
		status, messages := n.run(false, methods)
		if status != c.audit {
			t.Errorf("%s: audit reports %s: %s", c.method, status, messages)
		}
		if status, messages := n.run(true, methods); status != c.enforce || !strings.Contains(messages, c.message) {
			t.Errorf("%s: enforce reports %s: %s", c.method, status, messages)
		}
	}
	v := newTestNode(t)
	sysvPrograms("update-rc.d")(v)
	v.write("bin/service", "#!/bin/sh\necho \"$1: unrecognized service\" >&2; exit 1\n")
	if status, messages := v.run(true, `{"component": "a", "service": {"name": "ssh", "state": "stopped"}}`); status != "could not check" || !strings.Contains(messages, "ssh: unrecognized service") {
		t.Errorf("a service without an init script: %s: %s", status, messages)
	}
	n.write("locked", "")
	if status, messages := n.run(true, `{"component": "a", "package": {"name": "held", "state": "absent"}}`); status != "error" || !strings.Contains(messages, "Could not get lock") {
		t.Errorf("a locked package manager: %s: %s", status, messages)
	}
}

// TestConditionsSkipComponents expects a directive's run to skip the components (parts of the directive) with a
// false condition.
func TestConditionsSkipComponents(t *testing.T) {
	n := newTestNode(t)
	methods := `{"component": "file", "fileContent": {"path": "$N/f", "content": "x"}},
		{"component": "restart", "when": "changed(\"file\")", "command": {"apply": "echo restart >>$N/log"}},
		{"component": "never", "when": "facts[\"os\"] == \"plan9\"", "command": {"apply": "exit 9"}},
		{"component": "report", "when": "failed(\"file\") || ok(\"restart\")", "command": {"check": "true"}}`
	if status, _ := n.run(false, methods); status != "non-compliant, not applicable, not applicable, compliant" {
		t.Errorf("audit: %s", status)
	}
	if status, _ := n.run(true, methods); status != "repaired, repaired, not applicable, success" {
		t.Errorf("enforce: %s", status)
	}
	if status, _ := n.run(true, methods); status != "success, not applicable, not applicable, not applicable" || n.read("log") != "restart\n" {
		t.Errorf("enforce again: %s, log %q", status, n.read("log"))
	}
}

// TestMethodsReadFactsOfTheNode runs methods with facts in their texts, and expects the facts of the node. A component
// with an unknown fact cannot be checked.
func TestMethodsReadFactsOfTheNode(t *testing.T) {
	n := newTestNode(t)
	methods := `{"component": "file", "fileContent": {"path": "$N/f", "content": "{{ .facts.os }}"}},
		{"component": "unknown", "filePresent": {"path": "$N/{{ .facts.none }}"}}`
	status, messages := n.run(true, methods)
	if status != "repaired, could not check" || n.read("f") != "linux" || !strings.Contains(messages, `the fact "none" is not known on this node`) {
		t.Errorf("%s: %s, file %q", status, messages, n.read("f"))
	}
}

// TestForbiddenChangesAreOnlyAudited runs an enforcing policy directive on an agent that forbids changes, and expects only an
// audit.
func TestForbiddenChangesAreOnlyAudited(t *testing.T) {
	n := newTestNode(t)
	c := n.directive(true, `{"component": "a", "filePresent": {"path": "$N/f"}}`)
	r, ok := n.Run(t.Context(), c, func(string) ([]byte, string, bool) { return nil, "", false }, notWaived)
	if _, err := os.Stat(n.path("f")); !ok || statusText(&r) != "non-compliant" || r.Enforced || err == nil {
		t.Errorf("report %+v, %v", r, err)
	}
	n.Enforce = true
	r, _ = n.Run(t.Context(), c, func(name string) ([]byte, string, bool) {
		return []byte(`{"mode": "audit", "fixed": "the node"}`), "", name == model.NodeModeProperty
	}, notWaived)
	if statusText(&r) != "non-compliant" || r.Enforced {
		t.Errorf("on a node with the mode audit: report %+v", r)
	}
}

// TestWaivedComponentsAreOnlyAudited enforces a policy directive with waived components (parts), and expects
// only audits of the waived components. For conditions such a component is neither changed nor ok nor failed.
func TestWaivedComponentsAreOnlyAudited(t *testing.T) {
	n := newTestNode(t)
	n.Enforce = true
	n.write("held", "")
	c := n.directive(true, `{"component": "missing", "filePresent": {"path": "$N/f"}}, {"component": "held", "filePresent": {"path": "$N/held"}},
		{"component": "unknown", "fileContent": {"path": "$N/bin", "content": "x"}}, {"component": "apply", "command": {"apply": "exit 9"}},
		{"component": "after", "when": "failed(\"missing\") || ok(\"missing\") || changed(\"missing\")", "command": {"apply": "exit 9"}},
		{"component": "other", "filePresent": {"path": "$N/other"}}`)
	r, ok := n.Run(t.Context(), c, func(string) ([]byte, string, bool) { return nil, "", false }, func(name string) bool { return name != "other" })
	if got := statusText(&r); !ok || got != "waived, compliant, waived, not applicable, not applicable, repaired" || !r.Enforced || !strings.Contains(messageText(&r), "f does not exist") {
		t.Errorf("%s: %+v", got, r)
	}
	if _, err := os.Stat(n.path("f")); err == nil {
		t.Error("a waived component was repaired")
	}
}

// TestRunEndsAtItsTimeout runs a policy directive beyond its timeout, and expects no status for the parts not
// yet checked.
func TestRunEndsAtItsTimeout(t *testing.T) {
	n := newTestNode(t)
	c := n.directive(false, `{"component": "a", "filePresent": {"path": "$N/bin/apt-get"}}, {"component": "slow", "command": {"check": "exec sleep 60"}}, {"component": "c", "filePresent": {"path": "$N"}}`)
	c.Timeout = 200 * time.Millisecond
	r, ok := n.Run(t.Context(), c, func(string) ([]byte, string, bool) { return nil, "", false }, notWaived)
	if !ok || statusText(&r) != "compliant, missing, missing" || !strings.Contains(r.Ended, "longer than 200ms: slow") {
		t.Errorf("report %+v", r)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := n.Run(stopped, c, func(string) ([]byte, string, bool) { return nil, "", false }, notWaived); ok {
		t.Error("a stopped agent reports")
	}
}

// TestReportsAreBounded expects the report of a policy directive with many long messages to fit into a protocol frame.
func TestReportsAreBounded(t *testing.T) {
	r := directiveRun{}
	for i := range wire.MaxComponents {
		r.addMessage(i, strings.Repeat("x\xff", 5000))
	}
	body := wire.AppendReport(nil, &wire.Report{Components: wire.MaxComponents, Codes: rules.NewCodes(wire.MaxComponents), Exceptions: r.exceptions})
	var back wire.Report
	if err := back.Decode(body); err != nil || len(body) > wire.MaxFrame/4 || len(back.Exceptions) == 0 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

// TestHTTPMethodComparesAnswers runs the method http against a real local server, and compares the statuses.
func TestHTTPMethodComparesAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, "all is well")
	}))
	defer server.Close()
	n := newTestNode(t)
	for arguments, want := range map[string]string{
		`"url": "$U/", "contains": "is well"`:       "compliant",
		`"url": "$U/down", "status": 503`:           "compliant",
		`"url": "$U/down"`:                          "non-compliant: 0 $U/down answers 503, not 200",
		`"url": "$U/", "contains": "all is broken"`: `non-compliant: 0 the answer of $U/ does not contain "all is broken"`,
	} {
		status, messages := n.run(false, strings.ReplaceAll(`{"component": "a", "http": {`+arguments+`}}`, "$U", server.URL))
		if got := strings.TrimRight(status+": "+messages, ": \n"); got != strings.ReplaceAll(want, "$U", server.URL) {
			t.Errorf("%s: %s", arguments, got)
		}
	}
}

// TestAccessControlListsAreRepaired changes access control lists with the real setfacl, and compares the statuses. The
// programs are those of Debian's package acl.
func TestAccessControlListsAreRepaired(t *testing.T) {
	testenv.Program(t, "setfacl", "acl")
	n := newTestNode(t)
	n.write("f", "")
	for _, c := range []struct{ arguments, audit string }{
		{`"entries": ["user:root:r-x", "group:0:rw-"]`, `lacks the entries "user:root:r-x", "group:0:rw-"`},
		{`"absent": true`, "has the entries user:root:r-x, group:root:rw-, mask::rwx"},
	} {
		methods := `{"component": "a", "fileACL": {"path": "$N/f", ` + strings.ReplaceAll(c.arguments, ":0:", ":root:") + `}}`
		if status, messages := n.run(false, methods); status != "non-compliant" || !strings.Contains(messages, strings.ReplaceAll(c.audit, ":0:", ":root:")) {
			t.Fatalf("audit of %s: %s: %s", c.arguments, status, messages)
		}
		if status, messages := n.run(true, methods); status != "repaired" {
			t.Fatalf("enforce %s: %s: %s", c.arguments, status, messages)
		}
		if status, messages := n.run(true, methods); status != "success" {
			t.Errorf("enforce %s again: %s: %s", c.arguments, status, messages)
		}
	}
	if status, messages := n.run(false, `{"component": "a", "fileACL": {"path": "$N/none", "absent": true}}`); status != "could not check" || !strings.Contains(messages, "No such file") {
		t.Errorf("a file that does not exist: %s: %s", status, messages)
	}
}

// TestConditionReportsShowFalseConditions runs the method "report" with conditions on components and facts, and compares the statuses.
func TestConditionReportsShowFalseConditions(t *testing.T) {
	n := newTestNode(t)
	const methods = `{"component": "b", "block": [
		{"component": "file", "filePresent": {"path": "$N/f"}},
		{"component": "kept", "report": {"if": "ok(\"file\") && !changed(\"file\")", "message": "the file of {{ .props.place }} was not there"}}]},
		{"component": "linux", "report": {"if": "facts[\"os\"] == \"linux\"", "message": "another system"}}`
	if statuses, messages := n.run(false, methods); statuses != "non-compliant, non-compliant, compliant" || !strings.Contains(messages, "the file of world was not there") {
		t.Errorf("audit: %s: %s", statuses, messages)
	}
	if statuses, messages := n.run(true, methods); statuses != "repaired, error, success" || !strings.Contains(messages, "report only checks") {
		t.Errorf("enforce: %s: %s", statuses, messages)
	}
	if statuses, _ := n.run(true, methods); statuses != "success, success, success" {
		t.Errorf("enforce again: %s", statuses)
	}
}

// TestBlockRunsForEachListElement runs a block of components for each element of a list, and compares the statuses. The block
// and its components have conditions.
func TestBlockRunsForEachListElement(t *testing.T) {
	n := newTestNode(t)
	n.Enforce = true
	var technique model.TechniqueSpec
	testenv.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(`{"parameters": [{"name": "sites", "type": "list"}], "methods": [
		{"component": "site", "forEach": "sites", "block": [
			{"component": "config", "fileContent": {"path": "$N/{{ .item.name }}.conf", "content": "{{ .item.port }} {{ .props.place }}"}},
			{"component": "reload", "when": "changed(\"config\")", "command": {"apply": "echo {{ .item.name }} >>$N/log"}}]},
		{"component": "restart", "when": "changed(\"site\")", "command": {"apply": "echo all >>$N/log"}}]}`, "$N", n.folder)), &technique))
	var sites model.ParameterValue
	testenv.NoError(t, json.Unmarshal([]byte(`[{"name": "a", "port": 80}, {"name": "b", "port": "{{ .props.place }}"}]`), &sites))
	compiled, err := rules.Compile(&technique, map[string]model.ParameterValue{"sites": sites})
	testenv.NoError(t, err)
	c := &model.DirectiveDefinition{Components: compiled.Components, Parameters: compiled.Parameters, Mode: model.ModeEnforce, Timeout: time.Minute}
	properties := func(name string) ([]byte, string, bool) { return []byte(`"world"`), "", name == "place" }
	n.write("a.conf", "80 world")
	for _, want := range []string{"success, not applicable, repaired, repaired, repaired", "success, not applicable, success, not applicable, not applicable"} {
		if r, ok := n.Run(t.Context(), c, properties, notWaived); !ok || statusText(&r) != want {
			t.Errorf("%s: %s, want %s", statusText(&r), messageText(&r), want)
		}
	}
	if n.read("b.conf") != "world world" || n.read("log") != "b\nall\n" {
		t.Errorf("b.conf %q, log %q", n.read("b.conf"), n.read("log"))
	}
}

// TestPowerCutLeavesAWholeFile kills a process during the replacement of a file, and expects whole content. It is the
// old or the new content.
func TestPowerCutLeavesAWholeFile(t *testing.T) {
	contents := []string{strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<19)}
	if path := os.Getenv("MUSTER_TEST_WRITE"); path != "" {
		for i := 0; ; i++ {
			testenv.NoError(t, writeAtomically(path, []byte(contents[i%2]), 0))
		}
	}
	path := filepath.Join(t.TempDir(), "f")
	testenv.NoError(t, os.WriteFile(path, []byte(contents[0]), 0o600))
	for round := range 10 {
		writer := exec.Command(os.Args[0], "-test.run", "^TestPowerCutLeavesAWholeFile$")
		writer.Env = append(os.Environ(), "MUSTER_TEST_WRITE="+path)
		testenv.NoError(t, writer.Start())
		before, err := os.Stat(path)
		testenv.NoError(t, err)
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
			if now, err := os.Stat(path); err == nil && !os.SameFile(before, now) {
				break
			}
		}
		for range round * 1000 { // another place in the middle of a write
			_, _ = os.Stat(path)
		}
		testenv.NoError(t, writer.Process.Kill())
		_ = writer.Wait() // killed
		data, err := os.ReadFile(path)
		if err != nil || string(data) != contents[0] && string(data) != contents[1] {
			t.Fatalf("round %d: %d bytes, %v", round, len(data), err)
		}
	}
}

// TestUsersAndGroupsAreRepaired runs the policy methods for users and groups, and compares the lines in passwd
// and group. The programs are those of Debian's package passwd.
func TestUsersAndGroupsAreRepaired(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "useradd needs root", "run the tests as root")
	}
	testenv.Program(t, "useradd", "passwd", "/usr/sbin")
	n := newTestNode(t)
	n.Runner.Environ = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	n.UserRoot = n.path("root")
	for name, content := range map[string]string{"passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\nstaff:x:50:\n", "shadow": "root:*:19000:0:99999:7:::\n", "gshadow": "root:*::\nstaff:*::\n"} {
		n.write("root/etc/"+name, content)
	}
	for _, c := range []struct{ method, audit, line string }{
		{`"userGroup": {"name": "app", "gid": "7001"}`, "group app does not exist", "app:x:7001:"},
		{`"userGroup": {"name": "app", "gid": "7002"}`, "group app has gid 7001, not 7002", "app:x:7002:"},
		{`"user": {"name": "web", "uid": "7100", "group": "app", "home": "/srv/web", "shell": "/usr/sbin/nologin"}`, "user web does not exist", "web:x:7100:7002::/srv/web:/usr/sbin/nologin"},
		{`"user": {"name": "web", "group": "staff", "shell": "/bin/sh"}`, "user web has group 7002, not 50, shell /usr/sbin/nologin, not /bin/sh", "web:x:7100:50::/srv/web:/bin/sh"},
		{`"user": {"name": "web", "state": "absent"}`, "user web exists", ""},
		{`"userGroup": {"name": "app", "state": "absent"}`, "group app exists", ""},
	} {
		methods := `{"component": "a", ` + c.method + `}`
		before := n.read("root/etc/passwd") + n.read("root/etc/group")
		if status, messages := n.run(false, methods); status != "non-compliant" || messages != "0 "+c.audit+"\n" {
			t.Fatalf("%s: audit: %s: %s", c.method, status, messages)
		}
		if n.read("root/etc/passwd")+n.read("root/etc/group") != before {
			t.Fatalf("%s: the audit changed the files", c.method)
		}
		if status, messages := n.run(true, methods); status != "repaired" {
			t.Fatalf("%s: enforce: %s: %s", c.method, status, messages)
		}
		if status, messages := n.run(true, methods); status != "success" {
			t.Errorf("%s: enforce again: %s: %s", c.method, status, messages)
		}
		if lines := n.read("root/etc/passwd") + n.read("root/etc/group"); !strings.Contains(lines, c.line+"\n") || c.line == "" && strings.Contains(lines, "app:") && strings.Contains(lines, "web:") {
			t.Errorf("%s: %s", c.method, lines)
		}
	}
	if status, messages := n.run(true, `{"component": "a", "user": {"name": "staff"}}`); status != "error" || !strings.Contains(messages, "the group staff exists already") {
		t.Errorf("a user whose name a group has: %s: %s", status, messages)
	}
}

// TestPackageManagersGetTheRightArguments changes packages with fakes of dnf, yum, zypper and apk, and compares the arguments of
// the calls.
func TestPackageManagersGetTheRightArguments(t *testing.T) {
	const rpm = "#!/bin/sh\n[ $1 = -q ] || exit 9\ncat $D/$5 2>/dev/null || { echo package $5 is not installed; exit 1; }\n"
	const change = "#!/bin/sh\necho \"$*\" >>$D/log\nfor of; do :; done\nname=${of%%$SEP[0-9]*}\ncase \"$*\" in *remove*|*del*) rm $D/$name; exit;; esac\n" +
		"version=${of#$name}; version=${version#$SEP}; printf '%b\\n' \"$PREFIX${version:-1.0-1}\" >$D/$name\n"
	const apk = "#!/bin/sh\nif [ $1 = info ]; then cat $D/$5 2>/dev/null; exit; fi\n"
	for name, c := range map[string]struct {
		programs map[string]string
		log      string
	}{
		"dnf": {
			map[string]string{"rpm": rpm, "dnf": strings.ReplaceAll(change, "$SEP", "-")},
			"-q -y install -- nginx\n-q -y install -- nginx-2.0-3\n-q -y remove -- nginx\n",
		},
		"yum": {
			map[string]string{"rpm": rpm, "yum": strings.ReplaceAll(change, "$SEP", "-")},
			"-q -y install -- nginx\n-q -y install -- nginx-2.0-3\n-q -y remove -- nginx\n",
		},
		"zypper": {
			map[string]string{"rpm": rpm, "zypper": strings.ReplaceAll(change, "$SEP", "=")},
			"--non-interactive install -- nginx\n--non-interactive install --oldpackage -- nginx=2.0-3\n--non-interactive remove -- nginx\n",
		},
		"apk": {
			map[string]string{"apk": apk + strings.ReplaceAll(strings.TrimPrefix(strings.ReplaceAll(change, "$SEP", "="), "#!/bin/sh\n"), "$PREFIX", "$name-")},
			"add -- nginx\nadd -- nginx=2.0-3\ndel -- nginx\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newTestNode(t)
			versions := strings.NewReplacer()
			if name == "apk" {
				versions = strings.NewReplacer("1.0-1", "1.0-r1", "2.0-3", "2.0-r3")
			}
			testenv.NoError(t, os.RemoveAll(n.path("bin")))
			testenv.NoError(t, os.MkdirAll(n.path("db"), 0o755))
			for program, text := range c.programs {
				n.write("bin/"+program, versions.Replace(strings.NewReplacer("$D", n.path("db"), "$PREFIX", `$name\tx86_64\t`).Replace(text)))
			}
			for _, tool := range []string{"cat", "rm"} {
				testenv.NoError(t, os.Symlink(testenv.Program(t, tool, "coreutils"), n.path("bin/"+tool)))
			}
			n.Runner.Environ = []string{"PATH=" + n.path("bin")} // without the dpkg of this machine
			for _, step := range []struct{ arguments, audit string }{
				{`"name": "nginx"`, "package nginx is not installed"},
				{`"name": "nginx", "version": "2.0-3"`, "package nginx has version 1.0-1, not 2.0-3"},
				{`"name": "nginx", "state": "absent"`, "package nginx 2.0-3 is installed"},
			} {
				methods := versions.Replace(`{"component": "a", "package": {` + step.arguments + `}}`)
				if status, messages := n.run(false, methods); status != "non-compliant" || messages != versions.Replace("0 "+step.audit+"\n") {
					t.Fatalf("audit of %s: %s: %s", step.arguments, status, messages)
				}
				if status, messages := n.run(true, methods); status != "repaired" {
					t.Fatalf("enforce %s: %s: %s", step.arguments, status, messages)
				}
				if status, messages := n.run(true, methods); status != "success" {
					t.Errorf("enforce %s again: %s: %s", step.arguments, status, messages)
				}
			}
			if log := n.read("db/log"); log != versions.Replace(c.log) {
				t.Errorf("the programs ran with\n%swant\n%s", log, c.log)
			}
		})
	}
	n := newTestNode(t)
	n.Runner.Environ = []string{"PATH=" + n.path("nowhere")}
	if status, messages := n.run(false, `{"component": "a", "package": {"name": "nginx"}}`); status != "could not check" || !strings.Contains(messages, "none of dpkg-query, rpm and apk") {
		t.Errorf("without a package manager: %s: %s", status, messages)
	}
}

// TestPackagesWithSeveralVersionsAreRead audits packages with several lines in the package database, and compares the
// statuses. The lines are those of another architecture, of kernels beside each other and of versions with an epoch.
func TestPackagesWithSeveralVersionsAreRead(t *testing.T) {
	for _, c := range []struct{ program, lines, arguments, want string }{
		{"dpkg-query", `p\tamd64\t1.0-1\tinstalled\np\ti386\t0.9-1\tconfig-files`, `"version": "1.0-1"`, "compliant: "},
		{"dpkg-query", `p\tamd64\t0.9-1\tconfig-files\np\ti386\t1.0-1\tinstalled`, `"state": "absent"`, "non-compliant: 0 package p 1.0-1 is installed"},
		{"dpkg-query", `p\tamd64\t0.9-1\tconfig-files`, `"state": "absent"`, "compliant: "},
		{"dpkg-query", `p\t\t\tnot-installed`, `"state": "absent"`, "compliant: "},
		{"dpkg-query", `p\tamd64\t1:1.0-1\tinstalled`, `"version": "1.0-1"`, "non-compliant: 0 package p has version 1:1.0-1, not 1.0-1"},
		{"rpm", `p\tx86_64\t5.14-1\np\tx86_64\t5.14-2`, `"version": "5.14-1"`, "compliant: "},
		{"rpm", `p\tx86_64\t5.14-1\np\tx86_64\t5.14-2`, `"version": "5.14-3"`, "non-compliant: 0 package p has version 5.14-1, 5.14-2, not 5.14-3"},
		{"rpm", `p\tx86_64\t1:2.0-3`, `"version": "2.0-3"`, "compliant: "},
		{"rpm", `p\tx86_64\t1:2.0-3`, `"version": "1:2.0-3"`, "compliant: "},
		{"rpm", `p\tx86_64\t1:2.0-3`, `"version": "2:2.0-3"`, "non-compliant: 0 package p has version 1:2.0-3, not 2:2.0-3"},
		{"apk", `q-p-1.0-r0`, `"state": "absent"`, "compliant: "},
		{"apk", `p-q-1.0-r0\np-2-r0`, `"version": "2-r1"`, "non-compliant: 0 package p has version 2-r0, not 2-r1"},
	} {
		n := newTestNode(t)
		testenv.NoError(t, os.RemoveAll(n.path("bin")))
		n.write("bin/"+c.program, "#!/bin/sh\nprintf '"+c.lines+"\\n'\n")
		n.Runner.Environ = []string{"PATH=" + n.path("bin")} // without the dpkg of this machine
		status, messages := n.run(false, `{"component": "a", "package": {"name": "p", `+c.arguments+`}}`)
		if got := status + ": " + strings.TrimSpace(messages); got != c.want {
			t.Errorf("%s says %q, %s: %s, want %s", c.program, c.lines, c.arguments, got, c.want)
		}
	}
}

// TestOneQueryAnswersForAllPackages audits packages of several directives, and counts the started programs. Answers are kept
// while the stamp of the package files stays. A repair ends them, and a name of another form is asked for alone.
func TestOneQueryAnswersForAllPackages(t *testing.T) {
	for name, c := range map[string]struct {
		text, line     string // of the program, and of a package
		special, other string // a name with an architecture, and its line
		specialQueries int
	}{
		"dpkg-query": {"shift 4\nfor name; do cat $D/$name 2>/dev/null || { echo dpkg-query: no packages found matching $name; code=1; }; done\nexit $code\n", "%s\tamd64\t1.0\tinstalled\n", "p1:i386", "p1\ti386\t1.0\tinstalled\n", 0},
		"rpm":        {"shift 4\ncode=0\nfor name; do cat $D/$name 2>/dev/null || { echo package $name is not installed; code=$((code+1)); }; done\nexit $code\n", "%s\tx86_64\t1.0\n", "p1.i686", "p1\ti686\t1.0\n", 1},
		"apk":        {"shift 4\ncode=0\nfor name; do cat $D/$name 2>/dev/null || code=$((code+1)); done\nexit $code\n", "%s-1.0-r0\n", "virtual", "provider-1.0-r0\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := newTestNode(t)
			testenv.NoError(t, os.RemoveAll(n.path("bin")))
			testenv.NoError(t, os.MkdirAll(n.path("bin"), 0o755))
			testenv.NoError(t, os.Symlink(testenv.Program(t, "cat", "coreutils"), n.path("bin/cat")))
			n.write("bin/"+name, "#!/bin/sh\n"+strings.ReplaceAll(c.text, "$D", n.path("db")))
			n.Runner.Environ = []string{"PATH=" + n.path("bin")} // without the dpkg of this machine
			n.write("db/"+c.special, c.other)
			var methods, want []string
			for i := range 40 {
				name, status := fmt.Sprintf("p%d", i), "compliant"
				if i%4 == 0 {
					status = "non-compliant"
				} else {
					n.write("db/"+name, fmt.Sprintf(c.line, name))
				}
				methods, want = append(methods, fmt.Sprintf(`{"component": "c%d", "package": {"name": %q}}`, i, name)), append(want, status)
			}
			all := strings.Join(methods, ",")
			expect := func(enforce bool, methods, want string, queries int) {
				t.Helper()
				before := n.Runner.StartedCommands()
				if got, messages := n.run(enforce, methods); got != want {
					t.Errorf("%s: %s, want %s\n%s", methods, got, want, messages)
				}
				if started := int(n.Runner.StartedCommands() - before); started != queries {
					t.Errorf("%d programs started, want %d for %s", started, queries, methods)
				}
			}
			expect(false, all, strings.Join(want, ", "), 1)
			expect(false, all, strings.Join(want, ", "), 1)

			stamp := "first"
			n.Packages, n.PackageStamp = &PackageDatabase{}, func() string { return stamp }
			expect(false, all, strings.Join(want, ", "), 1)
			expect(false, all, strings.Join(want, ", "), 0)
			expect(false, `{"component": "a", "package": {"name": "p1"}}, {"component": "b", "package": {"name": "other"}}`, "compliant, non-compliant", 1)
			n.write("db/p0", fmt.Sprintf(c.line, "p0"))
			stamp = "second"
			expect(false, methods[0], "compliant", 1)
			install := fmt.Sprintf(`, {"component": "i", "command": {"apply": "cat %[1]s/new >%[1]s/p4"}}, `, n.path("db"))
			n.write("db/new", fmt.Sprintf(c.line, "p4"))
			expect(true, methods[0]+install+methods[4], "success, repaired, success", 2)
			special := fmt.Sprintf(`{"component": "special", "package": {"name": %q}}`, c.special)
			n.Packages = nil
			if name == "apk" { // another package provides the name
				expect(false, special+","+methods[1], "non-compliant, compliant", 1)
				return
			}
			expect(false, special+","+methods[1], "compliant, compliant", 1+c.specialQueries)
			n.write("db/p1", n.read("db/p1")+c.other)
			status, messages := n.run(false, special+`, {"component": "c", "package": {"name": "p1", "version": "2"}}`)
			if status != "compliant, non-compliant" || messages != "1 package p1 has version 1.0, 1.0, not 2\n" {
				t.Errorf("two architectures: %s: %s", status, messages)
			}
		})
	}
}

// TestUnknownServiceIsDisabled audits a service that systemd does not know, and expects the service to count as
// disabled. Older releases of systemd print an error in place of a state.
func TestUnknownServiceIsDisabled(t *testing.T) {
	n := newTestNode(t)
	for _, text := range []string{"not-found", "Failed to get unit file state for x.service: No such file or directory"} {
		n.write("bin/systemctl", "#!/bin/sh\necho '"+text+"' >&2; exit 1\n")
		status, messages := n.run(false, `{"component": "a", "service": {"name": "x", "boot": "disabled"}}, {"component": "b", "service": {"name": "x", "boot": "enabled"}}`)
		if status != "compliant, non-compliant" || messages != "1 service x is not-found, not enabled\n" {
			t.Errorf("%s: %s: %s", text, status, messages)
		}
	}
}

// TestAccountNamesOfDebianAreRead audits users whose names have capitals, dots or a dollar sign, and compares
// the statuses.
func TestAccountNamesOfDebianAreRead(t *testing.T) {
	n := newTestNode(t)
	n.UserRoot = n.folder
	n.write("etc/passwd", "Debian-exim:x:1:1::/:/bin/false\nada.byron:x:2:1::/:/bin/sh\nhost$:x:3:1::/:/bin/false\n")
	n.write("etc/group", "all:x:1:\n")
	for name, want := range map[string]string{"Debian-exim": "compliant", "ada.byron": "compliant", "host$": "compliant", "none.such": "non-compliant", "a b": "could not check", "a:b": "could not check", "-x": "could not check"} {
		if status, messages := n.run(false, `{"component": "a", "user": {"name": "`+name+`"}}`); status != want {
			t.Errorf("%s: %s, want %s: %s", name, status, want, messages)
		}
	}
}

// TestInstalledPackagesAreAudited audits packages with the machine's real dpkg, and compares the statuses.
func TestInstalledPackagesAreAudited(t *testing.T) {
	testenv.Program(t, "dpkg-query", "dpkg")
	n := newTestNode(t)
	n.Runner.Environ = []string{"PATH=/usr/bin:/bin"}
	status, messages := n.run(false, `{"component": "a", "package": {"name": "dpkg"}}, {"component": "b", "package": {"name": "no-such-package"}}, {"component": "c", "package": {"name": "dpkg", "version": "0"}}`)
	if status != "compliant, non-compliant, non-compliant" || !strings.Contains(messages, "package no-such-package is not installed") || !strings.Contains(messages, ", not 0") {
		t.Errorf("%s: %s", status, messages)
	}
}

// TestComponentModeOverridesDirectiveMode expects a component's own mode (audit or enforce) to win over the
// mode of its directive. If the agent forbids changes, it only audits.
func TestComponentModeOverridesDirectiveMode(t *testing.T) {
	const methods = `{"component": "own", "filePresent": {"path": "$N/own"}},
		{"component": "block", "mode": "audit", "block": [{"component": "audited", "filePresent": {"path": "$N/audited"}}]},
		{"component": "forced", "mode": "enforce", "filePresent": {"path": "$N/forced"}}`
	for _, c := range []struct {
		enforce, agent bool
		want           string
	}{
		{true, true, "repaired, non-compliant, repaired"},
		{false, true, "non-compliant, non-compliant, repaired"},
		{true, false, "non-compliant, non-compliant, non-compliant"},
	} {
		n := newTestNode(t)
		n.Enforce = c.agent
		d := n.directive(c.enforce, methods)
		report, _ := n.Run(t.Context(), d, func(string) ([]byte, string, bool) { return nil, "", false }, notWaived)
		if got := statusText(&report); got != c.want || report.Enforced != (c.enforce && c.agent) {
			t.Errorf("%+v: %s, enforced %v", c, got, report.Enforced)
		}
	}
}

// TestSecretsAreNotShown runs file methods with secrets, and expects the secrets in no report. Only the owner can read
// the written files. The report of a file with one line of an old secret hides that line, too. A secret without a
// value stops its components alone.
func TestSecretsAreNotShown(t *testing.T) {
	const key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqh\nkiG9w0BAQEFAASC\n-----END KEY-----"
	n := newTestNode(t)
	n.Enforce = true
	methods := `{"component": "key", "fileContent": {"path": "$N/key", "content": "{{ .params.key }}\n"}},
		{"component": "lines", "fileLines": {"path": "$N/lines", "lines": ["password {{ .params.pin }}"]}},
		{"component": "setting", "fileKeyValue": {"path": "$N/setting", "key": "pin", "value": "{{ .params.pin }}"}},
		{"component": "ini", "fileIni": {"path": "$N/ini", "section": "db", "key": "pin", "value": "{{ .params.pin }}"}},
		{"component": "block", "fileBlock": {"path": "$N/block", "name": "db", "content": "{{ .params.key }}"}},
		{"component": "other", "filePresent": {"path": "$N/other"}}`
	var found map[string]string
	var fault error
	n.Secrets = func(context.Context, []model.DefinitionSecret) (map[string]string, error) { return found, fault }
	run := func(enforce bool, want string) {
		t.Helper()
		d := n.directive(enforce, methods)
		d.Secrets = []model.DefinitionSecret{{Env: "key", Name: "default/key"}, {Env: "pin", Name: "default/pin"}}
		report, _ := n.Run(t.Context(), d, func(string) ([]byte, string, bool) { return nil, "", false }, notWaived)
		if got := statusText(&report); got != want {
			t.Errorf("%s, want %s:\n%s", got, want, messageText(&report))
		}
		text := messageText(&report)
		for _, part := range append(strings.Split(key, "\n"), "31415926") {
			if strings.Contains(text, part) {
				t.Errorf("the report has %q:\n%s", part, text)
			}
		}
	}
	fault = fmt.Errorf("secret default/key is not available: the server did not answer")
	run(true, "could not check, could not check, could not check, could not check, could not check, repaired")
	fault, found = nil, map[string]string{"key": key, "pin": "31415926"}
	run(false, "non-compliant, non-compliant, non-compliant, non-compliant, non-compliant, compliant")
	run(true, "repaired, repaired, repaired, repaired, repaired, success")
	for name, want := range map[string]string{"key": key + "\n", "lines": "password 31415926\n", "setting": "pin=31415926\n"} {
		if got := n.read(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		if info := testenv.Value(os.Stat(n.path(name)))(t); info.Mode().Perm() != newSecretMode {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	n.write("key", strings.Split(key, "\n")[1]+"\n")
	n.write("setting", "pin=27182818\n")
	found["pin"] = "16180339"
	run(false, "non-compliant, non-compliant, non-compliant, non-compliant, compliant, compliant")
	n.write("block", "# BEGIN db\n")
	run(true, "repaired, repaired, repaired, repaired, could not check, success")
}

// TestFilesComeFromAssets runs a policy directive with files of an asset's archive, and compares the files on the node.
// Templates are expanded. Paths outside the archive must be refused.
func TestFilesComeFromAssets(t *testing.T) {
	n := newTestNode(t)
	n.Enforce = true
	n.write("asset/etc/plain", "{{ .params.word }}\x00\n")
	n.write("asset/etc/template", "word {{ .params.word }}\n")
	n.write("asset/etc/wrong", "{{ .params.none }}\n")
	testenv.NoError(t, os.Symlink(n.path("outside"), n.path("asset/etc/link")))
	n.write("outside", "x")
	var missing error
	n.AssetFolder = func(_ context.Context, a *model.DefinitionAsset) (string, error) { return n.path(a.Name), missing }
	file := func(name, more string) string {
		return fmt.Sprintf(`{"component": %[1]q, "fileContent": {"path": "$N/held-%[1]s", "asset": "asset", "file": "etc/%[1]s"%[2]s}}`, name, more)
	}
	methods := strings.Join([]string{file("plain", ""), file("template", `, "template": true`), file("wrong", `, "template": true`), file("link", ""), file("absent", "")}, ",")
	run := func(want, part string) {
		t.Helper()
		d := n.directive(true, methods)
		d.Assets = []model.DefinitionAsset{{Name: "asset"}}
		report, _ := n.Run(t.Context(), d, func(string) ([]byte, string, bool) { return nil, "", false }, notWaived)
		if got := statusText(&report); got != want || !strings.Contains(messageText(&report), part) {
			t.Errorf("%s, want %s:\n%s", got, want, messageText(&report))
		}
	}
	missing = fmt.Errorf("asset asset is not available: the download is in progress")
	run("could not check, could not check, could not check, could not check, could not check", "the download is in progress")
	missing = nil
	run("repaired, repaired, could not check, could not check, could not check", "file etc/link of asset asset")
	run("success, success, could not check, could not check, could not check", "none")
	if got := n.read("held-plain") + n.read("held-template"); got != "{{ .params.word }}\x00\nword hello\n" {
		t.Errorf("the files have %q", got)
	}
}
