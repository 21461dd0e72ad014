package join

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
)

// Prepared says which plan would be played, and waits until agents are to connect.
func (f *Follower) Prepared(ctx context.Context, hash string) error {
	if err := f.conn.send(kindPrepared, prepared{hash}); err != nil {
		return err
	}
	return f.await(ctx, func() bool { return f.told[kindConnect] })
}

// Ready says that all agents hold their checks, and waits for the beginning.
func (f *Follower) Ready(ctx context.Context, a load.Arrived) (time.Time, error) {
	if err := f.conn.send(kindReady, a); err != nil {
		return time.Time{}, err
	}
	if err := f.await(ctx, func() bool { return f.begin != nil }); err != nil {
		return time.Time{}, err
	}
	return f.base.Add(f.begin.At), nil
}

// Hear hands what the lead says meanwhile to these; they are called one at a time.
func (f *Follower) Hear(score func(time.Duration, []load.Span) error, renamed func(int, string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.score, f.renamed = score, renamed
}

// Present, Second and Stretch tell what the lead merges. One that cannot be sent breaks
// the connection, which the reader hears of.

// Present tells who has a session.
func (f *Follower) Present(p load.Presence) { _ = f.conn.send(kindPresence, p) }

// Second tells what was done in a second.
func (f *Follower) Second(s *observe.CheckSecond) { _ = f.conn.send(kindSecond, s) }

// Stretch tells what was done in a step that is over.
func (f *Follower) Stretch(s *load.Stretch) { _ = f.conn.send(kindStretch, s) }

// ledgerBytes is about how much of the ledgers goes into one message.
const ledgerBytes = 4 << 20

// Finish hands over what was measured, and waits until the lead has compared it.
func (f *Follower) Finish(ctx context.Context, m *load.Measured) error {
	if err := f.conn.send(kindMeasured, m); err != nil {
		return err
	}
	if err := f.conn.send(kindLedgers, observe.Ledgers{Sets: m.Ledgers.Sets, Breaches: m.Ledgers.Breaches}); err != nil {
		return err
	}
	for rest := m.Ledgers.Agents; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && (n == 0 || size < ledgerBytes) {
			size += 27*len(rest[n].States) + 200
			n++
		}
		if err := f.conn.send(kindLedgers, observe.Ledgers{Agents: rest[:n]}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if err := f.conn.send(kindFinished, nil); err != nil {
		return err
	}
	return f.await(ctx, func() bool { return f.over != nil })
}

var _ load.Lead = (*Follower)(nil)
