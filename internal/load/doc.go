// Package load measures a server with real agent sessions, many in one process: the
// session code is the agent's own (internal/agent/link), only what runs behind it
// (commands, spool on disk) is simulated. `muster load run` is its face, and the
// fleet of `muster up --demo` is made of the same agents.
//
// The model is open: every result has an intended time from the timetable, whatever
// the server does, and all is timed from there. How far the generator itself fell
// behind is recorded; a run that fell too far is invalid and says so. A ledger holds
// sent = acknowledged + refused, and what was acknowledged is compared with the view.
//
// Goroutines: one reader per agent (reconnecting by itself), a few senders that share
// the agents out between them (sender.go), one housekeeper, one that watches
// (watch.go), one that asks for pages (pages.go). Locks, in order: agent, then tally.
// Bounded: the agents' spools (Config.Spool). Start reading at run.go, then sender.go,
// then agent.go; what a run shows is report.go, what it should show goal.go.
package load
