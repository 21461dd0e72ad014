// Package journaltest is the conformance suite of journal.Journal: the segment
// log passes it, and a replicated one will have to. Its goroutines end with each test;
// Acks, which other tests of journals use too, has a lock of its own.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
)

// Config has the settings of a test's journal.
type Config struct {
	// Deliver as in journal.Options.
	Deliver func(journal.Commit)
	// QueueBytes is how much may wait; zero: the implementation's choice.
	QueueBytes int64
	// SegmentSize is the grain in which Cut deletes; zero: the implementation's choice.
	SegmentSize int64
}

// Factory opens the journal of one test. Called again in the same test it opens the
// same data again: the test has closed the one before.
type Factory func(t *testing.T, c Config) journal.Journal

// Run runs the suite; factory is called once for each test and makes a new, empty
// place each time.
func Run(t *testing.T, factory func(t *testing.T) Factory) {
	for name, test := range map[string]func(*testing.T, Factory){
		"KeepsOrderWithinASection":    keepsOrder,
		"AnAppendIsOneCommit":         appendIsOneCommit,
		"DeliversBeforeTheWaiters":    deliversFirst,
		"ReadsAgainAfterReopening":    readsAgain,
		"NumbersHaveNoHoles":          noHoles,
		"TimesNeverGoBack":            timesNeverGoBack,
		"ReadsFromAPosition":          readsFrom,
		"RefusesPositionsOutside":     refusesPositions,
		"CutsWhatIsBelow":             cuts,
		"CopiesData":                  copiesData,
		"AppendWaitsAndHearsContext":  appendWaits,
		"RefusesAfterClose":           refusesAfterClose,
		"CloseCommitsWhatWaits":       closeCommits,
		"RetainedCommitsStayReadable": retained,
		"ManyAtOnce":                  manyAtOnce,
	} {
		t.Run(name, func(t *testing.T) { test(t, factory(t)) })
	}
}

// Acks is a Waiter that records its calls.
type Acks struct {
	mu   sync.Mutex
	cond *sync.Cond
	list []Ack
}

// Ack is one word heard.
type Ack struct {
	Token uint64
	At    journal.Position
	Err   error
}

// NewAcks makes a Waiter.
func NewAcks() *Acks {
	a := &Acks{}
	a.cond = sync.NewCond(&a.mu)
	return a
}

// Committed implements journal.Waiter.
func (a *Acks) Committed(token uint64, at journal.Position, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, Ack{token, at, err})
	a.cond.Broadcast()
}

// Wait returns once n words were heard.
func (a *Acks) Wait(n int) []Ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.list) < n {
		a.cond.Wait()
	}
	return slices.Clone(a.list)
}

// Results returns the words heard so far.
func (a *Acks) Results() []Ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// Contents reads everything above from as text: "number/section entry".
func Contents(t *testing.T, j journal.Journal, from journal.Position) []string {
	t.Helper()
	var list []string
	err := j.Read(context.Background(), from, func(c journal.Commit) error {
		list = append(list, texts(t, c)...)
		return nil
	})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return list
}

func texts(t *testing.T, c journal.Commit) (list []string) {
	t.Helper()
	for _, s := range c.Sections() {
		err := c.Entries(s, func(data []byte) error {
			list = append(list, fmt.Sprintf("%d/%d %s", c.Position().Number, s, data))
			return nil
		})
		if err != nil {
			t.Fatalf("entries of section %d: %v", s, err)
		}
	}
	return list
}

func put(t *testing.T, j journal.Journal, w journal.Waiter, token uint64, s journal.Section, text string) {
	t.Helper()
	err := j.Append(context.Background(), journal.Entry{Section: s, Data: []byte(text), Waiter: w, Token: token})
	if err != nil {
		t.Fatalf("append: %v", err)
	}
}

