//go:build linux

package test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// The disk reports errors while a fleet sends. A descriptor whose sync or write failed
// is never synced again (the kernel may call clean what it has dropped); nothing is
// acknowledged that is not kept; and the server goes on by itself.
func TestDiskErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		call      string
		segment   bool // only of the segment being written, else of all files
		leftShort bool
	}{
		{"sync of the journal", "fdatasync", true, false},
		{"write of the journal", "pwrite64", true, true},
		{"every sync", "fdatasync", false, true},
		{"every write", "pwrite64", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.leftShort {
				t.Skip("one kind of error stands for the rest")
			}
			t.Parallel()
			s := harness.NewServer(t, "--snapshot-cycle", "2s")
			fleet := harness.Fleet{Agents: 10, Checks: 5, Interval: 100 * time.Millisecond}
			s.Prepare(fleet)
			s.Start()
			end := startLoad(t, s, fleet, 5*time.Second)

			paths, _ := segments(t, s)
			segment := paths[len(paths)-1]
			// Two calls show: what fails, and whether a sync of that file follows.
			what := []string{"-e", "trace=fdatasync,pwrite64", "-e", "inject=" + c.call + ":error=EIO"}
			if c.segment {
				what = append(what, "-P", segment)
			}
			trace := s.Trace(what...)
			if c.segment {
				harness.Until(t, 20*time.Second, "the segment is given up", func() (string, bool) {
					return s.Log(), strings.Contains(s.Log(), `msg="journal segment given up after a failed write" file=`+segment)
				})
			} else {
				harness.Until(t, 20*time.Second, "readyz says why nothing is committed", func() (string, bool) {
					why, ready := s.Ready()
					return why, !ready && strings.Contains(why, "the journal does not commit: ") && strings.Contains(why, "input/output error")
				})
			}
			lines := trace.Detach()
			s.WaitReady(30 * time.Second)

			again, failed := syncAfterFailure(lines)
			if failed == 0 {
				t.Errorf("nothing failed:\n%s", strings.Join(lines, "\n"))
			}
			if again != "" {
				t.Errorf("%s was synced after it had failed:\n%s", again, strings.Join(lines, "\n"))
			}
			e := <-end
			if e.err != nil || !e.rep.OK() {
				t.Errorf("load run: %v, %+v", e.err, e.rep)
			}
			before := s.FleetStates()
			s.Kill()
			s.Start()
			compareStates(t, before, s.FleetStates())
			for _, word := range []string{"panic", "BUG"} {
				if strings.Contains(s.Log(), word) {
					t.Errorf("the log says %s:\n%s", word, s.Log())
				}
			}
			s.Stop()
		})
	}
}

var (
	beginning = regexp.MustCompile(`^(\d+) +(fdatasync|pwrite64)\(\d+<([^>]*/journal/\d+\.log)>`)
	thread    = regexp.MustCompile(`^\d+`)
)

// syncAfterFailure goes through a trace: how many segments of the journal had a call that
// failed, and which of them was synced after that.
func syncAfterFailure(lines []string) (again string, failed int) {
	calling, bad := map[string]string{}, map[string]bool{} // segment by thread; failed segments
	for _, line := range lines {
		who := thread.FindString(line)
		if m := beginning.FindStringSubmatch(line); m != nil {
			if calling[who] = m[3]; m[2] == "fdatasync" && bad[m[3]] {
				again = m[3]
			}
		} else if !strings.Contains(line, "resumed>") {
			delete(calling, who)
		}
		if file := calling[who]; file != "" && strings.Contains(line, " EIO ") {
			bad[file] = true
		}
	}
	return again, len(bad)
}
