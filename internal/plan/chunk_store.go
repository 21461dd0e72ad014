package plan

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// chunkStore assigns ids to compiled checks (chunks) and stores them, so that an id survives restarts and is never
// used again. The holder of Planner.compiling uses it; readers find chunks in the directory.
type chunkStore struct {
	store intent.Store
	draft *directory.Draft
	byKey map[chunkKey]*model.Chunk
	// retired has the time since which no unit uses a chunk, for each unused chunk; see Collect.
	retired map[model.ChunkID]time.Time
}

// chunkKind is the kind of the rows in the intent store that keep chunks. The name of such a row is the hash in hex and
// the unit's id; the id of the row is the ChunkID.
const chunkKind = "chunk"

// chunkKey identifies a compiled check by its hash and the id of its check. The hash already covers the unit's id, so
// two units never share a chunk; the id in the key helps people that read the table.
type chunkKey struct {
	hash [16]byte
	unit model.UnitID
}

// chunkKeyOf returns the key of a compiled check: its hash and the id of its check
func chunkKeyOf(c *model.Chunk) chunkKey { return chunkKey{c.Hash, c.Unit} }

// row returns the key of the database row that stores the compiled check
func (k chunkKey) row() intent.Key {
	return intent.Key{Kind: chunkKind, Name: fmt.Sprintf("%s-%d", hex.EncodeToString(k.hash[:]), k.unit)}
}

// chunkRow is the JSON of a database row that stores a compiled check
type chunkRow struct {
	Unit    model.UnitID `json:"check"`
	Name    string       `json:"name"` // name of the unit, for people
	Body    []byte       `json:"body"` // encoded by wire.AppendChunk
	Retired time.Time    `json:"retired,omitzero"`
}

// newChunkStore returns a chunkStore without compiled checks
func newChunkStore(store intent.Store, draft *directory.Draft) *chunkStore {
	return &chunkStore{store: store, draft: draft, byKey: map[chunkKey]*model.Chunk{}, retired: map[model.ChunkID]time.Time{}}
}

// load reads all compiled checks from the database. It skips and counts the chunks that it cannot decode: no agent
// was ever sent one of those.
func (s *chunkStore) load(ctx context.Context, log *slog.Logger) (broken uint64, err error) {
	rows, err := s.store.List(ctx, intent.ListQuery{Kind: chunkKind})
	if err != nil {
		return 0, fmt.Errorf("load intent: list compiled checks: %w", err)
	}
	for _, row := range rows {
		if err := s.addStored(row); err != nil {
			log.Error("ignored an unreadable stored chunk", "error", err)
			broken++
		}
	}
	return broken, nil
}

// addStored decodes a compiled check from a database row and adds it to the directory, which readers use
func (s *chunkStore) addStored(row intent.Row) error {
	var body chunkRow
	if err := json.Unmarshal(row.Body, &body); err != nil {
		return fmt.Errorf("read compiled check %q: %w", row.Name, err)
	}
	chunk, err := wire.DecodeChunk(model.ChunkID(row.ID), body.Body)
	if err != nil {
		return fmt.Errorf("read compiled check %q: %w", row.Name, err)
	}
	s.byKey[chunkKeyOf(chunk)] = chunk
	s.draft.SetChunk(chunk)
	if !body.Retired.IsZero() {
		s.retired[chunk.ID] = body.Retired
	}
	return nil
}

// hash computes the hash of each compiled check, and uses the stored chunk where an equal one exists. A chunk that
// the store already knows replaces the body's one. It returns the bodies with new chunks, whose id is zero.
func (s *chunkStore) hash(units []*unit) (fresh []*body) {
	one := func(b *body) {
		b.chunk.Hash = wire.ChunkHash(wire.AppendChunk(nil, b.chunk))
		if known := s.byKey[chunkKeyOf(b.chunk)]; known != nil {
			b.chunk = known
		} else {
			fresh = append(fresh, b)
		}
	}
	for _, u := range units {
		if one(u.body); u.next != nil {
			one(u.next.body)
		}
		u.Chunk = u.chunk
	}
	return fresh
}

// assignIDs assigns ids to compiled checks that are not stored yet, and stores them. It takes new ids from the intent
// store, in one commit.
func (s *chunkStore) assignIDs(ctx context.Context, units []*unit) error {
	fresh := s.hash(units)
	if len(fresh) == 0 {
		return nil
	}
	var writes []intent.Write
	written := map[chunkKey]bool{}
	for _, b := range fresh {
		key := chunkKeyOf(b.chunk)
		if written[key] {
			continue
		}
		written[key] = true
		row, err := json.Marshal(chunkRow{Unit: b.chunk.Unit, Name: b.chunk.Name, Body: wire.AppendChunk(nil, b.chunk)})
		if err != nil {
			return fmt.Errorf("encode the compiled form of check %q: %w", b.chunk.Name, err)
		}
		writes = append(writes, intent.Write{Key: key.row(), Body: row, Expect: -1})
	}
	done, err := s.store.Commit(ctx, intent.Actor{User: "server", Why: "compiled a new definition of a check"}, writes)
	if err != nil {
		return fmt.Errorf("assign ids to new compiled checks: %w", err)
	}
	for _, row := range done.Rows {
		if err := s.addStored(row); err != nil {
			return err
		}
	}
	s.hash(units)
	for _, b := range fresh {
		if b.chunk.ID == 0 {
			panic(fmt.Sprintf("BUG: the store did not return the chunk of %q that it committed", b.chunk.Name))
		}
	}
	return nil
}