func keepsOrder(t *testing.T, open Factory) {
	j := open(t, Config{})
	defer j.Close()
	a := NewAcks()
	var want [3][]string
	for i := range 500 {
		s := i % 3
		text := fmt.Sprint("entry ", i)
		want[s] = append(want[s], text)
		put(t, j, a, uint64(i), journal.Section(s*100), text)
	}
	for i, heard := range a.Wait(500) {
		if heard.Token != uint64(i) || heard.Err != nil || heard.At.Number == 0 {
			t.Fatalf("word %d: %+v", i, heard)
		}
	}
	var got [3][]string
	err := j.Read(context.Background(), journal.Position{}, func(c journal.Commit) error {
		for s := range got {
			if err := c.Entries(journal.Section(s*100), func(data []byte) error {
				got[s] = append(got[s], string(data))
				return nil
			}); err != nil {
				return err
			}
		}
		return c.Entries(7, func([]byte) error { return errors.New("an entry of a section that is not there") })
	})
	if err != nil {
		t.Fatal(err)
	}
	for s := range want {
		if !slices.Equal(got[s], want[s]) {
			t.Fatalf("section %d: got %d entries in another order", s, len(got[s]))
		}
	}
}

func appendIsOneCommit(t *testing.T, open Factory) {
	j := open(t, Config{})
	defer j.Close()
	a := NewAcks()
	big := make([]byte, 10_000)
	for i := range 40 {
		var entries []journal.Entry
		for range 30 {
			entries = append(entries, journal.Entry{Section: 1, Data: big, Waiter: a, Token: uint64(i)})
		}
		if err := j.Append(context.Background(), entries...); err != nil {
			t.Fatal(err)
		}
	}
	at := map[uint64]journal.Position{}
	for _, heard := range a.Wait(40 * 30) {
		if before, ok := at[heard.Token]; ok && before != heard.At {
			t.Fatalf("append %d is in two commits", heard.Token)
		}
		at[heard.Token] = heard.At
	}
}

func deliversFirst(t *testing.T, open Factory) {
	var mu sync.Mutex
	delivered := map[string]bool{}
	numbers := []uint64{}
	j := open(t, Config{Deliver: func(c journal.Commit) {
		mu.Lock()
		defer mu.Unlock()
		numbers = append(numbers, c.Position().Number)
		for _, s := range c.Sections() {
			_ = c.Entries(s, func(data []byte) error { delivered[string(data)] = true; return nil })
		}
	}})
	w := waiterFunc(func(token uint64, at journal.Position, err error) {
		mu.Lock()
		defer mu.Unlock()
		if !delivered[fmt.Sprint(token)] {
			t.Errorf("entry %d was acknowledged before it was delivered", token)
		}
	})
	for i := range 200 {
		put(t, j, w, uint64(i), 3, fmt.Sprint(i))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if len(delivered) != 200 {
		t.Errorf("%d entries delivered", len(delivered))
	}
	for i, n := range numbers {
		if n != numbers[0]+uint64(i) {
			t.Fatalf("commits delivered out of order: %v", numbers)
		}
	}
}

type waiterFunc func(uint64, journal.Position, error)

func (f waiterFunc) Committed(token uint64, at journal.Position, err error) { f(token, at, err) }

func readsAgain(t *testing.T, open Factory) {
	j := open(t, Config{})
	a := NewAcks()
	for i := range 100 {
		put(t, j, a, uint64(i), journal.Section(i%5), fmt.Sprint("entry ", i))
	}
	a.Wait(100)
	before := Contents(t, j, journal.Position{})
	born := j.Incarnation()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, Config{})
	defer j.Close()
	if after := Contents(t, j, journal.Position{}); !slices.Equal(before, after) {
		t.Fatalf("before %q after %q", before, after)
	}
	if j.Incarnation() != born {
		t.Fatalf("incarnation %+v became %+v", born, j.Incarnation())
	}
	put(t, j, a, 100, 1, "entry 100")
	a.Wait(101)
	if n := len(Contents(t, j, journal.Position{})); n != 101 {
		t.Fatalf("%d entries", n)
	}
}

