package metric

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/wire"
)

// DiscoveryLimits has the largest number of discovered items of each namespace. Its functions write a decision to the
// journal and report a reached limit.
type DiscoveryLimits struct {
	Limit   func(model.NamespaceID) int // items; zero: no limit
	Record  func(context.Context, []journal.Entry) error
	Reached func(node model.NodeID, namespace model.NamespaceID, reason string)
}

// discoveryCheck is the pause between two comparisons of the discovered items with their limits.
const discoveryCheck = time.Second

// maxMarks limits the number of journal entries in one append of discovery decisions.
const maxMarks = 1000

// LimitDiscovery enforces the limit of discovered items in each namespace until ctx ends. Above it, the
// Templates that grew last are held: a mark in the journal takes items from them, so that a replay decides the
// same. Below it, marks release them. Call it when the replay of the journal has ended.
func (v *View) LimitDiscovery(ctx context.Context, o DiscoveryLimits, log *slog.Logger) error {
	seen, limits := ^uint64(0), map[model.NamespaceID]int{}
	for pause.For(ctx, discoveryCheck) == nil {
		changes := v.discoveries.Load()
		same := changes == seen
		for namespace, limit := range limits {
			same = same && o.Limit(namespace) == limit
		}
		if same {
			continue
		}
		marks := v.discoveryLimitEntries(o, limits)
		for part := range slices.Chunk(marks, maxMarks) {
			if err := o.Record(ctx, part); err != nil {
				if ctx.Err() == nil {
					log.Warn("cannot write marks of discovered items to the journal; trying again", "marks", len(part), "err", err)
				}
				changes = ^uint64(0)
				break
			}
		}
		seen = changes
	}
	return nil
}

// discoveryLimitEntries returns journal entries that pause or resume the creation of discovered items by
// Templates. They hold or release Templates, so that discovered items stay within the namespaces' limits. It
// also stores the limits.
func (v *View) discoveryLimitEntries(o DiscoveryLimits, limits map[model.NamespaceID]int) (marks []journal.Entry) {
	clear(limits)
	check := map[model.NamespaceID]bool{}
	for namespace, sum := range v.countDiscovery() {
		limit := o.Limit(namespace)
		limits[namespace] = limit
		if sum.held || limit > 0 && sum.items > limit {
			check[namespace] = true
		}
	}
	if len(check) == 0 {
		return nil
	}
	for namespace, units := range v.discoveringTemplates(check) {
		for _, m := range selectPausedTemplates(units, limits[namespace]) {
			if m.mark.Hold {
				o.Reached(m.node, namespace, fmt.Sprintf("the namespace has its limit of %d discovered items: at most %d stay of the %d of Template %s", limits[namespace], m.mark.Items, m.items, m.name))
			}
			marks = append(marks, journal.Entry{Section: journal.Section(m.section), Data: wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordDiscovery, Node: m.node, Discovery: &m.mark})})
		}
	}
	return marks
}

// discoveryCount is the number of discovered items in one namespace, with a flag for paused discovery.
type discoveryCount struct {
	items int
	held  bool // a Template is held
}

// countDiscovery returns the number of discovered items of each namespace with discovery rules.
func (v *View) countDiscovery() map[model.NamespaceID]discoveryCount {
	sums := map[model.NamespaceID]discoveryCount{}
	v.visitDiscoveringTemplates(func(of *shard.Node, _ model.Partition, u *templateState) {
		sum := sums[of.Namespace]
		sum.items += u.discoveredItems()
		sum.held = sum.held || u.limit.isDiscoveryPaused()
		sums[of.Namespace] = sum
	})
	return sums
}

// visitDiscoveringTemplates calls fn with each Template with discovery rules on each node. The partition is locked.
func (v *View) visitDiscoveringTemplates(fn func(of *shard.Node, section model.Partition, u *templateState)) {
	for i := range v.partitions {
		p := &v.partitions[i]
		p.Lock()
		for _, n := range p.SortedNodes() {
			for _, u := range p.nodes[n].units {
				if len(u.rules) > 0 {
					fn(p.Node(n), p.ID, u)
				}
			}
		}
		p.Unlock()
	}
}

// discoveringTemplate is a Template with discovery rules on one node.
type discoveringTemplate struct {
	node    model.NodeID
	section model.Partition
	name    string
	items   int // discovered
	waiting int // the most items that waiting entities would make
	held    bool
	grew    int64
	mark    wire.DiscoveryRecord // that changes it
}

