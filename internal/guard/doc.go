// Package guard kills commands when the program that started them dies, even by kill -9.
//
// Each command gets a session, and so a process group, of its own. A shell of 2 MB, started with the first command,
// reads the live process groups from a pipe. When the program ends, for whatever reason, the pipe closes; the shell
// then kills the groups that it knows and exits. Linux can also signal the end of the parent to the command itself
// (Pdeathsig covers the time until the shell has read the group), but not to the children of the command: of `a; b | c`
// it would kill the sh alone. Our own binary in place of the shell would take 7 MB (muster-agent) or 19 MB (muster).
//
// Not guarded: processes that leave their group (setsid, a daemon), and processes that a
// command left running when it ended.
//
// In: commands to start. Out: the same commands, started. A Guard has one lock and no
// goroutine. Start reading at kill_orphan_processes.go.
package guard
