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

// definitionStore assigns permanent ids to compiled checks, and stores the checks in the database. An id survives
// restarts and is never used again. The holder of Planner.compiling uses it; readers find definitions in the
// directory.
type definitionStore struct {
	store intent.Store
	draft *directory.Draft
	byKey map[definitionKey]*model.Definition
	// retired has the time since which no unit uses a definition, for each unused definition; see Collect.
	retired map[model.DefinitionID]time.Time
}

// definitionKind is the kind of database rows with compiled checks. The name of such a row is the hash in hex and the
// unit's id; the id of the row is the DefinitionID.
const definitionKind = "definition"

// definitionKey identifies a compiled check by the hash of its content and by the check's id. The hash already covers
// the unit's id, so two units never share a definition; the id in the key helps people that read the table.
type definitionKey struct {
	hash [16]byte
	unit model.UnitID
}

// definitionKeyOf returns the key of a compiled check. The key is its hash and the id of its check.
func definitionKeyOf(c *model.Definition) definitionKey { return definitionKey{c.Hash, c.Unit} }

// databaseKey returns the database key under which the compiled check is stored
func (k definitionKey) databaseKey() intent.Key {
	return intent.Key{Kind: definitionKind, Name: fmt.Sprintf("%s-%d", hex.EncodeToString(k.hash[:]), k.unit)}
}

// definitionRow is the JSON of the database row of a compiled check. Retired is the time since which no node uses the
// compiled check.
type definitionRow struct {
	Unit    model.UnitID `json:"check"`
	Name    string       `json:"name"` // name of the unit, for people
	Body    []byte       `json:"body"` // encoded by wire.AppendDefinition
	Retired time.Time    `json:"retired,omitzero"`
}

// newDefinitionStore returns a store of compiled checks that has no checks yet
func newDefinitionStore(store intent.Store, draft *directory.Draft) *definitionStore {
	return &definitionStore{store: store, draft: draft, byKey: map[definitionKey]*model.Definition{}, retired: map[model.DefinitionID]time.Time{}}
}

// load reads all compiled checks from the database. It skips and counts the definitions that it cannot decode: no
// agent was ever sent one of those.
func (s *definitionStore) load(ctx context.Context, log *slog.Logger) (broken uint64, err error) {
	rows, err := s.store.List(ctx, intent.ListQuery{Kind: definitionKind})
	if err != nil {
		return 0, fmt.Errorf("load the compiled checks from the database: %w", err)
	}
	for _, row := range rows {
		if err := s.addStored(row); err != nil {
			log.Error("ignored an unreadable stored definition", "error", err)
			broken++
		}
	}
	return broken, nil
}

// addStored decodes a compiled check from its database row, and makes the check available to readers. It adds
// the check to the directory, which readers use.
func (s *definitionStore) addStored(row intent.Row) error {
	var body definitionRow
	if err := json.Unmarshal(row.Body, &body); err != nil {
		return fmt.Errorf("read compiled check %q: %w", row.Name, err)
	}
	definition, err := wire.DecodeDefinition(model.DefinitionID(row.ID), body.Body)
	if err != nil {
		return fmt.Errorf("read compiled check %q: %w", row.Name, err)
	}
	s.byKey[definitionKeyOf(definition)] = definition
	s.draft.SetDefinition(definition)
	if !body.Retired.IsZero() {
		s.retired[definition.ID] = body.Retired
	}
	return nil
}

// hash computes the content hash of each compiled check, to find equal stored checks. A definition that the
// store already knows replaces the body's one. It returns the bodies with new definitions, whose id is zero.
func (s *definitionStore) hash(units []*unit) (fresh []*body) {
	one := func(b *body) {
		b.definition.Hash = wire.DefinitionHash(wire.AppendDefinition(nil, b.definition))
		if known := s.byKey[definitionKeyOf(b.definition)]; known != nil {
			b.definition = known
		} else {
			fresh = append(fresh, b)
		}
	}
	for _, u := range units {
		if one(u.body); u.next != nil {
			one(u.next.body)
		}
		u.Definition = u.definition
		if u.Rollout != nil {
			if u.Rollout.Old, u.Rollout.New = u.definition, u.definition; u.next != nil {
				u.Rollout.New = u.next.definition
			}
		}
	}
	return fresh
}

