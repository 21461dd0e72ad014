// Package journaltest has helpers for tests that use a journal. Acks has a lock; a Commit has one user.
package journaltest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
)

// Acks is a journal Waiter that records the acknowledgement of each entry for a test.
type Acks struct {
	mu   sync.Mutex
	cond *sync.Cond
	list []Ack
}

// Ack is one recorded acknowledgement, with its token, position and error.
type Ack struct {
	Token uint64
	At    journal.Position
	Err   error
}

// NewAcks returns a Waiter that records the acknowledgements of entries for a test
func NewAcks() *Acks {
	a := &Acks{}
	a.cond = sync.NewCond(&a.mu)
	return a
}

// Committed records the acknowledgement of an entry.
func (a *Acks) Committed(token uint64, at journal.Position, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, Ack{token, at, err})
	a.cond.Broadcast()
}

// Wait waits for n acknowledgements and returns all recorded acknowledgements.
func (a *Acks) Wait(n int) []Ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.list) < n {
		a.cond.Wait()
	}
	return slices.Clone(a.list)
}

// Results returns the acknowledgements so far.
func (a *Acks) Results() []Ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// ReadEntryTexts reads all commits after a position and returns their entries in the form "number/section entry".
func ReadEntryTexts(t *testing.T, j journal.Journal, from journal.Position) (list []string) {
	t.Helper()
	err := j.Read(context.Background(), from, func(c journal.Commit) error {
		list = append(list, EntryTexts(t, c)...)
		return nil
	})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return list
}

// EntryTexts returns the entries of a commit in the form "number/section entry".
func EntryTexts(t *testing.T, c journal.Commit) (list []string) {
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

// Commit is a journal.Commit that tests build in memory.
type Commit struct {
	At        journal.Position
	Time      int64         // Received
	Listened  time.Duration // Listening
	sections  []journal.Section
	bySection map[journal.Section][][]byte
}

var _ journal.Commit = (*Commit)(nil)

// Position returns the position that the test has set in the field At.
func (c *Commit) Position() journal.Position { return c.At }

// Received returns the receive time that the test has set in the field Time.
func (c *Commit) Received() int64 { return c.Time }

// Listening returns the listening time that the test has set in the field Listened. Listening time is the time in
// which a server could receive results.
func (c *Commit) Listening() time.Duration { return c.Listened }

// Sections returns the sections (partitions) that have entries in the commit
func (c *Commit) Sections() []journal.Section { return c.sections }

// Retain does nothing, because the memory of a test commit is not reused.
func (c *Commit) Retain() {}

// Release does nothing, because the memory of a test commit is not reused.
func (c *Commit) Release() {}

// Entries calls fn with each entry of a section.
func (c *Commit) Entries(s journal.Section, fn func([]byte) error) error {
	for _, data := range c.bySection[s] {
		if err := fn(data); err != nil {
			return err
		}
	}
	return nil
}

// AddEntry appends an entry to a section of the commit.
func (c *Commit) AddEntry(s journal.Section, data []byte) {
	if c.bySection == nil {
		c.bySection = map[journal.Section][][]byte{}
	}
	if at, found := slices.BinarySearch(c.sections, s); !found {
		c.sections = slices.Insert(c.sections, at, s)
	}
	c.bySection[s] = append(c.bySection[s], data)
}
