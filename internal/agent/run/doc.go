// Package run runs one command and returns its result by the Nagios plug-in conventions: exit codes 0 to
// 3 are the status; any other end is UNKNOWN, with the cause before the output.
//
// In: a Command. Out: always a Result. Every run ends: at the time-out its process group gets SIGTERM and
// then SIGKILL; output beyond MaxOutput is read and dropped; children that outlive the command and hold
// its output open are killed, also when the agent itself is killed (package guard). A Runner holds no state and may be used by many goroutines. Start reading at run_command.go, then exit_status_and_output.go.
package run
