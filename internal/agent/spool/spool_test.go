package spool

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/faultfs"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// manualClock is a Clock that the test advances by hand.
type manualClock struct {
	boot uint64
	id   string
	wall int64
}

// BootMs returns the boot clock in milliseconds.
func (h *manualClock) BootMs() uint64 { return h.boot }

// BootID returns the id of the simulated machine's present boot.
func (h *manualClock) BootID() string { return h.id }

// WallMs returns the wall clock in milliseconds since 1970.
func (h *manualClock) WallMs() int64 { return h.wall }

// advance advances both clocks by ms milliseconds.
func (h *manualClock) advance(ms uint64) { h.boot += ms; h.wall += int64(ms) }

// newManualClock returns a test clock for a machine that has been running for a while.
func newManualClock() *manualClock {
	return &manualClock{boot: 1_000_000, id: "boot-1", wall: 1_700_000_000_000}
}

// openSpool opens a spool in an in-memory file system, which commits each write immediately
func openSpool(t *testing.T, fs disk.FS, clock Clock, maxBytes int64) *Spool {
	t.Helper()
	s, err := Open("/spool", Options{FS: fs, Clock: clock, MaxBytes: maxBytes, Linger: -1})
	testenv.NoError(t, err)
	return s
}

// resultSignal encodes a check result with the given output as a signal (numbered message for the server).
func resultSignal(clock Clock, definition int, output string) *wire.Signal {
	signal := wire.ResultSignal(wire.Signal{Definition: model.DefinitionID(definition), AtMs: clock.BootMs()},
		wire.Result{Status: model.Status(definition % 4), DurationMs: 7, Output: []byte(output)})
	return &signal
}

// appendResults appends n results of check 1 with outputs text0, text1, …, with ms milliseconds in between.
func appendResults(s *Spool, clock *manualClock, n int, ms uint64, text string) {
	for i := range n {
		clock.advance(ms)
		_ = s.Append(resultSignal(clock, 1, fmt.Sprint(text, i)), false)
	}
}

// awaitDurable waits until all appended results are on disk
func awaitDurable(t *testing.T, s *Spool) {
	t.Helper()
	for behind := true; behind; {
		acks := journaltest.NewAcks()
		s.mu.Lock()
		for l := range s.lanes {
			s.streamState.first[l], s.streamState.next[l] = s.lanes[l].firstUnacknowledged, s.lanes[l].nextNumber()
		}
		data := s.streamState.append(nil)
		s.mu.Unlock()
		testenv.NoError(t, s.log.Append(t.Context(), journal.Entry{Data: data, Waiter: acks}))
		acks.Wait(1)
		s.mu.Lock()
		behind = s.storeDelayed
		s.mu.Unlock()
	}
}

// recordingServer is a test server that receives batches of a spool and counts results, repetitions and reported
// losses
type recordingServer struct {
	last            map[wire.StreamKey]uint64
	deliveries      map[string]int // number of arrivals of each output
	gaps            map[string]uint64
	lost            map[model.DefinitionID]uint64
	gapsNaming      map[model.DefinitionID]int // number of gaps that name the definition
	unexplainedGaps int
	beforeAck       func() // nil, or what happens between a batch and its acknowledgement
}

// newRecordingServer returns a server that has received nothing.
func newRecordingServer() *recordingServer {
	return &recordingServer{
		last: map[wire.StreamKey]uint64{}, deliveries: map[string]int{},
		gaps: map[string]uint64{}, lost: map[model.DefinitionID]uint64{}, gapsNaming: map[model.DefinitionID]int{},
	}
}

// resumeSpool starts a session between the spool and the test server. It tells the spool the server's last sequence
// numbers.
func (v *recordingServer) resumeSpool(t *testing.T, s *Spool) {
	t.Helper()
	var last []wire.StreamLast
	for _, h := range s.Streams() {
		last = append(last, wire.StreamLast{StreamKey: h.StreamKey, Last: v.last[h.StreamKey]})
	}
	testenv.NoError(t, s.Resume(last))
}

