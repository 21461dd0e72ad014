// Package load plays a scenario (internal/load/scenario) against a server, from top to bottom: run.go. `muster load run` is its
// face, and the fleet of `muster up --demo` is made of the same agents.
//
// The model is open: every result has an intended time, whatever the server does, and all is timed from there. The timetable
// (package plan) runs in the scenario's virtual time, in which each check of each agent has its own offset, and maps that to real
// time, part by part, so that a phase at another rate is the same plan played faster. How far the generator itself
// fell behind is recorded; a run that fell too far is invalid and says so. A ledger holds sent = acknowledged + refused.
//
// The rooms: plan is pure and computes the timetable and the content of a run; play sends it and knows no verdict, beside people
// (users of the API), alerts and streamed (receivers), sensu (another system) and subject (the server under test); observe is the
// observation log; judge is a pure function of that log, and report is its result, which page and live show. rooms_test.go checks
// the imports between them. This package calls play, writes the log, and asks judge:
//
//	run.go     from top to bottom; config.go what is asked, target.go another system, joint.go several loaders
//	watch.go   the run by the second, sample.go a second, steps.go steps that break, and a run that somebody ends
//	people.go  people, changes of intent and alerts
//	settle.go  the server's states before and after
//	reporting.go what is known at the start
//
// Goroutines: one that watches, one beside it that reads the server's metrics, people, and those of package play. Locks: none of
// its own.
//
// Start reading at run.go.
package load
