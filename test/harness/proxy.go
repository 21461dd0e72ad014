//go:build linux

package harness

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy passes TCP connections on to an address, until their answers are muted.
type Proxy struct {
	Address string
	Stop    func()       // ends it, and its connections
	muted   atomic.Int64 // connections of this number and before hear nothing more
	last    atomic.Int64
}

// NewProxy begins to listen; it ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	return NewProxyAt(t, "127.0.0.1:0", to)
}

// NewProxyAt listens at an address.
func NewProxyAt(t testing.TB, address, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: l.Addr().String()}
	var passing sync.WaitGroup
	ended := make(chan struct{})
	passing.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			number := p.last.Add(1)
			passing.Go(func() { p.pass(from, to, number, ended) })
		}
	})
	p.Stop = sync.OnceFunc(func() {
		l.Close()
		close(ended)
		passing.Wait()
	})
	t.Cleanup(p.Stop)
	return p
}

// Mute drops all further bytes from the server on the present connections; it still forwards bytes to the server.
func (p *Proxy) Mute() { p.muted.Store(p.last.Load()) }

func (p *Proxy) pass(from net.Conn, to string, number int64, ended <-chan struct{}) {
	defer from.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(server, from); done <- struct{}{} }()
	go func() { _, _ = io.Copy(&answers{from, p, number}, server); done <- struct{}{} }()
	select {
	case <-done:
	case <-ended:
	}
}

// answers forwards the server's bytes on one connection.
type answers struct {
	net.Conn
	proxy  *Proxy
	number int64
}

func (a *answers) Write(b []byte) (int, error) {
	if a.number <= a.proxy.muted.Load() {
		return len(b), nil
	}
	return a.Conn.Write(b)
}