// receiveBatch receives one batch of at most maxSignals results. It returns false if the spool has nothing to send.
func (v *recordingServer) receiveBatch(t *testing.T, s *Spool, maxSignals int, ack bool) bool {
	t.Helper()
	var b wire.Batch
	more, err := s.Next(&b, 64<<10, maxSignals)
	testenv.NoError(t, err)
	if !more {
		return false
	}
	last := v.last[b.StreamKey]
	if b.First > last+1 {
		v.unexplainedGaps++
	}
	end := b.First + uint64(len(b.Signals)) - 1
	if b.Gap != nil {
		end = b.Gap.Last
		if end > last {
			v.gaps[b.Gap.Reason] += end - b.First + 1
			for _, c := range b.Gap.Counts {
				v.lost[c.Definition] += c.Count
				v.gapsNaming[c.Definition]++
				if c.Count > end {
					t.Errorf("a gap up to %d tells of %d results", end, c.Count)
				}
			}
		}
	}
	for i := range b.Signals {
		if b.First+uint64(i) > last {
			r, err := b.Signals[i].Result()
			if err != nil {
				t.Error(err)
			}
			v.deliveries[string(r.Output)]++
		}
	}
	v.last[b.StreamKey] = max(last, end)
	if v.beforeAck != nil {
		v.beforeAck()
	}
	if ack {
		s.Acked(&wire.Ack{Last: []wire.StreamLast{{StreamKey: b.StreamKey, Last: v.last[b.StreamKey]}}})
	}
	return true
}

// drainSpool receives and acknowledges batches until the spool is empty.
func (v *recordingServer) drainSpool(t *testing.T, s *Spool) {
	t.Helper()
	for v.receiveBatch(t, s, 100, true) {
	}
}

// expectSignals fails the test unless n results arrived, each once. Every missing sequence number must be explained by
// a report of loss.
func (v *recordingServer) expectSignals(t *testing.T, n int) {
	t.Helper()
	if v.unexplainedGaps != 0 {
		t.Errorf("%d jumps that no gap explains", v.unexplainedGaps)
	}
	if len(v.deliveries) != n {
		t.Errorf("server has %d signals, want %d", len(v.deliveries), n)
	}
	for out, times := range v.deliveries {
		if times != 1 {
			t.Errorf("%q applied %d times", out, times)
		}
	}
}

// TestSpoolSendsInOrderAndDropsAcknowledgedSignals sends 250 results and expects each once, in order, and an empty
// spool after the acknowledgements
func TestSpoolSendsInOrderAndDropsAcknowledgedSignals(t *testing.T) {
	fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
	s := openSpool(t, fs, clock, 0)
	defer s.Close()
	v.resumeSpool(t, s)
	for i := range 250 {
		clock.advance(100)
		testenv.NoError(t, s.Append(resultSignal(clock, i%5+1, fmt.Sprint("out", i)), i%50 == 0))
	}
	if n, urgent := s.Unsent(); n != 250 || !urgent {
		t.Fatalf("waiting %d urgent %v", n, urgent)
	}
	v.drainSpool(t, s)
	v.expectSignals(t, 250)
	if st := s.Stats(); st.Unacknowledged != 0 || st.Bytes != 0 {
		t.Fatalf("%+v", st)
	}
	if n, urgent := s.Unsent(); n != 0 || urgent {
		t.Fatalf("waiting %d urgent %v", n, urgent)
	}
}

// TestSpooledBacklogSurvivesRestart restarts the agent with unacknowledged results, and expects each result once at
// the server.
func TestSpooledBacklogSurvivesRestart(t *testing.T) {
	fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
	s := openSpool(t, fs, clock, 0)
	stream := s.Stats().Stream
	v.resumeSpool(t, s)
	appendResults(s, clock, 10, 0, "live")
	v.receiveBatch(t, s, 4, true)
	v.receiveBatch(t, s, 4, false) // the server has the batch, its acknowledgement is lost
	s.EndSession()
	clock.advance(11_000)
	appendResults(s, clock, 10, 0, "late")
	testenv.NoError(t, s.Close())
	s = openSpool(t, fs, clock, 0)
	defer s.Close()
	if s.Stats().Stream != stream {
		t.Fatal("the restarted spool has another stream id")
	}
	held := s.Streams()
	if held[wire.Backlog].Last != 10 || held[wire.Live].Last != 10 {
		t.Fatalf("%+v", held)
	}
	v.resumeSpool(t, s)
	v.drainSpool(t, s)
	v.expectSignals(t, 20)
}

