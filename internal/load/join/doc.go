// Package join lets several loader processes, on one machine or many, play one load run.
// The one that leads listens (Lead, lead.go) and has a Token to paste; the others dial it
// (Follower, follower.go). internal/load plays the parts and merges what they measured; here
// is only how its messages travel.
//
// A follower joins with one HTTP request over TLS 1.3, whose certificate is made for the run and pinned by the token: it
// has the token's secret and the follower's version. The lead answers 101, and both send messages as JSON, a line each
// (conn.go, message.go). Who does not know the secret is refused before anything else is read.
// Clocks are compared by asking several times: the shortest round trip wins (clock.go).
// Either end says every second that it lives; one that is silent for ten is lost, and a loss
// ends the run for all, with the name of who was lost.
//
// Goroutines: one reader for each connection; on the lead one that accepts, one that gives
// signs of life; on a follower likewise. Locks: Lead.mu guards what is known of all peers,
// Follower.mu what was heard; under them, conn.mu is a connection's writing end.
// Start reading at lead.go, then follower.go.
package join
