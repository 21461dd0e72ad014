// Package report is the report of a load run: run.json, its figures and verdict, and its findings for people.
//
//	report.go         the whole of it; save.go its file
//	phase.go          phases, those that the run's figures are of; faults, outages, changes of intent, people
//	balance.go        the ledger; notifications.go messages, stream lines, silent machines, turns
//	signals.go        values and directives in place of results
//	used.go           use of server and loader, another system's counts; sample.go one second, and histograms
//	wrong.go          the one list of kinds of wrong results and alerts
//	verdict.go        whether a run is well, failed, late, or ended by a person
//	goal.go           figures by their names, and goals
//	findings.go       all of it for people; text.go the same for a terminal, and Markdown of several reports
//
// A Report belongs to one goroutine. Goroutines: none. Locks: none. Start reading at report.go.
package report