// TestEvictionLeavesEachCheckTheSameShare fills the spool with two checks, and expects only the noisy check to
// lose results. The quiet check loses no result.
func TestEvictionLeavesEachCheckTheSameShare(t *testing.T) {
	fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
	s := openSpool(t, fs, clock, 1<<20) // half of it holds signals
	clock.advance(20_000)               // no session: all is backlog
	noise := strings.Repeat("n", 200)
	for i := range 10_000 {
		clock.advance(100)
		s.Append(resultSignal(clock, 1, fmt.Sprint("chatty", i, noise)), false)
		if i%100 == 0 {
			s.Append(resultSignal(clock, 2, fmt.Sprint("rare", i)), false)
			awaitDurable(t, s)
		}
	}
	if st := s.Stats(); st.Bytes > 1<<19 || st.Evicted == 0 || st.Blocked != nil {
		t.Fatalf("%+v", st)
	}
	if size := s.log.Stats().SizeBytes; size > 1<<20 {
		t.Fatalf("%d bytes on disk", size)
	}
	for round := range 2 {
		if round == 1 { // the same after a restart
			testenv.NoError(t, s.Close())
			s = openSpool(t, fs, clock, 1<<20)
			v = newRecordingServer()
		}
		v.resumeSpool(t, s)
		for v.receiveBatch(t, s, 100, false) {
		}
		if v.unexplainedGaps != 0 {
			t.Fatalf("%d holes", v.unexplainedGaps)
		}
		rare := 0
		for out := range v.deliveries {
			if strings.HasPrefix(out, "rare") {
				rare++
			}
		}
		if rare != 100 || v.lost[2] != 0 {
			t.Fatalf("round %d: %d of 100 rare results, %d lost", round, rare, v.lost[2])
		}
		chatty := len(v.deliveries) - rare
		if v.deliveries["chatty9999"+noise] != 1 || chatty+int(v.lost[1]) != 10_000 {
			t.Fatalf("round %d: %d chatty results, %d lost; %v", round, chatty, v.lost[1], v.gaps)
		}
		if v.gapsNaming[1] != 1 { // whatever rare results are kept in between
			t.Fatalf("round %d: %d gaps name the check", round, v.gapsNaming[1])
		}
		s.EndSession()
	}
	s.Close()
}

// TestOldSignalsAreEvicted leaves results unsent beyond the maximum age, and expects a loss report with the
// reason "too old".
func TestOldSignalsAreEvicted(t *testing.T) {
	fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
	s := openSpool(t, fs, clock, 0)
	defer s.Close()
	for i := range 50 {
		clock.advance(3600_000)
		s.Append(resultSignal(clock, 1, fmt.Sprint("hour", i)), false)
	}
	v.resumeSpool(t, s)
	v.drainSpool(t, s)
	if v.unexplainedGaps != 0 || len(v.deliveries) != 25 || v.gaps["too old"] != 25 || v.lost[1] != 25 {
		t.Fatalf("%d signals, gaps %v, lost %v", len(v.deliveries), v.gaps, v.lost)
	}
}

// TestSignalAgesSurviveWallClockJumps sets the wall clock within one boot and expects the ages of spooled results to
// stay right
func TestSignalAgesSurviveWallClockJumps(t *testing.T) {
	fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
	s := openSpool(t, fs, clock, 0)
	for i := range 10 {
		clock.advance(1000)
		clock.wall += int64([]int{48, -96, 48}[i%3]) * 3_600_000
		s.Append(resultSignal(clock, 1, fmt.Sprint("out", i)), false)
	}
	testenv.NoError(t, s.Close())
	clock.wall += 48 * 3_600_000
	s = openSpool(t, fs, clock, 0)
	defer s.Close()
	if age := s.Streams()[wire.Live].OldestAgeMs; age != 9_000 {
		t.Errorf("oldest is %d ms old", age)
	}
	v.resumeSpool(t, s)
	v.drainSpool(t, s)
	v.expectSignals(t, 10)
}

