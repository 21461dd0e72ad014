package core

import (
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Node holds the properties of a node that its session needs. All are looked up in memory: after a restart the whole
// fleet comes within seconds.
type Node struct {
	ID        model.NodeID
	Name      string
	Namespace model.NamespaceID
	Key       string // pki.Fingerprint of its machine's key; empty: none on record yet

	Keepalive time.Duration // interval of its keepalives; zero: the server's default
	Timeout   time.Duration // of its keepalives; zero: the server's default
	Warning   time.Duration // of silence, after which people are warned; zero: never

	Visitor bool // it comes for a result and goes: no keepalive is expected
}

// Mark returns the journal record of the beginning or the end of a session of the node. m holds the session's id and
// its other fields.
func (n *Node) Mark(m wire.SessionMark) []byte {
	m.Namespace, m.NoKeepalive = n.Namespace, n.Visitor
	m.KeepaliveMs, m.TimeoutMs, m.WarningMs = uint32(n.Keepalive.Milliseconds()), uint32(n.Timeout.Milliseconds()), uint32(n.Warning.Milliseconds())
	return wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordSession, Node: n.ID, Session: &m})
}

// SectionOf returns the section of the journal that holds a node's entries.
func SectionOf(uid uuid.UUID) journal.Section { return journal.Section(model.PartitionOf(uid)) }
