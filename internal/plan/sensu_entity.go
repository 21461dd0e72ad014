package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// sensuEntity converts a node to a Sensu entity, for the token templates in Sensu checks. It is nil for the node of a
// Sensu agent, which expands tokens by itself.
func (r *resolver) sensuEntity(n *node) *wire.Property {
	if n.def.External {
		return nil
	}
	annotations, system := map[string]string{}, map[string]string{}
	for fact, value := range n.def.Facts.Map() {
		if key, ok := strings.CutPrefix(fact, "annotation."); ok {
			annotations[key] = value
		}
	}
	maps.Copy(annotations, n.def.Annotations)
	for field, fact := range model.EntitySystem {
		if value, ok := n.def.Facts.Get(fact); ok {
			system[field] = value
		}
	}
	subscriptions := []string{"entity:" + n.def.entityName}
	for _, g := range n.groups.ids {
		if name := r.f.groupNumbers.name(g); name.Namespace == n.def.Namespace {
			subscriptions = append(subscriptions, name.Name)
		}
	}
	slices.Sort(subscriptions[1:])
	class := "agent"
	if n.def.Proxy {
		class = "proxy"
	}
	entity := map[string]any{
		"name": n.def.entityName, "namespace": n.def.Namespace, "labels": n.def.LabelsWithoutFacts(), "annotations": annotations,
		"entity_class": class, "subscriptions": subscriptions, "system": system,
	}
	text, err := json.Marshal(entity)
	if err != nil {
		panic("BUG: encode an entity: " + err.Error())
	}
	return &wire.Property{Name: model.EntityProperty, Value: text}
}
