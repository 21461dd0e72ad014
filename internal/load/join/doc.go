// Package join lets several load testers, on one machine or on many, play one run. One leads (Lead): it listens, and prints
// a Token. The others dial it (Follower). internal/load plays the parts; this package only carries messages.
//
// All of it is HTTP and JSON over TLS 1.3. The token has the address of the lead, the digest of its certificate (made for
// the run) and the secret that authorizes every request. A follower joins with POST /join; the response body is the stream
// of orders from the lead, a JSON value each, until the run is over. It reports by POST /report, one message per request,
// and reads the clock of the lead by GET /clock. An empty order or message each second shows that its sender lives. A peer
// that is silent for ten seconds is lost, and the run ends for all with its name.
//
// The lead answers strangers 401 and reads nothing else of them; it serves at most mostConnections at a time.
//
// Goroutines: on the lead one HTTP server, each order stream in its handler; on a follower one reader of orders and one that
// shows life. Locks: monitor.mu guards the state of each side; nothing is written to a connection while it is held.
// Start reading at lead.go, then follower.go.
package join
