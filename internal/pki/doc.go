// Package pki is who is who: the server's own certificate authority, its server
// certificate, the certificates of nodes, join tokens and enrolment (both ends).
//
// Start at authority.go (what the server keeps under DATA/pki), then token.go and
// enrol.go (how a machine becomes a node), then identity.go (what the agent keeps).
// No goroutines. One lock, over the server's certificate: Authority is safe for
// concurrent use.
package pki
