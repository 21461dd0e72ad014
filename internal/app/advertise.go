package app

import (
	"context"
	"net"
	"os"
	"regexp"
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
		var bound net.IP
		if a, ok := addrOf(listener); ok {
			bound = a.IP
		}
		hosts = byUse(bound, s.names, inside())
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

// byUse orders the names and addresses of this machine for others, the most useful first:
// each that leads nowhere costs a machine that joins some seconds. bound is what the
// listener hears; inside are addresses that only this machine's containers reach.
func byUse(bound net.IP, names []string, inside map[string]bool) []string {
	if bound != nil && !bound.IsUnspecified() {
		return []string{bound.String()}
	}
	onlyIPv4 := bound.To4() != nil
	rank := func(name string) int {
		ip := net.ParseIP(name)
		switch {
		case ip == nil && strings.Contains(name, "."):
			return 0 // a full name stays when addresses change
		case ip != nil && ip.IsLoopback():
			return 6
		case inside[name]:
			return 5
		case ip == nil:
			return 4 // a name that others may know, or not
		case ip.To4() != nil:
			return 1
		case ip.IsPrivate():
			return 3
		}
		return 2
	}
	var out []string
	for _, name := range names {
		ip := net.ParseIP(name)
		if name != "localhost" && name != "::1" && (ip == nil || ip.To4() != nil || !onlyIPv4) {
			out = append(out, name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return rank(a) - rank(b) })
	return out
}

// inside are the addresses of bridges that containers and virtual machines make here.
func inside() map[string]bool {
	out := map[string]bool{}
	list, _ := net.Interfaces() // without them no address is known to be one
	for _, i := range list {
		if !bridge.MatchString(i.Name) {
			continue
		}
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if ip, ok := a.(*net.IPNet); ok {
				out[ip.IP.String()] = true
			}
		}
	}
	return out
}

var bridge = regexp.MustCompile(`^(docker|br-|veth|virbr|vnet|lxc|lxd|cni|flannel|cali|podman|kube)`)