// assignIDs stores new compiled checks in the database, and gives each a permanent id. It takes new ids from the
// intent store, in one commit with the changed roll-outs.
func (s *definitionStore) assignIDs(ctx context.Context, units []*unit, rollouts []intent.Write) error {
	fresh := s.hash(units)
	writes := rollouts
	if len(fresh)+len(writes) == 0 {
		return nil
	}
	written := map[definitionKey]bool{}
	for _, b := range fresh {
		key := definitionKeyOf(b.definition)
		if written[key] {
			continue
		}
		written[key] = true
		row, err := json.Marshal(definitionRow{Unit: b.definition.Unit, Name: b.definition.Name, Body: wire.AppendDefinition(nil, b.definition)})
		if err != nil {
			return fmt.Errorf("encode the compiled form of check %q: %w", b.definition.Name, err)
		}
		writes = append(writes, intent.Write{Key: key.databaseKey(), Body: row, Expect: -1})
	}
	done, err := s.store.Commit(ctx, intent.Actor{User: "server", Message: "compiled a new definition of a check"}, writes)
	if err != nil {
		return fmt.Errorf("assign ids to new compiled checks: %w", err)
	}
	for _, row := range done.Rows[len(rollouts):] {
		if err := s.addStored(row); err != nil {
			return err
		}
	}
	s.hash(units)
	for _, b := range fresh {
		if b.definition.ID == 0 {
			panic(fmt.Sprintf("BUG: the store did not return the definition of %q that it committed", b.definition.Name))
		}
	}
	return nil
}

// collectBatch is the largest number of compiled checks in one transaction of Collect.
const collectBatch = 500

// Collect deletes compiled checks without uses, and returns the number of deleted checks. Neither an assignment
// nor the journal refers to such a compiled check. A definition is retired once no unit uses it and named, the
// definitions that judged the event view's states, does not have it: an agent that was away and still runs it
// has such a state. From then on spools can hold its results for model.MaxSpoolAge, and the journal until its
// tail has passed those. A definition that is used or named again is retired no more.
//
// Call it from time to time; tail is when the oldest commit of the journal was received.
func (p *Planner) Collect(ctx context.Context, named map[model.DefinitionID]bool, tail, now time.Time) (removed int, err error) {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	used := map[model.DefinitionID]bool{}
	for _, s := range p.fleet.units {
		if used[s.def.definition.ID] = true; s.def.next != nil {
			used[s.def.next.definition.ID] = true
		}
	}
	removed, err = p.definitions.collect(ctx, func(id model.DefinitionID) bool { return used[id] || named[id] }, tail, now)
	p.draft.Publish(p.Revision())
	return removed, err
}

// collect deletes compiled checks that nothing has used for long enough. It records since when each compiled check has
// been unused.
func (s *definitionStore) collect(ctx context.Context, used func(model.DefinitionID) bool, tail, now time.Time) (removed int, err error) {
	var retire, revive, remove []*model.Definition
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
	if err := s.markUnused(ctx, retire, now.UTC()); err != nil {
		return 0, err
	}
	if err := s.markUnused(ctx, revive, time.Time{}); err != nil {
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

// markUnused records in the database the time since which compiled checks have been unused. The zero time means
// that they are in use.
func (s *definitionStore) markUnused(ctx context.Context, definitions []*model.Definition, since time.Time) error {
	for batch := range slices.Chunk(definitions, collectBatch) {
		writes := make([]intent.Write, len(batch))
		for i, c := range batch {
			key := definitionKeyOf(c).databaseKey()
			row, err := s.store.Get(ctx, key)
			if err != nil {
				return fmt.Errorf("mark compiled check %d as unused: %w", c.ID, err)
			}
			var body definitionRow
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
		if _, err := s.store.Commit(ctx, intent.Actor{User: "server", Message: "marked definitions of deleted checks as unused"}, writes); err != nil {
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

// remove deletes compiled checks from the database and from the planner's directory (table for readers).
func (s *definitionStore) remove(ctx context.Context, definitions []*model.Definition) error {
	writes := make([]intent.Write, len(definitions))
	for i, c := range definitions {
		writes[i] = intent.Write{Key: definitionKeyOf(c).databaseKey(), Expect: -1}
	}
	if _, err := s.store.Commit(ctx, intent.Actor{User: "server", Message: "deleted expired definitions of checks"}, writes); err != nil {
		return fmt.Errorf("remove unused compiled checks: %w", err)
	}
	for _, c := range definitions {
		s.draft.DeleteDefinition(c.ID)
		delete(s.retired, c.ID)
		delete(s.byKey, definitionKeyOf(c))
	}
	return nil
}

// collectEvery is the time between two runs of a Collector.
const collectEvery = time.Hour

// Collector deletes compiled checks that no assignment, event, spool or journal record refers to.
type Collector struct {
	Planner       *Planner
	NamedByStates func() map[model.DefinitionID]bool           // returns the definitions that event states name
	Oldest        func(ctx context.Context) (time.Time, error) // returns the time of the oldest commit in the journal
	Now           func() time.Time
	Log           *slog.Logger
}

// Run removes unused compiled checks once an hour until ctx ends.
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

// collect deletes each compiled check that no assignment, event or journal record uses any more
func (c *Collector) collect(ctx context.Context) (removed int, err error) {
	oldest, err := c.Oldest(ctx)
	if err != nil {
		return 0, err
	}
	return c.Planner.Collect(ctx, c.NamedByStates(), oldest, c.Now())
}
