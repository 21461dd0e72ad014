package collect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/muster-fleet/muster/internal/item"
)

// recordTypes maps the names of the record types that net.dns may ask for to the types.
var recordTypes = map[string]dnsmessage.Type{
	"A": dnsmessage.TypeA, "AAAA": dnsmessage.TypeAAAA, "CNAME": dnsmessage.TypeCNAME, "MX": dnsmessage.TypeMX, "NS": dnsmessage.TypeNS,
	"PTR": dnsmessage.TypePTR, "SOA": dnsmessage.TypeSOA, "SRV": dnsmessage.TypeSRV, "TXT": dnsmessage.TypeTXT,
}

// dnsItems collects the items net.dns, net.dns.perf and net.dns.record from a DNS server. The value of
// net.dns[SERVER,NAME,TYPE,SECONDS,TRIES,udp|tcp] is 1 if the server has the record, else 0. The value of net.dns.perf
// is the seconds until the answer, 0 without one. The value of net.dns.record is the records.
func dnsItems(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	q, err := m.parseDNSQuery(k)
	if err != nil {
		return item.Value{}, err
	}
	began := time.Now()
	records, err := q.send(ctx)
	switch {
	case k.Name == "net.dns":
		return boolNumber(err == nil), nil
	case k.Name == "net.dns.perf" && err != nil:
		return item.FromFloat(0), nil
	case k.Name == "net.dns.perf":
		return item.FromFloat(time.Since(began).Seconds()), nil
	case err != nil:
		return item.Value{}, fmt.Errorf("%s: %w", k.Name, err)
	}
	return item.FromText(strings.Join(records, "\n")), nil
}

// dnsQuery is a question to a DNS server.
type dnsQuery struct {
	server  string // with its port
	network string
	name    dnsmessage.Name
	kind    string
	wait    time.Duration // for one try
	tries   int
}

// parseDNSQuery parses the parameters of the item net.dns, a query to a DNS server.
func (m *machine) parseDNSQuery(k *Key) (q dnsQuery, err error) {
	if q.server, err = m.dnsServerAddress(k); err != nil {
		return q, err
	}
	name := k.Parameter(1, "")
	if name == "" {
		return q, fmt.Errorf("%s: the name is missing; write %s[SERVER,NAME]", k.Name, k.Name)
	}
	if q.kind = strings.ToUpper(k.Parameter(2, "SOA")); recordTypes[q.kind] == 0 {
		return q, errUnknownMode(k, 2, slices.Sorted(maps.Keys(recordTypes))...)
	}
	if address, err := netip.ParseAddr(name); err == nil && q.kind == "PTR" {
		name = reverseName(address)
	}
	if q.name, err = dnsmessage.NewName(strings.TrimRight(name, ".") + "."); err != nil {
		return q, fmt.Errorf("%s: the name %q is not valid", k.Name, name)
	}
	seconds, err := strconv.ParseUint(k.Parameter(3, "1"), 10, 8)
	if err != nil || seconds == 0 {
		return q, fmt.Errorf("%s: the seconds of the timeout are %q, expected a number from 1 to 255", k.Name, k.Parameter(3, ""))
	}
	tries, err := strconv.ParseUint(k.Parameter(4, "2"), 10, 8)
	if err != nil || tries == 0 {
		return q, fmt.Errorf("%s: the tries in the item key are %q, expected a number from 1 to 255", k.Name, k.Parameter(4, ""))
	}
	q.wait, q.tries = time.Duration(seconds)*time.Second, int(tries)
	if all := q.wait * time.Duration(tries); all >= itemTimeout { // else the item would be unsupported in place of 0
		return q, fmt.Errorf("%s: all tries take %s in total, but the agent collects an item for at most %s; use fewer tries or a shorter timeout", k.Name, all, itemTimeout)
	}
	if q.network = k.Parameter(5, "udp"); q.network != "udp" && q.network != "tcp" {
		return q, errUnknownMode(k, 5, "udp", "tcp")
	}
	return q, nil
}

// dnsServerAddress returns the address of the DNS server for an item key. It is the key's first parameter, or the first
// server in /etc/resolv.conf.
func (m *machine) dnsServerAddress(k *Key) (string, error) {
	server := k.Parameter(0, "")
	if server == "" {
		text, err := m.read("/etc/resolv.conf")
		if err != nil {
			return "", fmt.Errorf("%s: name the DNS server: %w", k.Name, err)
		}
		for line := range strings.Lines(text) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
				server = fields[1]
				break
			}
		}
	}
	if at, err := netip.ParseAddrPort(server); err == nil {
		return at.String(), nil
	}
	address, err := netip.ParseAddr(server)
	if err != nil {
		return "", fmt.Errorf("%s: the DNS server %q is not an IP address", k.Name, server)
	}
	return netip.AddrPortFrom(address, 53).String(), nil
}

