// Package outbound limits the addresses of connections that users declare in handlers, Assets and Nodes:
// no link-local network and no other metadata service of a cloud, which answers with credentials, and none of the server's
// own listeners. Redirects stay on their host. A setting allows exceptions.
//
// No goroutines, no locks. Start reading at Policy.Dialer.
package outbound

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/muster-fleet/muster/internal/model"
)

// Policy decides to which addresses the server itself may open connections. It also decides about redirects.
// The nil Policy allows all.
type Policy struct {
	networks  []netip.Prefix
	hosts     []string
	listeners func() []net.Addr // TCP addresses on which the server listens
}

// Parse returns a policy for the server's outgoing connections, with addresses, networks and hosts allowed as
// exceptions. Exceptions are addresses, networks and host names.
func Parse(exceptions []string, listeners func() []net.Addr) (*Policy, error) {
	p := &Policy{listeners: listeners}
	for _, text := range exceptions {
		if addr, err := netip.ParseAddr(text); err == nil {
			p.networks = append(p.networks, netip.PrefixFrom(addr, addr.BitLen()))
		} else if network, err := netip.ParsePrefix(text); err == nil {
			p.networks = append(p.networks, network)
		} else if text == "" || strings.ContainsAny(text, ":/ ") {
			return nil, model.Errorf(model.Invalid, "%q is not an IP address, network or host name", text)
		} else {
			p.hosts = append(p.hosts, strings.ToLower(text))
		}
	}
	return p, nil
}

// Dialer returns a dialer that checks each address after DNS resolution. So a name cannot hide a forbidden address.
func (p *Policy) Dialer() *net.Dialer {
	d := &net.Dialer{}
	if p != nil {
		d.Control = func(network, address string, _ syscall.RawConn) error { return p.check(network, address) }
	}
	return d
}

// check returns an error if the policy forbids the server a connection to an address.
func (p *Policy) check(network, address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return model.Errorf(model.Invalid, "%q is not an address of the form IP:PORT", address)
	}
	ip := to.Addr().Unmap().WithZone("")
	if slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(ip) }) {
		return nil
	}
	if kind := MetadataAddress(ip); kind != "" {
		return model.Errorf(model.Forbidden, "%s is %s, which only the server's setting --outbound-allow %s allows", ip, kind, ip)
	}
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	for _, l := range p.listeners() {
		own, ok := l.(*net.TCPAddr)
		if ok && own.Port == int(to.Port()) && isLocal(ip) && (own.IP.IsUnspecified() || own.AddrPort().Addr().Unmap() == ip || ip.IsUnspecified()) {
			return model.Errorf(model.Forbidden, "%s is a listener of this server, which only its setting --outbound-allow %s allows", address, ip)
		}
	}
	return nil
}

// MetadataAddress describes an address of a cloud's metadata service in words. It is empty for other
// addresses.
func MetadataAddress(ip netip.Addr) (kind string) {
	target := embeddedIPv4(ip.Unmap().WithZone(""))
	switch {
	case target.IsLinkLocalUnicast() || target.IsLinkLocalMulticast() || target.IsInterfaceLocalMulticast():
		return "a link-local address"
	case slices.ContainsFunc(metadataNetworks(), func(n netip.Prefix) bool { return n.Contains(target) }):
		return "the address of a cloud's metadata service"
	}
	return ""
}

// metadataNetworks returns the addresses of clouds' metadata services outside of link-local networks. Such a service
// answers its virtual machines with credentials.
func metadataNetworks() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba Cloud
		netip.MustParsePrefix("168.63.129.16/32"),       // Azure
		netip.MustParsePrefix("192.0.0.192/32"),         // Oracle Cloud Classic
		netip.MustParsePrefix("fd00:100::100:200/128"),  // Alibaba Cloud
		netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
		netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"),  // Linode
		netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle Cloud
		netip.MustParsePrefix("fd00:ec2::/32"),          // Amazon, all local services
		netip.MustParsePrefix("fd20:ce::254/128"),       // Google Cloud
	}
}

// embeddedIPv4 returns the IPv4 address to which a gateway translates an IPv6 address. The translation is NAT64 (RFC 6052,
// RFC 8215) or 6to4 (RFC 3056); other addresses are returned unchanged.
func embeddedIPv4(ip netip.Addr) netip.Addr {
	b := ip.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(ip), netip.MustParsePrefix("64:ff9b:1::/48").Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case netip.MustParsePrefix("2002::/16").Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return ip
}

// isLocal reports whether an address belongs to the local machine.
func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		own, ok := a.(*net.IPNet)
		return ok && own.IP.String() == ip.String()
	})
}

// maxRedirects is the most redirects of one request.
const maxRedirects = 10

// CheckRedirect refuses HTTP redirects to other hosts. It is the function http.Client.CheckRedirect.
func (p *Policy) CheckRedirect(to *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errors.New("too many redirects")
	}
	from := via[0].URL
	if host := strings.ToLower(to.URL.Hostname()); p == nil || host == strings.ToLower(from.Hostname()) && (to.URL.Scheme == "https" || from.Scheme == to.URL.Scheme) || p.allowsHost(host) {
		return nil
	}
	return model.Errorf(model.Forbidden, "%s redirects to %s, which only the server's setting --outbound-allow %s allows", from.Host, to.URL.Host, to.URL.Hostname())
}

// allowsHost reports whether an exception of the policy allows a host name or IP address.
func (p *Policy) allowsHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return slices.Contains(p.hosts, host) || err == nil && slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}
