//go:build linux

package harness

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process holds one run of the binary.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  buffer
	done chan struct{}
}

// Launch starts muster with these arguments. It is killed at the end of the test, and
// if the test itself is killed.
func Launch(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	return LaunchCommand(t, env, append([]string{Binary()}, args...)...)
}

// LaunchCommand starts another program than muster.
func LaunchCommand(t testing.TB, env []string, words ...string) *Process {
	t.Helper()
	return launch(t, "", env, words)
}

func launch(t testing.TB, dir string, env, words []string) *Process {
	t.Helper()
	p := &Process{t: t, done: make(chan struct{})}
	p.cmd = exec.Command(words[0], words[1:]...)
	p.cmd.Dir = dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", words, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%v said:\n%s", words, tail(p.Log(), 60))
		}
	})
	return p
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log returns its standard output and error so far.
func (p *Process) Log() string { return p.out.String() }

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s: %v", s, err)
	}
}

// Kill sends SIGKILL and returns when the process has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait waits until the process ends by itself and returns its exit code.
func (p *Process) Wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("still running after %s:\n%s", within, tail(p.Log(), 40))
	}
	return p.cmd.ProcessState.ExitCode()
}

// Stop sends SIGTERM and fails the test unless the process ends with code 0.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(40 * time.Second); code != 0 {
		p.t.Errorf("a planned stop ended with code %d:\n%s", code, tail(p.Log(), 40))
	}
}

// buffer collects output from two descriptors.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := bytes.Split([]byte(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
