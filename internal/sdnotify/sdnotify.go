// Package sdnotify sends the state of a program to its service manager (sd_notify(3)): READY, and
// the line that systemctl status shows. In: lines NAME=VALUE. Out: datagrams. No goroutines and
// no locks.
package sdnotify

import (
	"net"
	"strings"
)

// Manager is the process's connection to its service manager, systemd. The zero Manager drops all messages.
type Manager struct {
	Socket string // NOTIFY_SOCKET of the environment
}

// Status sets the status line that systemctl status shows.
func (m Manager) Status(text string) { m.Notify("STATUS=" + strings.Join(strings.Fields(text), " ")) }

// Notify sends state lines such as READY=1, each NAME=VALUE, to systemd. It waits for no answer and ignores
// errors: a program runs without its manager, too.
func (m Manager) Notify(lines string) {
	if m.Socket == "" {
		return
	}
	name := m.Socket
	if name[0] == '@' {
		name = "\x00" + name[1:] // the abstract namespace
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(lines))
}
