// Package secret finds, on the server, the values of Secrets: in its environment, in files, in the
// KV engine of Vault or OpenBao.
//
// In: the name of a Secret. Out: its value, its lease, or an error for people that holds nothing of
// the value. A value stays in memory for a few seconds, so that a fleet that requests one at the
// same time causes one read; nothing is written to disk. Goroutines: one per read under way. A
// Resolver's lock is never held during input or output. Start at resolver.go, then read_vault_secrets.go.
package secret
