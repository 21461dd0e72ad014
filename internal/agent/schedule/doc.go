// Package schedule decides when each check of one node runs. In: the list of checks
// (Set), requests to run now (RunNow). Out: calls of Job.Do, at most MaxConcurrent at
// once and never two of one check.
//
// A check with an interval runs when the boot clock, modulo the interval, reaches an
// offset made from node id and check id: starts spread over machine and fleet, stay
// where they are when the definition changes or the agent restarts, and do not care
// the wall clock. A check that is new here also runs once soon (within
// Config.FirstWithin), so that nobody waits an hour for an hourly check.
//
// One goroutine (Run) sleeps until the next check is due, whatever their number; each
// run has a goroutine while it lasts. One mutex guards everything and is never held
// during a run. Start reading at scheduler.go; when a check is due, internal/when says.
package schedule
