package subject

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// SystemCalls counts the server's system calls by kind for so many seconds, with strace:
// every call takes several times as long meanwhile. PerResult is left to the caller.
func (s *Subject) SystemCalls(ctx context.Context, seconds int) ([]report.SystemCall, error) {
	pid := s.PID()
	if pid == 0 {
		return nil, model.Errorf(model.NotFound, "count system calls: the server's process is not known").WithHint("give it with --server-pid, or let the run start its server")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		return nil, model.Errorf(model.NotFound, "count system calls: there is no strace").WithHint("apt install strace, or leave --syscalls out")
	}
	dir, err := os.MkdirTemp("", "muster-strace-")
	if err != nil {
		return nil, fmt.Errorf("count system calls: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "calls")
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, strace, "-f", "-c", "-o", file, "-p", strconv.Itoa(pid))
	cmd.Stderr = &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // it lets go, and writes its table
	cmd.WaitDelay = 20 * time.Second
	if err := s.guard.Start(cmd); err != nil {
		return nil, fmt.Errorf("count system calls: %w", err)
	}
	err = cmd.Wait()
	s.guard.Release(cmd)
	table, missing := os.ReadFile(file)
	if missing != nil || len(table) == 0 {
		return nil, fmt.Errorf("count system calls: %w: %s", errors.Join(err, missing), strings.TrimSpace(said.String()))
	}
	return parseCalls(table), nil
}

// parseCalls reads the table of strace -c: share of time, seconds, µs per call, calls,
// errors where there were any, name.
func parseCalls(table []byte) []report.SystemCall {
	var list []report.SystemCall
	lines := bufio.NewScanner(bytes.NewReader(table))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 5 || len(f) > 6 || f[len(f)-1] == "total" {
			continue
		}
		share, err := strconv.ParseFloat(f[0], 64)
		count, wrong := strconv.ParseUint(f[3], 10, 64)
		if err != nil || wrong != nil || !(share >= 0 && share <= 100) {
			continue // the head, and the lines under and over it
		}
		c := report.SystemCall{Name: f[len(f)-1], Count: count, Share: share / 100}
		if len(f) == 6 {
			c.Errors, _ = strconv.ParseUint(f[4], 10, 64)
		}
		list = append(list, c)
	}
	return list
}
