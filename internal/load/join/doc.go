// Package join lets several load testers, on one machine or on many, play one run. One leads (Lead): it listens, and prints
// a Token. The others dial it (Follower). internal/load plays the parts; this package only carries messages.
//
// All of it is HTTP/2 and JSON over TLS 1.3. The token has the address of the lead, the digest of its certificate (made for
// the run) and the secret that authorizes every request. A follower joins with POST /join, which lasts as long as the run: its
// body has a hello and then the follower's messages, and the answer has the orders of the lead, both in their order. Each side
// sends an empty value in a second without others, so that the other one sees that it lives. A peer that is silent for ten
// seconds is lost, and the run ends for all with its name. GET /clock reads the clock of the lead.
//
// The lead answers strangers 401 and reads nothing else of them; it serves at most mostConnections at a time.
//
// Goroutines: on the lead one HTTP server, and for each follower one that sends orders; on a follower one that sends messages and
// one that carries out orders. Locks: monitor.mu guards the state of each side; nothing is written to a connection while it is held.
// Start reading at lead.go, then follower.go and values.go.
package join
