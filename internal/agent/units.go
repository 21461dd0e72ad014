package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// part runs the units of one kind of chunk. units calls it with its lock held, one call at a time.
type part interface {
	// apply puts the chunks of the part's kind in force and ends all others. a has the properties.
	apply(a *link.Assignment, chunks []*model.Chunk) error
	// suspend runs nothing until the next apply.
	suspend()
}

// units puts assignments in force. parts is the one table of the kinds that this agent runs: it
// decides what Hello announces, which chunks are refused and which part runs the others.
type units struct {
	parts map[model.ChunkKind]part
	log   *slog.Logger

	mu        sync.Mutex
	current   *link.Assignment // in force, or suspended; nil: none yet
	suspended bool             // the server has no place for this machine
}

// features lists the kinds of chunks in the table, for Hello.Features.
func (u *units) features() (list []string) {
	for _, kind := range slices.Sorted(maps.Keys(u.parts)) {
		list = append(list, wire.ChunkFeature(kind))
	}
	return list
}

// decode reads one chunk. An error refuses this chunk alone: it is malformed, or of a kind that no
// part runs.
func (u *units) decode(id model.ChunkID, data []byte) (*model.Chunk, error) {
	chunk, err := wire.DecodeChunk(id, data)
	if err == nil && u.parts[chunk.Kind] == nil {
		return nil, fmt.Errorf("this agent does not run chunks of kind %d", chunk.Kind)
	}
	return chunk, err
}

// apply puts an assignment in force. An error of one part leaves the others running.
func (u *units) apply(a *link.Assignment) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.current, u.suspended = a, false
	return u.applyLocked()
}

func (u *units) applyLocked() (err error) {
	byKind := map[model.ChunkKind][]*model.Chunk{}
	for _, chunk := range u.current.Chunks {
		byKind[chunk.Kind] = append(byKind[chunk.Kind], chunk)
	}
	for kind, part := range u.parts {
		err = errors.Join(err, part.apply(u.current, byKind[kind]))
	}
	return err
}

// suspendingCodes are the refusals after which a machine runs nothing more: its results have no
// reader, and a clone would run every check twice. A node that is unknown goes on, because its
// server may have been restored from an old backup.
var suspendingCodes = []string{"retired", "deleted", "replaced", "refused", "clone"}

// suspend runs nothing until resume or the next assignment. code is the server's refusal.
func (u *units) suspend(code string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.suspended {
		return
	}
	u.suspended = true
	u.log.Warn("no more checks run here until the server accepts this machine again", "code", code)
	for _, part := range u.parts {
		part.suspend()
	}
}

// resume puts the suspended assignment in force again.
func (u *units) resume() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.suspended {
		return
	}
	if u.suspended = false; u.current == nil {
		return
	}
	if err := u.applyLocked(); err != nil {
		u.log.Error("apply the suspended assignment", "err", err)
	}
}
