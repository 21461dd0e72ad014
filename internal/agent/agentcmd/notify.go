package agentcmd

import (
	"net"
	"strings"
)

// notifier tells the service manager how the agent is, where it wants to know
// (sd_notify(3)): `systemctl status` shows it. The zero notifier tells nobody.
type notifier struct{ socket string }

func (n notifier) status(text string) { n.tell("STATUS=" + strings.ReplaceAll(text, "\n", " ")) }

func (n notifier) tell(lines string) {
	if n.socket == "" {
		return
	}
	name := n.socket
	if name[0] == '@' {
		name = "\x00" + name[1:] // the abstract namespace
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return // nobody to tell it to
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(lines))
}
