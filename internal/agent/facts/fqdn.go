package facts

import (
	"context"
	"net"
	"strings"
)

// fullName is the resolver's answer for a host name.
type fullName struct{ host, name string }

// Resolve asks the resolver for the full name of a machine whose host name and hosts
// file have none, until ctx ends; later Measures report the answer. An answer stays until
// another one comes: a resolver that is away takes nothing back.
func (m *Meter) Resolve(ctx context.Context) {
	t := tree{m.system.Root}
	host := t.line("proc/sys/kernel/hostname")
	if host == "" && m.system.Hostname != nil {
		host = m.system.Hostname()
	}
	if host == "" || strings.Contains(host, ".") || t.hosts(host) != "" || m.system.Canonical == nil {
		return
	}
	if name, ok := m.system.Canonical(ctx, host); ok && strings.Contains(name, ".") {
		m.mu.Lock()
		m.full = fullName{host, name}
		m.mu.Unlock()
	}
}

func (m *Meter) fqdn(t tree, host string) string {
	if strings.Contains(host, ".") {
		return strings.TrimSuffix(host, ".")
	}
	if name := t.hosts(host); name != "" {
		return name
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full.host != host {
		return ""
	}
	return m.full.name
}

// hosts is the full name that /etc/hosts gives a host: the first one with a dot of a
// line that names it, as hostname -f does it. localhost is nobody's.
func (t tree) hosts(host string) string {
	if host == "" {
		return ""
	}
	for line := range strings.Lines(t.text("etc/hosts")) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		named, full := false, ""
		for i, name := range fields {
			if i == 0 {
				continue // the address
			}
			named = named || strings.EqualFold(name, host) || len(name) > len(host) && strings.EqualFold(name[:len(host)+1], host+".")
			if full == "" && strings.Contains(name, ".") && !strings.HasPrefix(name, "localhost.") {
				full = name
			}
		}
		if named && full != "" {
			return strings.TrimSuffix(full, ".")
		}
	}
	return ""
}

// canonical asks for the name that the host's address stands under. Search domains of
// resolv.conf apply.
func canonical(ctx context.Context, host string) (string, bool) {
	name, err := net.DefaultResolver.LookupCNAME(ctx, host)
	name = strings.TrimSuffix(name, ".")
	return name, err == nil && !strings.HasPrefix(name, "localhost")
}
