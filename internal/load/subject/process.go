package subject

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

const (
	stopWithin  = 30 * time.Second // then a planned end becomes kill -9
	readyWithin = 5 * time.Minute  // a large journal is read again at a start
)

// process is one life of the server.
type process struct {
	cmd   *exec.Cmd
	done  chan struct{} // closed at its end
	meant bool          // it was asked to end; the subject's lock guards it
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// PID returns the process id of the server, or 0 if it does not run or is unknown.
func (s *Subject) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil || s.running.ended() {
		return 0
	}
	return s.running.cmd.Process.Pid
}

// begin starts the server and waits until it is ready.
func (s *Subject) begin(ctx context.Context) error {
	if err := s.launch(); err != nil {
		return err
	}
	return s.waitReady(ctx)
}

// launch starts the process.
func (s *Subject) launch() error {
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of the server under test: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(s.words[0], s.words[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, s.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MUSTER_") }) // settings of other servers
	if s.cores > 0 {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(s.cores))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return context.Canceled
	}
	if err := s.guard.Start(cmd); err != nil {
		return fmt.Errorf("start the server under test: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	s.running = p
	go func() {
		_ = cmd.Wait()
		s.guard.Release(cmd)
		s.mu.Lock()
		if !p.meant {
			s.fell = cmd.ProcessState.String()
		}
		s.mu.Unlock()
		close(p.done)
	}()
	return nil
}

// waitReady waits until readyz reports that the server is ready.
func (s *Subject) waitReady(ctx context.Context) error {
	s.mu.Lock()
	p := s.running
	s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, model.Errorf(model.Unavailable, "the server under test is not ready after %s", readyWithin))
	defer cancel()
	for {
		if _, err := s.get(ctx, "/readyz"); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.done:
			return model.Errorf(model.Unavailable, "the server under test ended while it started:\n%s", s.lastWords()).
				WithHint("it was started as: %s", strings.Join(s.words, " "))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// get requests a path of the admin listener.
func (s *Subject) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true // it may be started anew at any time
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return data, err
}

// lastWords returns the last lines of the log.
func (s *Subject) lastWords() string {
	data, _ := os.ReadFile(s.Log)
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}

// signal sends the server a signal.
func (s *Subject) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil || s.running.ended() {
		return model.Errorf(model.Unavailable, "the server under test does not run")
	}
	return s.running.cmd.Process.Signal(sig)
}

// end asks the server to end, and kills it after a while, or at once if within is zero.
func (s *Subject) end(within time.Duration) {
	s.mu.Lock()
	p := s.running
	if p != nil {
		p.meant = true
	}
	s.mu.Unlock()
	if p == nil {
		return
	}
	if within > 0 && s.signal(syscall.SIGCONT) == nil && s.signal(syscall.SIGTERM) == nil { // one that is stopped hears nothing
		select {
		case <-p.done:
			return
		case <-time.After(within):
		}
	}
	_ = s.signal(syscall.SIGKILL)
	<-p.done
}

// Restart ends the server as planned and starts it again.
func (s *Subject) Restart(ctx context.Context) error {
	s.end(stopWithin)
	return s.begin(ctx)
}

// Kill kills the server with SIGKILL and starts it again.
func (s *Subject) Kill(ctx context.Context) error {
	s.end(0)
	return s.begin(ctx)
}

// Pause suspends the process with SIGSTOP.
func (s *Subject) Pause() error { return s.signal(syscall.SIGSTOP) }

// Continue continues the process with SIGCONT.
func (s *Subject) Continue() error { return s.signal(syscall.SIGCONT) }
