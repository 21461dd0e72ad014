package journal_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/memfs"
)

// acks is a Waiter that remembers.
type acks struct {
	mu   sync.Mutex
	list []ack
	more *sync.Cond
}

type ack struct {
	token uint64
	at    journal.Position
	err   error
}

func newAcks() *acks {
	a := &acks{}
	a.more = sync.NewCond(&a.mu)
	return a
}

func (a *acks) Committed(token uint64, at journal.Position, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, ack{token, at, err})
	a.more.Broadcast()
}

// wait returns once n were heard.
func (a *acks) wait(n int) []ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.list) < n {
		a.more.Wait()
	}
	return append([]ack(nil), a.list...)
}

func TestFirst(t *testing.T) {
	fs := memfs.New()
	l, err := journal.Open("/j", journal.Options{FS: fs, Tick: -1, Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	a := newAcks()
	for i := range 100 {
		if err := l.Append(context.Background(), journal.Entry{Section: journal.Section(i % 7), Data: []byte(fmt.Sprint("entry", i)), Waiter: a, Token: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	a.wait(100)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = journal.Open("/j", journal.Options{FS: fs, Tick: -1, Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = l.Read(context.Background(), journal.Position{}, func(c journal.Commit) error {
		for _, s := range c.Sections() {
			if err := c.Entries(s, func(b []byte) error { n++; return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || n != 100 {
		t.Fatal(n, err)
	}
	l.Close()
}
