// Package wsconn is one WebSocket connection (RFC 6455), reduced to the needs of agents' protocols: binary messages, no
// extensions, one small buffer while idle. Servers and clients use it, because both hold tens of thousands.
//
// Headers, masking and the opening handshake are github.com/gobwas/ws. This package adds reads without an allocation,
// writes of whole frames, and limits. It exists for memory: an idle connection takes 4.8 kB here, 7.7 kB in lxzan/gws and
// 24 kB in coder/websocket (docs/decisions/0002-websocket.md).
//
// No goroutines. Read, Wait and More belong to one goroutine; writes take the connection's lock. Start reading at conn.go.
package wsconn
