package event

// outcome is what became of a signal: exactly one each.
type outcome uint8

const (
	applied      outcome = iota // changed an event state
	late                        // older than the present state: history only
	keepalive                   // a sign of life, nothing else
	duplicate                   // number kept before
	lost                        // given up by the agent's spool, told by a gap
	unknownChunk                // nothing says how to judge it
	forgotten                   // of a deleted node or check, or from before a forget
	malformed                   // cannot be decoded: never from our own sources
	unknownKind                 // of a kind this version does not know
	outcomes
)

var outcomeNames = [outcomes]string{
	"applied", "late", "keepalive", "duplicate", "lost", "unknown_chunk", "forgotten", "malformed", "unknown_kind",
}

func (o outcome) String() string { return outcomeNames[o] }
