package subject

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
)

// allCalls is the kernel's event of any system call, oneKind what those of one kind begin with.
const (
	allCalls = "raw_syscalls:sys_enter"
	oneKind  = "syscalls:sys_enter_"
)

// kinds are the system calls that a server makes in numbers; the rest is counted as others.
// Each kind is a counter for each thread, so that not all 360 are.
func kinds() []string {
	return []string{"read", "write", "pread64", "pwrite64", "accept4", "openat", "close", "fsync", "fdatasync", "epoll_pwait", "epoll_ctl",
		"futex", "nanosleep", "madvise", "mmap", "tgkill", "getrandom", "setsockopt"}
}

// CountCalls counts the server's system calls by kind for so many seconds where the kernel
// counts them itself (perf stat): half a microsecond each, and the server does not stop. There is
// none, and no error, where perf is not installed or may not look at the process. PerResult is
// left to the caller.
func (s *Subject) CountCalls(ctx context.Context, seconds int) ([]report.SystemCall, error) {
	pid := s.PID()
	perf, err := exec.LookPath("perf")
	if pid == 0 || err != nil {
		return nil, nil
	}
	events := allCalls
	for _, k := range kinds() {
		events += "," + oneKind + k
	}
	var table bytes.Buffer
	cmd := exec.CommandContext(ctx, perf, "stat", "-x", ",", "-e", events, "-p", strconv.Itoa(pid), "--", "sleep", strconv.Itoa(seconds))
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	cmd.Stderr = &table
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 20 * time.Second
	if err := s.guard.Start(cmd); err != nil {
		return nil, fmt.Errorf("count system calls: %w", err)
	}
	err = cmd.Wait()
	s.guard.Release(cmd)
	if err != nil {
		return nil, nil // not permitted, or a kernel without these events: what --syscalls is for
	}
	return parseCounts(table.String()), nil
}

// parseCounts reads what perf stat -x, says: count, unit, event and more. Without the sum
// of all nothing is known.
func parseCounts(table string) []report.SystemCall {
	lines := csv.NewReader(strings.NewReader(table))
	lines.FieldsPerRecord, lines.LazyQuotes = -1, true
	rows, err := lines.ReadAll()
	if err != nil {
		return nil
	}
	var list []report.SystemCall
	var all, known uint64
	for _, row := range rows {
		if len(row) < 3 {
			continue
		}
		n, err := strconv.ParseUint(row[0], 10, 32) // <not counted>: none came; far fewer than 2^32 in seconds
		name, one := strings.CutPrefix(row[2], oneKind)
		switch {
		case err != nil || n == 0:
		case row[2] == allCalls:
			all = n
		case one && name != "":
			known += n
			list = append(list, report.SystemCall{Name: name, Count: n})
		}
	}
	if all == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b report.SystemCall) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	if all > known {
		list = append(list, report.SystemCall{Name: "others", Count: all - known})
	}
	return list
}