// collectBatch is the largest number of chunks in one transaction of Collect.
const collectBatch = 500

// Collect removes the compiled check definitions that nothing refers to any more, neither an assignment nor the
// journal, and returns their number. A chunk is retired once no unit uses it and named, the chunks that judged the
// event view's states, does not have it: an agent that was away and still runs it has such a state. From then on
// spools can hold its results for model.MaxSpoolAge, and the journal until its tail has passed those. A chunk that is
// used or named again is retired no more.
//
// Call it from time to time; tail is when the oldest commit of the journal was received.
func (p *Planner) Collect(ctx context.Context, named map[model.ChunkID]bool, tail, now time.Time) (removed int, err error) {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	used := map[model.ChunkID]bool{}
	for _, s := range p.fleet.units {
		if used[s.def.chunk.ID] = true; s.def.next != nil {
			used[s.def.next.chunk.ID] = true
		}
	}
	removed, err = p.chunks.collect(ctx, func(id model.ChunkID) bool { return used[id] || named[id] }, tail, now)
	p.draft.Publish(p.Revision())
	return removed, err
}

// collect records since when each compiled check has been unused, and removes those that have been unused for long
// enough
func (s *chunkStore) collect(ctx context.Context, used func(model.ChunkID) bool, tail, now time.Time) (removed int, err error) {
	var retire, revive, remove []*model.Chunk
	for _, c := range s.byKey {
		since, retired := s.retired[c.ID]
		switch {
		case used(c.ID):
			if retired {
				revive = append(revive, c)
			}
		case !retired:
			retire = append(retire, c)
		case since.Add(model.MaxSpoolAge).Before(tail):
			remove = append(remove, c)
		}
	}
	if err := s.retire(ctx, retire, now.UTC()); err != nil {
		return 0, err
	}
	if err := s.retire(ctx, revive, time.Time{}); err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(remove, collectBatch) {
		if err := s.remove(ctx, batch); err != nil {
			return removed, err
		}
		removed += len(batch)
	}
	return removed, nil
}

// retire stores the time since which compiled checks have been unused; the zero time means that they are in use
func (s *chunkStore) retire(ctx context.Context, chunks []*model.Chunk, since time.Time) error {
	for batch := range slices.Chunk(chunks, collectBatch) {
		writes := make([]intent.Write, len(batch))
		for i, c := range batch {
			key := chunkKeyOf(c).row()
			row, err := s.store.Get(ctx, key)
			if err != nil {
				return fmt.Errorf("mark compiled check %d as unused: %w", c.ID, err)
			}
			var body chunkRow
			if err := json.Unmarshal(row.Body, &body); err != nil {
				return fmt.Errorf("read compiled check %q: %w", key.Name, err)
			}
			body.Retired = since
			data, err := json.Marshal(body)
			if err != nil {
				return fmt.Errorf("encode compiled check %q: %w", key.Name, err)
			}
			writes[i] = intent.Write{Key: key, Body: data, Expect: -1}
		}
		if _, err := s.store.Commit(ctx, intent.Actor{User: "server", Why: "marked definitions of deleted checks as unused"}, writes); err != nil {
			return fmt.Errorf("mark compiled checks as unused: %w", err)
		}
		for _, c := range batch {
			if since.IsZero() {
				delete(s.retired, c.ID)
			} else {
				s.retired[c.ID] = since
			}
		}
	}
	return nil
}

// remove deletes compiled checks from the intent store and the directory.
func (s *chunkStore) remove(ctx context.Context, chunks []*model.Chunk) error {
	writes := make([]intent.Write, len(chunks))
	for i, c := range chunks {
		writes[i] = intent.Write{Key: chunkKeyOf(c).row(), Expect: -1}
	}
	if _, err := s.store.Commit(ctx, intent.Actor{User: "server", Why: "deleted expired definitions of checks"}, writes); err != nil {
		return fmt.Errorf("remove unused compiled checks: %w", err)
	}
	for _, c := range chunks {
		s.draft.DeleteChunk(c.ID)
		delete(s.retired, c.ID)
		delete(s.byKey, chunkKeyOf(c))
	}
	return nil
}

// collectEvery is the period of a Collector.
const collectEvery = time.Hour

// Collector removes compiled check definitions that no check, event state, spool or journal record can refer to any
// more.
type Collector struct {
	Planner *Planner
	Used    func() map[model.ChunkID]bool                // returns the definitions that event states name
	Oldest  func(ctx context.Context) (time.Time, error) // returns the time of the oldest commit in the journal
	Now     func() time.Time
	Log     *slog.Logger
}

// Run removes old definitions once an hour until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		removed, err := c.collect(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			c.Log.Warn("cannot delete old definitions of checks; the server retries in an hour", "err", err)
		case removed > 0:
			c.Log.Info("deleted old definitions of checks", "count", removed)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// collect removes compiled check definitions to which no assignment and no journal record refers, once
func (c *Collector) collect(ctx context.Context) (removed int, err error) {
	oldest, err := c.Oldest(ctx)
	if err != nil {
		return 0, err
	}
	return c.Planner.Collect(ctx, c.Used(), oldest, c.Now())
}
