package spool

import (
	"fmt"
	"testing"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// hands is a clock set by hand.
type hands struct {
	boot uint64
	id   string
	wall int64
}

func (h *hands) BootMs() uint64 { return h.boot }
func (h *hands) BootID() string { return h.id }
func (h *hands) WallMs() int64  { return h.wall }

func (h *hands) pass(ms uint64) { h.boot += ms; h.wall += int64(ms) }

func newHands() *hands { return &hands{boot: 1_000_000, id: "boot-1", wall: 1_700_000_000_000} }

func open(t *testing.T, fs disk.FS, clock Clock, maxBytes int64) *Spool {
	t.Helper()
	s, err := Open("/spool", Options{FS: fs, Clock: clock, MaxBytes: maxBytes, Linger: -1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func result(clock Clock, chunk int, output string) *wire.Signal {
	return &wire.Signal{
		Kind: wire.SignalResult, Chunk: model.ChunkID(chunk), Status: model.Status(chunk % 4),
		AtMs: clock.BootMs(), DurationMs: 7, Output: []byte(output),
	}
}

// server keeps what a session sends, as the server of Muster does.
type server struct {
	last  map[wire.StreamKey]uint64
	got   map[string]int // outputs, how often
	gaps  map[string]uint64
	lost  map[model.ChunkID]uint64
	holes int
}

func newServer() *server {
	return &server{
		last: map[wire.StreamKey]uint64{}, got: map[string]int{},
		gaps: map[string]uint64{}, lost: map[model.ChunkID]uint64{},
	}
}

func (v *server) resume(t *testing.T, s *Spool) {
	t.Helper()
	var last []wire.StreamLast
	for _, h := range s.Streams() {
		last = append(last, wire.StreamLast{StreamKey: h.StreamKey, Last: v.last[h.StreamKey]})
	}
	if err := s.Resume(last); err != nil {
		t.Fatal(err)
	}
}

// take is one batch; it says whether there was one.
func (v *server) take(t *testing.T, s *Spool, maxSignals int, ack bool) bool {
	t.Helper()
	var b wire.Batch
	more, err := s.Next(&b, 64<<10, maxSignals)
	if err != nil {
		t.Fatal(err)
	}
	if !more {
		return false
	}
	last := v.last[b.StreamKey]
	if b.First > last+1 {
		v.holes++
	}
	end := b.First + uint64(len(b.Signals)) - 1
	if b.Gap != nil {
		end = b.Gap.Last
		if end > last {
			v.gaps[b.Gap.Reason] += end - b.First + 1
			for _, c := range b.Gap.Counts {
				v.lost[c.Chunk] += c.Count
			}
		}
	}
	for i := range b.Signals {
		if b.First+uint64(i) > last {
			v.got[string(b.Signals[i].Output)]++
		}
	}
	v.last[b.StreamKey] = max(last, end)
	if ack {
		s.Acked(&wire.Ack{Last: []wire.StreamLast{{StreamKey: b.StreamKey, Last: v.last[b.StreamKey]}}})
	}
	return true
}

func (v *server) drain(t *testing.T, s *Spool) {
	t.Helper()
	for v.take(t, s, 100, true) {
	}
}

func (v *server) expect(t *testing.T, n int) {
	t.Helper()
	if v.holes != 0 {
		t.Errorf("%d jumps that no gap explains", v.holes)
	}
	if len(v.got) != n {
		t.Errorf("server has %d signals, want %d", len(v.got), n)
	}
	for out, times := range v.got {
		if times != 1 {
			t.Errorf("%q applied %d times", out, times)
		}
	}
}

func TestSendsInOrderAndForgetsWhatIsKept(t *testing.T) {
	fs, clock, v := memfs.New(), newHands(), newServer()
	s := open(t, fs, clock, 0)
	defer s.Close()
	v.resume(t, s)
	for i := range 250 {
		clock.pass(100)
		if err := s.Append(result(clock, i%5+1, fmt.Sprint("out", i)), i%50 == 0); err != nil {
			t.Fatal(err)
		}
	}
	if n, urgent := s.Waiting(); n != 250 || !urgent {
		t.Fatalf("waiting %d urgent %v", n, urgent)
	}
	v.drain(t, s)
	v.expect(t, 250)
	if st := s.Stats(); st.Held != 0 || st.Bytes != 0 {
		t.Fatalf("%+v", st)
	}
	if n, urgent := s.Waiting(); n != 0 || urgent {
		t.Fatalf("waiting %d urgent %v", n, urgent)
	}
}

func TestBacklogSurvivesRestart(t *testing.T) {
	fs, clock, v := memfs.New(), newHands(), newServer()
	s := open(t, fs, clock, 0)
	stream := s.Stats().Stream
	v.resume(t, s)
	for i := range 10 {
		s.Append(result(clock, 1, fmt.Sprint("live", i)), false)
	}
	v.take(t, s, 4, true)
	v.take(t, s, 4, false) // kept by the server, its word lost
	s.Offline()
	clock.pass(11_000)
	for i := range 10 {
		s.Append(result(clock, 1, fmt.Sprint("late", i)), false)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, fs, clock, 0)
	defer s.Close()
	if s.Stats().Stream != stream {
		t.Fatal("another stream")
	}
	held := s.Streams()
	if held[wire.Backlog].Last != 10 || held[wire.Live].Last != 10 {
		t.Fatalf("%+v", held)
	}
	v.resume(t, s)
	v.drain(t, s)
	v.expect(t, 20)
}
