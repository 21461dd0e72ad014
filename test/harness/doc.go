// Package harness builds the binary and runs it for black-box tests: servers with ports and folders of their own, agents,
// commands, simulated fleets with a ledger.
//
// Input: a testing.TB and settings that differ from the defaults. Output: running processes, their logs, answers of their
// listeners. All processes are killed when the test ends. Tests wait only for a condition with a deadline (wait.go). Start
// reading at server.go.
package harness
