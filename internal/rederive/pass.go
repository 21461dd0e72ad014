package rederive

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// Pass is one way through the journal. It has one caller.
type Pass struct {
	source  *Source
	view    *event.View
	ready   atomic.Bool // every partition is restored
	at      atomic.Pointer[journal.Position]
	emitted []event.Transition
}

// BeginPass restores a view from snapshots. Until Close the journal is not cut beyond the pass.
func (s *Source) BeginPass() (*Pass, error) {
	p := &Pass{source: s}
	p.at.Store(&journal.Position{}) // nothing is cut while snapshots are chosen
	s.set(p)
	p.view = event.New(shard.New(s.Options()), event.Options{
		Emit: func(ts []event.Transition) { p.emitted = append(p.emitted, ts...) },
	})
	from, _, err := s.Snapshots.Restore(max(1, s.Parallel), p.view.Restore)
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("restore a second view: %w", err)
	}
	p.at.Store(&from)
	p.ready.Store(true)
	return p, nil
}

// At is up to where the pass has come.
func (p *Pass) At() journal.Position { return *p.at.Load() }

// Read goes on from where the last Read ended to the journal's head of now, which it
// returns. fn hears of every commit, also of one that changed nothing; ts is used again once
// fn returns. After an error the pass has to be closed.
func (p *Pass) Read(ctx context.Context, fn func(at journal.Position, received int64, ts []event.Transition) error) (journal.Position, error) {
	head := p.source.Journal.Head()
	err := p.source.Journal.Read(ctx, p.At(), func(c journal.Commit) error {
		if err := p.view.Apply(c); err != nil {
			return err
		}
		at, ts := c.Position(), p.emitted
		p.at.Store(&at)
		err := fn(at, c.Received(), ts)
		clear(ts)
		p.emitted = ts[:0]
		return err
	})
	if err != nil {
		return journal.Position{}, fmt.Errorf("read the journal from commit %d: %w", p.At().Number, err)
	}
	return head, nil
}

// Close ends the pass and lets go of its view.
func (p *Pass) Close() { p.source.set(nil) }