// reverseName returns the name under which DNS stores the host name of an IP address, such as 7.0.0.10.in-addr.arpa.
func reverseName(address netip.Addr) string {
	bytes, digits, zone := address.AsSlice(), []string{}, "in-addr.arpa"
	if slices.Reverse(bytes); address.Is4() {
		for _, b := range bytes {
			digits = append(digits, strconv.Itoa(int(b)))
		}
	} else {
		zone = "ip6.arpa"
		for _, b := range bytes {
			digits = append(digits, strconv.FormatUint(uint64(b&15), 16), strconv.FormatUint(uint64(b>>4), 16))
		}
	}
	return strings.Join(digits, ".") + "." + zone
}

// errNoRecords is the error about an answer without records of the type.
var errNoRecords = errors.New("the server has no such record")

// send sends the question to the DNS server repeatedly, until an answer comes or all tries have failed. It
// returns the records of the answer, each as NAME TYPE VALUE.
func (q *dnsQuery) send(ctx context.Context) (records []string, err error) {
	for range q.tries {
		var answer dnsmessage.Message
		if answer, err = q.sendOnce(ctx, q.network); err == nil && answer.Truncated && q.network == "udp" {
			answer, err = q.sendOnce(ctx, "tcp")
		}
		if err == nil {
			return q.records(&answer)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// records returns the values of the records in a DNS answer that have the requested type.
func (q *dnsQuery) records(answer *dnsmessage.Message) (records []string, err error) {
	if answer.RCode != dnsmessage.RCodeSuccess {
		return nil, fmt.Errorf("DNS server %s answers %s", q.server, strings.TrimPrefix(answer.RCode.String(), "RCode"))
	}
	for i := range answer.Answers {
		r := &answer.Answers[i]
		if r.Header.Type == recordTypes[q.kind] {
			records = append(records, fmt.Sprintf("%-20s %-8s %s", strings.TrimSuffix(r.Header.Name.String(), "."), q.kind, recordText(r.Body)))
		}
	}
	if len(records) == 0 {
		return nil, errNoRecords
	}
	return records, nil
}

// sendOnce sends the question to the DNS server once and returns the answer.
func (q *dnsQuery) sendOnce(ctx context.Context, network string) (answer dnsmessage.Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, q.wait)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, q.server)
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return answer, err
	}
	question := dnsmessage.Message{Header: dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true}, Questions: []dnsmessage.Question{{Name: q.name, Type: recordTypes[q.kind], Class: dnsmessage.ClassINET}}}
	body, err := question.Pack()
	if err != nil {
		return answer, err
	}
	if network == "tcp" {
		body = append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...)
	}
	if _, err := conn.Write(body); err != nil {
		return answer, err
	}
	for { // a datagram of another question is left out
		data, err := readDNSMessage(conn, network)
		if err != nil {
			return answer, err
		}
		if err = answer.Unpack(data); err == nil && answer.ID == question.ID && answer.Response {
			return answer, nil
		}
		if network == "tcp" {
			return answer, fmt.Errorf("DNS server %s sent no answer to the question", q.server)
		}
	}
}

// readDNSMessage reads one DNS message from a connection.
func readDNSMessage(conn net.Conn, network string) ([]byte, error) {
	if network == "udp" {
		data := make([]byte, 4096)
		n, err := conn.Read(data)
		return data[:n], err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	data := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(conn, data)
	return data, err
}

// recordText returns the value of a DNS record as text.
func recordText(body dnsmessage.ResourceBody) string {
	name := func(n dnsmessage.Name) string { return strings.TrimSuffix(n.String(), ".") }
	switch r := body.(type) {
	case *dnsmessage.AResource:
		return netip.AddrFrom4(r.A).String()
	case *dnsmessage.AAAAResource:
		return netip.AddrFrom16(r.AAAA).String()
	case *dnsmessage.CNAMEResource:
		return name(r.CNAME)
	case *dnsmessage.NSResource:
		return name(r.NS)
	case *dnsmessage.PTRResource:
		return name(r.PTR)
	case *dnsmessage.MXResource:
		return fmt.Sprintf("%d %s", r.Pref, name(r.MX))
	case *dnsmessage.SRVResource:
		return fmt.Sprintf("%d %d %d %s", r.Priority, r.Weight, r.Port, name(r.Target))
	case *dnsmessage.SOAResource:
		return fmt.Sprintf("%s %s %d %d %d %d %d", name(r.NS), name(r.MBox), r.Serial, r.Refresh, r.Retry, r.Expire, r.MinTTL)
	case *dnsmessage.TXTResource:
		texts := make([]string, len(r.TXT))
		for i := range r.TXT {
			texts[i] = strconv.Quote(r.TXT[i])
		}
		return strings.Join(texts, " ")
	}
	return ""
}
