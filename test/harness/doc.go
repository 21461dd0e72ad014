// Package harness builds the binary and runs it for black-box tests: servers with
// ports and folders of their own, agents, commands, simulated fleets with a ledger.
//
// In: a testing.TB and what differs from the defaults. Out: running processes, their
// logs, what their listeners say. Whatever was started is killed when the test ends.
// Waiting is always for a condition with a deadline (until.go). Start reading at
// server.go.
package harness
