//go:build linux

package agentcmd

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// exampleServices returns three descriptions of the agent's systemd service as test cases, such as one with
// special characters. They are a system service, one with special characters in its paths, and a user service.
func exampleServices(program string) map[string]*systemdService {
	env := Env{Program: "muster-agent", Getenv: os.Getenv}
	return map[string]*systemdService{
		"machine": {env: env, program: program, stateDir: defaultStateDir},
		"other":   {env: Env{Program: "muster agent", Getenv: os.Getenv}, program: program, stateDir: "/home/some one/100%", config: "/srv/my \"agent\".env"},
		"user":    {env: env, user: true, program: program, stateDir: "/home/x/.local/state/muster-agent"},
	}
}

// TestSystemdAcceptsTheUnit verifies the generated units with systemd-analyze, and expects no complaint.
func TestSystemdAcceptsTheUnit(t *testing.T) {
	analyze := testenv.Program(t, "systemd-analyze", "systemd")
	for name, s := range exampleServices("/usr/bin/true") {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), unitName)
			testenv.NoError(t, os.WriteFile(file, []byte(s.unitContent()), 0o600))
			if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), unitName) {
				t.Errorf("%v\n%s\n%s", err, out, s.unitContent())
			}
			if name == "user" {
				return // a user's service has the rights of its user only
			}
			if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=60", file).CombinedOutput(); err != nil {
				t.Errorf("systemd rates the unit as more exposed than before: %v\n%s", err, out)
			}
		})
	}
}

// TestUnitFileQuotesWordsOfExecStart expects blanks, quotes and percent signs in paths to be escaped in the systemd
// unit.
func TestUnitFileQuotesWordsOfExecStart(t *testing.T) {
	unit := exampleServices("/usr/bin/muster")["other"].unitContent()
	for _, want := range []string{
		`ExecStart=/usr/bin/muster agent --config "/srv/my \"agent\".env"` + "\n", `ReadWritePaths="-/home/some one/100%%"` + "\n",
	} {
		if !strings.Contains(unit, want) {
			t.Errorf("no %s in\n%s", want, unit)
		}
	}
}

// fakeSystemd puts a fake systemctl into PATH for a test, and returns the fake machine's root folder. The fake
// program records its arguments and prints the given status.
func fakeSystemd(t *testing.T, status string) (root string, asked func() string) {
	t.Helper()
	root = t.TempDir()
	bin := filepath.Join(root, "fake")
	for _, dir := range []string{bin, filepath.Join(root, "run/systemd/system")} {
		testenv.NoError(t, os.MkdirAll(dir, 0o755))
	}
	log := filepath.Join(root, "asked")
	for name, script := range map[string]string{
		"systemctl":  fmt.Sprintf("echo $* >>%s; [ $1 != show ] || printf 'ActiveState=active\\nStatusText=%s\\n'", log, status),
		"journalctl": "echo the agent wrote this",
	} {
		testenv.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return root, func() string { data, _ := os.ReadFile(log); return string(data) }
}

// TestServiceInstallCopiesBinaryAndWritesUnit installs the systemd service below a temporary root and expects binary,
// unit and calls of systemctl.
func TestServiceInstallCopiesBinaryAndWritesUnit(t *testing.T) {
	root, asked := fakeSystemd(t, "connected to a:1 as web01")
	program := filepath.Join(root, "download", "muster-agent")
	testenv.NoError(t, os.Mkdir(filepath.Dir(program), 0o755))
	testenv.NoError(t, os.WriteFile(program, []byte("the binary"), 0o600))
	var out bytes.Buffer
	s := exampleServices(program)["machine"]
	s.root, s.env.Out, s.connectTimeout = root, &out, time.Minute
	testenv.NoError(t, s.checkSystemd(t.Context()))
	testenv.NoError(t, s.install(t.Context(), true))
	installed := filepath.Join(root, "usr/local/bin/muster-agent")
	if data, err := os.ReadFile(installed); string(data) != "the binary" {
		t.Errorf("%s: %q %v", installed, data, err)
	}
	if info, err := os.Stat(installed); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
	if unit, err := os.ReadFile(filepath.Join(root, "etc/systemd/system", unitName)); !strings.Contains(string(unit), "ExecStart=/usr/local/bin/muster-agent\n") {
		t.Errorf("%s %v", unit, err)
	}
	if got := asked(); !strings.Contains(got, "daemon-reload\nenable "+unitName+"\nrestart "+unitName+"\n") {
		t.Errorf("asked\n%s", got)
	}
	if !strings.Contains(out.String(), "The service runs and is connected to a:1 as web01.") {
		t.Errorf("%s", out.String())
	}
}

// TestServiceOfThePackageUsesItsUnit expects join --service to keep the package's unit file and write none to /etc.
func TestServiceOfThePackageUsesItsUnit(t *testing.T) {
	root, asked := fakeSystemd(t, "connected to a:1 as web01")
	packaged, own := filepath.Join(root, packagedUnit), filepath.Join(root, "etc/systemd/system", unitName)
	testenv.NoError(t, os.MkdirAll(filepath.Dir(packaged), 0o755))
	testenv.NoError(t, os.WriteFile(packaged, nil, 0o600))
	var out bytes.Buffer
	s := exampleServices(packagedProgram)["machine"]
	s.root, s.env.Out, s.connectTimeout = root, &out, time.Minute
	testenv.NoError(t, s.install(t.Context(), true))
	if got := asked(); fileExists(own) || !strings.Contains(got, "enable "+unitName+"\nrestart "+unitName+"\n") || !strings.Contains(out.String(), packaged) {
		t.Errorf("asked\n%s\n%s", got, out.String())
	}
	s.config = "/srv/agent.env" // the package's unit does not name it
	if err := s.install(t.Context(), true); err != nil || !fileExists(own) {
		t.Errorf("%v: no unit with --config", err)
	}
}

// TestPackagedUnitIsUpToDate compares the package's systemd unit with the unit that join --service writes.
func TestPackagedUnitIsUpToDate(t *testing.T) {
	testenv.Golden(t, "../../../deploy/muster-agent.service", exampleServices(packagedProgram)["machine"].unitContent())
}

// TestServiceWithoutConnectionShowsTheLog expects the agent's last log lines in the error of an agent that does not
// connect.
func TestServiceWithoutConnectionShowsTheLog(t *testing.T) {
	root, _ := fakeSystemd(t, "waits to join: somebody has to accept it")
	var out bytes.Buffer
	s := exampleServices("/usr/bin/true")["machine"]
	s.root, s.env.Out, s.connectTimeout = root, &out, time.Millisecond
	err := s.install(t.Context(), true)
	if model.ClassOf(err) != model.Unavailable || !strings.Contains(err.Error(), "waits to join") || !strings.Contains(err.Error(), "the agent wrote this") || !strings.Contains(err.Error(), "journalctl -f") {
		t.Errorf("%v", err)
	}
	if err := s.install(t.Context(), false); err != nil || !strings.Contains(out.String(), "waits for acceptance") {
		t.Errorf("%v %s", err, out.String())
	}
}

// TestServiceWithoutSystemdIsAnErrorWithAHint expects an error that mentions --print-unit on a machine without
// systemd.
func TestServiceWithoutSystemdIsAnErrorWithAHint(t *testing.T) {
	s := exampleServices("/usr/bin/true")["machine"]
	s.root = t.TempDir()
	if err := s.checkSystemd(t.Context()); model.ClassOf(err) != model.Unavailable || !strings.Contains(err.Error(), "--print-unit") {
		t.Errorf("%v", err)
	}
}
