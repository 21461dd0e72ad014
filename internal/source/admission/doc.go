// Package admission accepts connections for all listeners of agents and people, before anybody has authenticated: it
// bounds their number, reads PROXY headers of load balancers, and limits how many TLS handshakes compute at a time.
//
// In: TCP connections (Admission.Accept, Admission.Serve). Out: a *Conn for each, or a closed connection and a count.
// A peer that has authenticated keeps its connection (Prove, Vouch); the others give way when connections run short.
//
// Goroutines: one per connection, until its handler returns. Locks: Admission.mu alone. Start reading at accept.go.
package admission
