// Package load plays a scenario (internal/load/scenario) against a server, with real agent
// sessions, many in one process: the session code is the agent's own
// (internal/agent/link), only what runs behind it (commands, spool on disk) is simulated.
// `muster load run` is its face, and the fleet of `muster up --demo` is made of the same
// agents.
//
// The model is open: every result has an intended time, whatever the server does, and all
// is timed from there. The timetable runs in the scenario's virtual time, in which each
// check of each agent has its own offset; a score maps that to real time, part by part, so
// that a phase at another rate is the same plan played faster. How far the generator itself
// fell behind is recorded; a run that fell too far is invalid and says so. A ledger holds
// sent = acknowledged + refused.
//
// The run plays and writes what it sees to a log (package observe). The verdict is a pure function
// of that log (package judge).
//
// What knows nothing of the run stands beside it, in rooms of its own: simulated (machines,
// their names and certificates), outputs (what results say), preflight (the look at the
// machine before), usage (what server and loaders used), people (who works through the API and changes intent),
// alerts (who hears them), streamed (the lines of a stream), report (what a run shows). The run itself is here:
//
//	the run          run.go from top to bottom; config.go what is asked,
//	                 preflight.go may it begin; populate.go and class.go who plays, planhash.go
//	                 the plan as a number, driver.go the agents of a run and their system, drain.go the end,
//	                 stop.go a run that somebody ends
//	the timetable    score.go, tempo.go that of a pipeline, sender.go who plays it, recorded.go
//	                 a recorded stream, lingering.go frames that wait for company
//	an agent         agent.go, fromserver.go what it hears, spool.go what it makes and keeps,
//	                 signals.go its values and runs of directives, which package play makes,
//	                 frame.go, agentfacts.go what it says of itself, house.go that it lives,
//	                 machine.go its machine,
//	                 proxynodes.go and roundrobin.go checks about others and in turn
//	the ledger       ledger.go, book.go what is counted; states.go and baseline.go
//	                 what the server shows, drain.go waits until both agree
//	faults, churn    faultscript.go, fault.go, churn.go, outage.go
//	alerts           alerts.go the states and strikes whose alerts are judged, silent.go machines called silent
//	what it comes to watch.go, sample.go by the second, edges.go where parts meet, step.go by the
//	                 step, phases.go by the phase, reporting.go what is known at the start
//	beside it        operators.go people
//	several loaders  part.go who plays whom, joint.go lead and followers
//	other targets    target.go the driver of other systems
//
// Goroutines: one reader per agent (reconnecting by itself), a few senders that share the
// agents out between them, one housekeeper, one that watches (watch.go) and one beside it
// that reads the server's metrics, one that plays faults and churn (faultscript.go),
// people, and who hears alerts (package alerts). Locks, in
// order: people.Changes, faultScript, agent, then alerts, book, breaches or the lines
// of a stream, then the log. Bounded: the agents' spools (Config.Spool), and who waits
// for an answer. What is kept of all that came is not: some hundred bytes for each alert, by its
// key, for each flip of a state whose alerts are judged and for each session of an agent; a bit for
// each line of a stream; a byte for each interval of a check in turn; eight bytes for each agent and change of intent.
//
// Start reading at run.go, then sender.go, agent.go and spool.go. A server that lies is a log
// in package judge (ledger_test.go).
package load
