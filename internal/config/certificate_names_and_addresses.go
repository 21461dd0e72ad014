package config

import (
	"context"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// CertificateNames returns the host names and addresses for the server's certificate. They come from --agent-servers
// and --advertise; the default of --advertise is all names of this machine.
func (s *Server) CertificateNames(ctx context.Context) []string {
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
	for _, address := range s.AgentServers {
		add(address)
	}
	if len(s.Advertise) > 0 {
		for _, address := range s.Advertise {
			add(address)
		}
		return names
	}
	if host, err := os.Hostname(); err == nil {
		add(host)
		add(fullHostName(ctx, host))
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

// fullHostName returns the full name of the machine, from the hosts file or DNS. If neither has a full name, it
// returns the short host name. A resolver that does not answer delays the start by a second.
func fullHostName(ctx context.Context, host string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	full, err := net.DefaultResolver.LookupCNAME(ctx, host)
	if full = strings.TrimSuffix(full, "."); err != nil || !strings.HasPrefix(full, host+".") {
		return host
	}
	return full
}

// AgentAddresses returns the addresses to put into join tokens, at which agents connect to the server. Agents
// on other machines connect to one of these addresses. listener is the address of its listener for agents,
// names are the names of its certificate.
func (s *Server) AgentAddresses(listener net.Addr, names []string) []string {
	if len(s.AgentServers) > 0 {
		return s.AgentServers
	}
	_, port, _ := net.SplitHostPort(listener.String())
	hosts := s.Advertise
	if len(hosts) == 0 {
		var bound net.IP
		if a, ok := listener.(*net.TCPAddr); ok {
			bound = a.IP
		}
		hosts = sortForAgents(bound, names, containerAddresses())
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

// sortForAgents sorts the server's addresses for join tokens, with widely reachable addresses first. Addresses
// that other machines can probably reach come first. bound is the address of the listener; containers has the
// addresses that only this machine's containers reach.
func sortForAgents(bound net.IP, names []string, containers map[string]bool) []string {
	if bound != nil && !bound.IsUnspecified() {
		return []string{bound.String()}
	}
	onlyIPv4 := bound.To4() != nil
	rank := func(name string) int {
		ip := net.ParseIP(name)
		switch {
		case ip == nil && strings.Contains(name, "."):
			return 0 // a full host name stays valid when the address changes
		case ip != nil && ip.IsLoopback():
			return 6
		case containers[name]:
			return 5
		case ip == nil:
			return 4 // other machines may not resolve a short name
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

// containerAddresses returns the addresses of the machine's network bridges for containers and virtual
// machines.
func containerAddresses() map[string]bool {
	out := map[string]bool{}
	list, _ := net.Interfaces() // after an error the list is empty
	for _, i := range list {
		if !containerBridge.MatchString(i.Name) {
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

var containerBridge = regexp.MustCompile(`^(docker|br-|veth|virbr|vnet|lxc|lxd|cni|flannel|cali|podman|kube)`)
