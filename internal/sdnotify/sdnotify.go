// Package sdnotify tells the service manager how a program is, where it wants to know
// (sd_notify(3)): that it is ready, and the line that systemctl status shows.
package sdnotify

import (
	"net"
	"strings"
)

// Manager is whom to tell. The zero one tells nobody.
type Manager struct {
	Socket string // NOTIFY_SOCKET of the environment
}

// Status is the line that systemctl status shows.
func (m Manager) Status(text string) { m.Tell("STATUS=" + strings.Join(strings.Fields(text), " ")) }

// Tell sends lines of the form NAME=VALUE. Nobody waits for an answer, and a manager
// that is away changes nothing.
func (m Manager) Tell(lines string) {
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
