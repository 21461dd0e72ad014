package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/journal/memfs"
)

// journalFixture opens and reopens the log for one conformance test. The disk is in memory or real.
type journalFixture struct {
	*testing.T
	fs   disk.FS
	dir  string
	acks *journaltest.Acks
}

// openLog opens the log of the test with the options of one test step.
func (b *journalFixture) openLog(o journal.Options) *journal.Log {
	b.Helper()
	o.FS, o.Tick, o.Reserve = b.fs, -1, 1<<16
	return openTestLog(b.T, b.dir, o)
}

// appendEntry appends one entry to a section, the entries of one partition
func (b *journalFixture) appendEntry(l *journal.Log, token int, s journal.Section, text string) {
	b.Helper()
	b.requireNoError(l.Append(context.Background(), journal.Entry{Section: s, Data: []byte(text), Waiter: b.acks, Token: uint64(token)}))
}

// appendEntries appends n entries to section (partition) 1, each in its own commit
func (b *journalFixture) appendEntries(l *journal.Log, n int, text string) {
	b.Helper()
	before := len(b.acks.Results())
	for i := range n {
		b.appendEntry(l, i, 1, fmt.Sprint(text, i))
		b.acks.Wait(before + i + 1)
	}
}

// requireNoError ends the test on an error.
func (b *journalFixture) requireNoError(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// awaitAcksInOrder waits for n acknowledgements, and expects their tokens in order from 0.
func awaitAcksInOrder(t *testing.T, a *journaltest.Acks, n int) {
	t.Helper()
	for i, ack := range a.Wait(n) {
		if ack.Token != uint64(i) || ack.Err != nil || ack.At.Number == 0 {
			t.Fatalf("acknowledgement %d: %+v", i, ack)
		}
	}
}

// ignoreCommit does nothing with a commit, for tests that only read.
func ignoreCommit(journal.Commit) error { return nil }

// TestConformance runs the tests of the interface Journal with files in memory and on disk.
func TestConformance(t *testing.T) {
	for name, test := range map[string]func(*journalFixture){
		"KeepsOrderWithinASection":    checkSectionOrder,
		"AnAppendIsOneCommit":         checkAppendIsOneCommit,
		"DeliversBeforeTheWaiters":    checkDeliveryBeforeAck,
		"ReadsAgainAfterReopening":    checkReopenedLog,
		"NumbersHaveNoHoles":          checkConsecutiveNumbers,
		"ReadsFromAPosition":          checkReadFromPosition,
		"RefusesPositionsOutside":     checkInvalidPositions,
		"CutsWhatIsBelow":             checkLogCut,
		"AppendWaitsAndHearsContext":  checkFullQueueBlocksAppend,
		"CloseCommitsWhatWaits":       checkCloseCommitsQueue,
		"RetainedCommitsStayReadable": checkRetainedCommits,
		"ManyAtOnce":                  checkConcurrentAppends,
	} {
		t.Run("memory/"+name, func(t *testing.T) { test(&journalFixture{t, memfs.New(), "/data/journal", journaltest.NewAcks()}) })
		t.Run("disk/"+name, func(t *testing.T) { test(&journalFixture{t, disk.OS{}, t.TempDir(), journaltest.NewAcks()}) })
	}
}

// checkSectionOrder appends entries of several partitions (sections), and expects each partition's entries in order
func checkSectionOrder(b *journalFixture) {
	l := b.openLog(journal.Options{})
	defer l.Close()
	var want, got [3][]string
	for i := range 500 {
		want[i%3] = append(want[i%3], fmt.Sprint("entry ", i))
		b.appendEntry(l, i, journal.Section(i%3*100), fmt.Sprint("entry ", i))
	}
	awaitAcksInOrder(b.T, b.acks, 500)
	b.requireNoError(l.Read(context.Background(), journal.Position{}, func(c journal.Commit) error {
		for s := range got {
			if err := c.Entries(journal.Section(s*100), func(data []byte) error {
				got[s] = append(got[s], string(data))
				return nil
			}); err != nil {
				return err
			}
		}
		return c.Entries(7, func([]byte) error { return errors.New("an entry of a section that is not there") })
	}))
	for s := range want {
		if !slices.Equal(got[s], want[s]) {
			b.Fatalf("section %d: got %d entries in another order", s, len(got[s]))
		}
	}
}

// checkAppendIsOneCommit expects all entries of one Append in one commit. It changes the data after Append, which
// must have copied the data.
func checkAppendIsOneCommit(b *journalFixture) {
	l := b.openLog(journal.Options{})
	defer l.Close()
	data := make([]byte, 10_000)
	for i := range 40 {
		data[0] = byte(i)
		entries := slices.Repeat([]journal.Entry{{Section: 1, Data: data, Waiter: b.acks, Token: uint64(i)}}, 30)
		b.requireNoError(l.Append(context.Background(), entries...))
	}
	at := map[uint64]journal.Position{}
	for _, ack := range b.acks.Wait(40 * 30) {
		if before, ok := at[ack.Token]; ok && before != ack.At {
			b.Fatalf("append %d is in two commits", ack.Token)
		}
		at[ack.Token] = ack.At
	}
	n := 0
	b.requireNoError(l.Read(context.Background(), journal.Position{}, func(c journal.Commit) error {
		return c.Entries(1, func(data []byte) error {
			if data[0] != byte(n/30) {
				return fmt.Errorf("entry %d was changed after its append", n)
			}
			n++
			return nil
		})
	}))
}

// checkDeliveryBeforeAck expects each commit to be delivered (Options.Deliver) before its entries are acknowledged
func checkDeliveryBeforeAck(b *journalFixture) {
	var mu sync.Mutex
	delivered, numbers := map[string]bool{}, []uint64{}
	l := b.openLog(journal.Options{Deliver: func(c journal.Commit) {
		mu.Lock()
		defer mu.Unlock()
		numbers = append(numbers, c.Position().Number)
		_ = c.Entries(3, func(data []byte) error { delivered[string(data)] = true; return nil })
	}})
	w := waiterFunc(func(token uint64) {
		mu.Lock()
		defer mu.Unlock()
		if !delivered[fmt.Sprint(token)] {
			b.Errorf("entry %d was acknowledged before it was delivered", token)
		}
	})
	for i := range 200 {
		b.requireNoError(l.Append(context.Background(), journal.Entry{Section: 3, Data: fmt.Append(nil, i), Waiter: w, Token: uint64(i)}))
	}
	b.requireNoError(l.Close())
	if len(delivered) != 200 {
		b.Errorf("%d entries delivered", len(delivered))
	}
	for i, n := range numbers {
		if n != numbers[0]+uint64(i) {
			b.Fatalf("commits delivered out of order: %v", numbers)
		}
	}
}

// checkReopenedLog reopens a log, and expects the same entries and the same log id (incarnation)
func checkReopenedLog(b *journalFixture) {
	l := b.openLog(journal.Options{})
	for i := range 100 {
		b.appendEntry(l, i, journal.Section(i%5), fmt.Sprint("entry ", i))
	}
	b.acks.Wait(100)
	before, born := journaltest.ReadEntryTexts(b.T, l, journal.Position{}), l.Incarnation()
	b.requireNoError(l.Close())
	l = b.openLog(journal.Options{})
	defer l.Close()
	if after := journaltest.ReadEntryTexts(b.T, l, journal.Position{}); !slices.Equal(before, after) {
		b.Fatalf("before %q after %q", before, after)
	}
	if l.Incarnation() != born {
		b.Fatalf("incarnation %+v became %+v", born, l.Incarnation())
	}
	b.appendEntry(l, 100, 1, "entry 100")
	b.acks.Wait(101)
	if n := len(journaltest.ReadEntryTexts(b.T, l, journal.Position{})); n != 101 {
		b.Fatalf("%d entries", n)
	}
}

// checkConsecutiveNumbers expects consecutive commit numbers and times that never decrease, also after restarts
func checkConsecutiveNumbers(b *journalFixture) {
	for round := range 3 {
		l := b.openLog(journal.Options{SegmentSize: 4096})
		for i := range 50 {
			b.appendEntry(l, i, 1, fmt.Sprint("round ", round, " entry ", i))
			if i%10 == 0 || i == 49 {
				b.acks.Wait(50*round + i + 1)
			}
		}
		number, received, listening := uint64(0), int64(0), time.Duration(0)
		b.requireNoError(l.Read(context.Background(), journal.Position{}, func(c journal.Commit) error {
			number++
			switch {
			case c.Position() != journal.Position{Log: l.Incarnation().ID, Number: number}:
				return fmt.Errorf("commit %+v in place of number %d", c.Position(), number)
			case c.Received() < received || c.Listening() < listening:
				return fmt.Errorf("time went back at %+v", c.Position())
			}
			received, listening = c.Received(), c.Listening()
			return nil
		}))
		if head := l.Head().Number; head < number {
			b.Fatalf("head %d, read up to %d", head, number)
		}
		b.requireNoError(l.Close())
	}
}

// checkReadFromPosition reads from each position and expects exactly the later entries.
func checkReadFromPosition(b *journalFixture) {
	l := b.openLog(journal.Options{SegmentSize: 4096})
	defer l.Close()
	b.appendEntries(l, 60, "entry ")
	for i, ack := range b.acks.Results() {
		if got := journaltest.ReadEntryTexts(b.T, l, ack.At); len(got) != 59-i {
			b.Fatalf("%d entries above %+v, want %d", len(got), ack.At, 59-i)
		}
	}
	stop := errors.New("stop")
	if err := l.Read(context.Background(), journal.Position{}, func(journal.Commit) error { return stop }); !errors.Is(err, stop) {
		b.Fatalf("the error of fn became %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := l.Read(ctx, journal.Position{}, func(journal.Commit) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		b.Fatalf("read with an ended context: %v", err)
	}
}

// checkInvalidPositions reads from positions outside the log, and expects errors. Every method called after Close also
// returns its error.
func checkInvalidPositions(b *journalFixture) {
	l := b.openLog(journal.Options{})
	b.appendEntry(l, 0, 1, "x")
	at := b.acks.Wait(1)[0].At
	ahead, foreign := journal.Position{Log: at.Log, Number: at.Number + 1e6}, journal.Position{Log: at.Log + 2, Number: at.Number}
	read := func(from journal.Position) error { return l.Read(context.Background(), from, ignoreCommit) }
	refused := func(name string, got, want error) {
		b.Helper()
		if !errors.Is(got, want) {
			b.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	refused("position of another log", read(foreign), journal.ErrTrimmed)
	refused("position above the head", read(ahead), journal.ErrAhead)
	refused("cut above the head", l.Cut(ahead), journal.ErrAhead)
	b.requireNoError(l.Close())
	refused("append after close", l.Append(context.Background(), journal.Entry{Section: 1}), journal.ErrClosed)
	refused("read after close", read(journal.Position{}), journal.ErrClosed)
	b.requireNoError(l.Close())
}

// checkLogCut deletes old segments by Log.Cut, and expects all commits after the given position to remain. The
// entries above stay readable.
func checkLogCut(b *journalFixture) {
	l := b.openLog(journal.Options{SegmentSize: 4096})
	b.appendEntries(l, 100, string(make([]byte, 500)))
	all, size := b.acks.Results(), l.Stats().SizeBytes
	above := func(when string) {
		b.Helper()
		if got := journaltest.ReadEntryTexts(b.T, l, all[89].At); len(got) != 10 {
			b.Fatalf("%d entries above the cut %s", len(got), when)
		}
	}
	b.requireNoError(l.Cut(all[89].At))
	above("at once")
	if l.Tail().Number <= all[0].At.Number || l.Tail().Number > all[90].At.Number {
		b.Fatalf("tail %d after a cut at %d", l.Tail().Number, all[89].At.Number)
	}
	if l.Stats().SizeBytes >= size {
		b.Error("the cut made no room")
	}
	if err := l.Read(context.Background(), all[0].At, ignoreCommit); !errors.Is(err, journal.ErrTrimmed) {
		b.Errorf("read below the cut: %v", err)
	}
	head := l.Head()
	b.requireNoError(l.Close())
	l = b.openLog(journal.Options{SegmentSize: 4096})
	defer l.Close()
	if l.Head().Number < head.Number {
		b.Fatalf("head %+v became %+v", head, l.Head())
	}
	above("after opening again")
}

// checkFullQueueBlocksAppend fills the queue and expects Append to wait until its context ends.
func checkFullQueueBlocksAppend(b *journalFixture) {
	hold := make(chan struct{})
	l := b.openLog(journal.Options{QueueBytes: 1000, Deliver: func(journal.Commit) { <-hold }})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = l.Append(ctx, journal.Entry{Section: 1, Data: make([]byte, 400)})
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("append %d to a full queue: %v", n, err)
	}
	close(hold)
	b.appendEntry(l, 0, 1, "goes on")
	b.acks.Wait(1)
	b.requireNoError(l.Close())
}

// checkCloseCommitsQueue closes a log with queued entries, and expects each entry to be committed and
// acknowledged.
func checkCloseCommitsQueue(b *journalFixture) {
	l := b.openLog(journal.Options{})
	for i := range 300 {
		b.appendEntry(l, i, 1, "x")
	}
	b.requireNoError(l.Close())
	awaitAcksInOrder(b.T, b.acks, 300)
}

// checkRetainedCommits keeps references to commits (Retain), and expects the same entries after later commits.
func checkRetainedCommits(b *journalFixture) {
	var kept []journal.Commit
	l := b.openLog(journal.Options{Deliver: func(c journal.Commit) {
		if len(kept) < 5 {
			c.Retain()
			kept = append(kept, c)
		}
	}})
	b.appendEntries(l, 50, "entry ")
	b.requireNoError(l.Close())
	i := 0
	for _, c := range kept {
		for _, text := range journaltest.EntryTexts(b.T, c) {
			if want := fmt.Sprintf("%d/1 entry %d", c.Position().Number, i); text != want {
				b.Fatalf("%q, want %q", text, want)
			}
			i++
		}
		c.Release()
	}
}

// checkConcurrentAppends appends from eight goroutines and expects every entry once.
func checkConcurrentAppends(b *journalFixture) {
	l := b.openLog(journal.Options{SegmentSize: 64 << 10, QueueBytes: 20_000})
	const writers, each = 8, 300
	var group sync.WaitGroup
	acks := make([]*journaltest.Acks, writers)
	for w := range writers {
		acks[w] = journaltest.NewAcks()
		group.Go(func() {
			for i := range each {
				if err := l.Append(context.Background(),
					journal.Entry{Section: journal.Section(w), Data: fmt.Appendf(nil, "%d %d a", w, i)},
					journal.Entry{Section: journal.All, Data: fmt.Appendf(nil, "%d %d b", w, i), Waiter: acks[w], Token: uint64(i)}); err != nil {
					b.Error(err)
					return
				}
			}
		})
		group.Go(func() {
			if err := l.Read(context.Background(), journal.Position{}, ignoreCommit); err != nil {
				b.Errorf("read beside appends: %v", err)
			}
		})
	}
	group.Wait()
	for _, a := range acks {
		awaitAcksInOrder(b.T, a, each)
	}
	if n := len(journaltest.ReadEntryTexts(b.T, l, journal.Position{})); n != writers*each*2 {
		b.Fatalf("%d entries", n)
	}
	b.requireNoError(l.Close())
}
