package shard

// Outcome is the end of a signal: exactly one each.
type Outcome uint8

const (
	Applied      Outcome = iota // changed a reducer's state
	Late                        // older than the present state: history only
	Keepalive                   // a sign of life, nothing else
	Duplicate                   // its number was applied before
	Lost                        // dropped by the agent's spool, reported as a gap
	UnknownChunk                // no chunk says how to judge it
	Forgotten                   // of a deleted node or check, or from before a forget
	Malformed                   // cannot be decoded: never from our own sources
	UnknownKind                 // of a kind that no reducer claims
	outcomes
)

var outcomeNames = [outcomes]string{
	"applied", "late", "keepalive", "duplicate", "lost", "unknown_chunk", "forgotten", "malformed", "unknown_kind",
}

func (o Outcome) String() string { return outcomeNames[o] }
