package notification

import (
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
)

// AssignedChunk returns the chunk of a check in the assignment of a node; nil: none.
func AssignedChunk(v *view.View, node model.NodeID, check model.CheckID) *model.CheckChunk {
	if check == model.KeepaliveCheck {
		return v.Directory.Keepalive(node)
	}
	if chunk := model.BuiltinChunkOf(model.BuiltinChunk(check)); chunk != nil {
		return chunk
	}
	return v.Assigned(node, check)
}

// OpeningChunk returns the chunk under which a problem opened; of a keepalive, the node's present one.
func OpeningChunk(v *view.View, p *model.Problem) *model.CheckChunk {
	if p.Source.Check() == model.KeepaliveCheck {
		return v.Directory.Keepalive(p.NodeID)
	}
	return v.Chunk(p.Chunk)
}

// Declarer names, for people, the resource whose fields name the handlers and pipelines of a check.
func Declarer(check model.CheckID) string {
	if check == model.KeepaliveCheck {
		return "the node"
	}
	return "the check"
}
