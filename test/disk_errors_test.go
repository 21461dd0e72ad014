//go:build linux

package test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/test/harness"
)

// TestDiskErrorsLoseNoAcknowledgedResult makes journal writes and syncs fail, and expects no loss of
// acknowledged results. The server does not sync a failed descriptor again (the kernel may have dropped its
// pages), acknowledges nothing that is not stored, and recovers by itself.
func TestDiskErrorsLoseNoAcknowledgedResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		call      string
		segment   bool // only calls on the current segment fail, else on all files
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
			fleet := harness.Fleet{Agents: 10, Checks: 5, Interval: 100 * time.Millisecond}
			s := harness.StartFleet(t, fleet, "--snapshot-cycle", "2s")
			end := startLoad(t, s, fleet, 5*time.Second)

			paths, _ := journalSegments(t, s)
			segment := paths[len(paths)-1]
			// The trace shows which call fails, and whether a sync of the same file follows.
			what := []string{"-e", "trace=fdatasync,pwrite64", "-e", "inject=" + c.call + ":error=EIO"}
			if c.segment {
				what = append(what, "-P", segment)
			}
			trace := s.Trace(what...)
			if c.segment {
				s.AwaitLog(`msg="closed a journal segment after a failed write" file=` + segment)
			} else {
				harness.Until(t, 20*time.Second, "readyz names why the journal does not commit", func() (string, bool) {
					why, ready := s.Ready()
					return why, !ready && strings.Contains(why, "the journal does not commit: ") && strings.Contains(why, "input/output error")
				})
			}
			lines := trace.Detach()
			s.WaitReady(30 * time.Second)

			again, failed := findRepeatedSync(lines)
			assert(t, failed != 0, "nothing failed:\n%s", strings.Join(lines, "\n"))
			assert(t, again == "", "%s was synced after it had failed:\n%s", again, strings.Join(lines, "\n"))
			e := <-end
			assert(t, e.err == nil && e.rep.OK(), "load run: %v, %+v", e.err, e.rep)
			before := s.FleetStates()
			s.Kill()
			s.Start()
			compareStates(t, before, s.FleetStates())
			expectNoTexts(t, s.Log(), "panic", "BUG")
			s.Stop()
		})
	}
}

var (
	beginning = regexp.MustCompile(`^(\d+) +(fdatasync|pwrite64)\(\d+<([^>]*/journal/\d+\.log)>`)
	thread    = regexp.MustCompile(`^\d+`)
)

// findRepeatedSync finds, in a system call trace, a journal file that was synced again after a failed sync. It
// also counts the segments whose system calls failed.
func findRepeatedSync(lines []string) (again string, failed int) {
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

// TestServerRecoversFromFullDisk frees space on a full disk, and expects the server to continue without loss.
func TestServerRecoversFromFullDisk(t *testing.T) {
	testenv.SkipUnlessRoot(t)
	t.Parallel()
	s := harness.NewServer(t)
	mountSmallDisk(t, s, "48m")
	fleet := harness.Fleet{Agents: 10, Checks: 10, Interval: 100 * time.Millisecond}
	s.Prepare(fleet)
	s.Start()
	s.Client()
	end := startLoad(t, s, fleet, 8*time.Second)
	reserve := filepath.Join(s.Data, "journal", "RESERVE")
	if info, err := os.Stat(reserve); err != nil || info.Size() != 1<<20 {
		t.Errorf("the reserve: %v, %+v", err, info)
	}
	filler := filepath.Join(s.Data, "filler")
	f := testenv.Value(os.Create(filler))(t)
	block := make([]byte, 4096)
	harness.Until(t, 30*time.Second, "readyz says that the journal does not commit", func() (string, bool) {
		for {
			if _, err := f.Write(block); err != nil {
				break
			}
		}
		why, ready := s.Ready()
		return why, !ready
	})
	why, _ := s.Ready()
	assert(t, strings.Contains(why, "the journal does not commit: ") && (strings.Contains(why, "no space left on device") || strings.Contains(why, "disk is full: ")),
		"readyz says %q", why)
	if _, err := os.Stat(reserve); err == nil {
		t.Error("the reserve was not let go: snapshots have no room")
	}
	s.Try("status").Expect(harness.AnyCode, "the journal does not commit")
	f.Close()
	testenv.NoError(t, os.Remove(filler))
	s.WaitReady(30 * time.Second)
	e := <-end
	assert(t, e.err == nil && e.rep.OK(), "load run: %v, %+v", e.err, e.rep)
	assert(t, e.rep.Slowed != 0, "no agent was told to send less")
	_, err := os.Stat(reserve)
	assert(t, err == nil, "the reserve file is missing: %v", err)
	s.Stop()
}

// TestServerStartsOnFullDisk kills a server and fills its disk, and expects the server to start. The journal's reserve
// file gives the space; the server names the largest files, and continues when space is free. Nothing that it
// acknowledged is lost.
func TestServerStartsOnFullDisk(t *testing.T) {
	testenv.SkipUnlessRoot(t)
	t.Parallel()
	s := harness.NewServer(t, "--journal-reserve", "24MiB")
	mountSmallDisk(t, s, "80m")
	s.Start()
	s.Client()
	s.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: kept}\nspec:\n  interval: 1m\n  command: date\n")
	s.Kill()
	filler := filepath.Join(s.Data, "filler")
	f := testenv.Value(os.Create(filler))(t)
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); err != nil {
			break
		}
	}
	f.Close()
	s.Launch()
	s.AwaitLog("the disk is full: deleted the journal's reserve file to have space for the start", filler, "sort -h | tail", "journal cannot commit")
	testenv.NoError(t, os.Remove(filler))
	s.WaitReady(40 * time.Second)
	s.CLI("get", "check", "kept")
	info, err := os.Stat(filepath.Join(s.Data, "journal", "RESERVE"))
	assert(t, err == nil && info.Size() == 24<<20, "the reserve: %v, %+v", err, info)
	s.Stop()
}

