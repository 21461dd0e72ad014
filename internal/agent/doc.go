// Package agent runs on a node: it keeps an assignment, runs its checks when they are due and
// spools their results until a server has acknowledged them. muster-agent, `muster agent` and
// `muster up` use it.
//
// In: assignments and requests of the server (package link); commands and probes on this machine
// (packages run and probe) at their times (package schedule). Out: results into the spool (package
// spool), from which link sends. The agent works without a server, also after a restart: identity,
// assignment and spool lie in its state folder, which is locked against a second agent.
//
// Each kind of definition has one definitionRunner in the agent; assignedDefinitions.runners maps kinds to runners. The type checks
// runs the definitions of checks.
//
// Goroutines: Run owns one for the scheduler, one for the link, one that measures facts, one that
// fetches assets and one that renews the certificate; each check has one while it runs. Lock order:
// assignedDefinitions.mu, then checks.mu or requestedRuns.mu, then the scheduler's; no lock is held during a run. Start reading at
// agent.go (New, Run), then session.go (a new assignment) and run_check.go (one run).
package agent
