//go:build unix

package guard

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Guard starts commands that do not outlive this program. The zero value is ready;
// nil starts them too, and guards nothing. One is enough for a whole program.
type Guard struct {
	Log *slog.Logger // hears once that there is no shell; nil: nobody does

	mu    sync.Mutex
	live  map[int]bool // process groups of commands that have not ended
	shell *exec.Cmd    // nil: none runs
	pipe  *os.File     // to it; its end is what it waits for
	said  bool         // to Log

	program string // the shell; empty: /bin/sh. Tests try others
}

// script is all that the shell does. It knows a group from "+ N" to "- N", and takes no
// other signal for the end than that of its input: whoever ends all processes of a
// service at once ends this one last. A kill without -- is what all shells understand.
const script = `trap '' HUP INT QUIT TERM
live=' '
while read -r change group; do
	case $change in
	+) live="$live$group " ;;
	-) live="${live%% $group *} ${live#* $group }" ;;
	esac
done
for group in $live; do kill -9 "-$group"; done`

// Start starts a command as cmd.Start does, in a session of its own (so that it has no
// terminal either, into which another user could type), and guards it until Ended.
func (g *Guard) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	dieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil || g == nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.live == nil {
		g.live = map[int]bool{}
	}
	g.live[cmd.Process.Pid] = true
	g.say("+", cmd.Process.Pid)
	return nil
}

// Ended lets go of a command that Start has started. It is called as soon as Wait has
// returned: from then on the system may give its number to others.
func (g *Guard) Ended(cmd *exec.Cmd) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.live, cmd.Process.Pid)
	g.say("-", cmd.Process.Pid)
}

// Close kills what has not ended, and ends the shell.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for group := range g.live {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	clear(g.live)
	g.end()
}

// say tells the shell of a change. One that is gone, or does not read, is replaced by
// another that hears of all groups. The caller holds the lock.
func (g *Guard) say(change string, group int) {
	if g.pipe != nil && g.write(fmt.Sprintln(change, group)) == nil {
		return
	}
	g.end()
	if len(g.live) == 0 {
		return
	}
	if err := g.begin(); err != nil {
		g.end()
		if g.Log != nil && !g.said {
			g.Log.Warn("commands would outlive a kill -9 of this program: no shell watches over them", "err", err)
		}
		g.said = true
	}
}

func (g *Guard) begin() error {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("guard commands: %w", err)
	}
	defer theirs.Close()
	program := g.program
	if program == "" {
		program = "/bin/sh"
	}
	// It inherits its end of the pipe and nothing else: no lock, no listener, no
	// variable that holds a password; it keeps no folder busy, and no terminal's end or
	// Ctrl-C is its own.
	shell := exec.Command(program, "-c", script, "muster-guard")
	shell.Stdin, shell.Env, shell.Dir = theirs, []string{}, "/"
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := shell.Start(); err != nil {
		ours.Close()
		return fmt.Errorf("guard commands: %w", err)
	}
	g.shell, g.pipe = shell, ours
	var all strings.Builder
	for group := range g.live {
		fmt.Fprintln(&all, "+", group)
	}
	return g.write(all.String())
}

// write waits for a shell that is slow, but not for one that stands still.
func (g *Guard) write(text string) error {
	_ = g.pipe.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, err := io.WriteString(g.pipe, text)
	return err
}

// end kills the shell before its pipe ends: what it knows may be old.
func (g *Guard) end() {
	if g.shell == nil {
		return
	}
	_ = g.shell.Process.Kill()
	_ = g.shell.Wait()
	g.pipe.Close()
	g.shell, g.pipe = nil, nil
}
