package wire

// What a decoder takes at most, beside MaxFrame and MaxSignals. More is malformed:
// a peer that keeps the rules of docs/protocol never comes near.
const (
	maxName    = 255       // names of nodes, versions, codes
	maxText    = 4096      // sentences for people
	maxKey     = 255       // keys of labels, facts, environment
	maxValue   = 32768     // values of those
	maxPairs   = 1024      // entries of one map
	maxGroups  = 1024      // self-declared groups, handlers
	maxStreams = 64        // streams in one Hello, Welcome or Ack
	maxServers = 64        // servers in one Welcome
	maxChunks  = 10000     // chunks in one Assignment, counts in one Gap
	maxProps   = 10000     // properties in one Assignment
	maxArgs    = 1024      // arguments of one command
	maxBody    = 256 << 10 // one encoded chunk, a command, a property's value
	maxNumber  = 1 << 62   // numbers of signals
)