func noHoles(t *testing.T, open Factory) {
	for round := range 3 {
		j := open(t, Config{SegmentSize: 4096})
		a := NewAcks()
		for i := range 50 {
			put(t, j, a, 0, 1, fmt.Sprint("round ", round, " entry ", i))
			if i%10 == 0 {
				a.Wait(i + 1)
			}
		}
		a.Wait(50)
		number := uint64(0)
		err := j.Read(context.Background(), journal.Position{}, func(c journal.Commit) error {
			if number++; c.Position().Number != number {
				return fmt.Errorf("commit %d after %d", c.Position().Number, number-1)
			}
			if c.Position().Log != j.Incarnation().ID {
				return errors.New("a position of another log")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if head := j.Head().Number; head < number {
			t.Fatalf("head %d, read up to %d", head, number)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func timesNeverGoBack(t *testing.T, open Factory) {
	var received int64
	var listening time.Duration
	for range 3 {
		j := open(t, Config{})
		a := NewAcks()
		for i := range 20 {
			put(t, j, a, 0, 1, "x")
			a.Wait(i + 1)
		}
		received, listening = 0, 0
		err := j.Read(context.Background(), journal.Position{}, func(c journal.Commit) error {
			if c.Received() < received || c.Listening() < listening {
				return fmt.Errorf("time went back at %+v", c.Position())
			}
			received, listening = c.Received(), c.Listening()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func readsFrom(t *testing.T, open Factory) {
	j := open(t, Config{SegmentSize: 4096})
	defer j.Close()
	a := NewAcks()
	for i := range 60 {
		put(t, j, a, uint64(i), 1, fmt.Sprint("entry ", i))
		a.Wait(i + 1) // a commit each
	}
	for i, heard := range a.Results() {
		if got := Contents(t, j, heard.At); len(got) != 59-i {
			t.Fatalf("%d entries above %+v, want %d", len(got), heard.At, 59-i)
		}
	}
	stop := errors.New("stop")
	if err := j.Read(context.Background(), journal.Position{}, func(journal.Commit) error { return stop }); !errors.Is(err, stop) {
		t.Fatalf("the error of fn became %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err := j.Read(ctx, journal.Position{}, func(journal.Commit) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("read with an ended context: %v", err)
	}
}

func refusesPositions(t *testing.T, open Factory) {
	j := open(t, Config{})
	defer j.Close()
	a := NewAcks()
	put(t, j, a, 0, 1, "x")
	at := a.Wait(1)[0].At
	nothing := func(journal.Commit) error { return nil }
	if err := j.Read(context.Background(), journal.Position{Log: at.Log + 2, Number: at.Number}, nothing); !errors.Is(err, journal.ErrTrimmed) {
		t.Errorf("position of another log: %v", err)
	}
	if err := j.Read(context.Background(), journal.Position{Log: at.Log, Number: at.Number + 1e6}, nothing); !errors.Is(err, journal.ErrAhead) {
		t.Errorf("position above the head: %v", err)
	}
	if err := j.Cut(journal.Position{Log: at.Log, Number: at.Number + 1e6}); !errors.Is(err, journal.ErrAhead) {
		t.Errorf("cut above the head: %v", err)
	}
}

func cuts(t *testing.T, open Factory) {
	j := open(t, Config{SegmentSize: 4096})
	a := NewAcks()
	text := string(make([]byte, 500))
	for i := range 100 {
		put(t, j, a, 0, 1, fmt.Sprint(i, text))
		a.Wait(i + 1)
	}
	all := a.Results()
	size := j.Stats().SizeBytes
	if err := j.Cut(all[89].At); err != nil {
		t.Fatal(err)
	}
	if got := Contents(t, j, all[89].At); len(got) != 10 {
		t.Fatalf("%d entries above the cut", len(got))
	}
	if j.Tail().Number <= all[0].At.Number || j.Tail().Number > all[90].At.Number {
		t.Fatalf("tail %d after a cut at %d", j.Tail().Number, all[89].At.Number)
	}
	if j.Stats().SizeBytes >= size {
		t.Error("the cut made no room")
	}
	err := j.Read(context.Background(), all[0].At, func(journal.Commit) error { return nil })
	if !errors.Is(err, journal.ErrTrimmed) {
		t.Errorf("read below the cut: %v", err)
	}
	head := j.Head()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, Config{SegmentSize: 4096})
	defer j.Close()
	if j.Head().Number < head.Number {
		t.Fatalf("head %+v became %+v", head, j.Head())
	}
	if got := Contents(t, j, all[89].At); len(got) != 10 {
		t.Fatalf("%d entries above the cut after opening again", len(got))
	}
}

func copiesData(t *testing.T, open Factory) {
	j := open(t, Config{})
	defer j.Close()
	a := NewAcks()
	data := []byte("before")
	if err := j.Append(context.Background(), journal.Entry{Section: 1, Data: data, Waiter: a}); err != nil {
		t.Fatal(err)
	}
	copy(data, "after!")
	at := a.Wait(1)[0].At
	if got := Contents(t, j, journal.Position{Log: at.Log, Number: at.Number - 1}); len(got) != 1 || got[0] != fmt.Sprintf("%d/1 before", at.Number) {
		t.Fatalf("%q", got)
	}
}

func appendWaits(t *testing.T, open Factory) {
	hold := make(chan struct{})
	j := open(t, Config{QueueBytes: 1000, Deliver: func(journal.Commit) { <-hold }})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = j.Append(ctx, journal.Entry{Section: 1, Data: make([]byte, 400)})
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("append %d to a full queue: %v", n, err)
	}
	close(hold)
	a := NewAcks()
	put(t, j, a, 0, 1, "goes on")
	a.Wait(1)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func refusesAfterClose(t *testing.T, open Factory) {
	j := open(t, Config{})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(context.Background(), journal.Entry{Section: 1}); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if err := j.Read(context.Background(), journal.Position{}, nil); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func closeCommits(t *testing.T, open Factory) {
	j := open(t, Config{})
	a := NewAcks()
	for i := range 300 {
		put(t, j, a, uint64(i), 1, "x")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, heard := range a.Wait(300) {
		if heard.Err != nil {
			t.Fatalf("%+v", heard)
		}
	}
}

func retained(t *testing.T, open Factory) {
	var kept []journal.Commit
	j := open(t, Config{Deliver: func(c journal.Commit) {
		if len(kept) < 5 {
			c.Retain()
			kept = append(kept, c)
		}
	}})
	a := NewAcks()
	for i := range 50 {
		put(t, j, a, 0, 1, fmt.Sprint("entry ", i))
		a.Wait(i + 1)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	i := 0
	for _, c := range kept {
		for _, text := range texts(t, c) {
			if want := fmt.Sprintf("%d/1 entry %d", c.Position().Number, i); text != want {
				t.Fatalf("%q, want %q", text, want)
			}
			i++
		}
		c.Release()
	}
}

func manyAtOnce(t *testing.T, open Factory) {
	j := open(t, Config{SegmentSize: 64 << 10, QueueBytes: 20_000})
	const writers, each = 8, 300
	var group sync.WaitGroup
	acks := make([]*Acks, writers)
	for w := range writers {
		acks[w] = NewAcks()
		group.Go(func() {
			for i := range each {
				err := j.Append(context.Background(),
					journal.Entry{Section: journal.Section(w), Data: fmt.Appendf(nil, "%d %d a", w, i)},
					journal.Entry{Section: journal.All, Data: fmt.Appendf(nil, "%d %d b", w, i), Waiter: acks[w], Token: uint64(i)})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		group.Go(func() {
			if err := j.Read(context.Background(), journal.Position{}, func(journal.Commit) error { return nil }); err != nil {
				t.Errorf("read beside appends: %v", err)
			}
		})
	}
	group.Wait()
	for _, a := range acks {
		for i, heard := range a.Wait(each) {
			if heard.Token != uint64(i) || heard.Err != nil {
				t.Fatalf("word %d: %+v", i, heard)
			}
		}
	}
	if n := len(Contents(t, j, journal.Position{})); n != writers*each*2 {
		t.Fatalf("%d entries", n)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
