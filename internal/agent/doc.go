// Package agent is what runs on a node: it keeps an assignment, runs its checks when
// they are due, and spools what comes of them until a server keeps it. The same code
// is in muster-agent, in `muster agent` and in `muster up`.
//
// In: assignments and requests from the server (package link), commands and probes
// of the machine (packages run and probe) at their times (package schedule). Out:
// results into the spool (package spool), from which link sends. The agent goes on
// when the server is away, also after a restart: identity, assignment and spool lie
// in its state folder, which is locked against a second agent.
//
// Goroutines: Run has one for the scheduler, one for the link and one that measures the
// machine (package facts); each check has one
// while it runs. mu guards the applied assignment and is never held during a run.
// Start reading at agent.go (New, Run), then apply.go (what an assignment becomes)
// and result.go (one run).
package agent
