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

// Guard starts commands that a small guarding shell kills when Muster dies, even by kill -9. A small guarding
// shell lives longer than Muster and kills the commands. The zero value is ready; a nil Guard starts commands
// without guarding them. One Guard serves a whole program.
type Guard struct {
	Log *slog.Logger // gets one warning if no shell starts; nil: no log

	mu     sync.Mutex   // guards the fields below
	live   map[int]bool // process groups of commands that have not ended
	shell  *exec.Cmd    // the shell that kills the groups; nil: none runs
	pipe   *os.File     // input of the shell; the shell ends when the pipe closes
	warned bool         // Log has got the warning

	program string // path of the shell; empty: /bin/sh. Tests use other shells
}

// script is the program that the shell runs. It reads "+ N" when the process group N begins and "- N" when it ends. It
// ends only with its input, and ignores the signals that a service manager sends to all processes of a service. It uses
// kill without --, because not all shells support --.
const script = `trap '' HUP INT QUIT TERM
live=' '
while read -r change group; do
	case $change in
	+) live="$live$group " ;;
	-) live="${live%% $group *} ${live#* $group }" ;;
	esac
done
for group in $live; do kill -9 "-$group"; done`

// Start starts a command that will die together with Muster. The command has a session of its own, so it has no
// terminal; Release ends the guarding.
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
	g.reportProcessGroup("+", cmd.Process.Pid)
	return nil
}

// Release stops guarding a finished command, so that no later kill hits another process with the same id. The
// command is no longer killed when the program dies. Call it as soon as Wait has returned, because then the
// system may reuse the command's process id.
func (g *Guard) Release(cmd *exec.Cmd) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.live, cmd.Process.Pid)
	g.reportProcessGroup("-", cmd.Process.Pid)
}

// Close stops the guarding shell and kills all commands that have not ended.
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
	g.stopShell()
}

// reportProcessGroup tells the guarding shell that a command's process group has begun (+) or ended (-). If the shell has
// ended or does not read, reportProcessGroup starts another shell with all live groups. The caller holds mu.
func (g *Guard) reportProcessGroup(change string, group int) {
	if g.pipe != nil && g.writeToShell(fmt.Sprintln(change, group)) == nil {
		return
	}
	g.stopShell()
	if len(g.live) == 0 {
		return
	}
	if err := g.startShell(); err != nil {
		g.stopShell()
		if g.Log != nil && !g.warned {
			g.Log.Warn("commands would outlive a kill -9 of this program: no shell watches over them", "err", err)
		}
		g.warned = true
	}
}

// startShell starts the guarding shell, and sends the shell the ids of all live process groups. The caller holds mu.
func (g *Guard) startShell() error {
	input, output, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the shell that guards commands: %w", err)
	}
	defer input.Close()
	program := g.program
	if program == "" {
		program = "/bin/sh"
	}
	// The shell inherits its end of the pipe and nothing else: no lock, no listener, no
	// environment with passwords, no working directory, no terminal and its Ctrl-C.
	shell := exec.Command(program, "-c", script, "muster-guard")
	shell.Stdin, shell.Env, shell.Dir = input, []string{}, "/"
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := shell.Start(); err != nil {
		output.Close()
		return fmt.Errorf("start the shell that guards commands: %w", err)
	}
	g.shell, g.pipe = shell, output
	var all strings.Builder
	for group := range g.live {
		fmt.Fprintln(&all, "+", group)
	}
	return g.writeToShell(all.String())
}

// writeToShell writes a line to the guarding shell within at most five seconds.
func (g *Guard) writeToShell(text string) error {
	_ = g.pipe.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, err := io.WriteString(g.pipe, text)
	return err
}

// stopShell kills the guarding shell, so that the shell kills no process group any more. The shell must not
// kill process groups whose ids belong to other processes by now. The caller holds mu.
func (g *Guard) stopShell() {
	if g.shell == nil {
		return
	}
	_ = g.shell.Process.Kill()
	_ = g.shell.Wait()
	g.pipe.Close()
	g.shell, g.pipe = nil, nil
}
