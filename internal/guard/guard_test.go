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

// victim names the shell for the process that the test kills.
const victim = "MUSTER_GUARD_VICTIM"

// TestMain is the victim where it is asked for: it does what its input says, a word and a name each line, and answers
// with a number: "start", "end" (then "no" guards it any more), "shell".
func TestMain(m *testing.M) {
	program, ok := os.LookupEnv(victim)
	if !ok {
		os.Exit(m.Run())
	}
	// What a server holds, and nobody may inherit.
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
		case "end": // of the command itself; what it began goes on
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

// target is a process that guards commands, to be killed.
type target struct {
	t   *testing.T
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
}

func startTarget(t *testing.T, program string) *target {
	t.Helper()
	theirs, in, err := os.Pipe()
	testenv.NoError(t, err)
	v := &target{t: t, cmd: exec.Command(os.Args[0]), in: in}
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

// ask gives an order and returns the number that comes back.
func (v *target) ask(order string) int {
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

// start begins a command and returns its group, once all of it runs.
func (v *target) start(name string) int {
	v.t.Helper()
	group := v.ask("start " + name)
	v.t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	testenv.Until(v.t, "sh, two sleeps and cat run", func() bool { return slices.Equal(processesOf(group), []string{"cat", "sh", "sleep", "sleep"}) })
	return group
}

func (v *target) kill() {
	_ = v.cmd.Process.Kill()
	_, _ = v.cmd.Process.Wait()
}

func (v *target) exited(what string, group int) {
	v.t.Helper()
	testenv.Until(v.t, what+" is gone", func() bool { return len(processesOf(group)) == 0 })
}

// processesOf are the names of a group's living processes.
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

// shells are those that stand for /bin/sh somewhere, as far as they are here.
func shells() (list []string) {
	for _, name := range []string{"sh", "dash", "bash", "mksh"} {
		if path, err := exec.LookPath(name); err == nil {
			list = append(list, path)
		}
	}
	return list
}

func TestKilledWithTheProgram(t *testing.T) {
	for _, shell := range shells() {
		t.Run(filepath.Base(shell), func(t *testing.T) {
			v := startTarget(t, shell)
			one, two, three := v.start("one"), v.start("two"), v.start("three")
			v.ask("end two")
			guard := v.ask("shell")
			v.kill()
			v.exited("the first command", one)
			v.exited("the third command", three)
			v.exited("the guard", guard)
			if left := processesOf(two); len(left) != 3 {
				t.Errorf("of what a command left behind when it ended %v runs", left)
			}
		})
	}
}

func TestReplacedWriteGuard(t *testing.T) {
	v := startTarget(t, "/bin/sh")
	one := v.start("one")
	first := v.ask("shell")
	testenv.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	v.exited("the guard", first)
	two := v.start("two")
	if second := v.ask("shell"); second == first {
		t.Error("no other guard has come")
	}
	v.kill()
	v.exited("the first command", one)
	v.exited("the second command", two)
}

// Signals to all processes of a service do not end the guard before the program.
func TestWriteGuardStopsLast(t *testing.T) {
	v := startTarget(t, "/bin/sh")
	one := v.start("one")
	guard := v.ask("shell")
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		testenv.NoError(t, syscall.Kill(guard, s))
	}
	v.kill()
	v.exited("the command", one)
	v.exited("the guard", guard)
}

func TestWriteGuardBuffersNothing(t *testing.T) {
	v := startTarget(t, "/bin/sh")
	v.start("one")
	guard := v.ask("shell")
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", guard))
	if err != nil || len(fds) < 3 {
		t.Fatalf("descriptors %v, %v", fds, err)
	}
	for _, fd := range fds {
		if n, _ := strconv.Atoi(fd.Name()); n <= 2 {
			continue
		}
		// Whoever runs the tests may have left something open: that is no secret of the victim.
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
	v.ask("close")
	v.exited("the guard", guard)
}

func TestWithoutAShell(t *testing.T) {
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
