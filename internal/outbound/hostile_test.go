package outbound

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestOwnListenersAndMetadataAddressesAreRefused expects connections to the server's own listeners, link-local addresses and
// metadata services to fail. Exceptions allow such connections.
func TestOwnListenersAndMetadataAddressesAreRefused(t *testing.T) {
	all := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer all.Close()
	port := all.Addr().(*net.TCPAddr).Port
	listeners := func() []net.Addr {
		return []net.Addr{&net.TCPAddr{IP: net.IPv6zero, Port: port}, &net.TCPAddr{IP: net.ParseIP("127.0.0.1"), Port: 1}}
	}
	strict := testenv.Value(Parse(nil, listeners))(t)
	lenient := testenv.Value(Parse([]string{"127.0.0.0/8", "169.254.169.254", "168.63.129.16", "objects.example.org"}, listeners))(t)
	at := func(host string) string {
		_, p, _ := net.SplitHostPort(all.Addr().String())
		return net.JoinHostPort(host, p)
	}
	for _, c := range []struct{ network, address, refused string }{
		{"tcp4", at("127.0.0.1"), "is a listener of this server"},
		{"tcp6", at("::ffff:127.0.0.1"), "is a listener of this server"},
		{"tcp6", at("::1"), "is a listener of this server"},
		{"tcp4", at("0.0.0.0"), "is a listener of this server"},
		{"tcp4", at("192.0.2.1"), ""},
		{"udp4", at("127.0.0.1"), ""},
		{"tcp4", "127.0.0.1:1", "is a listener of this server"},
		{"tcp4", "127.0.0.2:1", ""},
		{"tcp4", "169.254.169.254:80", "169.254.169.254 is a link-local address"},
		{"udp6", "[fe80::1%eth0]:53", "is a link-local address"},
		{"tcp6", "[::ffff:169.254.169.254]:80", "is a link-local address"},
		{"tcp6", "[64:ff9b::169.254.169.254]:80", "is a link-local address"},
		{"tcp6", "[64:ff9b:1::a9fe:a9fe]:80", "is a link-local address"},
		{"tcp6", "[2002:a9fe:a9fe::1]:80", "is a link-local address"},
		{"tcp4", "100.100.100.200:80", "100.100.100.200 is the address of a cloud's metadata service"},
		{"tcp6", "[::ffff:100.100.100.200]:80", "is the address of a cloud's metadata service"},
		{"tcp6", "[64:ff9b::168.63.129.16]:80", "is the address of a cloud's metadata service"},
		{"tcp4", "168.63.129.16:32526", "is the address of a cloud's metadata service"},
		{"tcp4", "192.0.0.192:80", "is the address of a cloud's metadata service"},
		{"tcp6", "[fd00:ec2::254]:80", "is the address of a cloud's metadata service"},
		{"tcp6", "[fd00:ec2::23]:80", "is the address of a cloud's metadata service"},
		{"tcp6", "[fd20:ce::254]:80", "is the address of a cloud's metadata service"},
		{"tcp6", "[fd00:c1::a9fe:a9fe]:80", "is the address of a cloud's metadata service"},
		{"tcp6", "[fd00:42::42]:80", "is the address of a cloud's metadata service"},
		{"tcp6", "[fd00:a9fe:a9fe::1]:80", "is the address of a cloud's metadata service"},
		{"tcp6", "[fd00:100::100:200]:80", "is the address of a cloud's metadata service"},
		{"udp4", "168.63.129.16:53", "is the address of a cloud's metadata service"},
		{"tcp4", "100.100.100.201:80", ""}, // other machines of such a network stay reachable
		{"tcp6", "[fd00:ec3::254]:80", ""},
		{"tcp6", "[64:ff9b::192.0.2.1]:80", ""},
		{"tcp6", "[2001:db8::1]:80", ""},
	} {
		err := strict.check(c.network, c.address)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", c.address, err, c.refused)
		}
	}
	for _, address := range []string{at("127.0.0.1"), "169.254.169.254:80", "168.63.129.16:80"} {
		if err := lenient.check("tcp", address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if conn, err := strict.Dialer().DialContext(t.Context(), "tcp", at("localhost")); err == nil || !strings.Contains(err.Error(), "is a listener of this server") {
		t.Errorf("%v %v", conn, err)
	}
	if t.Failed() {
		t.FailNow() // a policy without these addresses would connect
	}
	if conn, err := strict.Dialer().DialContext(t.Context(), "tcp", "100.100.100.200:80"); err == nil || !strings.Contains(err.Error(), "metadata service") {
		t.Errorf("%v %v", conn, err)
	}
	if _, err := Parse([]string{"http://x"}, listeners); err == nil {
		t.Error("an address with a scheme")
	}
}

// TestRedirectsStayOnTheirHost expects the server to refuse HTTP redirects to other hosts. Exceptions allow such
// redirects.
func TestRedirectsStayOnTheirHost(t *testing.T) {
	end := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer end.Close()
	other := strings.Replace(end.URL, "127.0.0.1", "localhost", 1)
	begin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, map[string]string{"/same": end.URL, "/other": other, "/loop": "/loop"}[r.URL.Path], http.StatusFound)
	}))
	defer begin.Close()
	none := func() []net.Addr { return nil }
	for _, c := range []struct {
		exceptions []string
		path       string
		refused    string
	}{{nil, "/same", ""}, {nil, "/other", "redirects to localhost"}, {[]string{"LOCALHOST"}, "/other", ""}, {nil, "/loop", "too many redirects"}} {
		client := &http.Client{CheckRedirect: testenv.Value(Parse(c.exceptions, none))(t).CheckRedirect}
		answer, err := client.Get(begin.URL + c.path)
		if err == nil {
			answer.Body.Close()
		}
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", c.path, err, c.refused)
		}
	}
}

// FuzzParse parses random texts as exceptions of a connection policy, and expects an error or exactly one
// exception. An exception must be refused or be in the policy.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "fe80::1", "example.org", "a b", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := Parse([]string{text}, nil); err == nil && len(p.networks)+len(p.hosts) != 1 {
			t.Errorf("%q: %+v", text, p)
		}
	})
}
