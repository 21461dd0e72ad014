package wire

// Decoders written by hand take at most this, beside MaxFrame and MaxSignals; generated ones hold the
// limits of docs/protocol/muster.proto. More is malformed: a peer that keeps the rules of
// docs/protocol never comes near.
const (
	maxName    = 255     // names of nodes, versions, codes
	maxText    = 4096    // sentences for people
	maxKey     = 255     // keys of labels, facts, environment
	maxValue   = 32768   // values of those
	maxPairs   = 1024    // entries of one map
	maxStreams = 64      // streams in one Hello, Welcome or Ack
	maxChunks  = 10000   // chunks in one Assignment, counts in one Gap
	maxProps   = 10000   // properties in one Assignment
	maxProxies = 10000   // proxy nodes in one Assignment
	maxBody    = MaxBody // one encoded chunk, a command, a property's value
	maxNumber  = 1 << 62 // numbers of signals
)

// What the planner keeps an assignment within, so that every agent can take it.
const (
	// MaxBody is the longest encoded chunk, and the longest value of a property.
	MaxBody = 256 << 10
	// MaxChunks is the most chunks, and the most properties, of one node.
	MaxChunks = maxChunks
	// MaxProxies is the most proxy nodes that the checks of one node speak of.
	MaxProxies = maxProxies
	// MaxServers is how many servers one Welcome names.
	MaxServers = 64
	// MaxAssignment is how much one node may hold, by ChunkSize and PropertySize.
	MaxAssignment = 8 << 20
	// MaxPart is how much of it goes into one frame, before compression.
	MaxPart = MaxFrame - 8192
	// assignedOverhead is the most that a chunk or a property takes beside its bytes.
	assignedOverhead = 24
)

// ChunkSize is what a chunk of so many encoded bytes adds to an assignment.
func ChunkSize(body int) int { return body + assignedOverhead }

// PropertySize is what a property adds to an assignment.
func PropertySize(p *Property) int {
	return len(p.Name) + len(p.Value) + len(p.Error) + assignedOverhead
}
