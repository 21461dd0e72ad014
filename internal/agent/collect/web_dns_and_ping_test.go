package collect

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/testenv"
)

// expectItem fails the test unless an item has the expected value or error text.
func expectItem(t *testing.T, key, want, wantError string) {
	t.Helper()
	value, err := measureKey(t, key)
	switch {
	case wantError != "" && (err == nil || !strings.Contains(err.Error(), wantError)):
		t.Errorf("%s = %q, error %v, want the error %s", key, value.String(), err, wantError)
	case wantError == "" && (err != nil || value.String() != want):
		t.Errorf("%s = %q, error %v, want %q", key, value.String(), err, want)
	}
}

// TestWebPages collects items about web pages of a local server, and compares their values.
func TestWebPages(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		switch r.URL.Path {
		case "/status":
			_, _ = io.WriteString(w, "Active connections: 7\ntoken "+r.URL.Query().Get("token")+"\n")
		case "/moved":
			http.Redirect(w, r, "/status", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	port := testenv.Value(url.Parse(plain.URL))(t).Port()
	page := "HTTP/1.1 200 OK\r\nContent-Length: 31\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nActive connections: 7\ntoken ab\n"
	expectItem(t, "web.page.get["+plain.URL+"/status?token=ab]", page, "")
	expectItem(t, "web.page.get[127.0.0.1,status?token=ab,"+port+"]", page, "")
	expectItem(t, `web.page.regexp[127.0.0.1,/status,`+port+`,"connections: ([0-9]+)",,\1]`, "7", "")
	expectItem(t, "web.page.regexp["+plain.URL+`/status,,,"^Active.*$",6]`, "Active", "")
	expectItem(t, "web.page.regexp["+plain.URL+"/status,,,nosuch]", "", "")
	expectItem(t, "web.page.regexp["+plain.URL+`/moved,,,"Location: (.*)\r",,\1]`, "/status", "")
	expectItem(t, "web.page.regexp["+plain.URL+"/nosuch,,,404]", "404", "")
	if v, err := measureKey(t, "web.page.perf["+plain.URL+"]"); err != nil || v.Float() <= 0 || v.Float() > 60 {
		t.Errorf("web.page.perf = %v, error %v", v, err)
	}
	for key, want := range map[string]string{
		"web.page.get": "the host is missing", "web.page.get[ftp://x/]": "the URL is not valid", "web.page.get[http://x/,y]": "must not be followed by a path", "web.page.get[127.0.0.1,,x]": "is not a number",
		"web.page.get[127.0.0.1,,1]": "refused", "web.page.perf[http://127.0.0.1:1/]": "refused", "web.page.get[" + secure.URL + "]": "certificate", "web.page.regexp[127.0.0.1]": "regular expression is missing",
		"web.page.regexp[127.0.0.1,,1,(]": "missing closing", "web.page.regexp[127.0.0.1,,1,a,x]": "the length",
	} {
		expectItem(t, key, "", want)
	}
}

// TestWebCertificate reads the certificate of a local TLS server, and compares the collected fields. The certificate
// names example.com alone.
func TestWebCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	port := testenv.Value(url.Parse(server.URL))(t).Port()
	value, err := measureKey(t, "web.certificate.get[example.com,"+port+",127.0.0.1]")
	testenv.NoError(t, err)
	var got certificateJSON
	testenv.NoError(t, json.Unmarshal([]byte(value.String()), &got))
	c := server.Certificate()
	if got.X509.NotAfter.Timestamp != c.NotAfter.Unix() || !slices.Contains(got.X509.AlternativeNames, "example.com") || len(got.SHA256) != 64 || got.X509.Version != 3 || got.Result.Value == "valid" {
		t.Errorf("%s", value.String())
	}
	roots := x509.NewCertPool()
	roots.AddCert(c)
	for _, test := range []struct {
		host  string
		roots *x509.CertPool
		now   time.Time
		want  string
	}{
		{"example.com", roots, time.Now(), "valid"}, {"other.example.org", roots, time.Now(), "invalid"}, {"example.com", roots, c.NotAfter.Add(time.Second), "invalid"},
		{"example.com", x509.NewCertPool(), time.Now(), "valid-but-self-signed"},
	} {
		if got := describeCertificate(test.host, []*x509.Certificate{c}, test.roots, test.now); got.Result.Value != test.want {
			t.Errorf("%s at %s: %+v, want %s", test.host, test.now, got.Result, test.want)
		}
	}
	expectItem(t, "web.certificate.get", "", "the host is missing")
	expectItem(t, "web.certificate.get[https://127.0.0.1:1]", "", "refused")
}

// newDNSServer starts a DNS server on UDP and TCP that knows one record of each type of web.example.org. It drops the first datagram, and
// sends one of another question before the second one.
func newDNSServer(t *testing.T) string {
	udp := testenv.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	tcp, err := net.Listen("tcp", udp.LocalAddr().String())
	for range 100 {
		if err == nil {
			break
		}
		testenv.NoError(t, udp.Close()) // a connection has the port
		udp = testenv.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
		tcp, err = net.Listen("tcp", udp.LocalAddr().String())
	}
	testenv.NoError(t, err)
	t.Cleanup(func() { udp.Close(); tcp.Close() })
	name := dnsmessage.MustNewName
	bodies := map[dnsmessage.Type]dnsmessage.ResourceBody{
		dnsmessage.TypeA: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}, dnsmessage.TypeAAAA: &dnsmessage.AAAAResource{AAAA: netip.MustParseAddr("2001:db8::1").As16()},
		dnsmessage.TypeCNAME: &dnsmessage.CNAMEResource{CNAME: name("a.example.org.")}, dnsmessage.TypeNS: &dnsmessage.NSResource{NS: name("ns.example.org.")},
		dnsmessage.TypePTR: &dnsmessage.PTRResource{PTR: name("web.example.org.")}, dnsmessage.TypeMX: &dnsmessage.MXResource{Pref: 10, MX: name("mx.example.org.")},
		dnsmessage.TypeSRV: &dnsmessage.SRVResource{Priority: 1, Weight: 2, Port: 443, Target: name("web.example.org.")},
		dnsmessage.TypeSOA: &dnsmessage.SOAResource{NS: name("ns.example.org."), MBox: name("ops.example.org."), Serial: 7, Refresh: 1, Retry: 2, Expire: 3, MinTTL: 4},
		dnsmessage.TypeTXT: &dnsmessage.TXTResource{TXT: []string{"v=1", strings.Repeat("x", 200)}},
	}
	answer := func(data []byte, truncate bool) []byte {
		var m dnsmessage.Message
		if m.Unpack(data) != nil || len(m.Questions) != 1 {
			return nil
		}
		q := m.Questions[0]
		m.Response = true
		switch body := bodies[q.Type]; {
		case truncate && q.Type == dnsmessage.TypeTXT:
			m.Truncated = true
		case strings.HasPrefix(q.Name.String(), "nosuch."):
			m.RCode = dnsmessage.RCodeNameError
		case strings.HasPrefix(q.Name.String(), "empty."):
		default:
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}, Body: body}}
		}
		out, _ := m.Pack()
		return out
	}
	var datagrams atomic.Int64
	go func() {
		data := make([]byte, 1<<12)
		for {
			n, from, err := udp.ReadFrom(data)
			if err != nil {
				return
			}
			switch datagrams.Add(1) {
			case 1:
				continue
			case 2:
				other := slices.Clone(data[:n])
				other[0]++
				_, _ = udp.WriteTo(answer(other, true), from)
			}
			_, _ = udp.WriteTo(answer(data[:n], true), from)
		}
	}()
	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			if data, err := readDNSMessage(conn, "tcp"); err == nil {
				out := answer(data, false)
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
			}
			conn.Close()
		}
	}()
	return udp.LocalAddr().String()
}

