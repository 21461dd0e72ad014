// Package report is what a load run shows, and what that says: run.json, the summary for people,
// the table of several runs, and the verdict.
//
//	report.go      the whole of it, and save.go its file
//	phase.go       what a phase, a fault, an outage, a change of intent and people came to
//	balance.go     what the ledger came to
//	notifications.go  the results of notifications, stream lines, silent machines and turns
//	sample.go      one second of it
//	latency.go     latencies of a histogram
//	used.go        what server and loader used, also from within
//	target.go      what is said of a system that is not Muster
//	wrong.go       the one list of what must never be wrong
//	verdict.go     whether a run is all right, and what failed of it or was late
//	goal.go        figures by their names, and goals for them; phasegoals.go those of one phase
//	starve.go      whom a faster phase starves, of those that beside.go names
//	settle.go      when a phase is as before, and what drifts
//	counting.go    the phases that the run's figures are of
//	stopped.go     how far a run went that somebody ended
//	text.go        the summary; targettext.go that of a system that asks its agents
//	table.go       Markdown of several reports
//
// A Report belongs to one goroutine. Goroutines: none. Locks: none. Start reading at report.go.
package report
