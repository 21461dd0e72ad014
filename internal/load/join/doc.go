// Package join lets several load testers, on one machine or on many, play one run. One leads (Lead): it listens, and prints
// a Token. The others dial it (Follower). internal/load plays the parts; this package only carries messages.
//
// All of it is HTTP and JSON over TLS 1.3. The token has the address of the lead, the digest of its certificate (made for
// the run) and the secret that authorizes every request. A follower joins with POST /join, and fetches the orders of the lead
// in their order with GET /orders?from=N, which waits for a second if there are none. It reports by POST /report, one message
// per request, and reads the clock of the lead by GET /clock. Each request proves to the lead that the follower lives, and
// each answer proves to the follower that the lead lives. A peer that is silent for ten seconds is lost, and the run ends
// for all with its name.
//
// The lead answers strangers 401 and reads nothing else of them; it serves at most mostConnections at a time.
//
// Goroutines: on the lead one HTTP server; on a follower one that fetches orders and one that reports lines. Locks: monitor.mu
// guards the state of each side; nothing is written to a connection while it is held.
// Start reading at lead.go, then follower.go.
package join
