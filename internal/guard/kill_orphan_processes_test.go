//go:build linux

package guard

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// victim is the environment variable that makes the test binary a process to be killed; its value is the shell.
const victim = "MUSTER_GUARD_VICTIM"

// TestMain runs the tests or, in a child process, the program that starts guarded commands. If the environment
// variable victim is set, the test binary is instead a server with commands that a test starts and kills. That
// process reads orders from its input, one line with a word and the name of a command ("start", "end", "shell",
// "close"), and answers each with a number.
func TestMain(m *testing.M) {
	program, ok := os.LookupEnv(victim)
	if !ok {
		os.Exit(m.Run())
	}
	// Files and listeners that a server has open, and that no command may inherit.
	if _, err := os.Open(os.Args[0]); err != nil {
		panic(err)
	}
	if _, err := net.Listen("tcp", "127.0.0.1:0"); err != nil {
		panic(err)
	}
	g := &Guard{program: program}
	commands := map[string]*exec.Cmd{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		word, name, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "start":
			commands[name] = exec.Command("/bin/sh", "-c", "sleep 1000 & sleep 1000 | cat; :")
			if err := g.Start(commands[name]); err != nil {
				panic(err)
			}
			fmt.Println(commands[name].Process.Pid)
		case "end": // ends the command itself, not the processes that it started
			_ = commands[name].Process.Kill()
			_ = commands[name].Wait()
			g.Release(commands[name])
			fmt.Println(0)
		case "shell":
			fmt.Println(g.shell.Process.Pid)
		case "close":
			g.Close()
			fmt.Println(0)
		}
	}
}

// guardedProgram is a child process of a test that starts guarded commands, to be killed by the test. The test
// kills the process.
type guardedProgram struct {
	t   *testing.T
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
}

// startProgram starts a test program with guarded commands, which the guarding shell kills when the program
// dies.
func startProgram(t *testing.T, program string) *guardedProgram {
	t.Helper()
	theirs, in, err := os.Pipe()
	testenv.NoError(t, err)
	v := &guardedProgram{t: t, cmd: exec.Command(os.Args[0]), in: in}
	v.cmd.Env = append(os.Environ(), victim+"="+program)
	v.cmd.Stdin, v.cmd.Stderr = theirs, os.Stderr
	out, err := v.cmd.StdoutPipe()
	if err == nil {
		err = v.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	v.out = bufio.NewReader(out)
	t.Cleanup(func() { v.kill(); in.Close() })
	return v
}

// sendOrder sends the test program one order, such as "end two", and returns the answered number. An order is a line such
// as "end two".
func (v *guardedProgram) sendOrder(order string) int {
	v.t.Helper()
	if _, err := fmt.Fprintln(v.in, order); err != nil {
		v.t.Fatal(err)
	}
	line, err := v.out.ReadString('\n')
	n, bad := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || bad != nil {
		v.t.Fatalf("%s: %q, %v", order, line, err)
	}
	return n
}

// startCommand lets the test program start a command, and waits until all the command's processes run. It returns the
// process group.
func (v *guardedProgram) startCommand(name string) int {
	v.t.Helper()
	group := v.sendOrder("start " + name)
	v.t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	testenv.Until(v.t, "sh, two sleeps and cat run", func() bool { return slices.Equal(processesOf(group), []string{"cat", "sh", "sleep", "sleep"}) })
	return group
}

// kill kills the test program with SIGKILL.
func (v *guardedProgram) kill() {
	_ = v.cmd.Process.Kill()
	_, _ = v.cmd.Process.Wait()
}

// waitForExit waits until a process group has no living process.
func (v *guardedProgram) waitForExit(what string, group int) {
	v.t.Helper()
	testenv.Until(v.t, what+" is gone", func() bool { return len(processesOf(group)) == 0 })
}

// processesOf returns the program names of the living processes in a process group.
func processesOf(group int) (names []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		text := string(data) // PID (NAME) STATE PARENT GROUP …
		begin, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		if f := strings.Fields(text[end+1:]); f[0] != "Z" && f[2] == strconv.Itoa(group) {
			names = append(names, text[begin+1:end])
		}
	}
	slices.Sort(names)
	return names
}

