package directory

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Change lists the differences between a snapshot and the one before it.
type Change struct {
	Revision int64 // of intent
	// Assignments are the nodes whose assignment differs, deleted nodes included.
	Assignments []model.NodeID
	// Declarations are resources that decide about notifications and files on the server: windows,
	// routes, silences, filters, mutators, pipelines and assets.
	Declarations []route.Declaration
	// Dependencies says that checks depend on other checks than before (see Directory.Dependencies).
	Dependencies bool
}
