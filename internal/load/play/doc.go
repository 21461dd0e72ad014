// Package play plays the agents of a load run, and reads the server's states of their results in the end. It knows no verdict:
// it counts in books and ledgers, which go to the observation log (package observe).
//
// Driver is what a run calls. Fleet is that of Muster: real agent sessions (internal/agent/link), many in one process; only what
// runs behind them (commands, spool on disk) is simulated. Targeted is that of another system, whose agents are its own.
//
//	the fleet        fleet.go; class.go who plays, part.go of several processes, digest.go the plan as a number
//	the timetable    sender.go who plays it, tape.go a recorded stream, lingering.go frames that wait for company
//	an agent         agent.go, fromserver.go what it hears, spool.go what it makes and keeps, frame.go, signals.go values and runs
//	                 of directives, which a Source makes (values.go, directives.go), house.go that it lives, machine.go and presence.go its machine, machines.go for package people,
//	                 proxynodes.go and roundrobin.go checks about others and in turn
//	what it counts   book.go by the second, ledger.go to the end
//	what goes wrong  script.go, fault.go, churn.go; alerts.go the states whose alerts are judged
//	what the server  states.go event states, readvalues.go and readruns.go the rest
//
// Goroutines: one reader per agent (reconnecting by itself), a few senders that share the agents out between them, one that keeps
// house, one that plays faults and churn. Locks, in order: people.Changes, Script, agent, then alerts, Book, breaches or the
// lines of a stream, then the log. Bounded: the agents' spools (Options.Spool). Not bounded: some hundred bytes for each change of a
// state whose alerts are judged and for each session of an agent; a byte for each interval of a round-robin check.
//
// Start reading at Driver, then fleet.go, sender.go, agent.go and spool.go.
package play