// TestSecondServerIsRefusedWithoutLockFiles deletes the lock files of a running server, and expects a second server to be
// refused. The second server has the same data folder.
func TestSecondServerIsRefusedWithoutLockFiles(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	for _, name := range []string{"LOCK", "journal/LOCK"} {
		testenv.NoError(t, os.Remove(filepath.Join(s.Data, name)))
	}
	second := *s
	second.Listen, second.Admin, second.Plain = harness.ReservePort(t), harness.ReservePort(t), harness.ReservePort(t)
	second.Launch()
	second.AwaitLog("is in use by another process", "muster status")
	s.CLI("status")
	s.Stop()
}

// mountSmallDisk mounts a small file system at the server's data folder.
func mountSmallDisk(t *testing.T, s *harness.Server, size string) {
	t.Helper()
	testenv.NoError(t, os.MkdirAll(s.Data, 0o700))
	if err := syscall.Mount("tmpfs", s.Data, "tmpfs", 0, "size="+size); err != nil {
		testenv.Skip(t, "tmpfs cannot be mounted here: "+err.Error(), "sudo scripts/nightly.sh blackbox")
	}
	t.Cleanup(func() {
		if s.Process != nil {
			s.Kill()
		}
		err := syscall.Unmount(s.Data, syscall.MNT_DETACH)
		assert(t, err == nil, "unmount: %v", err)
	})
}

// TestFirstStartWaitsForDiskSpace starts a new server on a too small disk, and expects a wait for space. The
// server reports that it waits for free space, and starts when space is free.
func TestFirstStartWaitsForDiskSpace(t *testing.T) {
	testenv.SkipUnlessRoot(t)
	t.Parallel()
	s, _ := newUpServer(t)
	mountSmallDisk(t, s, "24m")
	s.Launch()
	s.AwaitLog("Not ready yet: ", "disk is full", "--journal-reserve")
	expectNoTexts(t, s.Log(), "watches this machine")
	err := syscall.Mount("", s.Data, "", syscall.MS_REMOUNT, "size=600m")
	require(t, err == nil, "remount: %v", err)
	s.AwaitLog("watches this machine")
	s.Stop()
}

// When the journal's disk or size limit is full, agents are slowed and no result is lost.
func TestFullJournalSlowsAgents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, disk string
		args       []string
		output     int // bytes of each result, of which 1,000 a second are due
		leftShort  bool
	}{
		// The journal is full before each partition was snapshotted once: the tail is cut only if empty commits move the position
		// while the journal is full.
		{"disk", "56m", []string{"--journal-budget", "64MiB", "--journal-reserve", "16MiB", "--snapshot-cycle", "3s"}, 20_000, false},
		// The first tail is cut after two snapshot cycles of more than a second each: the results due in this time exceed the
		// budget, also on a machine that sends only a third of them.
		{"budget", "", []string{"--journal-budget", "64MiB", "--snapshot-cycle", "15s"}, 40_000, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.leftShort {
				t.Skip("the disk stands for the budget")
			}
			t.Parallel()
			s := harness.NewServer(t, c.args...)
			if c.disk != "" {
				testenv.SkipUnlessRoot(t)
				mountSmallDisk(t, s, c.disk)
			}
			fleet := harness.Fleet{Agents: 20, Checks: 5, Interval: 100 * time.Millisecond, OutputBytes: c.output}
			s.Prepare(fleet)
			s.Start()
			cfg := s.LoadConfig(fleet, 6*time.Second)
			rep, err := load.Run(t.Context(), cfg)
			// No result is lost; full spools, and checks that do not run meanwhile, are expected.
			assert(t, err == nil && hasNoLoss(rep), "load run: %v, %+v", err, rep)
			assert(t, strings.Contains(s.Log(), "journal cannot commit") && rep.Slowed != 0,
				"there was always room: nothing is shown; slowed %d times", rep.Slowed)
			s.WaitReady(30 * time.Second)
			before := s.FleetStates()
			harness.Until(t, 60*time.Second, "back-pressure has ended: agents send at their usual rate", func() (string, bool) {
				_, after, asked := strings.Cut(s.Log(), "back-pressure: all agents")
				return s.Log(), asked && strings.Contains(after, "back-pressure has ended: agents send at their usual rate")
			})
			s.Kill()
			s.Start()
			compareStates(t, before, s.FleetStates())
		})
	}
}

