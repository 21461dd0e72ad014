// Package cli is the command line: it turns words into calls of the client and
// answers into tables. It holds no state but the context file. What it touches of
// the machine comes in as an Env, so that tests run the whole of it in process.
// Commands that need the server's engines (up, server, load) are handed in by
// cmd/muster as Extras. Start reading at main.go, then apply.go and getevents.go.
package cli
