package link

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Held is the assignment in force on the agent. It is immutable.
type Held struct {
	Generation wire.Generation
	Hash       [32]byte
	Chunks     []*model.Chunk // ascending by ID
	Properties []wire.Property
	Signature  []byte
}
