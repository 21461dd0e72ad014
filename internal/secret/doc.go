// Package secret finds, on the server, the values that Secrets stand for: in its environment, in
// files, in the KV engine of Vault or OpenBao.
//
// In: the name of a Secret. Out: its value, how long it may be kept, or an error for people that
// holds nothing of the value. A value is kept in memory for a few seconds, so that a fleet that asks
// for one at the same time is one request; nothing is written anywhere. A Resolver owns no goroutine
// but those of requests on their way; its lock is held for no file and no network. Start at
// resolver.go, then vault.go.
package secret