// The built-in disk probe is CRITICAL on a full file system. It is OK again when the disk has free space.
func TestDiskProbeReportsFullDisk(t *testing.T) {
	testenv.SkipUnlessRoot(t)
	t.Parallel()
	mount := t.TempDir()
	mountTmpfs(t, mount, "4m")
	s := harness.StartServer(t)
	a := s.NewAgent("filling")
	s.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: room}\nspec:\n  targets: {nodes: [filling]}\n  interval: 1s\n" +
		"  probe: {name: disk, args: {path: " + mount + ", warn: 20%, crit: 10%}}\n")
	a.Start()
	becomes := func(status model.Status, problem bool) {
		t.Helper()
		awaitEvent(t, s.API, "filling", "room", "the event is "+status.String(), func(e v1.Event) bool { return e.Results > 0 && e.Status == status && (e.Problem != nil) == problem })
	}
	becomes(model.OK, false)
	filler := filepath.Join(mount, "filler")
	writeFile(t, filler, bytes.Repeat([]byte{1}, 3900<<10))
	becomes(model.Critical, true)
	// The worst finding comes first.
	if first := strings.Split(s.CLI("get", "events"), "\n")[1]; !strings.HasPrefix(first, "CRITICAL") || !strings.Contains(first, "room") || !strings.Contains(first, mount) {
		t.Errorf("get events begins with %q", first)
	}
	testenv.NoError(t, os.Remove(filler))
	becomes(model.OK, false)
}

// serialAgent is a test agent that waits for each result's acknowledgement before sending the next result.
type serialAgent struct {
	link.Handler // nil: the test expects no other call
	assigned     chan *link.Assignment
	acked        chan uint64
}

// OpenedSession does nothing, because the test agent first waits for its assignment.
func (o *serialAgent) OpenedSession(*link.Session, *wire.Welcome) {}

// Assigned passes the received assignment of checks to the test.
func (o *serialAgent) Assigned(_ *link.Session, held *link.Assignment) { o.assigned <- held }

// Acked passes the acknowledged sequence number to the test.
func (o *serialAgent) Acked(_ *link.Session, ack *wire.Ack) { o.acked <- ack.Last[0].Last }

