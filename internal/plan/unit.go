package plan

import (
	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// unit is one declared thing that lands on nodes, as its kind's compile function made it (see
// unitCompilers). Immutable: an edit makes a new one. The passes know no more of a kind than this.
type unit struct {
	*directory.Unit          // kind, id, name: everything that readers see
	targets         *targets // nil: it lands on no node
	proxies         *targets // proxy nodes that it is about; nil: it is about the nodes that run it
	*body                    // in force
	next            *rollout // second body in force; nil: all nodes have the first

	source *declared    // compiled again when one of uses changes
	uses   []intent.Key // resources whose text is part of the body
	needs  needs        // resources that it names, for their Placement
}

// body is one compiled definition of a unit.
type body struct {
	chunk      *model.Chunk
	size       int      // of the encoded chunk, in bytes
	properties []string // that it reads, ascending
	// try runs the body's templates with the properties of a node, as the agent will; the error says why
	// the agent cannot run it. Nil: the body reads no properties.
	try func(model.PropertyValues) error
}

// rollout is a body that some nodes of a unit have instead of the first. An edit of the unit with other
// nodes moves nodes over; an edit with the new body alone ends the roll-out.
type rollout struct {
	*body
	nodes *roaring.Bitmap
}

// onNext reports whether a node has the second body of the unit; false for nil.
func (u *unit) onNext(id uint32) bool { return u != nil && u.next != nil && u.next.nodes.Contains(id) }

// in returns the body that nodes of a unit set have.
func (u *unit) in(s *unitSet) *body {
	if u.next != nil && s.onNext(u.ID) {
		return u.next.body
	}
	return u.body
}

// movedBetween returns the nodes that have another of the two bodies after an edit.
func movedBetween(old, new *unit) *roaring.Bitmap {
	nodes := func(u *unit) *roaring.Bitmap {
		if u == nil || u.next == nil {
			return roaring.New()
		}
		return u.next.nodes
	}
	return roaring.Xor(nodes(old), nodes(new))
}

// targetLists returns the targets by which the unit finds nodes; none where it lands nowhere.
func (u *unit) targetLists() (list []*targets) {
	if u == nil || u.targets == nil {
		return nil
	}
	list = append(list, u.targets)
	if u.proxies != nil {
		list = append(list, u.proxies)
	}
	return list
}

// needs are the names of resources that a unit or another resource needs, as its namespace writes them.
type needs struct{ assets, secrets, hooks, pipelines, handlers, routes []string }

// reads returns the properties that a body of the unit reads, ascending within each body.
func (u *unit) reads() []string {
	if u.next == nil {
		return u.properties
	}
	return append(u.properties[:len(u.properties):len(u.properties)], u.next.properties...)
}