// TestDNSItems asks a local DNS server for records of each type, and compares the values of the items.
func TestDNSItems(t *testing.T) {
	server := newDNSServer(t)
	for kind, want := range map[string]string{
		"A": "192.0.2.1", "AAAA": "2001:db8::1", "CNAME": "a.example.org", "NS": "ns.example.org", "MX": "10 mx.example.org", "SRV": "1 2 443 web.example.org",
		"SOA": "ns.example.org ops.example.org 7 1 2 3 4", "TXT": `"v=1" "` + strings.Repeat("x", 200) + `"`, "PTR": "web.example.org",
	} {
		expectItem(t, "net.dns.record["+server+",web.example.org,"+kind+"]", "web.example.org      "+kind+strings.Repeat(" ", 9-len(kind))+want, "")
	}
	expectItem(t, "net.dns.record["+server+",192.0.2.1,PTR,,,tcp]", "1.2.0.192.in-addr.arpa PTR      web.example.org", "")
	expectItem(t, "net.dns["+server+",web.example.org]", "1", "")
	expectItem(t, "net.dns["+server+",nosuch.example.org]", "0", "")
	expectItem(t, "net.dns["+server+",empty.example.org]", "0", "")
	expectItem(t, "net.dns.perf["+server+",nosuch.example.org]", "0", "")
	if v, err := measureKey(t, "net.dns.perf["+server+",web.example.org,A]"); err != nil || v.Float() <= 0 {
		t.Errorf("net.dns.perf = %v, error %v", v, err)
	}
	expectItem(t, "net.dns.record["+server+",nosuch.example.org]", "", "answers NameError")
	for key, want := range map[string]string{
		"net.dns[127.0.0.1]": "the name is missing", "net.dns[host,x]": "is not an IP address", "net.dns[127.0.0.1,x,ANY]": "write one of A, AAAA", "net.dns[127.0.0.1,x,A,0]": "the seconds", "net.dns[127.0.0.1,x,A,,x]": "the tries", "net.dns[127.0.0.1,x,A,2,2]": "all tries take 4s",
		"net.dns[127.0.0.1,x,A,,,sctp]": "write one of udp, tcp", "net.dns[127.0.0.1," + strings.Repeat("x", 300) + "]": "is not valid",
	} {
		expectItem(t, key, "", want)
	}
	if got := reverseName(netip.MustParseAddr("2001:db8::1")); got != "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa" {
		t.Error(got)
	}
}

