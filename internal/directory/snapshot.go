package directory

import (
	"iter"
	"unique"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
)

// checkKind is the kind of units whose results become events.
const checkKind = "Check"

// groupName returns the name of a group as people write it: shared groups with their namespace.
func (s *snapshot) groupName(g GroupID) string { return GroupText(s.groupNames[g]) }

// GroupText returns the name of a group as its members' namespace writes it.
func GroupText(name route.Name) string {
	if name.Namespace == model.SharedNamespaceName {
		return name.Namespace + "/" + name.Name
	}
	return name.Name
}

func (s *snapshot) unit(kind string, name route.Name) PlacedUnit {
	return s.units.Value(s.unitNames.Value(unitName{kind, name}))
}

func resource[S model.Spec](s *snapshot, kind, namespace, name string) (spec S, ok bool) {
	spec, ok = s.resources.Value(Resource{kind, route.Name{Namespace: namespace, Name: name}}).(S)
	return spec, ok
}

// resources yields the resources with a specification of type S.
func resources[S model.Spec](s *snapshot) iter.Seq2[route.Name, S] {
	return func(yield func(route.Name, S) bool) {
		for r, spec := range s.resources.All() {
			if spec, ok := spec.(S); ok && !yield(r.Name, spec) {
				return
			}
		}
	}
}

func (s *snapshot) labelNodes(p where.Pair) *roaring.Bitmap { return s.byLabel.Value(p).bitmap() }

func (s *snapshot) labelKeyNodes(key unique.Handle[string]) *roaring.Bitmap {
	return s.byLabelKey.Value(key).bitmap()
}

func (s *nodeSet) bitmap() *roaring.Bitmap {
	if s == nil {
		return nil
	}
	return s.Bitmap
}

func nodeIDs(b *roaring.Bitmap) []model.NodeID {
	if b == nil {
		return nil
	}
	ids := make([]model.NodeID, 0, b.GetCardinality())
	for it := b.Iterator(); it.HasNext(); {
		ids = append(ids, model.NodeID(it.Next()))
	}
	return ids
}
