package wire

// Limits of the decoders written by hand, besides MaxFrame and MaxSignals; generated ones have the
// limits of docs/protocol/muster.proto. A longer field is malformed: no peer that follows
// docs/protocol sends one.
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

// Limits of one node's assignment. The planner refuses changes that would break them.
const (
	// MaxBody is the longest encoded chunk and the longest value of a property, in bytes.
	MaxBody = 256 << 10
	// MaxChunks is the largest number of chunks, and of properties, of one node.
	MaxChunks = maxChunks
	// MaxProxies is the largest number of proxy nodes of one node's checks.
	MaxProxies = maxProxies
	// MaxServers is the largest number of servers in one Welcome.
	MaxServers = 64
	// MaxAssignment is the largest assignment in bytes, by ChunkSize and PropertySize. It is sent in
	// parts (docs/decisions/0013-large-bodies.md).
	MaxAssignment = 16 << 20
	// MaxPart is the largest content of one part in bytes, before compression.
	MaxPart = MaxFrame - 8192
	// assignedOverhead is the most bytes that a chunk or property takes besides its content.
	assignedOverhead = 24
)

// ChunkSize returns the bytes that a chunk of body encoded bytes adds to an assignment.
func ChunkSize(body int) int { return body + assignedOverhead }

// PropertySize returns the bytes that a property adds to an assignment.
func PropertySize(p *Property) int {
	return len(p.Name) + len(p.Value) + len(p.Error) + assignedOverhead
}
