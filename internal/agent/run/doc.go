// Package run runs one command and says what came of it, by the Nagios plug-in
// conventions: exit codes 0 to 3 are the status; anything else is UNKNOWN with the
// cause in words before the output.
//
// In: a Command. Out: a Result, always. However the command behaves, a run ends: at
// the time-out its whole process group is told to end and then killed; output beyond
// MaxOutput is read and forgotten; children that outlive the command and hold its
// output open are ended too, and the agent's own end by kill -9 ends them (package
// guard). A Runner holds no state and may be used by many goroutines. Start reading at run.go, then verdict.go.
package run
