package sensu

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Timers of the protocol, as agents have them.
const (
	handshakeTimeout = 15 * time.Second
	pingEvery        = 30 * time.Second
	pongWithin       = 45 * time.Second
	registerGrace    = 10 * time.Second // after which an agent works without an entity_config
	retryFirst       = time.Second      // the first pause before a connection is opened again
	retryMost        = 120 * time.Second
	writeTimeout     = 30 * time.Second
)

// maxMessage bounds what a backend may send in one frame; it has no bound of its own.
const maxMessage = 1 << 20

// open connects to one backend and agrees on an encoding: protobuf if an Accept header of the answer is exactly that,
// else JSON.
func (a *agent) open(ctx context.Context, to string) (*wsconn.Conn, sensuwire.Codec, error) {
	target, err := url.Parse(to)
	if err != nil {
		return nil, 0, fmt.Errorf("address of a backend: %w", err)
	}
	if target.Path == "" {
		target.Path = "/"
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	nc, err := a.dial(ctx, target)
	if err != nil {
		return nil, 0, err
	}
	_ = nc.SetDeadline(time.Now().Add(handshakeTimeout))
	var speaks sensuwire.Codec = sensuwire.JSON
	d := ws.Dialer{ReadBufferSize: 4096, WriteBufferSize: 512, Header: ws.HandshakeHeaderHTTP(a.headers()),
		OnHeader: func(key, value []byte) error {
			if strings.EqualFold(string(key), "Accept") && string(value) == sensuwire.MediaProto && !a.target.options.JSON {
				speaks = sensuwire.Protobuf
			}
			return nil
		}}
	br, _, err := d.Upgrade(nc, target)
	if err == nil {
		var conn *wsconn.Conn
		if conn, err = wsconn.NewClientConn(nc, br, a.target.shared); err == nil {
			_ = nc.SetDeadline(time.Time{})
			return conn, speaks, nil
		}
	}
	_ = nc.Close()
	return nil, 0, fmt.Errorf("open WebSocket: %w", err)
}

// headers returns the headers that identify the agent. The backend takes its encoding from Accept.
func (a *agent) headers() http.Header {
	accept := sensuwire.MediaProto
	if a.target.options.JSON {
		accept = sensuwire.MediaJSON
	}
	return http.Header{
		"Accept":              {accept},
		"Authorization":       {"Basic " + base64.StdEncoding.EncodeToString([]byte(a.target.options.User+":"+a.target.options.Password))},
		"Sensu-Agentname":     {a.entity.Name},
		"Sensu-Namespace":     {a.entity.Namespace},
		"Sensu-Subscriptions": {strings.Join(a.entity.Subscriptions, ",")},
		"Sensu-User":          {a.target.options.User},
	}
}

// perSource is the number of agents that connect from one loopback address, because an address has fewer ports than
// there may be agents.
const perSource = 20_000

// dial opens the TCP connection.
func (a *agent) dial(ctx context.Context, to *url.URL) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	if ip := net.ParseIP(to.Hostname()).To4(); ip != nil && ip.IsLoopback() && a.number >= perSource {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+a.number/perSource))}
	}
	port := to.Port()
	if port == "" {
		port = "8081"
	}
	addr := net.JoinHostPort(to.Hostname(), port)
	if to.Scheme != "wss" {
		return d.DialContext(ctx, "tcp", addr)
	}
	return (&tls.Dialer{NetDialer: &d, Config: a.target.options.TLS}).DialContext(ctx, "tcp", addr)
}
