package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// collectAtOnce bounds one transaction of Collect.
const collectAtOnce = 500

// Collect forgets compiled definitions that nobody can name any more, and says how
// many. A definition is retired once no check has it and named, the definitions that
// the event view's states were judged by, has not: an agent that was away and still
// runs it is one whose state names it. From then on spools may hold its results for
// model.MaxSpoolAge, and the journal holds what came of them until its tail has passed
// that. A definition that is wanted or named again is retired no more.
//
// Call it from time to time; held is when the oldest commit of the journal was received.
func (p *Planner) Collect(ctx context.Context, named map[model.ChunkID]bool, held, now time.Time) (removed int, err error) {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	used := map[model.ChunkID]bool{}
	for _, def := range p.defs {
		if d, ok := def.(*checkDef); ok {
			used[d.chunk.ID] = true
		}
	}
	var retire, revive, remove []*model.Chunk
	p.chunkMu.RLock()
	for id, c := range p.chunks {
		since, retired := p.retired[id]
		switch {
		case used[id] || named[id]:
			if retired {
				revive = append(revive, c)
			}
		case !retired:
			retire = append(retire, c)
		case since.Add(model.MaxSpoolAge).Before(held):
			remove = append(remove, c)
		}
	}
	p.chunkMu.RUnlock()
	if err := p.retire(ctx, retire, now.UTC()); err != nil {
		return 0, err
	}
	if err := p.retire(ctx, revive, time.Time{}); err != nil {
		return 0, err
	}
	for some := range slices.Chunk(remove, collectAtOnce) {
		if err := p.remove(ctx, some); err != nil {
			return removed, err
		}
		removed += len(some)
	}
	return removed, nil
}

// retire writes down since when definitions are in nobody's way; zero: they are again.
func (p *Planner) retire(ctx context.Context, chunks []*model.Chunk, since time.Time) error {
	for some := range slices.Chunk(chunks, collectAtOnce) {
		writes := make([]intent.Write, len(some))
		for i, c := range some {
			key := rowKey(c)
			row, err := p.o.Store.Get(ctx, key)
			if err != nil {
				return fmt.Errorf("retire definition %d: %w", c.ID, err)
			}
			var body chunkRow
			if err := json.Unmarshal(row.Body, &body); err != nil {
				return fmt.Errorf("read chunk %q: %w", key.Name, err)
			}
			body.Retired = since
			data, err := json.Marshal(body)
			if err != nil {
				return fmt.Errorf("encode chunk %q: %w", key.Name, err)
			}
			writes[i] = intent.Write{Key: key, Body: data, Expect: -1}
		}
		if _, err := p.o.Store.Commit(ctx, intent.Actor{User: "server", Why: "definitions that no check has"}, writes); err != nil {
			return fmt.Errorf("retire definitions: %w", err)
		}
		p.chunkMu.Lock()
		for _, c := range some {
			if since.IsZero() {
				delete(p.retired, c.ID)
			} else {
				p.retired[c.ID] = since
			}
		}
		p.chunkMu.Unlock()
	}
	return nil
}

func (p *Planner) remove(ctx context.Context, chunks []*model.Chunk) error {
	writes := make([]intent.Write, len(chunks))
	for i, c := range chunks {
		writes[i] = intent.Write{Key: rowKey(c), Expect: -1}
	}
	if _, err := p.o.Store.Commit(ctx, intent.Actor{User: "server", Why: "definitions that nobody can name any more"}, writes); err != nil {
		return fmt.Errorf("forget definitions: %w", err)
	}
	p.chunkMu.Lock()
	defer p.chunkMu.Unlock()
	for _, c := range chunks {
		delete(p.chunks, c.ID)
		delete(p.retired, c.ID)
		delete(p.chunkByKey, chunkKey{c.Hash, c.Unit})
	}
	return nil
}

func rowKey(c *model.Chunk) intent.Key {
	return intent.Key{Kind: chunkKind, Name: chunkKey{c.Hash, c.Unit}.name()}
}