// TestSignalAgesSurviveReboot reboots the machine, and expects the ages of spooled results to continue. The boot clock
// starts at zero again, so the wall clock counts.
func TestSignalAgesSurviveReboot(t *testing.T) {
	fs, clock := memfs.New(), newManualClock()
	s := openSpool(t, fs, clock, 0)
	s.Append(resultSignal(clock, 1, "before"), false)
	testenv.NoError(t, s.Close())
	clock.boot, clock.id = 5_000, "boot-2"
	clock.wall += 3_600_000
	s = openSpool(t, fs, clock, 0)
	defer s.Close()
	s.Append(resultSignal(clock, 1, "after"), false)
	clock.advance(1_000)
	testenv.NoError(t, s.Resume(nil))
	var b wire.Batch
	if more, err := s.Next(&b, 1<<20, 10); !more || err != nil || len(b.Signals) != 2 {
		t.Fatalf("%v %v %+v", more, err, b)
	}
	if before, after := b.NowMs-b.Signals[0].AtMs, b.NowMs-b.Signals[1].AtMs; before != 3_601_000 || after != 1_000 {
		t.Fatalf("ages %d and %d ms", before, after)
	}
}

// TestRolledBackDiskStartsANewStream restores the disk from an old copy, and expects a new stream of sequence numbers.
// The server already has higher numbers of the old stream.
func TestRolledBackDiskStartsANewStream(t *testing.T) {
	fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
	s := openSpool(t, fs, clock, 0)
	stream := s.Stats().Stream
	v.resumeSpool(t, s)
	appendResults(s, clock, 5, 0, "shared")
	s.Close()
	image := fs.Crash(0, 1)
	s = openSpool(t, fs, clock, 0)
	v.resumeSpool(t, s)
	appendResults(s, clock, 20, 0, "first life")
	v.drainSpool(t, s)
	s.Close()
	s = openSpool(t, image, clock, 0)
	appendResults(s, clock, 30, 0, "second life") // more than the first life: the numbers alone would not tell
	v.resumeSpool(t, s)
	if s.Stats().Stream == stream {
		t.Fatal("the spool keeps its stream id, so the same numbers would name other signals")
	}
	v.resumeSpool(t, s) // Hello names the new stream
	v.drainSpool(t, s)
	v.expectSignals(t, 55)
	stream = s.Stats().Stream
	s.Append(resultSignal(clock, 1, "later"), false)
	s.Close()
	s = openSpool(t, image, clock, 0)
	defer s.Close()
	if s.Stats().Stream != stream {
		t.Fatal("the restarted spool does not have the new stream id")
	}
	v.resumeSpool(t, s)
	v.drainSpool(t, s)
	v.expectSignals(t, 56)
}

// TestDeletedSpoolStartsANewStream opens two new spools and expects different ids of their message sequences
// (streams).
func TestDeletedSpoolStartsANewStream(t *testing.T) {
	clock := newManualClock()
	a, b := openSpool(t, memfs.New(), clock, 0), openSpool(t, memfs.New(), clock, 0)
	defer a.Close()
	defer b.Close()
	if a.Stats().Stream == b.Stats().Stream {
		t.Fatal("the new spool has the stream id of the deleted one")
	}
}

// TestSignalsLostByTheServerAreReported restores the server from an old backup, and expects the agent to report lost
// results. The server had acknowledged these results.
func TestSignalsLostByTheServerAreReported(t *testing.T) {
	fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
	s := openSpool(t, fs, clock, 0)
	defer s.Close()
	v.resumeSpool(t, s)
	appendResults(s, clock, 10, 0, "out")
	v.drainSpool(t, s)
	restored := newRecordingServer()
	for key := range v.last {
		restored.last[key] = 4
	}
	s.Append(resultSignal(clock, 1, "new"), false)
	restored.resumeSpool(t, s)
	restored.drainSpool(t, s)
	if restored.unexplainedGaps != 0 || len(restored.deliveries) != 1 || len(restored.gaps) != 1 {
		t.Fatalf("%+v", restored)
	}
}

