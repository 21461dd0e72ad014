package model

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// CheckHostPort returns the error in an address HOST:PORT. HOST is a name, an IPv4 address or an IPv6 address in
// brackets.
func CheckHostPort(text string) error {
	bad := func(format string, args ...any) error {
		return Errorf(Invalid, "server address "+format, args...).WithHint("write HOST:PORT: muster.example.org:8443, 10.0.0.7:8443 or [fd00::7]:8443")
	}
	if rest, ok := strings.CutPrefix(text, "https://"); ok {
		return bad("%q: agents speak no HTTP, write %s", text, strings.TrimRight(rest, "/"))
	}
	if host, port, err := net.SplitHostPort(text); err == nil {
		switch {
		case host == "":
			return bad("%q names no host", text)
		case strings.ContainsAny(host, "/ ,@[]"):
			return bad("%q: %q is no host", text, host)
		case !isPort(port):
			return bad("%q: %q is no port", text, port)
		}
		return nil
	}
	at := strings.LastIndexByte(text, ':')
	switch bare := strings.Trim(text, "[]"); {
	case text == "" || strings.ContainsAny(text, "/ ,@"):
		return bad("%q cannot be read", text)
	case at < 0:
		return bad("%q has no port: write %s:8443", text, text)
	case strings.HasPrefix(text, "["):
		return bad("%q has no port: write [%s]:8443", text, bare)
	case isIP(text) && isIP(text[:at]) && isPort(text[at+1:]):
		return bad("%q can be read in two ways: with a port, write [%s]:%s; without one, write [%s]:8443", text, text[:at], text[at+1:], text)
	case isIP(text):
		return bad("%q has no port: write [%s]:8443", text, text)
	}
	return bad("%q: an IPv6 address stands in brackets, write [%s]:%s", text, text[:at], text[at+1:])
}

// HostOf returns the host of HOST:PORT; a text without a port is a host.
func HostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

func isIP(text string) bool { _, err := netip.ParseAddr(text); return err == nil }

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
