// Package guard sees to it that commands end with the program that started them, even
// if that one is killed (kill -9) and can end nothing itself.
//
// Each command gets a session, and so a process group, of its own. A shell of 2 MB,
// begun with the first command, is told by a pipe which groups live; the pipe ends with
// the program, however it ended, and then the shell kills the groups that it knows and
// ends. Linux could also tell the command itself of the end of its parent (as it does
// between the start of a command and the shell's hearing of it), but only the command,
// never what that one has started: of `a; b | c` it would end nothing but the sh.
// Our own binary in the shell's place would take 7 MB (muster-agent) or 19 MB (muster).
//
// What leaves its process group (setsid, a daemon) leaves the guard too, and so does
// what a command left behind when it ended.
//
// A Guard has one lock and no goroutine. Start reading at guard.go.
package guard
