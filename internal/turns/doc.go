// Package turns gives the runs of round-robin checks to their members: in each interval one
// run of each check, or of each of its proxy nodes, by the next connected member in turn.
//
// What goes in: the checks (directory.RoundRobin), results (Ran), sessions that ended (Ended). What goes
// out: turns that are left with a session (Options.Give), and the intervals in which nobody
// was there (Options.Missed). Nothing is on disk: the intervals stand on the clock, so a
// restart goes on with them. Due times by cron (cron.go) are the time of day's: what fell into
// a restart shows in the age of the event (Options.Last).
//
// One goroutine (Run) and one lock, which is held while Give is called; Give takes locks of
// the session layer, which calls Ran and Ended without any. What a check costs is by its
// turns that are due, not by its members. Start reading at Engine.step.
package turns