// TestRefusedSignalIsDroppedAndCounted lets the server refuse one result, and expects all others to arrive. The
// refusal is counted.
func TestRefusedSignalIsDroppedAndCounted(t *testing.T) {
	fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
	s := openSpool(t, fs, clock, 0)
	defer s.Close()
	v.resumeSpool(t, s)
	appendResults(s, clock, 10, 0, "out")
	v.receiveBatch(t, s, 5, true)
	key := wire.StreamKey{Stream: s.Stats().Stream, Lane: wire.Live}
	s.Acked(&wire.Ack{Refused: []wire.RefusedSignal{{StreamKey: key, Number: 7, Code: "unknown_definition"}}})
	s.EndSession()
	v.resumeSpool(t, s)
	v.drainSpool(t, s)
	v.expectSignals(t, 9)
	if s.Stats().Refused != 1 || v.gaps["refused by the server"] != 1 || s.Stats().Unacknowledged != 0 {
		t.Fatalf("%+v %v", s.Stats(), v.gaps)
	}
}

// TestUnwritableDiskKeepsSignalsInMemory fills the disk, and expects new results to stay in memory up to a limit. No
// caller may wait.
func TestUnwritableDiskKeepsSignalsInMemory(t *testing.T) {
	fs, clock, v := faultfs.New(memfs.New()), newManualClock(), newRecordingServer()
	s := openSpool(t, fs, clock, 0)
	fs.Fail(faultfs.Write, syscall.ENOSPC)
	noise := strings.Repeat("n", 1000)
	clock.advance(20_000)
	for i := range 5000 {
		s.Append(resultSignal(clock, 1, fmt.Sprint(i, noise)), false)
	}
	if s.Stats().Evicted == 0 {
		t.Fatal("the spool evicted no signal beyond its memory limit")
	}
	v.resumeSpool(t, s)
	v.drainSpool(t, s)
	if v.unexplainedGaps != 0 || len(v.deliveries) < 200 || len(v.deliveries)+int(v.lost[1]) != 5000 {
		t.Fatalf("%d signals, %v lost, %d holes", len(v.deliveries), v.lost, v.unexplainedGaps)
	}
	fs.OnOperation(nil)
	s.Close()
}

