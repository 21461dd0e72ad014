package agentcmd

import (
	"fmt"
	"strings"
)

// unitHead and one of unitSystem and unitUser are the unit that --service writes. A changed line needs its reason
// in its comment: an operator reads them before letting it run as root.
const unitHead = `# Written by muster-agent join --service, and again by the next one: change it with
# systemctl edit muster-agent.
[Unit]
Description=Muster agent: runs the checks of this machine
Wants=network-online.target
After=network-online.target
# It is started again for ever: a server may be away for days.
StartLimitIntervalSec=0

[Service]
# The agent says when it runs, and in systemctl status how it is.
Type=notify
NotifyAccess=main
ExecStart=%s
Restart=always
# Not sooner: who is refused for good would else ask all the time.
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

// unit is the file as it is to be.
func (s *service) unit() string {
	var b strings.Builder
	fmt.Fprintf(&b, unitHead, execLine(s.words()))
	target := "multi-user.target"
	if s.user {
		b.WriteString(unitUser)
		target = "default.target"
	} else {
		state := "StateDirectory=muster-agent\nStateDirectoryMode=0700"
		if s.stateDir != "/var/lib/muster-agent" {
			state = "# Here it is another folder.\nReadWritePaths=" + execWord("-"+s.stateDir)
		}
		fmt.Fprintf(&b, unitSystem, state)
	}
	fmt.Fprintf(&b, "\n[Install]\nWantedBy=%s\n", target)
	return b.String()
}

func execLine(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = execWord(w)
	}
	return strings.Join(out, " ")
}

// execWord is a word as systemd reads it back.
func execWord(w string) string {
	w = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(w)
	if strings.ContainsAny(w, " \t'\"\\;") {
		return `"` + w + `"`
	}
	return w
}
