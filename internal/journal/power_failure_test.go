package journal_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/faultfs"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/journal/memfs"
)

// crashedDisk is a copy of a disk's content as left by a power failure. It records the first and last entry that a log
// on it must contain.
type crashedDisk struct {
	op    faultfs.Op
	fs    *memfs.FS
	acked int    // entries 0 … acked-1 were acknowledged
	cut   uint64 // commits up to here may be gone
}

// TestCrashKeepsAcknowledgedEntries simulates a power failure before every disk operation, and expects each
// acknowledged entry afterwards. Each acknowledged entry must be in the log once and in order, and the log must accept
// new entries.
func TestCrashKeepsAcknowledgedEntries(t *testing.T) {
	inner := memfs.New()
	fs := faultfs.New(inner)
	acks := journaltest.NewAcks()
	var mu sync.Mutex
	var crashes []crashedDisk
	cut := uint64(0)
	fs.OnOperation(func(op faultfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		c := crashedDisk{op: op, acked: len(acks.Results()), cut: cut}
		for i, keep := range []int{0, 50, 100} {
			c.fs = inner.Crash(keep, uint64(len(crashes)+i))
			crashes = append(crashes, c)
		}
		return nil
	})
	options := journal.Options{FS: fs, Tick: -1, Reserve: 1 << 12, SegmentSize: 3000}
	const lives, each = 3, 25
	for life := range lives {
		l := openTestLog(t, "/j", options)
		for i := range each {
			n := life*each + i
			err := l.Append(context.Background(), journal.Entry{
				Section: journal.Section(n % 3), Data: numberedEntry(n), Waiter: acks, Token: uint64(n),
			})
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				acks.Wait(n + 1)
			}
			if i == 20 {
				at := acks.Wait(n + 1)[n-10].At
				mu.Lock()
				cut = at.Number
				mu.Unlock()
				if err := l.Cut(at); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	acks.Wait(lives * each)
	fs.OnOperation(nil)
	t.Logf("%d crashes", len(crashes))
	for _, c := range crashes {
		checkAfterCrash(t, c, options)
		if t.Failed() {
			return
		}
	}
}

// numberedEntry returns the n-th test entry, with a length that depends on n.
func numberedEntry(n int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(n)), strings.Repeat("x", n%100*8)...)
}

// checkAfterCrash opens the log after a crash and expects every acknowledged entry, in order.
func checkAfterCrash(t *testing.T, c crashedDisk, o journal.Options) {
	t.Helper()
	o.FS = c.fs
	l, err := journal.Open("/j", o)
	if err != nil {
		t.Fatalf("crash before %v: %v", c.op, err)
	}
	defer l.Close()
	seen := map[int]bool{}
	last := [3]int{-1, -1, -1}
	from := l.Tail()
	from.Number--
	if from.Number > c.cut {
		t.Fatalf("crash before %v: tail %d is above the cut %d", c.op, from.Number+1, c.cut)
	}
	number := from.Number
	err = l.Read(context.Background(), from, func(k journal.Commit) error {
		if number++; k.Position().Number != number {
			return fmt.Errorf("commit %d after %d", k.Position().Number, number-1)
		}
		for _, s := range k.Sections() {
			if err := k.Entries(s, func(data []byte) error {
				n := int(binary.BigEndian.Uint32(data))
				if seen[n] || n <= last[s] || string(data) != string(numberedEntry(n)) {
					return fmt.Errorf("entry %d is there twice, out of order or changed", n)
				}
				seen[n], last[s] = true, n
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("crash before %v: %v", c.op, err)
	}
	lowest := 1 << 30
	for n := range seen {
		lowest = min(lowest, n)
	}
	for n := lowest; n < c.acked; n++ {
		if !seen[n] {
			t.Fatalf("crash before %v: entry %d of %d acknowledged is gone", c.op, n, c.acked)
		}
	}
	if c.cut == 0 && c.acked > 0 && lowest != 0 {
		t.Fatalf("crash before %v: nothing was cut, yet the first entry is %d", c.op, lowest)
	}
	head := l.Head()
	after := journaltest.NewAcks()
	if err := l.Append(context.Background(), journal.Entry{Data: []byte("more"), Waiter: after}); err != nil {
		t.Fatal(err)
	}
	if heard := after.Wait(1)[0]; heard.Err != nil || heard.At.Number != head.Number+1 {
		t.Fatalf("crash before %v: going on: %+v after %+v", c.op, heard, head)
	}
}

// TestSyncPrecedesAcknowledgement records disk operations, and expects a sync of each commit before its
// acknowledgements.
func TestSyncPrecedesAcknowledgement(t *testing.T) {
	fs := faultfs.New(memfs.New())
	fs.Record()
	delivered := func(c journal.Commit) { fs.AddNote("delivered") }
	l := openTestLog(t, "/j", journal.Options{FS: fs, Tick: -1, Reserve: -1, Deliver: delivered, SegmentSize: 2000})
	heard := make(chan struct{})
	w := waiterFunc(func(token uint64) { fs.AddNote("acknowledged"); heard <- struct{}{} })
	for i := range 50 {
		if err := l.Append(context.Background(), journal.Entry{Data: numberedEntry(i), Waiter: w}); err != nil {
			t.Fatal(err)
		}
		<-heard
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	state, acknowledged := "", 0
	for _, op := range fs.Trace() {
		switch what := string(op.Kind) + " " + op.Name; {
		case op.Kind == faultfs.Write && strings.HasSuffix(op.Name, ".log"):
			state = "written"
		case op.Kind == faultfs.Sync && state == "written" && strings.HasSuffix(op.Name, ".log"):
			state = "synced"
		case what == "note delivered":
			if state != "synced" {
				t.Fatalf("delivered while %q", state)
			}
			state = "delivered"
		case what == "note acknowledged":
			if state != "delivered" {
				t.Fatalf("acknowledged while %q", state)
			}
			acknowledged++
		}
	}
	if acknowledged != 50 {
		t.Fatalf("%d acknowledgements", acknowledged)
	}
}

// waiterFunc calls a function with the token of each committed entry.
type waiterFunc func(token uint64)

// Committed calls the test's function with the token of a committed entry.
func (w waiterFunc) Committed(token uint64, _ journal.Position, err error) {
	if err == nil {
		w(token)
	}
}
