// Package load plays a scenario (internal/load/scenario) against a server, with real agent
// sessions, many in one process: the session code is the agent's own
// (internal/agent/link), only what runs behind it (commands, spool on disk) is simulated.
// `muster load run` is its face, and the fleet of `muster up --demo` is made of the same
// agents.
//
// The model is open: every result has an intended time, whatever the server does, and all
// is timed from there. The timetable runs in the scenario's virtual time, in which each
// check of each agent has its own offset (sender.go); a score (score.go) maps that to real
// time, part by part, so that a phase at another rate is the same plan played faster. How
// far the generator itself fell behind is recorded; a run that fell too far is invalid and
// says so. A ledger holds sent = acknowledged + refused, and what was acknowledged is
// compared with the view.
//
// Systems other than Muster are played against by RunTarget (targetrun.go), through the Target
// that their folder implements (target.go). One that is told results is a Driven (driven.go): it gets
// the run of this package, and stands where a stage of a server stands alone (stage.go). One that asks its
// agents is an Asking, and has a run of its own: internal/load/sensu is one.
//
// Several processes can play one run (part.go): one leads (merge.go), the others follow
// (follow.go); what they say to each other is others.go and share.go, and travels in
// internal/load/join. Intent that changes is intent.go, who holds it since when holds.go, and how
// several loaders find that together reformed.go.
//
// Config's flat fields are the short form of a scenario with one class (short.go); nothing
// else knows them apart.
//
// Goroutines: one reader per agent (reconnecting by itself), a few senders that share the
// agents out between them, one housekeeper, one that watches (watch.go) and one beside it
// that reads the server's metrics, one that plays faults and churn (script.go), one that
// asks for pages (pages.go), an HTTP server and a watch that hear alerts (alarms.go). Locks, in
// order: reform, drama, alarms, agent, then book, breaches, witness or telling, then besides. Bounded: the agents' spools
// (Config.Spool).
//
// Start reading at run.go, then sender.go, agent.go and spool.go; what goes wrong on
// purpose is script.go, what it does to a machine life.go; what a run shows is report.go,
// a recorded stream is tape.go; what each phase of it came to phases.go, what it should show goal.go.
// The ledger is ledger.go, balance.go and comparison.go; servers that lie to it are in spine's
// tests. Which alerts a fault must bring about is hookup.go and witness.go, which messages a
// scenario wants told tell.go. How fast each pipeline is, is tempo.go; whom one starves that is
// sped up, beside.go and starve.go.
package load
