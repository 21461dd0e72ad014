package agentcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

const unitName = "muster-agent.service"

// defaultStateDir is the state folder of the machine's agent.
const defaultStateDir = "/var/lib/muster-agent"

// packagedProgram and packagedUnit are the agent's files in its deb and rpm.
const (
	packagedProgram = "/usr/bin/muster-agent"
	packagedUnit    = "/usr/lib/systemd/system/" + unitName
)

// systemdService describes the agent's systemd unit. It is a system service for root, and a user service for other
// users.
type systemdService struct {
	env            Env
	root           string // folder that replaces / in tests; empty: /
	user           bool
	program        string // the running binary
	stateDir       string
	config         string // path of the settings file; empty: the default path
	connectTimeout time.Duration
}

// newSystemdService returns the description of the agent's systemd service. It is a system service for root, and a
// user service for other users.
func newSystemdService(env Env, o *Options) *systemdService {
	s := &systemdService{env: env, user: os.Geteuid() != 0, stateDir: o.Agent.StateDir, connectTimeout: 30 * time.Second}
	s.program, _ = os.Executable()
	if real, err := filepath.EvalSymlinks(s.program); err == nil {
		s.program = real
	}
	if o.Config != defaultConfig(env.Getenv) {
		s.config = o.Config
		if abs, err := filepath.Abs(o.Config); err == nil {
			s.config = abs
		}
	}
	if abs, err := filepath.Abs(s.stateDir); err == nil {
		s.stateDir = abs
	}
	return s
}

// withConfig appends --config FILE to a command line, unless the settings file is the default one.
func (s *systemdService) withConfig(command string) string {
	if s.config == "" {
		return command
	}
	return command + " --config " + s.config
}

// startHint returns the command that starts the agent after join, for a message to the person.
func (s *systemdService) startHint() string {
	if fileExists(s.unitFile()) && s.config == "" {
		return "\nStart the service:  " + s.selectCommand("systemctl start muster-agent", "systemctl --user start muster-agent") + "\n"
	}
	return fmt.Sprintf("\nStart the agent:  %s\nAs a service:     %s\n", s.withConfig(s.env.Program), s.withConfig(s.env.Program+" join --service"))
}

// execWords returns the words of the command line that the systemd unit starts (ExecStart).
func (s *systemdService) execWords() []string {
	words := []string{s.installedPath()}
	if strings.Contains(s.env.Program, " ") { // muster agent
		words = append(words, "agent")
	}
	if s.config != "" {
		words = append(words, "--config", s.config)
	}
	return words
}

// systemFolders hold programs that everybody may start and only root may change.
var systemFolders = [...]string{"/usr/", "/bin/", "/sbin/", "/opt/", "/nix/store/"}

// installedPath returns the path of the agent's binary that the systemd unit starts. A user's binary and a binary in
// a system folder keep their path; others are copied to /usr/local/bin.
func (s *systemdService) installedPath() string {
	if s.user || slices.ContainsFunc(systemFolders[:], func(f string) bool { return strings.HasPrefix(s.program, f) }) {
		return s.program
	}
	name := "muster-agent"
	if strings.Contains(s.env.Program, " ") {
		name = "muster"
	}
	return "/usr/local/bin/" + name
}

// checkSystemd returns an error if systemd does not run on the machine or for the user.
func (s *systemdService) checkSystemd(ctx context.Context) error {
	if _, err := os.Stat(s.root + "/run/systemd/system"); err != nil {
		return model.Errorf(model.Unavailable, "--service needs systemd, which does not run here").
			WithHint("start %s with this system's service manager; print the systemd unit as an example: %s join --print-unit", s.withConfig(s.env.Program), s.env.Program)
	}
	if _, err := s.systemctl(ctx, "show", "--property=Version"); err != nil {
		said := model.Errorf(model.Unavailable, "systemd does not answer: %w", err)
		if s.user {
			return said.WithHint("for the whole machine, as root: sudo %s join --service", s.env.Program)
		}
		return said
	}
	return nil
}

// install installs the binary and the unit file and starts the unit. It returns when the agent is connected, or has
// asked to join.
func (s *systemdService) install(ctx context.Context, joined bool) error {
	if err := s.copyBinary(); err != nil {
		return err
	}
	if err := s.writeUnit(); err != nil {
		return err
	}
	for _, words := range [][]string{{"daemon-reload"}, {"enable", unitName}, {"restart", unitName}} {
		if _, err := s.systemctl(ctx, words...); err != nil {
			return s.withLastLogLines(ctx, err)
		}
	}
	return s.awaitConnection(ctx, joined)
}

