package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Whoever holds a token joins under a name that he chooses. Where an operator then brings
// such a node into a trusted group, by its name or its labels, he is told.

// trustedMembers are the members of trusted groups now. The bitmaps are the caller's.
func (f *fleet) trustedMembers() map[directory.GroupID]*roaring.Bitmap {
	members := map[directory.GroupID]*roaring.Bitmap{}
	for g, group := range f.groups {
		if group.def != nil && group.def.trusted {
			members[g] = group.members.Clone()
		}
	}
	return members
}

// trusting says, for each write, which nodes come into trusted groups by it whose machines
// joined by a token. before are the trustedMembers of before.
func (f *fleet) tokenWarnings(writes []intent.Write, before map[directory.GroupID]*roaring.Bitmap) map[intent.Key][]string {
	written := make(map[intent.Key]bool, len(writes))
	for _, w := range writes {
		written[w.Key] = w.Body != nil
	}
	out := map[intent.Key][]string{}
	for g, members := range f.trustedMembers() {
		if was := before[g]; was != nil {
			members.AndNot(was)
		}
		var others []string
		for id := range values32(members) {
			d := f.nodes[model.NodeID(id)].def
			if d.grant == nil || d.grant.token == "" {
				continue
			}
			if key := (intent.Key{Kind: "Node", Namespace: d.Namespace, Name: d.Name.Name}); written[key] {
				out[key] = append(out[key], fmt.Sprintf("it comes into the trusted group %s, and its machine joined with %s, under a name that it chose: look whether it is the one that you mean, muster describe node %s -n %s",
					f.groupText(g), d.grant.text, d.Name.Name, d.Namespace))
				continue
			}
			others = append(others, d.Name.String())
		}
		at := f.groupNumbers.name(g)
		if key := (intent.Key{Kind: "Group", Namespace: at.Namespace, Name: at.Name}); len(others) > 0 && written[key] {
			out[key] = append(out[key], "it is trusted, and "+joinedByToken(others)+": look whether they are those that you mean, muster describe node NAME")
		}
	}
	for _, warnings := range out {
		slices.Sort(warnings)
	}
	return out
}

// joinedByToken names some of the nodes, and says how many they are.
func joinedByToken(nodes []string) string {
	slices.Sort(nodes)
	n, more := len(nodes), ""
	if n > 5 {
		nodes, more = nodes[:5], ", …"
	}
	if n == 1 {
		return "a node comes into it whose machine joined by a token, under a name that it chose: " + nodes[0]
	}
	return fmt.Sprintf("%d nodes come into it whose machines joined by a token, under names that they chose: %s%s", n, strings.Join(nodes, ", "), more)
}