// TestCrashAnywhereLosesNoSyncedSignal simulates a power failure at each disk operation, and expects each synced
// result exactly once.
func TestCrashAnywhereLosesNoSyncedSignal(t *testing.T) {
	inner, clock := memfs.New(), newManualClock()
	fs := faultfs.New(inner)
	type crash struct {
		fs   *memfs.FS
		last map[wire.StreamKey]uint64
		kept map[string]int // what the server has
		safe int            // signals 0 … safe-1 were synced
	}
	safe, got := 0, map[string]int{}
	var mu sync.Mutex
	var crashes []crash
	v := newRecordingServer()
	last := map[wire.StreamKey]uint64{} // what the server keeps, as the hook may see it: before the spool lets go of it
	v.beforeAck = func() {
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(last, v.last)
		maps.Copy(got, v.deliveries)
	}
	fs.OnOperation(func(op faultfs.Op) error {
		if op.Kind.Changes() {
			mu.Lock()
			defer mu.Unlock()
			crashes = append(crashes, crash{inner.Crash(len(crashes)%3*50, uint64(len(crashes))), maps.Clone(last), maps.Clone(got), safe})
		}
		return nil
	})
	s := openSpool(t, fs, clock, 64<<10)
	n := 0
	for ; n < 6; n++ { // before there is a server
		s.Append(resultSignal(clock, n%3+1, fmt.Sprint("out", n)), false)
	}
	awaitDurable(t, s)
	mu.Lock()
	safe = n
	mu.Unlock()
	for round := range 6 {
		v.resumeSpool(t, s)
		for range 30 {
			clock.advance(1000)
			s.Append(resultSignal(clock, n%3+1, fmt.Sprint("out", n)), false)
			n++
			if n%3 == 0 {
				awaitDurable(t, s)
				mu.Lock()
				safe = n
				mu.Unlock()
			}
			if n%4 == 0 && round%2 == 0 {
				v.receiveBatch(t, s, 3, n%8 == 0)
			}
		}
		s.EndSession()
		clock.advance(11_000)
	}
	s.Close()
	fs.OnOperation(nil)
	t.Logf("%d crashes", len(crashes))
	for i, c := range crashes {
		again := newRecordingServer()
		maps.Copy(again.last, c.last)
		s, err := Open("/spool", Options{FS: c.fs, Clock: clock, MaxBytes: 64 << 10, Linger: -1})
		if err != nil {
			t.Fatalf("crash %d: %v", i, err)
		}
		s.Append(resultSignal(clock, 1, "after"), false)
		again.resumeSpool(t, s)
		again.resumeSpool(t, s)
		again.drainSpool(t, s)
		if again.unexplainedGaps != 0 || again.deliveries["after"] != 1 || s.Stats().Unacknowledged != 0 {
			t.Fatalf("crash %d: %d holes, after %d times, %d held", i, again.unexplainedGaps, again.deliveries["after"], s.Stats().Unacknowledged)
		}
		for out, times := range again.deliveries {
			if times != 1 {
				t.Fatalf("crash %d: %q %d times", i, out, times)
			}
		}
		for k := range c.safe {
			if out := fmt.Sprint("out", k); again.deliveries[out]+c.kept[out] != 1 {
				t.Fatalf("crash %d: %s was synced, sent %d times, kept before %d times", i, out, again.deliveries[out], c.kept[out])
			}
		}
		s.Close()
	}
}

// TestSpoolMatchesModel compares the spool with a simple in-memory model over random operations. Each result arrives
// once and in order, or its loss is reported.
func TestSpoolMatchesModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
		// Either nothing gives way, or much does.
		budget := rapid.SampledFrom([]int64{0, 32 << 10}).Draw(r, "budget")
		s := openSpool(t, fs, clock, budget)
		made, online := 0, false
		r.Repeat(map[string]func(*rapid.T){
			"append": func(r *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(r, "n") {
					clock.advance(uint64(rapid.IntRange(0, 2000).Draw(r, "ms")))
					if err := s.Append(resultSignal(clock, made%4+1, fmt.Sprint("out", made, strings.Repeat("n", 200))), made%7 == 0); err != nil {
						r.Fatal(err)
					}
					made++
				}
			},
			"connect": func(r *rapid.T) {
				v.resumeSpool(t, s)
				online = true
			},
			"send": func(r *rapid.T) {
				if online {
					v.receiveBatch(t, s, rapid.IntRange(1, 9).Draw(r, "signals"), rapid.Bool().Draw(r, "acknowledged"))
				}
			},
			"disconnect": func(r *rapid.T) { s.EndSession(); online = false },
			"restart": func(r *rapid.T) {
				if err := s.Close(); err != nil {
					r.Fatal(err)
				}
				s, online = openSpool(t, fs, clock, budget), false
			},
			"": func(r *rapid.T) {
				if held := s.Stats().Unacknowledged; int(held) > made {
					r.Fatalf("%d held of %d", held, made)
				}
			},
		})
		v.resumeSpool(t, s)
		v.drainSpool(t, s)
		lost := 0
		for _, n := range v.lost {
			lost += int(n)
		}
		if v.unexplainedGaps != 0 || len(v.deliveries)+lost != made || budget == 0 && lost > 0 || s.Stats().Unacknowledged != 0 || s.Stats().Bytes != 0 {
			r.Fatalf("made %d, server has %d, lost %d, holes %d, gaps %v, %+v", made, len(v.deliveries), lost, v.unexplainedGaps, v.gaps, s.Stats())
		}
		for out, times := range v.deliveries {
			if times != 1 {
				r.Fatalf("%s %d times", out, times)
			}
		}
		_ = s.Close()
	})
}