// writeUnit writes the systemd unit file, unless the installed package has a suitable unit file.
func (s *systemdService) writeUnit() error {
	file := s.unitFile()
	if file != s.root+packagedUnit {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := disk.WriteFile(disk.OS{}, filepath.Dir(file), filepath.Base(file), []byte(s.unitContent())); err != nil {
			return fmt.Errorf("write systemd unit %s: %w", file, err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.env.Out, "  %-9s %s\n", "unit", file)
	return nil
}

// unitFile returns the path of the agent's systemd unit file. It is the package's file if that fits the service,
// otherwise a file in /etc or in the user's folder.
func (s *systemdService) unitFile() string {
	if s.user {
		return filepath.Join(s.root+filepath.Dir(filepath.Dir(defaultConfig(s.env.Getenv))), "systemd", "user", unitName)
	}
	file := s.root + "/etc/systemd/system/" + unitName
	if s.program == packagedProgram && s.config == "" && s.stateDir == defaultStateDir && fileExists(s.root+packagedUnit) && !fileExists(file) {
		return s.root + packagedUnit
	}
	return file
}

// fileExists reports whether the named file exists.
func fileExists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// copyBinary copies the running program to its installed path, atomically.
func (s *systemdService) copyBinary() error {
	to := s.root + s.installedPath()
	if s.installedPath() == s.program {
		return nil
	}
	from, err := os.Open(s.program)
	if err != nil {
		return fmt.Errorf("install the agent as %s: %w", to, err)
	}
	defer from.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	beside, err := os.CreateTemp(filepath.Dir(to), ".muster-agent-")
	if err != nil {
		return fmt.Errorf("install the agent as %s: %w", to, err)
	}
	defer os.Remove(beside.Name())
	_, err = io.Copy(beside, from)
	err = errors.Join(err, beside.Chmod(0o755), beside.Sync(), beside.Close())
	if err == nil {
		err = os.Rename(beside.Name(), to)
	}
	if err != nil {
		return fmt.Errorf("install the agent as %s: %w", to, err)
	}
	fmt.Fprintf(s.env.Out, "  %-9s %s\n", "program", to)
	return nil
}

// awaitConnection polls the unit's status text until the agent reports a connection to the server.
func (s *systemdService) awaitConnection(ctx context.Context, joined bool) error {
	deadline := time.NewTimer(s.connectTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		state, err := s.systemctl(ctx, "show", "--property=ActiveState", "--property=StatusText", unitName)
		if err != nil {
			return s.withLastLogLines(ctx, err)
		}
		text := systemdProperty(state, "StatusText")
		switch {
		case strings.HasPrefix(text, agent.Connected):
			fmt.Fprintf(s.env.Out, "\nThe service runs and is %s.\n", text)
			return nil
		case !joined && strings.HasPrefix(text, agent.Waits):
			fmt.Fprintf(s.env.Out, "\nThe service runs and waits for acceptance. Its state: %s\n", s.selectCommand("systemctl status muster-agent", "systemctl --user status muster-agent"))
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return s.withLastLogLines(ctx, fmt.Errorf("the agent's service has no connection to the server after %s: its state is %s, %q", s.connectTimeout, systemdProperty(state, "ActiveState"), text))
		case <-ctx.Done():
			return s.withLastLogLines(context.WithoutCancel(ctx), errors.New("interrupted before the service connected; the service continues"))
		}
	}
}

// systemdProperty returns the value of one property from the output of systemctl show.
func systemdProperty(shown, name string) string {
	for line := range strings.Lines(shown) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// withLastLogLines adds the last lines of the agent's log to an error.
func (s *systemdService) withLastLogLines(ctx context.Context, err error) error {
	log, _ := s.runCommand(ctx, "journalctl", s.selectCommand("--unit", "--user-unit"), unitName, "--identifier", filepath.Base(s.installedPath()),
		"--lines", "10", "--no-pager", "--output", "cat")
	if log = strings.TrimSpace(log); log != "" {
		err = fmt.Errorf("%w\n%s", err, log)
	}
	follow := s.selectCommand("journalctl -f -u muster-agent", "journalctl -f --user-unit muster-agent")
	return model.Errorf(model.Unavailable, "%w", err).WithHint("see %s", follow)
}

// selectCommand returns the first text for a system-wide service, and the second text for a user's service.
func (s *systemdService) selectCommand(machine, user string) string {
	if s.user {
		return user
	}
	return machine
}

// systemctl runs systemctl, with --user for the service of a user, and returns the output.
func (s *systemdService) systemctl(ctx context.Context, words ...string) (string, error) {
	if s.user {
		words = append([]string{"--user"}, words...)
	}
	return s.runCommand(ctx, "systemctl", words...)
}

// runCommand runs a command of systemd for at most two minutes. A systemd that hangs must not block join.
func (s *systemdService) runCommand(ctx context.Context, name string, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, words...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("command %s %s failed: %w %s", name, strings.Join(words, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}

// unitHead and one of unitSystem and unitUser are the unit that --service writes. A changed line needs its reason
// in its comment: an operator reads them before letting it run as root.
const unitHead = `# A package or muster-agent join --service writes this file, and overwrites it later. Change it with
# systemctl edit muster-agent.
[Unit]
Description=Muster agent: runs the checks of this machine
Wants=network-online.target
After=network-online.target
# systemd starts it again without limit: a server may be away for days.
StartLimitIntervalSec=0

[Service]
# The agent says when it runs, and in systemctl status how it is.
Type=notify
NotifyAccess=main
ExecStart=%s
Restart=always
# Not sooner: an agent that the server refuses for good would ask all the time.
RestartSec=30
# A stop is told to the agent alone: it ends its checks, sends what it can (seconds) and
# says goodbye, so that nobody takes it for dead. What is left then is killed.
KillMode=mixed
TimeoutStopSec=30
# A check that the kernel kills for want of memory is a result, and no reason to stop.
OOMPolicy=continue
`

const unitSystem = `
# Checks read the whole machine, and some change user (runAs), use sudo or setuid programs. So
# there is no User=, no NoNewPrivileges=, no PrivateTmp=, PrivateDevices= or ProtectProc=
# (they look at /tmp, disks and processes), no ProtectHostname= or ProtectClock= (the agent
# notices a new host name; the latter hides disks), no ProtectKernelModules= or
# ProtectKernelLogs= (they look at /usr/lib/modules and dmesg), no SystemCallArchitectures=
# and MemoryDenyWriteExecute= (old vendors' tools, and runtimes that compile).
#
# Identity, assignment and results that wait: /var/lib/muster-agent.
%s
# System, settings and people's files can be read and not written.
ProtectSystem=full
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectControlGroups=yes
# What root is here: reads all files and processes, changes user, ends what it started, asks
# the network (ping, DHCP), disks (SMART) and the kernel's log. No mounts, modules, clock, firewall.
CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_DAC_OVERRIDE CAP_SETUID CAP_SETGID CAP_KILL CAP_SYS_PTRACE CAP_NET_RAW CAP_NET_BIND_SERVICE CAP_SYS_RAWIO CAP_SYSLOG CAP_AUDIT_WRITE CAP_SYS_RESOURCE
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallFilter=~@cpu-emulation @module @mount @obsolete @reboot @swap
SystemCallErrorNumber=EPERM
`

const unitUser = `
# It has this user's rights; nothing that it starts gets more.
NoNewPrivileges=yes
`

// unitContent returns the text of the systemd unit file.
func (s *systemdService) unitContent() string {
	var b strings.Builder
	words := s.execWords()
	for i := range words {
		words[i] = quoteExecWord(words[i])
	}
	fmt.Fprintf(&b, unitHead, strings.Join(words, " "))
	target := "multi-user.target"
	if s.user {
		b.WriteString(unitUser)
		target = "default.target"
	} else {
		state := "StateDirectory=muster-agent\nStateDirectoryMode=0700"
		if s.stateDir != defaultStateDir {
			state = "# Here it is another folder.\nReadWritePaths=" + quoteExecWord("-"+s.stateDir)
		}
		fmt.Fprintf(&b, unitSystem, state)
	}
	fmt.Fprintf(&b, "\n[Install]\nWantedBy=%s\n", target)
	return b.String()
}

// quoteExecWord quotes a word for the line ExecStart of a systemd unit.
func quoteExecWord(w string) string {
	w = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(w)
	if strings.ContainsAny(w, " \t'\"\\;") {
		return `"` + w + `"`
	}
	return w
}
