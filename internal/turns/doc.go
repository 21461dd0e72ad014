// Package turns assigns the runs of round-robin checks to members: in each interval one run of each
// check, or of each of its proxy nodes, goes to the next connected member.
//
// Input: the checks (directory.RoundRobin), results (RecordResult), ended sessions (SessionEnded).
// Output: turns that are handed to a session (Options.Give), and intervals without a connected
// member (Options.Missed). Nothing is stored: intervals follow the clock, so a restart continues
// them. Due times by cron (cron.go) follow wall-clock time; after a restart the age of the event
// (Options.Last) shows which of them ran.
//
// One goroutine (Run) and one lock, held while Give is called. Start reading at engine.go, then
// turn.go.
package turns