// TestRefusalsAreLoggedOnceAMinute refuses many results and expects one log line per error code and minute, with a
// count
func TestRefusalsAreLoggedOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	clock := newManualClock()
	s, err := Open("/spool", Options{FS: memfs.New(), Clock: clock, Linger: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	testenv.NoError(t, err)
	defer s.Close()
	key := wire.StreamKey{Stream: s.Stats().Stream, Lane: wire.Live}
	refuse := func(code string) {
		s.Acked(&wire.Ack{Refused: []wire.RefusedSignal{{StreamKey: key, Number: 1, Code: code, Reason: "no room"}}})
	}
	for range 90 { // a second apart
		refuse("node_limit")
		clock.advance(1000)
	}
	refuse("output")
	var logged []string
	for line := range strings.Lines(log.String()) {
		if _, rest, ok := strings.Cut(line, `msg="server refused results" `); ok {
			rest, _, _ = strings.Cut(rest, " hint=")
			logged = append(logged, strings.TrimSpace(rest))
		}
	}
	want := []string{
		`code=node_limit count=1 number=1 reason="no room"`, `code=node_limit count=60 number=1 reason="no room"`,
		`code=output count=1 number=1 reason="no room"`,
	}
	if strings.Join(logged, "\n") != strings.Join(want, "\n") {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(logged, "\n"), strings.Join(want, "\n"))
	}
	if n := s.Stats().Refused; n != 91 {
		t.Errorf("%d counted", n)
	}
}

// FuzzRecord decodes random bytes as a log record, and expects encoding and decoding to change nothing.
func FuzzRecord(f *testing.F) {
	clock := newManualClock()
	f.Add(appendSignalRecord(nil, 1, wire.Live, 7, &spooledSignal{signal: *resultSignal(clock, 3, "output"), boot: 2, wallMs: 1}))
	f.Add(appendLossRecord(nil, 1, wire.Backlog, 9, []indexEntry{{definition: 4, lossReason: tooOld, size: 3}, {definition: 5, lossReason: tooOld}}))
	beside := wire.ResultSignal(wire.Signal{Definition: 3, AtMs: 5}, wire.Result{Output: []byte("output"), Extra: wire.AppendExtra(nil, &wire.Extra{Hooks: []model.HookResult{{Name: "top"}}})})
	f.Add(appendSignalRecord(nil, 1, wire.Live, 8, &spooledSignal{signal: beside, boot: 2, wallMs: 1}))
	at := storedPosition{3, "log", []byte("42")}
	f.Add(appendSignalRecord(nil, 1, wire.Live, 9, &spooledSignal{signal: beside, boot: 2, wallMs: 1, position: at}))
	f.Add((&positionSet{byName: map[string]storedPosition{"log": at, "other": {change: 4, name: "other"}}}).encodeRecord(1))
	f.Add((&streamState{epoch: 1, stream: 99, boot: 1, bootID: "boot", first: [2]uint64{1, 2}, next: [2]uint64{3, 4}, unsent: [2]uint64{3, 0}}).append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, again logRecord
		if r.decode(data) != nil {
			return
		}
		var encoded []byte
		switch r.kind {
		case recordSignal:
			encoded = appendSignalRecord(nil, r.epoch, r.lane, r.number, &r.signal)
		case recordState:
			encoded = r.state.append(nil)
		case recordPositions:
			encoded = appendRecord(nil, recordPositions, r.epoch)
			for _, of := range r.positions {
				encoded = of.append(encoded)
			}
		default:
			if len(r.lostEntries) == 0 {
				return
			}
			r.lostEntries[0].lossReason = r.reason
			encoded = appendLossRecord(nil, r.epoch, r.lane, r.number, r.lostEntries)
		}
		testenv.NoError(t, again.decode(encoded))
		if again.number != r.number || again.lane != r.lane || again.reason != r.reason || !reflect.DeepEqual(again.state, r.state) || !reflect.DeepEqual(again.positions, r.positions) ||
			!bytes.Equal(again.signal.signal.Body, r.signal.signal.Body) || len(again.lostEntries) != len(r.lostEntries) {
			t.Fatalf("%+v\n%+v", r, again)
		}
	})
}