// TestPings pings the local machine over IPv4 and IPv6, and expects a reply to each ping. A silent address has
// no replies. If the kernel refuses the sockets, the error must say so.
func TestPings(t *testing.T) {
	for i, target := range []string{"127.0.0.1", "::1"} {
		conn, _, err := openEchoSocket(&pingFamilies[i])
		if err != nil {
			expectItem(t, "icmpping["+target+"]", "", "the kernel refuses ICMP sockets: add the agent's group to the sysctl net.ipv4.ping_group_range, or give the agent CAP_NET_RAW")
			continue
		}
		conn.Close()
		expectItem(t, "icmpping["+target+",2,20,65000,2000]", "1", "")
		expectItem(t, "icmppingloss["+target+",5,20,24,2000,allow_redirect]", "0", "")
		for _, mode := range []string{"", "min", "max"} {
			if v, err := measureKey(t, "icmppingsec["+target+",2,20,,2000,"+mode+"]"); err != nil || v.Float() < 0.0001 || v.Float() > 2 {
				t.Errorf("icmppingsec %s = %v, error %v", mode, v, err)
			}
		}
	}
	if conn, _, err := openEchoSocket(&pingFamilies[0]); err == nil {
		conn.Close()
		expectItem(t, "icmpping[255.255.255.255,1,,,50]", "0", "") // refused without permission to broadcast: the request is lost
		expectItem(t, "icmppingloss[255.255.255.255,2,20,,50]", "100", "")
		expectItem(t, "icmppingsec[255.255.255.255,1,,,50]", "0", "")
	}
	for key, want := range map[string]string{
		"icmpping": "the target is missing", "icmpping[a,0]": "the packets", "icmpping[a,,10]": "between packets", "icmpping[a,,,23]": "the bytes", "icmpping[a,,,,49]": "of a reply", "icmpping[a,4]": "all packets take 3.5s",
		"icmpping[a,,,,,x]": "write one of allow_redirect", "icmppingsec[a,,,,,x]": "write one of min, avg, max", "icmpping[nosuch.invalid]": "nosuch.invalid",
	} {
		expectItem(t, key, "", want)
	}
}

