package muster

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"
)

// proxies are the balancers that stand before us and say in a PROXY header (version 1 or
// 2) whose connection they pass on. They are believed, and must say it; of everybody else
// the header is not believed.
type proxies struct {
	from    []netip.Prefix
	readers sync.Pool // *bufio.Reader, for the moment in which a header is read
}

// listed says whether connections from this address begin with a header.
func (p *proxies) listed(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return false
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	for _, net := range p.from {
		if net.Contains(address) {
			return true
		}
	}
	return false
}

// Ways in which a balancer's connection does not begin as it must, by metric label.
var (
	errProxyCheck     = errors.New("opened and closed: a health check")
	errProxyMissing   = errors.New("no PROXY header")
	errProxyMalformed = errors.New("PROXY header cannot be read")
)

// introduce reads the header of a listed peer: from then on the guest has the address of
// whom it speaks for. It waits as long as the connection's deadline, or ctx, allows, on
// the connection's own goroutine. What came behind the header is read again.
func (p *proxies) introduce(ctx context.Context, g *guest) error {
	if !p.listed(g.RemoteAddr()) {
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = g.SetReadDeadline(time.Unix(1, 0)) })()
	r, _ := p.readers.Get().(*bufio.Reader)
	if r == nil {
		r = bufio.NewReader(nil)
	}
	r.Reset(g)
	defer func() {
		r.Reset(nil)
		p.readers.Put(r)
	}()
	if _, err := r.Peek(1); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		return errProxyCheck
	}
	header, err := proxyproto.Read(r)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.Is(err, proxyproto.ErrNoProxyProtocol):
		return errProxyMissing
	case err != nil:
		return errors.Join(errProxyMalformed, err)
	}
	if n := r.Buffered(); n > 0 {
		ahead, _ := r.Peek(n)
		g.ahead = append(make([]byte, 0, n), ahead...)
	}
	// Without an address (LOCAL, UNKNOWN, a socket file) the balancer speaks for itself:
	// its health checks do.
	if peer, _, ok := header.TCPAddrs(); ok && header.Command.IsProxy() {
		g.peer = peer
	} else {
		g.check = true
	}
	return nil
}

// proxyFailure is why introduce failed, as the metric has it.
func proxyFailure(err error) string {
	switch {
	case errors.Is(err, errProxyCheck):
		return "proxy_check"
	case errors.Is(err, errProxyMissing):
		return "proxy_missing"
	case errors.Is(err, errProxyMalformed):
		return "proxy_malformed"
	}
	return "proxy_timeout"
}

// looksLikeProxy: the first five bytes of a PROXY header where TLS would have a record's.
func looksLikeProxy(head [5]byte) bool {
	return string(head[:]) == string(proxyproto.SIGV1) || strings.HasPrefix(string(proxyproto.SIGV2), string(head[:]))
}