// discoveringTemplates returns the Templates with discovery rules on the nodes of given namespaces, grouped by namespace.
func (v *View) discoveringTemplates(in map[model.NamespaceID]bool) map[model.NamespaceID][]discoveringTemplate {
	list := map[model.NamespaceID][]discoveringTemplate{}
	v.visitDiscoveringTemplates(func(of *shard.Node, section model.Partition, u *templateState) {
		if !in[of.Namespace] {
			return
		}
		one := discoveringTemplate{node: of.ID, section: section, name: u.Name, items: u.discoveredItems(), held: u.limit.isDiscoveryPaused(), grew: u.grew, mark: wire.DiscoveryRecord{Unit: u.Unit}}
		for k := range u.base.rules {
			one.waiting += max(0, len(u.discovered[k].Entities)-len(u.materialized[k].Entities)) * len(u.base.Rules[k].Items)
		}
		list[of.Namespace] = append(list[of.Namespace], one)
	})
	return list
}

// selectPausedTemplates selects the Templates of a namespace whose discovery must pause or may resume. It also
// returns their journal entries.
func selectPausedTemplates(list []discoveringTemplate, limit int) (out []discoveringTemplate) {
	total := 0
	for i := range list {
		total += list[i].items
	}
	slices.SortFunc(list, func(a, b discoveringTemplate) int {
		return cmp.Or(cmp.Compare(b.grew, a.grew), cmp.Compare(b.node, a.node), cmp.Compare(b.mark.Unit, a.mark.Unit))
	})
	if limit > 0 && total > limit {
		for i := 0; i < len(list) && total > limit; i++ {
			if one := list[i]; one.items > 0 {
				one.mark.Hold, one.mark.Items = true, uint32(max(0, one.items-(total-limit)))
				total -= one.items - int(one.mark.Items)
				out = append(out, one)
			}
		}
		return out
	}
	for _, one := range slices.Backward(list) {
		if one.held && (limit == 0 || total+one.waiting <= limit) {
			total += one.waiting
			out = append(out, one)
		}
	}
	return out
}

// DiscoveredItems returns the number of discovered items in a namespace.
func (v *View) DiscoveredItems(namespace model.NamespaceID) uint64 {
	return uint64(v.countDiscovery()[namespace].items)
}

// discoveredItems returns the number of items that discovery rules made.
func (u *templateState) discoveredItems() int { return len(u.items) - len(u.base.items) }

// applyDiscoveryPause applies the journal record that pauses or resumes the discovery of a Template on a node.
// A held Template keeps only its first discovered items.
func applyDiscoveryPause(w *metricApplier, node model.NodeID, m *wire.DiscoveryRecord) {
	n, ok := w.p.Find(node)
	if !ok {
		return
	}
	_, u := w.p.nodes[n].findTemplate(m.Unit)
	if u == nil {
		return
	}
	w.view.discoveries.Add(1)
	if !m.Hold {
		u.limit = u.limit.resumeDiscovery()
		w.createDiscoveredItems(n, u)
		w.setDeadline(n, &w.p.nodes[n])
		return
	}
	list := u.discovered
	u = w.replaceTemplateState(n, u, u.base, discovery.LimitItems(u.base.compileRules(), u.materialized, int(m.Items)))
	for i := range list {
		if !list[i].Equal(u.materialized[i]) {
			u.discovered[i] = list[i]
		}
	}
	u.limit = u.limit.pauseDiscovery()
	w.setDeadline(n, &w.p.nodes[n])
}

// removeLostItems removes the items of vanished entities while the discovery of new items is paused. Those
// entities have left the lists of the discovery rules.
func removeLostItems(w *metricApplier, n uint32, u *templateState) {
	list, kept := u.discovered, slices.Clone(u.materialized)
	for i := range kept {
		if rule := u.base.rules[i].Rule; rule != nil && list[i] != kept[i] {
			if s := rule.RetainKnown(list[i], kept[i]); !s.Equal(kept[i]) {
				kept[i] = s
			}
		}
	}
	if slices.Equal(kept, u.materialized) || !u.limit.allows(w.Received) {
		return
	}
	u = w.replaceTemplateState(n, u, u.base, kept)
	for i := range list {
		if !list[i].Equal(kept[i]) {
			u.discovered[i] = list[i]
		}
	}
}
