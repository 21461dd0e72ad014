// Package sensu is a Sensu Go 6 backend as the subject of a scenario: simulated agents
// that speak its agent protocol, tens of thousands in one process, so that the same
// scenario is played against that system and against Muster. docs/load-reference.md has the manual.
//
// An agent connects by WebSocket, says who it is in the request's headers, waits for its
// entity_config, says that it lives, and answers each check_request with an event. There
// are no acknowledgements: what the backend keeps is asked of its HTTP API in the end.
//
// Goroutines: one for each agent, which reads, and answers where it reads; its keepalives
// and pings are timers. An agent's lock guards its ledger and its connection; the target's, taken under it, the totals.
//
// Start reading at agent.go, then session.go; internal/sensuwire is what the messages look like,
// target.go prepares a backend and asks what it holds.
package sensu