// TestJournalIsSyncedBeforeAcknowledgement traces the server's system calls, and expects a journal sync before each
// acknowledgement. Between any two acknowledgements to an agent, the journal is written and synced.
func TestJournalIsSyncedBeforeAcknowledgement(t *testing.T) {
	t.Parallel()
	strace := testenv.Program(t, "strace", "strace")
	if out, err := exec.Command(strace, "-D", "-qq", "-e", "trace=none", "true").CombinedOutput(); err != nil || len(out) > 0 {
		testenv.Skip(t, fmt.Sprintf("strace may not trace here: %v %s", err, out), "sudo scripts/nightly.sh blackbox")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	s := harness.NewServer(t)
	s.Prepare(harness.Fleet{Agents: 1, Checks: 1, Interval: time.Minute})
	// -D: the server is the test's child, and strace ends with the server.
	s.Wrap = []string{strace, "-D", "-f", "-qq", "-yy", "-x", "-s", "8", "-e", "trace=write,writev,pwrite64,fsync,fdatasync", "-e", "signal=none", "-o", trace}
	s.Start()

	o := &serialAgent{assigned: make(chan *link.Assignment, 9), acked: make(chan uint64, 9)}
	key := wire.StreamKey{Stream: 7}
	hello := &wire.Hello{Session: 1, Streams: []wire.StreamRange{{StreamKey: key, First: 1}}}
	session := testenv.Value(link.Open(t.Context(), &link.Config{Node: harness.NodeUID(0)}, s.Plain, hello, nil, o))(t)
	ended := make(chan error, 1)
	go func() { ended <- session.Read() }()
	definition := (<-o.assigned).Definitions[0].ID
	const results = 25
	for n := uint64(1); n <= results; n++ {
		b := &wire.Batch{StreamKey: key, First: n, Signals: []wire.Signal{wire.ResultSignal(wire.Signal{Definition: definition}, wire.Result{Status: model.OK, Output: fmt.Append(nil, n)})}}
		testenv.NoError(t, session.Send(b))
		select {
		case last := <-o.acked:
			require(t, last == n, "%d is acknowledged, want %d", last, n)
		case err := <-ended:
			t.Fatalf("the session ended: %v", err)
		}
	}
	session.Close()
	<-ended
	s.Stop()

	data := readFile(t, trace)
	acks := checkSyncOrder(t, string(data), s.Plain)
	assert(t, acks == results, "%d acknowledgements in the trace, want %d", acks, results)
}

var (
	// call matches a line of a trace: thread, whether the call is resumed, name, file of the descriptor, rest.
	call = regexp.MustCompile(`^(\d+) +(<\.\.\. )?(\w+)(?: resumed|\(\d+<(.*?))>([,) ].*)$`)
	// ack is a WebSocket message that holds a Frame with the field Ack.
	ack = regexp.MustCompile(`"\\x82\\x..\\x3a`)
)

// checkSyncOrder checks in a system call trace that each acknowledgement comes after a sync of the journal. It counts
// the acknowledgements to an address. It fails the test for an acknowledgement without a write and a sync of the
// journal since the one before.
func checkSyncOrder(t testing.TB, trace, plain string) (acks int) {
	t.Helper()
	var written, synced bool
	syncing := map[string]bool{} // threads in a sync of what was written
	for line := range strings.Lines(trace) {
		m := call.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		thread, resumed, name, file, rest := m[1], m[2] != "", m[3], m[4], m[5]
		journal := strings.HasSuffix(file, ".log") && strings.Contains(file, "/journal/")
		switch sync := name == "fdatasync" || name == "fsync"; {
		case sync && (journal || resumed):
			if !resumed {
				syncing[thread] = written
			}
			if strings.HasSuffix(rest, "= 0") {
				synced = synced || syncing[thread]
			}
		case journal:
			written = written || !strings.Contains(rest, "<unfinished")
		case name == "pwrite64" && resumed:
			written = true // the line before has the file of the call
		case strings.Contains(file, plain+"->") && ack.MatchString(rest):
			acks++
			assert(t, synced, "acknowledged, and since the acknowledgement before the journal was not synced: %s", line)
			written, synced = false, false
			clear(syncing)
		}
	}
	return acks
}

// TestSyncOrderCheckFindsEarlyAcknowledgement passes a trace with an acknowledgement before the sync to
// checkSyncOrder, and expects an error. In the trace the acknowledgement comes before the sync.
func TestSyncOrderCheckFindsEarlyAcknowledgement(t *testing.T) {
	const plain = "127.0.0.1:1"
	write := `1 pwrite64(20</d/journal/1.log>, "x"..., 98, 1) = 98` + "\n"
	sync := "1 fdatasync(20</d/journal/1.log>) = 0\n"
	begun, done := "1 fdatasync(20</d/journal/1.log> <unfinished ...>\n", "1 <... fdatasync resumed>) = 0\n"
	acked := `2 write(24<TCP:[127.0.0.1:1->127.0.0.1:2]>, "\x82\x0f\x3a\x0d"..., 17) = 17` + "\n"
	other := "1 fdatasync(9</d/intent.db-wal>) = 0\n"
	for _, c := range []struct {
		trace string
		right bool
	}{
		{write + sync + acked, true},
		{write + begun + done + acked, true},
		{write + acked + sync, false},
		{sync + write + acked, false},
		{write + begun + acked + done, false},
		{write + other + acked, false},
		{write + sync + acked + acked, false},
	} {
		var said errorCounter
		if n := checkSyncOrder(&said, c.trace, plain); n == 0 || (said.errors == 0) != c.right {
			t.Errorf("%d acknowledgements, %d errors, right is %v:\n%s", n, said.errors, c.right, c.trace)
		}
	}
}

// errorCounter counts the errors of a test instead of failing the test.
type errorCounter struct {
	testing.TB
	errors int
}

// Helper does nothing, because errors are only counted.
func (q *errorCounter) Helper() {}

// Errorf counts an error instead of reporting the error.
func (q *errorCounter) Errorf(string, ...any) { q.errors++ }
