package collect

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/muster-fleet/muster/internal/item"
)

// pingParameters are the parameters of icmpping and icmppingloss.
const pingParameters = "[target,packets,milliseconds between packets,bytes,milliseconds of a reply,allow_redirect]"

// pingFamily describes echo requests and replies of IPv4 or IPv6.
type pingFamily struct {
	datagram, raw string // networks of sockets without and with privileges
	address       string
	protocol      int
	request       icmp.Type
	reply         icmp.Type
}

// pingFamilies has the protocols of ICMP: of IPv4 and of IPv6.
var pingFamilies = [2]pingFamily{
	{"udp4", "ip4:icmp", "0.0.0.0", 1, ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply},
	{"udp6", "ip6:ipv6-icmp", "::", 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply},
}

// ping holds the parameters of a series of echo requests to one address.
type ping struct {
	target            string
	packets, bytes    int
	interval, timeout time.Duration
	mode              string // of icmppingsec
	redirect          bool   // replies of other addresses count
}

// parsePing parses the parameters of an ICMP ping.
func parsePing(k *Key) (p ping, err error) {
	if p.target = k.Parameter(0, ""); p.target == "" {
		return p, fmt.Errorf("%s: the target is missing: an agent would ping its own machine; write %s[TARGET]", k.Name, k.Name)
	}
	var numbers [4]int
	for i, of := range [...]struct {
		name         string
		least, most  int
		defaultValue string
	}{{"packets", 1, 100, "3"}, {"milliseconds between packets", 20, 3000, "1000"}, {"bytes", 24, 65507, "56"}, {"milliseconds of a reply", 50, 3000, "500"}} {
		text := k.Parameter(i+1, of.defaultValue)
		if numbers[i], err = strconv.Atoi(text); err != nil || numbers[i] < of.least || numbers[i] > of.most {
			return p, fmt.Errorf("%s: the %s in the item key are %q, expected a number from %d to %d", k.Name, of.name, text, of.least, of.most)
		}
	}
	p.packets, p.bytes, p.interval, p.timeout = numbers[0], numbers[2], time.Duration(numbers[1])*time.Millisecond, time.Duration(numbers[3])*time.Millisecond
	if all := time.Duration(p.packets-1)*p.interval + p.timeout; all >= itemTimeout {
		return p, fmt.Errorf("%s: all packets take %s in total, but the agent collects an item for less than %s", k.Name, all, itemTimeout)
	}
	option := 5
	if k.Name == "icmppingsec" {
		if p.mode, option = k.Parameter(5, "avg"), 6; p.mode != "min" && p.mode != "avg" && p.mode != "max" {
			return p, errUnknownMode(k, 5, "min", "avg", "max")
		}
	}
	switch k.Parameter(option, "") {
	case "":
	case "allow_redirect":
		p.redirect = true
	default:
		return p, errUnknownMode(k, option, "allow_redirect")
	}
	return p, nil
}

// icmpPing collects the items icmpping, icmppingloss and icmppingsec by ICMP echo requests. The value of icmpping is 1
// if the target answers, else 0. The value of icmppingloss is the percentage of requests without a reply. The value of
// icmppingsec is the seconds until the replies, 0 without one.
func icmpPing(ctx context.Context, _ *machine, k *Key) (item.Value, error) {
	p, err := parsePing(k)
	if err != nil {
		return item.Value{}, err
	}
	times, err := p.send(ctx)
	if err != nil {
		return item.Value{}, fmt.Errorf("%s: %w", k.Name, err)
	}
	switch k.Name {
	case "icmpping":
		return boolNumber(len(times) > 0), nil
	case "icmppingloss":
		return item.FromFloat(100 * float64(p.packets-len(times)) / float64(p.packets)), nil
	}
	return item.FromFloat(p.replySeconds(times)), nil
}

// replySeconds returns the least, average or greatest reply time of a ping, or 0 without a reply. As in Zabbix, a time is
// at least a tenth of a millisecond.
func (p *ping) replySeconds(times []time.Duration) float64 {
	if len(times) == 0 {
		return 0
	}
	least, most, sum := times[0], times[0], time.Duration(0)
	for _, one := range times {
		least, most, sum = min(least, one), max(most, one), sum+one
	}
	out := map[string]time.Duration{"min": least, "max": most, "avg": sum / time.Duration(len(times))}[p.mode]
	return max(out, 100*time.Microsecond).Seconds()
}

// resolve looks up an IP address of the ping's target host, by preference an IPv4 address.
func (p *ping) resolve(ctx context.Context) (netip.Addr, error) {
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", p.target)
	if err != nil {
		return netip.Addr{}, err
	}
	for i := range list {
		if list[i] = list[i].Unmap(); list[i].Is4() {
			return list[i], nil
		}
	}
	return list[0], nil
}