// installedShells returns the installed shells that serve as /bin/sh on some system.
func installedShells() (list []string) {
	for _, name := range []string{"sh", "dash", "bash", "mksh"} {
		if path, err := exec.LookPath(name); err == nil {
			list = append(list, path)
		}
	}
	return list
}

// TestCommandsDieWithTheProgram kills a program that guards commands, and expects all commands to end.
func TestCommandsDieWithTheProgram(t *testing.T) {
	for _, shell := range installedShells() {
		t.Run(filepath.Base(shell), func(t *testing.T) {
			v := startProgram(t, shell)
			one, two, three := v.startCommand("one"), v.startCommand("two"), v.startCommand("three")
			v.sendOrder("end two")
			guard := v.sendOrder("shell")
			v.kill()
			v.waitForExit("the first command", one)
			v.waitForExit("the third command", three)
			v.waitForExit("the guard", guard)
			if left := processesOf(two); len(left) != 3 {
				t.Errorf("of what a command left behind when it ended %v runs", left)
			}
		})
	}
}

// TestKilledShellIsReplaced kills the guarding shell, and expects a new shell at the next command. The new shell
// guards both commands.
func TestKilledShellIsReplaced(t *testing.T) {
	v := startProgram(t, "/bin/sh")
	one := v.startCommand("one")
	first := v.sendOrder("shell")
	testenv.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	v.waitForExit("the guard", first)
	two := v.startCommand("two")
	if second := v.sendOrder("shell"); second == first {
		t.Error("no other guard has come")
	}
	v.kill()
	v.waitForExit("the first command", one)
	v.waitForExit("the second command", two)
}

// TestShellOutlivesSignalsToAllProcesses sends the guarding shell the signals of a service manager, and expects no end
// of the shell. The shell ends only after the program.
func TestShellOutlivesSignalsToAllProcesses(t *testing.T) {
	v := startProgram(t, "/bin/sh")
	one := v.startCommand("one")
	guard := v.sendOrder("shell")
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		testenv.NoError(t, syscall.Kill(guard, s))
	}
	v.kill()
	v.waitForExit("the command", one)
	v.waitForExit("the guard", guard)
}

// TestGuardShellUsesFewResources expects the guarding shell to open no file, and to have an empty environment and
// little memory.
func TestGuardShellUsesFewResources(t *testing.T) {
	v := startProgram(t, "/bin/sh")
	v.startCommand("one")
	guard := v.sendOrder("shell")
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", guard))
	if err != nil || len(fds) < 3 {
		t.Fatalf("descriptors %v, %v", fds, err)
	}
	for _, fd := range fds {
		if n, _ := strconv.Atoi(fd.Name()); n <= 2 {
			continue
		}
		// A file that the test runner has left open is not a leak of the process.
		theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", guard, fd.Name()))
		if ours, err := os.Readlink("/proc/self/fd/" + fd.Name()); err != nil || ours != theirs {
			t.Errorf("it holds %s, descriptor %s", theirs, fd.Name())
		}
	}
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", guard)); err != nil || len(env) > 0 {
		t.Errorf("environment %q, %v", env, err)
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", guard))
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	if kB, err := strconv.Atoi(strings.Fields(rest)[0]); err != nil || kB > 5000 {
		t.Errorf("%d kB resident, %v", kB, err)
	} else {
		t.Logf("%d kB resident", kB)
	}
	v.sendOrder("close")
	v.waitForExit("the guard", guard)
}

// TestMissingShellLeavesCommandsUnguarded configures a shell that does not exist, and expects commands to run
// without a guard.
func TestMissingShellLeavesCommandsUnguarded(t *testing.T) {
	g := &Guard{program: "/no/such/shell"}
	defer g.Close()
	for range 2 {
		cmd := exec.Command("/bin/true")
		testenv.NoError(t, g.Start(cmd))
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		g.Release(cmd)
	}
}
