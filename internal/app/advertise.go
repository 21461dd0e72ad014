package app

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// advertised are the names and addresses of the server's certificate: those of this
// machine or, where they are set, those of --advertise, and those where agents are sent.
func (s *Server) advertised(ctx context.Context) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	add := func(address string) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = strings.Trim(address, "[]")
		}
		if !slices.Contains(names, host) {
			names = append(names, host)
		}
	}
	for _, address := range s.cfg.AgentServers {
		add(address)
	}
	if len(s.cfg.Advertise) > 0 {
		for _, address := range s.cfg.Advertise {
			add(address)
		}
		return names
	}
	if host, err := os.Hostname(); err == nil {
		add(host)
		add(fullName(ctx, host))
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return names
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			add(ip.IP.String())
		}
	}
	return names
}

// fullName is what hosts file or resolver call this machine, if they begin with its host
// name; else that. A resolver that does not answer holds up the start for a second.
func fullName(ctx context.Context, host string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	full, err := net.DefaultResolver.LookupCNAME(ctx, host)
	if full = strings.TrimSuffix(full, "."); err != nil || !strings.HasPrefix(full, host+".") {
		return host
	}
	return full
}

// agentAddresses are where agents find this server, for join tokens.
func (s *Server) agentAddresses() []string {
	if len(s.cfg.AgentServers) > 0 {
		return s.cfg.AgentServers
	}
	listener := s.people
	if s.agents != nil {
		listener = s.agents
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	hosts := s.cfg.Advertise
	if len(hosts) == 0 {
		for _, name := range s.names {
			if name != "localhost" && name != "::1" && name != "127.0.0.1" {
				hosts = append(hosts, name)
			}
		}
		hosts = append(hosts, "127.0.0.1")
	}
	out := make([]string, 0, len(hosts))
	for _, h := range hosts {
		if _, _, err := net.SplitHostPort(h); err == nil {
			out = append(out, h)
			continue
		}
		out = append(out, net.JoinHostPort(strings.Trim(h, "[]"), port))
	}
	return out
}
