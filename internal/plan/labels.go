package plan

import (
	"maps"

	"github.com/muster-fleet/muster/internal/model"
)

// EffectiveLabels merges the labels of a node by owner: those the server keeps
// (metadata and join grant) over those of the agent's configuration over
// measured facts.
func EffectiveLabels(meta model.Metadata, spec *model.NodeSpec) map[string]string {
	own := spec.OperatorLabels(meta)
	labels := make(map[string]string, len(own)+len(spec.AgentLabels)+len(spec.Facts))
	maps.Copy(labels, spec.Facts)
	maps.Copy(labels, spec.AgentLabels)
	maps.Copy(labels, own)
	return labels
}
