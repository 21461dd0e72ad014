package admission

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"
)

// balancers are load balancers whose connections begin with a PROXY header (version 1 or 2) that names the client. Only
// their headers are believed.
type balancers struct {
	networks []netip.Prefix
	readers  sync.Pool // *bufio.Reader, while a header is read
}

func (b *balancers) contain(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return false
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	return slices.ContainsFunc(b.networks, func(network netip.Prefix) bool { return network.Contains(address) })
}

// Failures of a balancer's connection, with their metric labels.
var (
	errHealthCheck     = errors.New("opened and closed: a health check") // proxy_check
	errNoHeader        = errors.New("no PROXY header")                   // proxy_missing
	errMalformedHeader = errors.New("PROXY header cannot be read")       // proxy_malformed
)

// ReadProxyHeader reads the PROXY header of a balancer's connection, which then has the address of the balancer's client.
// It waits until the connection's deadline or the end of ctx. Bytes behind the header are read again.
func (a *Admission) ReadProxyHeader(ctx context.Context, c *Conn) error {
	b := &a.balancers
	if !b.contain(c.RemoteAddr()) {
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })()
	r, _ := b.readers.Get().(*bufio.Reader)
	if r == nil {
		r = bufio.NewReader(nil)
	}
	r.Reset(c)
	defer func() {
		r.Reset(nil)
		b.readers.Put(r)
	}()
	if _, err := r.Peek(1); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		return errHealthCheck
	}
	header, err := proxyproto.Read(r)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.Is(err, proxyproto.ErrNoProxyProtocol):
		return errNoHeader
	case err != nil:
		return errors.Join(errMalformedHeader, err)
	}
	if n := r.Buffered(); n > 0 {
		unread, _ := r.Peek(n)
		c.unread = slices.Clone(unread)
	}
	// A header without an address (LOCAL, UNKNOWN, a socket file) is of the balancer itself, as in its health checks.
	if peer, _, ok := header.TCPAddrs(); ok && header.Command.IsProxy() {
		c.peer = peer
	} else {
		c.healthCheck = true
	}
	return nil
}

// ProxyFailure returns the metric label of an error of ReadProxyHeader.
func ProxyFailure(err error) string {
	switch {
	case errors.Is(err, errHealthCheck):
		return "proxy_check"
	case errors.Is(err, errNoHeader):
		return "proxy_missing"
	case errors.Is(err, errMalformedHeader):
		return "proxy_malformed"
	}
	return "proxy_timeout"
}

// isProxyHeader reports whether the bytes in place of a TLS record's header begin a PROXY header.
func isProxyHeader(head [5]byte) bool {
	return string(head[:]) == string(proxyproto.SIGV1) || strings.HasPrefix(string(proxyproto.SIGV2), string(head[:]))
}