// TestForeignPingRepliesAreIgnored passes replies to foreign requests or from other addresses, and expects only
// valid replies to count. A valid reply comes from the target, with the token, in time.
func TestForeignPingRepliesAreIgnored(t *testing.T) {
	now, target := time.Now(), &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1)}
	r := echoReader{of: &pingFamilies[0], target: netip.MustParseAddr("192.0.2.1"), token: "token", sent: []time.Time{now, now, {}}, answered: make([]bool, 3), timeout: time.Second}
	message := func(kind icmp.Type, seq int, data string) []byte {
		return testenv.Value((&icmp.Message{Type: kind, Body: &icmp.Echo{Seq: seq, Data: []byte(data)}}).Marshal(nil))(t)
	}
	reply := message(ipv4.ICMPTypeEchoReply, 0, "token and more")
	other := &net.IPAddr{IP: net.IPv4(192, 0, 2, 2)}
	for _, c := range []struct {
		data  []byte
		from  net.Addr
		after time.Duration
		want  int
	}{
		{message(ipv4.ICMPTypeEcho, 0, "token"), target, 0, 0},
		{message(ipv4.ICMPTypeEchoReply, 0, "other"), target, 0, 0},
		{message(ipv4.ICMPTypeEchoReply, 0, "tok"), target, 0, 0},
		{message(ipv4.ICMPTypeEchoReply, 3, "token"), target, 0, 0},
		{message(ipv4.ICMPTypeEchoReply, 2, "token"), target, 0, 0}, // not sent yet
		{reply[:5], target, 0, 0},
		{reply, other, 0, 0},
		{reply, target, time.Second + 1, 0},
		{reply, target, time.Second, 1},
		{reply, target, time.Second, 1},
		{message(ipv4.ICMPTypeEchoReply, 1, "token"), target, 0, 2},
	} {
		if r.addReply(c.data, c.from, now.Add(c.after)); len(r.times) != c.want {
			t.Errorf("%x from %s: %d replies, want %d", c.data, c.from, len(r.times), c.want)
		}
	}
}

// TestCommandItem collects items that run a command, and compares the output. A function of the test replaces the
// shell.
func TestCommandItem(t *testing.T) {
	m := &machine{run: func(_ context.Context, command string) (string, error) { return "output of " + command + " \r\n", nil }}
	for text, want := range map[string]string{"system.run[uptime]": "output of uptime", "system.run[uptime,wait]": "output of uptime", "system.run[uptime,nowait]": "", "system.run": ""} {
		k := testenv.Value(ParseKey(text))(t)
		value, err := runCommand(t.Context(), m, &k)
		if (err == nil) != (want != "") || want != "" && value != item.FromText(want) {
			t.Errorf("%s = %v, error %v", text, value, err)
		}
	}
	for text, want := range map[string]bool{"sda1": true, "/dev/mapper/vg-root": true, "a b": false, "$(id)": false, "x;id": false, "'": false, "-rf": false, "": true} {
		if isShellSafe(text) != want {
			t.Errorf("%q is plain: %t", text, !want)
		}
	}
}
