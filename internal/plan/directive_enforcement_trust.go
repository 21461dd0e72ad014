package plan

import (
	"reflect"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// A directive enforces only on nodes that an operator chose: by name, by an assigned group, by a trusted group. On a node
// that one of its policies selects by values that the machine reports (facts, labels and groups of its agent), the directive
// only audits, unless it says trusted: facts. The property NodeModeProperty of the node lists such directives.

// trustRules decides whether operators or the machines themselves chose the nodes of a directive. Machines can choose
// themselves by their facts.
type trustRules struct{ *fleet }

// newTrustRules returns the rules that decide whether operators alone chose a directive's nodes.
func newTrustRules(f *fleet) trustRules { return trustRules{f} }

// maxTrustDepth bounds the nesting of groups in the search for a trusted member.
const maxTrustDepth = 16

// operatorsChoseNode reports whether operators alone, not values from the machine, assign a directive to a node. A machine
// cannot choose these values.
func (f trustRules) operatorsChoseNode(u *unit, n *node) bool {
	return slices.ContainsFunc(u.policies, func(p policyTargets) bool {
		return f.targetsSelect(p.targets, p.policy.Namespace, n) && (p.targets.except == nil || f.operatorsChoseExceptions(p.targets.except)) && f.operatorsChoseTargets(p.targets, n, 0)
	})
}

// operatorsChoseTargets reports whether targets select a node without any choice by the machine itself. They name the node, or
// a group that the machine cannot join by itself.
func (f trustRules) operatorsChoseTargets(t *targets, n *node, depth int) bool {
	return t.where != nil && t.where.IsConstant() && f.conditions.matches(t.where).Contains(uint32(n.def.ID)) ||
		slices.ContainsFunc(t.nodes, func(name route.Name) bool { return matchesNode(name, n.def.Name) }) ||
		slices.ContainsFunc(t.groups, func(g directory.GroupID) bool { return f.operatorsAssignedGroup(n, g, depth) })
}

// operatorsAssignedGroup reports whether an operator or a join token, not the machine, put a node into a group. The group
// is trusted, or an operator or a join token put the node there.
func (f trustRules) operatorsAssignedGroup(n *node, g directory.GroupID, depth int) bool {
	if !n.groups.has(g) || depth > maxTrustDepth {
		return false
	}
	group := f.groups[g]
	if group.def == nil || group.def.trusted {
		return true // only operators and tokens put nodes in a group without definition
	}
	if _, own := slices.BinarySearch(n.def.groups, g); own || slices.Contains(n.def.requests, joinRequest{g, true}) {
		return true
	}
	return f.operatorsChoseTargets(group.def.targets, n, depth+1)
}

// operatorsChoseExceptions reports whether operators alone, not the machines, decide which nodes the targets
// exclude. So no machine can leave the exception.
func (f trustRules) operatorsChoseExceptions(t *targets) bool {
	return (t.where == nil || t.where.IsConstant()) && !slices.ContainsFunc(t.groups, func(g directory.GroupID) bool {
		group := f.groups[g]
		return group != nil && group.def != nil && !group.def.trusted
	})
}

// auditsOnly reports whether a directive only audits on a node because no operator chose the node. By the given mode
// of the node it would enforce there.
func (f trustRules) auditsOnly(u *unit, d *model.DirectiveDefinition, mode *model.NodeMode, n *node) bool {
	return !u.trustsFacts && mode.EnforcesAny(d) && !f.operatorsChoseNode(u, n)
}

// untrustedSource names the group or condition through which a machine itself, not an operator, selects a node. The
// group or condition belongs to a policy.
func (f inspection) untrustedSource(u *unit, n *node) string {
	for _, p := range u.policies {
		switch t := p.targets; {
		case !f.targetsSelect(t, p.policy.Namespace, n):
			continue
		case t.except != nil && !newTrustRules(f.fleet).operatorsChoseExceptions(t.except):
			return "the exception of policy " + nameFor(p.policy, n)
		default:
			for _, g := range t.groups {
				if n.groups.has(g) {
					return "group " + f.groupText(g)
				}
			}
			return "the condition of policy " + nameFor(p.policy, n)
		}
	}
	return "no policy"
}

// countAuditOnlyNodes counts the nodes on which a directive must not enforce although its mode says so. The counts are by the
// group or condition that selects the nodes.
func (f inspection) countAuditOnlyNodes(u *unit) map[string]int {
	d := u.definition.AsDirective()
	if d == nil || u.trustsFacts || f.units[u.ID] == nil {
		return nil
	}
	var found map[string]int
	r := f.resolver()
	for id := range bitmapIDs(f.units[u.ID].nodes.Bitmap) {
		n := f.nodes[model.NodeID(id)]
		if mode := r.declaredMode(n); newTrustRules(f.fleet).auditsOnly(u, d, &mode, n) {
			if found == nil {
				found = map[string]int{}
			}
			found[f.untrustedSource(u, n)]++
		}
	}
	return found
}

// enforcementWarnings returns warnings for directives of a changed policy that only audit on some nodes. The outcome
// of a directive that is written, too, has the warning itself.
func (f inspection) enforcementWarnings(directives []intent.Key, t *translation, writes []intent.Write) (out []string) {
	for _, key := range directives {
		u, _ := t.defs[key].(*unit)
		if u == nil || slices.ContainsFunc(writes, func(w intent.Write) bool { return w.Key == key }) {
			continue
		}
		l := intent.Placement{AuditOnly: f.countAuditOnlyNodes(u)}
		if text := l.AuditOnlyWarning(); text != "" {
			out = append(out, "directive "+u.Name.Name+" "+text)
		}
	}
	return out
}

// mayEnforce reports whether a directive can enforce (change things) on any node. To enforce means to change the node.
// Then operators must choose its nodes. A fixed mode of a namespace makes each directive enforce.
func (f trustRules) mayEnforce(u *unit) bool {
	if u == nil || u.trustsFacts || u.definition.AsDirective() == nil {
		return false
	}
	if u.body.enforces() || u.next != nil && u.next.body.enforces() {
		return true
	}
	for _, ns := range f.namespaces {
		if ns.PolicyMode.Fixed && ns.PolicyMode.Mode == model.ModeEnforce {
			return true
		}
	}
	return false
}

// enforces reports whether a directive, or any of its components (checked parts), has the mode enforce. A
// namespace or node may say otherwise.
func (b *body) enforces() bool {
	d := b.definition.AsDirective()
	return d.Mode != model.ModeAudit || d.ForcesComponents()
}

// recheckUnitTrust queues an edited directive for recomputation, because operators may no longer choose its
// nodes. The edit may change whether operators chose the directive's nodes.
func (p *recomputation) recheckUnitTrust(f *fleet, id model.UnitID, old, new *unit) {
	if (newTrustRules(f).mayEnforce(old) || newTrustRules(f).mayEnforce(new)) && (old.trustsFacts != new.trustsFacts || !reflect.DeepEqual(old.policies, new.policies)) {
		p.retrusted[id] = true
	}
}

// recheckGroupTrust queues the directives of an edited group for recomputation, because its members may be less
// trusted. The edit may change whether operators chose the group's members.
func (p *recomputation) recheckGroupTrust(f *fleet, id directory.GroupID, old, new *groupDef) {
	if old != nil && new != nil && old.trusted == new.trusted && reflect.DeepEqual(old.targets, new.targets) {
		return
	}
	reached := map[directory.GroupID]bool{}
	var up func(directory.GroupID)
	up = func(g directory.GroupID) {
		if !reached[g] {
			reached[g] = true
			for _, parent := range f.group(g).parents {
				up(parent)
			}
		}
	}
	up(id)
	for unit, u := range f.units {
		if u.def == nil || !newTrustRules(f).mayEnforce(u.def) {
			continue
		}
		for _, by := range u.def.policies {
			for t := by.targets; t != nil; t = t.except {
				if slices.ContainsFunc(t.groups, func(g directory.GroupID) bool { return reached[g] }) {
					p.retrusted[unit] = true
				}
			}
		}
	}
}
