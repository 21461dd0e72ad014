package plan

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// chunkKind is the kind of the rows that remember chunks. Name: hex hash and check
// id. The row's id is the ChunkID, so it survives restarts and is never used again.
const chunkKind = "chunk"

// chunkKey identifies a chunk: the hash covers the check's id, so one hash never
// belongs to two checks; the id in the key is for people who look at the table.
type chunkKey struct {
	hash  [16]byte
	check model.CheckID
}

func (k chunkKey) name() string { return fmt.Sprintf("%s-%d", hex.EncodeToString(k.hash[:]), k.check) }

// chunkRow is the JSON body of a row.
type chunkRow struct {
	Check model.CheckID `json:"check"`
	Name  string        `json:"name"` // of the check, for people
	Body  []byte        `json:"body"` // wire.AppendChunk
	// Retired is since when nobody has it; see Collect.
	Retired time.Time `json:"retired,omitzero"`
}

// compileChunk applies the defaults. Namespace and ID come later (Planner.number).
func compileChunk(name ref, id model.CheckID, spec *model.CheckSpec) (*model.CheckChunk, error) {
	c := &model.CheckChunk{
		Chunk:   model.Chunk{Unit: id, Name: name.name},
		Command: spec.Command, Probe: spec.Probe,
		Interval: time.Duration(spec.Interval), Cron: spec.Cron, TimeZone: spec.TimeZone,
		Timeout: time.Duration(spec.Timeout), TTL: time.Duration(spec.TTL),
		Env: spec.Env, RunAs: spec.RunAs, MaxOutput: int(spec.MaxOutput),
		FailAfter: 1, RecoverAfter: 1, Stdin: spec.Stdin, Proxy: spec.Proxy != nil, RoundRobin: spec.RoundRobin,
		Hooks: spec.Hooks, Metrics: spec.Metrics, Thresholds: spec.Thresholds, Pipelines: spec.Pipelines,
		DiscardOutput: spec.DiscardOutput,
	}
	if c.Timeout == 0 {
		c.Timeout = model.DefaultTimeout
		if c.Interval > 0 {
			c.Timeout = min(c.Timeout, c.Interval)
		}
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = model.DefaultOutputBytes
	}
	if a := spec.Alert; a != nil {
		c.FailAfter, c.RecoverAfter = uint32(max(a.FailAfter, 1)), uint32(max(a.RecoverAfter, 1))
		c.Handlers, c.Route = a.Handlers, a.Route
		if f := a.Flapping; f != nil {
			c.FlapStart, c.FlapEnd = uint32(f.Start), uint32(cmp.Or(f.End, f.Start/2))
		}
	}
	for s := range c.Severities {
		c.Severities[s] = model.DefaultSeverity(model.Status(s))
	}
	for from, to := range spec.Severity {
		status, ok := model.ParseStatus(from)
		if !ok {
			return nil, model.Errorf(model.Invalid, "severity: %q is no status", from).
				WithHint("write ok, warning, critical or unknown")
		}
		severity, ok := model.ParseSeverity(to)
		if !ok {
			return nil, model.Errorf(model.Invalid, "severity: %q is no severity", to).
				WithHint("write not classified, information, warning, average, high or disaster")
		}
		c.Severities[status] = severity
	}
	return c, nil
}

// number gives the chunks of new definitions their namespace, hash and id; ids of
// chunks never seen are drawn from the store in one commit. Without a store (a
// preview) such a chunk keeps the id zero.
func (p *Planner) number(ctx context.Context, store intent.Store, t *translation) error {
	var writes []intent.Write
	var fresh []*checkDef
	keys := map[chunkKey]bool{}
	if err := p.calendars(t); err != nil {
		return err
	}
	if err := p.hooks(t); err != nil {
		return err
	}
	if err := p.secrets(t); err != nil {
		return err
	}
	if err := p.assets(t); err != nil {
		return err
	}
	for _, d := range t.checks() {
		d.chunk.Namespace = p.namespaceID(t, d.ns)
		body := wire.AppendChunk(nil, d.chunk.Seal())
		d.chunk.Hash = wire.ChunkHash(body)
		key := chunkKey{d.chunk.Hash, d.id}
		if known := p.knownChunk(key); known != nil {
			d.chunk = known.AsCheck()
			continue
		}
		fresh = append(fresh, d)
		if keys[key] {
			continue
		}
		keys[key] = true
		row, err := json.Marshal(chunkRow{Check: d.id, Name: d.ref.String(), Body: body})
		if err != nil {
			return fmt.Errorf("encode chunk of check %q: %w", d.ref, err)
		}
		writes = append(writes, intent.Write{Key: intent.Key{Kind: chunkKind, Name: key.name()}, Body: row, Expect: -1})
	}
	if len(fresh) == 0 || store == nil {
		return nil
	}
	done, err := store.Commit(ctx, intent.Actor{User: "server", Why: "new definition of a check"}, writes)
	if err != nil {
		return fmt.Errorf("number new definitions of checks: %w", err)
	}
	for _, row := range done.Rows {
		if _, err := p.keepChunk(row); err != nil {
			return err
		}
	}
	for _, d := range fresh {
		if d.chunk = p.knownChunk(chunkKey{d.chunk.Hash, d.id}).AsCheck(); d.chunk == nil {
			panic("BUG: the store did not return a chunk it committed")
		}
	}
	return nil
}

// sizeOf is how long the definition is, encoded; an error if no agent could read it.
func sizeOf(c *model.CheckChunk) (int, error) {
	body := wire.AppendChunk(nil, c.Seal())
	if _, err := wire.DecodeChunk(0, body); err != nil {
		return 0, model.Errorf(model.Invalid, "no agent could be told this check: %w", err).
			WithHint("make it shorter: put long commands into a script on the nodes")
	}
	return len(body), nil
}

// keepChunk remembers a stored chunk.
func (p *Planner) keepChunk(row intent.Row) (*model.Chunk, error) {
	var body chunkRow
	if err := json.Unmarshal(row.Body, &body); err != nil {
		return nil, fmt.Errorf("read chunk %q: %w", row.Name, err)
	}
	chunk, err := wire.DecodeChunk(model.ChunkID(row.ID), body.Body)
	if err != nil {
		return nil, fmt.Errorf("read chunk %q: %w", row.Name, err)
	}
	p.chunkMu.Lock()
	defer p.chunkMu.Unlock()
	p.chunks[chunk.ID] = chunk
	p.chunkByKey[chunkKey{chunk.Hash, chunk.Unit}] = chunk
	if !body.Retired.IsZero() {
		p.retired[chunk.ID] = body.Retired
	}
	return chunk, nil
}

func (p *Planner) knownChunk(k chunkKey) *model.Chunk {
	p.chunkMu.RLock()
	defer p.chunkMu.RUnlock()
	return p.chunkByKey[k]
}

// CheckChunk resolves the id of a check's chunk; nil if it is unknown or of another kind.
func (p *Planner) CheckChunk(id model.ChunkID) *model.CheckChunk { return p.Chunk(id).AsCheck() }

// Chunk implements Assignments; see Collect for how long it knows one.
func (p *Planner) Chunk(id model.ChunkID) *model.Chunk {
	if builtin := model.BuiltinChunkOf(id); builtin != nil {
		return &builtin.Chunk
	}
	p.chunkMu.RLock()
	defer p.chunkMu.RUnlock()
	return p.chunks[id]
}
