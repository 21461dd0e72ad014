package watchdog

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/pires/go-proxyproto"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// UID identifies model.ServerNode when it connects as an agent. Its partition has the server's results about itself.
var UID = uuid.UUID{6: 0x80, 8: 0x80, 15: 0xff}

// ResultSender sends a synthetic (test) result like an agent, and waits for the acknowledgement. It opens a session
// with the server. Its key lives as long as the process.
type ResultSender struct {
	authority *pki.Authority
	key       *ecdsa.PrivateKey
	dial      func(ctx context.Context) (net.Conn, error)
	stream    wire.StreamKey
	lastAcked uint64 // acknowledged
}

// NewResultSender returns a ResultSender, which connects to the server by the function dial. The function dial
// connects to the server's listener for agents.
func NewResultSender(authority *pki.Authority, dial func(ctx context.Context) (net.Conn, error)) (*ResultSender, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create the watchdog's key: %w", err)
	}
	return &ResultSender{authority: authority, key: key, dial: dial, stream: wire.StreamKey{Stream: wire.StreamID(mathrand.Uint64())}}, nil
}

// Key returns the hash (fingerprint) of the public key by which the sender proves its identity. The server accepts
// only this key for the watchdog's node.
func (c *ResultSender) Key() string { return pki.Fingerprint(&c.key.PublicKey) }

// Send sends one synthetic result over an agent session.
func (c *ResultSender) Send(ctx context.Context, status model.Status, output string) error {
	identity, err := c.issueIdentity()
	if err != nil {
		return err
	}
	over := &senderSession{stream: c.stream, finished: make(chan error, 1)}
	config := &link.Config{Node: UID, TLS: link.TLSConfig(identity, nil),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) }}
	hello := &wire.Hello{Name: model.ServerNodeName, Streams: []wire.StreamRange{{StreamKey: c.stream}}}
	session, err := link.Open(ctx, config, "localhost:0", hello, nil, over)
	if err != nil {
		return err
	}
	c.lastAcked = max(c.lastAcked, over.lastAcked)
	over.sequenceNumber = c.lastAcked + 1
	var reading sync.WaitGroup
	defer reading.Wait()
	defer session.Close()
	reading.Go(func() {
		err := session.Read()
		over.finish(fmt.Errorf("the session ended before the acknowledgement: %w", err))
	})
	err = session.Send(&wire.Batch{StreamKey: c.stream, First: over.sequenceNumber,
		Signals: []wire.Signal{wire.ResultSignal(wire.Signal{Definition: model.BuiltinDefinitionID(model.WatchdogCheck)}, wire.Result{Status: status, Output: []byte(output)})}})
	if err != nil {
		return fmt.Errorf("send the synthetic result: %w", err)
	}
	select {
	case err = <-over.finished:
	case <-ctx.Done():
		return fmt.Errorf("the server did not acknowledge the synthetic result: %w", ctx.Err())
	}
	if err != nil {
		return err
	}
	c.lastAcked = over.sequenceNumber
	session.Bye("done")
	return nil
}

// issueIdentity creates a new certificate for one session of the sender.
func (c *ResultSender) issueIdentity() (*pki.Identity, error) {
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, c.key)
	if err != nil {
		return nil, fmt.Errorf("create the watchdog's certificate: %w", err)
	}
	issued, err := c.authority.IssueNodeCertificate(csr, UID)
	if err != nil {
		return nil, fmt.Errorf("create the watchdog's certificate: %w", err)
	}
	block, _ := pem.Decode(issued)
	cert := tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: c.key}
	return &pki.Identity{Node: UID, Certificate: cert, CA: c.authority.Pool(), CAPEM: c.authority.CAPEM(), CASum: c.authority.CASum()}, nil
}

// senderSession handles the server's messages in a session that sends one synthetic result.
type senderSession struct {
	stream         wire.StreamKey
	lastAcked      uint64 // as the server has it
	sequenceNumber uint64
	finished       chan error
}

// finish ends the wait for the acknowledgement, with an error or nil.
func (d *senderSession) finish(err error) {
	select {
	case d.finished <- err:
	default:
	}
}

// OpenedSession sends the synthetic result as soon as the session is open.
func (d *senderSession) OpenedSession(_ *link.Session, w *wire.Welcome) {
	for _, s := range w.Last {
		if s.StreamKey == d.stream {
			d.lastAcked = s.Last
		}
	}
}

// Acked ends the wait for the acknowledgement of the synthetic result.
func (d *senderSession) Acked(_ *link.Session, ack *wire.Ack) {
	for _, r := range ack.Refused {
		if r.StreamKey == d.stream && r.Number == d.sequenceNumber {
			d.finish(fmt.Errorf("the server refused the synthetic result (%s): %s", r.Code, r.Reason))
		}
	}
	for _, s := range ack.Last {
		if s.StreamKey == d.stream && s.Last >= d.sequenceNumber {
			d.finish(nil)
		}
	}
}

// Assigned does nothing, because the watchdog's session runs no checks. The session ends after one result.
func (d *senderSession) Assigned(*link.Session, *link.Assignment) {}

// RunNow does nothing, because the watchdog's session runs no commands.
func (d *senderSession) RunNow(*link.Session, *wire.Run) {}

// RoundRobinRuns does nothing, because the watchdog's session runs no checks.
func (d *senderSession) RoundRobinRuns(*link.Session, *wire.RoundRobinRuns) {}

// Reply does nothing, because the watchdog's session sends no requests.
func (d *senderSession) Reply(*link.Session, *wire.Exchange) {}

// BackPressure does nothing, because the watchdog's session sends only one result.
func (d *senderSession) BackPressure(*link.Session, *wire.BackPressure) {}

// ServerStops does nothing, because the watchdog's session ends after one result anyway.
func (d *senderSession) ServerStops(*link.Session, time.Duration, string) {}

// DialListener opens a connection from the server to one of its own listeners, for the watchdog. If this
// machine is in a network of trusted proxies, it sends a PROXY header as a load balancer does.
func DialListener(ctx context.Context, l net.Listener, proxies []netip.Prefix) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String()) // an unspecified address is this machine
	if err != nil {
		return nil, err
	}
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err == nil && slices.ContainsFunc(proxies, func(network netip.Prefix) bool { return network.Contains(local.Addr().Unmap()) }) {
		header := proxyproto.HeaderProxyFromAddrs(2, conn.LocalAddr(), conn.RemoteAddr())
		if _, err := header.WriteTo(conn); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}
