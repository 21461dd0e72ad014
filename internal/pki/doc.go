// Package pki holds identities: the server's own certificate authority, its server certificate, the
// certificates of nodes, join tokens and enrolment (both ends).
//
// Start at authority.go (files under DATA/pki), then join_token.go and enrolment_server.go (from machine to node),
// then agent_identity.go (files of the agent). No goroutines. One lock guards the server's certificate:
// Authority is safe for concurrent use.
package pki
