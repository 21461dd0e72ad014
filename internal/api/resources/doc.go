// Package resources answers about declared resources of every kind: list, get, put, delete, apply
// of many, their state, recorded changes, and archives of Assets. The operations of a kind follow
// from the kind registry.
//
// Turns bound the number of applies at a time, because the body of one may have 32 MiB.
//
// Start reading at Register.
package resources

import (
	"io"

	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/queue"
)

// Archives keeps the archives of Assets.
type Archives interface {
	// Put stores the bytes of r if sum is their SHA-512. They are durable when it returns.
	Put(sum [64]byte, r io.Reader) (size int64, err error)
	State(sum [64]byte) v1.Archive
}

// Options are the surroundings of resources.
type Options struct {
	Archives Archives // nil: none
}

// request is one request about resources.
type request struct {
	op.Request
	Options
	uploads *queue.Slots
}

type subject = op.Subject[*request]

// Register adds the operations of this subject.
func Register(r *op.Routes, o Options) {
	uploads, applies := queue.NewSlots(r.Queues, "uploads"), op.NewTurns("applies", r.Queues)
	at := op.For(r, func(q op.Request) *request { return &request{q, o, uploads} })
	registerResources(at, applies)
	if o.Archives != nil {
		registerArchives(at)
	}
}