// openEchoSocket opens a socket for ICMP echo requests. It opens an unprivileged socket if the kernel allows one,
// otherwise a raw socket.
func openEchoSocket(of *pingFamily) (conn *icmp.PacketConn, datagram bool, err error) {
	if conn, err = icmp.ListenPacket(of.datagram, of.address); err == nil {
		return conn, true, nil
	}
	raw, rawErr := icmp.ListenPacket(of.raw, of.address)
	if rawErr == nil {
		return raw, false, nil
	}
	return nil, false, fmt.Errorf("the kernel refuses ICMP sockets: add the agent's group to the sysctl net.ipv4.ping_group_range, or give the agent CAP_NET_RAW: %w", errors.Join(err, rawErr))
}

// send sends the echo requests and returns the times of the replies.
func (p *ping) send(ctx context.Context) (times []time.Duration, err error) {
	address, err := p.resolve(ctx)
	if err != nil {
		return nil, err
	}
	of := &pingFamilies[0]
	if address.Is6() {
		of = &pingFamilies[1]
	}
	conn, datagram, err := openEchoSocket(of)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var to net.Addr = &net.IPAddr{IP: address.AsSlice(), Zone: address.Zone()}
	if datagram {
		to = &net.UDPAddr{IP: address.AsSlice(), Zone: address.Zone()}
	}
	data := make([]byte, p.bytes) // random bytes tell replies to other programs apart
	_, _ = rand.Read(data[:16])
	r := echoReader{conn: conn, of: of, target: address, redirect: p.redirect, token: string(data[:16]), sent: make([]time.Time, p.packets), answered: make([]bool, p.packets), timeout: p.timeout, buffer: make([]byte, 1<<16)}
	began := time.Now()
	for i := range p.packets {
		request, err := (&icmp.Message{Type: of.request, Body: &icmp.Echo{ID: int(data[0])<<8 | int(data[1]), Seq: i, Data: data}}).Marshal(nil)
		if err != nil {
			return nil, err
		}
		r.sent[i] = time.Now()
		_, _ = conn.WriteTo(request, to) // without a route the request is lost
		until := began.Add(time.Duration(i+1) * p.interval)
		if i == p.packets-1 {
			until = r.sent[i].Add(p.timeout)
		}
		if err := r.read(ctx, until, i == p.packets-1); err != nil {
			return nil, err
		}
	}
	return r.times, nil
}

// echoReader reads the replies to echo requests.
type echoReader struct {
	conn     *icmp.PacketConn
	of       *pingFamily
	target   netip.Addr
	redirect bool
	token    string // at the start of the data
	sent     []time.Time
	answered []bool
	timeout  time.Duration
	times    []time.Duration
	buffer   []byte
}

// read reads echo replies until the given deadline. With last, it also ends as soon as each request has a reply.
func (r *echoReader) read(ctx context.Context, until time.Time, last bool) error {
	if err := r.conn.SetReadDeadline(until); err != nil {
		return err
	}
	for !last || len(r.times) < len(r.sent) {
		n, from, err := r.conn.ReadFrom(r.buffer)
		var timeout net.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &timeout) && timeout.Timeout():
			return nil
		case err != nil && !time.Now().Before(until):
			return nil
		case err == nil:
			r.addReply(r.buffer[:n], from, time.Now())
		}
	}
	return nil
}

// addReply records the time of a reply to an echo request. Only the first reply to a request counts, if it arrives in
// time.
func (r *echoReader) addReply(data []byte, from net.Addr, now time.Time) {
	m, err := icmp.ParseMessage(r.of.protocol, data)
	if err != nil || m.Type != r.of.reply {
		return
	}
	echo, ok := m.Body.(*icmp.Echo)
	if !ok || echo.Seq >= len(r.sent) || r.answered[echo.Seq] || len(echo.Data) < len(r.token) || string(echo.Data[:len(r.token)]) != r.token {
		return
	}
	if !r.redirect && senderAddress(from).WithZone("") != r.target.WithZone("") {
		return
	}
	if took := now.Sub(r.sent[echo.Seq]); !r.sent[echo.Seq].IsZero() && took <= r.timeout {
		r.answered[echo.Seq] = true
		r.times = append(r.times, took)
	}
}

// senderAddress returns the IP address of the sender of an echo reply.
func senderAddress(from net.Addr) (address netip.Addr) {
	switch of := from.(type) {
	case *net.UDPAddr:
		address, _ = netip.AddrFromSlice(of.IP)
	case *net.IPAddr:
		address, _ = netip.AddrFromSlice(of.IP)
	}
	return address.Unmap()
}
