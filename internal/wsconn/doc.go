// Package wsconn is one WebSocket connection (RFC 6455) cut to what the agent's
// protocol needs: binary messages, each in one frame, no extensions, one small
// buffer while idle. Both ends use it, because both hold tens of thousands.
//
// Framing, masking and the opening handshake are github.com/gobwas/ws; this package
// adds reading without an allocation per frame, whole-frame writes, and limits.
// docs/decisions/0002-websocket.md says why. Start reading at conn.go. No goroutines;
// Read belongs to one goroutine, writes take the connection's lock.
package wsconn
