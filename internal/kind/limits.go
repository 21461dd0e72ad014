package kind

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Bounds of a spec. The protocol (internal/wire/chunk.go) and the assignment of one node bound
// specs of agents, too.
const (
	maxNote          = 1024     // of a reason
	maxAnnotation    = 64 << 10 // bytes
	maxPropertyValue = 64 << 10 // bytes of JSON
	maxLine          = 64 << 10 // bytes of one command or argument
	maxVariable      = 32 << 10 // bytes of one variable, or argument of a probe
	maxEntries       = 1000     // of one list or mapping
	maxCount         = 1000     // failAfter, recoverAfter
	maxInterval      = model.Duration(model.MaxInterval)
	maxTimeout       = model.Duration(24 * time.Hour)
	maxOutput        = model.Size(model.MaxOutputBytes)
)
