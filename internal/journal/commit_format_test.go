package journal

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/testenv"
)

// steppingClock is a test Clock that advances by a second each time somebody reads the clock.
type steppingClock struct{ wall, mono int64 }

// Wall advances the wall clock by a second and returns the new time.
func (s *steppingClock) Wall() int64 { s.wall += 1e9; return s.wall }

// Mono advances the monotonic time by a second and returns the new time.
func (s *steppingClock) Mono() time.Duration { s.mono += 1e9; return time.Duration(s.mono) }

// ackChannel is a journal Waiter that sends a value to the test for each committed entry.
type ackChannel chan struct{}

// Committed sends a value to the test's channel after an entry was committed or rejected.
func (e ackChannel) Committed(uint64, Position, error) { e <- struct{}{} }

// newGoldenLog creates the small log whose bytes are in testdata/golden.
func newGoldenLog(t *testing.T) *memfs.FS {
	t.Helper()
	fs := memfs.New()
	l, err := Open("/j", Options{
		FS: fs, Tick: -1, Reserve: -1, Clock: &steppingClock{wall: 1_764_000_000e9},
		Rand: strings.NewReader("\x01\x02\x03\x04\x05\x06\x07\x08"), Stores: map[string]int{"snapshots": 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	heard := make(ackChannel)
	for i, entries := range [][]Entry{
		{{Section: 7, Data: []byte("first")}},
		{{Section: 200, Data: []byte("b")}, {Section: 3, Data: []byte("a")}, {Section: 200, Data: nil}, {Section: All, Data: bytes.Repeat([]byte("all "), 64)}},
	} {
		entries[len(entries)-1].Waiter = heard
		if err := l.Append(context.Background(), entries...); err != nil {
			t.Fatal(i, err)
		}
		<-heard
	}
	if err := l.Close(); err != nil { // adds an empty commit
		t.Fatal(err)
	}
	return fs
}

// TestLogWritesGoldenBytes writes a small log and compares its files with golden bytes.
func TestLogWritesGoldenBytes(t *testing.T) {
	fs := newGoldenLog(t)
	for _, name := range []string{"FORMAT", "00000000000000000001.log"} {
		got, err := disk.ReadFile(fs, "/j/"+name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".log") {
			got = []byte(hex.Dump(got))
		}
		path := filepath.Join("testdata", "golden", name)
		testenv.Golden(t, path, got, "raise version")
	}
}

// TestLogReadsGoldenBytes opens the files of an earlier program version, and expects their entries.
func TestLogReadsGoldenBytes(t *testing.T) {
	segment := goldenSegment(t)
	format, err := os.ReadFile("testdata/golden/FORMAT")
	if err != nil {
		t.Fatal(err)
	}
	fs := memfs.New()
	_ = fs.MkdirAll("/j")
	for name, data := range map[string][]byte{"FORMAT": format, "00000000000000000001.log": segment} {
		if err := disk.WriteFile(fs, "/j", name, data); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Open("/j", Options{FS: fs, Tick: -1, Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var got []string
	err = l.Read(context.Background(), Position{}, func(c Commit) error {
		got = append(got, fmt.Sprint(c.Position().Number, time.Unix(0, c.Received()).Unix(), c.Listening(), c.Sections()))
		return c.Entries(All, func(data []byte) error { got = append(got, fmt.Sprint(len(data))); return nil })
	})
	want := "1 1764000002 1s [7]; 2 1764000003 2s [3 200 256]; 256; 3 1764000004 3s []"
	if err != nil || strings.Join(got, "; ") != want {
		t.Fatalf("%v\n%s\n%s", err, strings.Join(got, "; "), want)
	}
}

// goldenSegment returns the golden bytes of a segment in testdata.
func goldenSegment(t testing.TB) []byte {
	t.Helper()
	dump, err := os.ReadFile("testdata/golden/00000000000000000001.log")
	if err != nil {
		t.Fatal(err)
	}
	var segment []byte
	for line := range strings.Lines(string(dump)) {
		if len(line) < 60 {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(line[10:59], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		segment = append(segment, b...)
	}
	return segment
}

// FuzzCommit parses random bytes as a commit, and expects every entry of an accepted commit to be readable. Each input
// is tried with and without corrected checksums.
func FuzzCommit(f *testing.F) {
	segment := goldenSegment(f)
	for at := segmentHeaderSize; at < len(segment); {
		h, err := parseHeader(segment[at:])
		if err != nil {
			f.Fatal(err)
		}
		end := at + commitHeaderSize + int(h.body)
		f.Add(segment[at:end])
		at = end
	}
	f.Add([]byte("MJC\x01"))
	var pool sync.Pool
	f.Fuzz(func(t *testing.T, data []byte) {
		for range 2 {
			if h, err := parseHeader(data); err == nil && int(h.body) == len(data)-commitHeaderSize {
				body := data[commitHeaderSize:]
				_, _, _ = h.replacedRange(body)
				c := newCommit(&pool)
				if c.copyVerified(h, body) == nil {
					n := 0
					for _, s := range c.Sections() {
						_ = c.Entries(s, func(entry []byte) error { n++; return nil })
					}
					if n > int(h.entries) {
						t.Fatalf("%d entries of %d", n, h.entries)
					}
				}
				c.Release()
			}
			if len(data) < commitHeaderSize {
				return
			}
			h := commitHeader{ // the same bytes with a valid header
				number: 1, raw: uint32(data[48]) | uint32(data[49])<<8,
				entries: uint32(data[56]), sections: uint16(data[60]), flags: uint16(data[62]) & flagsKnown,
			}
			data = bytes.Clone(data)
			h.encodeHeader(data)
		}
	})
}

// FuzzSegment opens and repairs a log whose only segment has random bytes, and expects no panic
func FuzzSegment(f *testing.F) {
	segment := goldenSegment(f)
	f.Add(segment)
	f.Add(segment[:100])
	f.Add([]byte{})
	format, err := os.ReadFile("testdata/golden/FORMAT")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fs := memfs.New()
		_ = fs.MkdirAll("/j")
		_ = disk.WriteFile(fs, "/j", "FORMAT", format)
		_ = disk.WriteFile(fs, "/j", "00000000000000000001.log", data)
		o := Options{FS: fs, Tick: -1, Reserve: -1}
		l, err := Open("/j", o)
		var damage *DamageError
		if errors.As(err, &damage) {
			if _, err := Repair("/j", o); err != nil {
				t.Fatalf("repair: %v", err)
			}
			l, err = Open("/j", o)
		}
		if errors.Is(err, errNewerVersion) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzFormatFile parses random bytes as the file FORMAT, and expects accepted content unchanged after encoding.
func FuzzFormatFile(f *testing.F) {
	format, err := os.ReadFile("testdata/golden/FORMAT")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(format)
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := parseFormatFile(data)
		if err != nil {
			return
		}
		again, err := parseFormatFile(parsed.encode())
		if err != nil || again.incarnation != parsed.incarnation {
			t.Fatalf("file FORMAT encoded again: error %v, got %+v and %+v", err, parsed, again)
		}
	})
}

// TestAppendDoesNotAllocate appends entries to a log in use, and expects no allocation of memory. The log has run for
// a while.
func TestAppendDoesNotAllocate(t *testing.T) {
	l, err := Open(t.TempDir(), Options{Tick: -1, Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var done sync.WaitGroup
	w := waitGroupWaiter{&done}
	entries := make([]Entry, 100)
	for i := range entries {
		entries[i] = Entry{Section: Section(i), Data: make([]byte, 1000), Waiter: w}
	}
	round := func() {
		done.Add(len(entries))
		if err := l.Append(context.Background(), entries...); err != nil {
			t.Fatal(err)
		}
		done.Wait()
	}
	for range 10 {
		round()
	}
	if n := testing.AllocsPerRun(50, round); n > 5 && !testenv.Race { // of 100 entries; the pool may be emptied by a collection
		t.Errorf("%v allocations for 100 entries", n)
	}
}

// waitGroupWaiter is a Waiter that counts committed entries in a wait group.
type waitGroupWaiter struct{ *sync.WaitGroup }

// Committed marks one entry as done in the wait group.
func (w waitGroupWaiter) Committed(uint64, Position, error) { w.Done() }

// TestFormatPageShowsGoldenBytes checks that docs/journal-format.md shows the bytes of testdata/golden.
func TestFormatPageShowsGoldenBytes(t *testing.T) {
	page, err := os.ReadFile("../../docs/journal-format.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"FORMAT", "00000000000000000001.log"} {
		text, err := os.ReadFile("testdata/golden/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```\n"+strings.TrimSpace(string(text))+"\n```\n") {
			t.Errorf("docs/journal-format.md does not show %s as it is", name)
		}
	}
}

// TestSlowestConsumerHasLowestPosition registers journal readers at several positions, and expects the reader
// with the lowest position. A consumer that ended no longer counts.
func TestSlowestConsumerHasLowestPosition(t *testing.T) {
	var c Consumers
	if lowest, ok := c.Slowest(); ok {
		t.Fatalf("without consumers the floor is %+v", lowest)
	}
	at := func(number uint64) Position { return Position{Log: 7, Number: number} }
	cursors := []Consumer{{"handler default/lake", at(40)}, {"handler default/kafka", at(25)}}
	c.Add(func() []Consumer { return []Consumer{{"snapshots", at(30)}} })
	c.Add(func() []Consumer { return cursors })
	if lowest, ok := c.Slowest(); !ok || lowest != cursors[1] {
		t.Errorf("floor %+v %v, want kafka's", lowest, ok)
	}
	cursors = cursors[:1]
	if lowest, ok := c.Slowest(); !ok || lowest.Name != "snapshots" || lowest.At != at(30) {
		t.Errorf("floor %+v %v, want the snapshots'", lowest, ok)
	}
	if list := c.List(); len(list) != 2 || list[1].Name != "handler default/lake" {
		t.Errorf("Consumers.List returns %+v", list)
	}
}
