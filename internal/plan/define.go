package plan

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

func (f *fleet) define(p *pass, e edit) {
	switch def := first(e.new, e.old).(type) {
	case *nodeDef:
		old, _ := e.old.(*nodeDef)
		new, _ := e.new.(*nodeDef)
		f.defineNode(p, old, new)
	case *groupDef:
		old, _ := e.old.(*groupDef)
		new, _ := e.new.(*groupDef)
		f.defineGroup(p, def.id, old, new)
	case *checkDef:
		old, _ := e.old.(*checkDef)
		new, _ := e.new.(*checkDef)
		f.defineCheck(p, def.id, old, new)
	case *propertyDef:
		if old, ok := e.old.(*propertyDef); ok {
			at := propertyPlace{old.property, old.scope}
			f.properties[at] = slices.DeleteFunc(f.properties[at], func(d *propertyDef) bool { return d == old })
			if len(f.properties[at]) == 0 {
				delete(f.properties, at)
			}
			f.revalue(p, at, -1)
		}
		if new, ok := e.new.(*propertyDef); ok {
			at := propertyPlace{new.property, new.scope}
			f.properties[at] = append(f.properties[at], new)
			f.revalue(p, at, 1)
		}
	case *namespaceDef:
		if old, ok := e.old.(*namespaceDef); ok {
			delete(f.namespaces, old.name)
			delete(f.namespaceOf, old.id)
		}
		if new, ok := e.new.(*namespaceDef); ok {
			f.namespaces[new.name] = new
			f.namespaceOf[new.id] = new.name
		}
	case *handlerDef:
		delete(f.handlers, def.ref)
		if new, ok := e.new.(*handlerDef); ok {
			f.handlers[new.ref] = new
		}
	case *secretDef:
		delete(f.secrets, def.ref)
		if new, ok := e.new.(*secretDef); ok {
			f.secrets[new.ref] = new
		}
	case *routingDef:
		_, there := e.new.(*routingDef)
		switch spec := def.spec.(type) {
		case *model.PipelineSpec:
			keep(f.pipelines, def.ref, spec, there)
		case *model.RouteSpec:
			keep(f.routes, def.ref, spec, there)
		case *model.FilterSpec:
			keep(f.filters, def.ref, spec, there)
		case *model.MutatorSpec:
			keep(f.mutators, def.ref, spec, there)
		}
	}
}

// keep keeps what is there, and nothing else.
func keep[S any](in map[ref]S, at ref, spec S, there bool) {
	if delete(in, at); there {
		in[at] = spec
	}
}

func first(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

func (f *fleet) defineNode(p *pass, old, new *nodeDef) {
	if old != nil {
		id := uint32(old.id)
		for _, g := range old.groups {
			f.group(g).own.Remove(id)
		}
		for _, c := range old.claims {
			f.group(c.group).claimant(id, c, false)
		}
		for _, l := range old.labels {
			clearBit(f.byLabel, l, id)
			clearBit(f.byLabelKey, l.Key, id)
		}
		delete(f.byName, old.ref)
		f.byBareName[old.name] = remove(f.byBareName[old.name], old.id)
		if len(f.byBareName[old.name]) == 0 {
			delete(f.byBareName, old.name)
		}
		if f.byUID[old.uid] == old.id {
			delete(f.byUID, old.uid)
		}
		f.proxies.Remove(id)
		clearBit(f.inNamespace, old.ns, id)
		if new == nil || new.ns != old.ns {
			f.conditionsOver(old.ns, func(s *conditionState) { s.matches.Remove(id) })
		}
	}
	if new == nil {
		f.removeNode(p, old.id)
		return
	}
	id := uint32(new.id)
	for _, g := range new.groups {
		f.group(g).own.Add(id)
	}
	for _, c := range new.claims {
		f.group(c.group).claimant(id, c, true)
	}
	for _, l := range new.labels {
		bitmapOf(f.byLabel, l).Add(id)
		bitmapOf(f.byLabelKey, l.Key).Add(id)
	}
	f.byName[new.ref] = new.id
	f.byBareName[new.name] = insert(f.byBareName[new.name], new.id)
	if new.uid != uuid.Nil {
		f.byUID[new.uid] = new.id
	}
	bitmapOf(f.inNamespace, new.ns).Add(id)
	f.all.Add(id)
	if new.proxy {
		f.proxies.Add(id)
	}
	if n := f.nodes[new.id]; n != nil {
		if n.def.proxy != new.proxy {
			p.turned = append(p.turned, n.checks.ids...)
		}
		n.def = new
	} else {
		f.nodes[new.id] = &node{def: new, groups: f.groupSets.empty, checks: f.checkSets.empty}
		f.groupSets.empty.refs++
		f.checkSets.empty.refs++
	}
	p.nodes.Add(id)
}

func (f *fleet) removeNode(p *pass, id model.NodeID) {
	n := f.nodes[id]
	for _, g := range n.groups.ids {
		f.groups[g].members.Remove(uint32(id))
	}
	for _, c := range n.checks.ids {
		f.checks[c].holders.Remove(uint32(id))
		p.lost = append(p.lost, holding{id, c})
	}
	f.groupSets.move(&n.groups, f.groupSets.empty)
	f.checkSets.move(&n.checks, f.checkSets.empty)
	f.groupSets.empty.refs--
	f.checkSets.empty.refs--
	f.excess -= min(n.excess, 1)
	delete(f.nodes, id)
	f.all.Remove(uint32(id))
	p.nodes.Remove(uint32(id))
	p.deleted = append(p.deleted, n)
}

func (f *fleet) defineGroup(p *pass, id gid, old, new *groupDef) {
	g := f.group(id)
	g.def = new
	var before, after targets
	if old != nil {
		before = *old.targets
		f.mention(p, before, func(u *users) { u.groups = remove(u.groups, id) })
		for _, child := range before.groups {
			f.group(child).parents = remove(f.group(child).parents, id)
		}
	}
	if new != nil {
		after = *new.targets
		for _, c := range after.conditions() {
			f.acquire(c, p)
		}
		f.mention(p, after, func(u *users) { u.groups = insert(u.groups, id) })
		for _, child := range after.groups {
			f.group(child).parents = insert(f.group(child).parents, id)
		}
	}
	for _, c := range before.conditions() {
		f.release(c)
	}
	p.groups[id] = true
	if (old != nil && old.trusted) != (new != nil && new.trusted) {
		for _, parent := range g.parents { // a trusted one hears it from now on, or no more
			p.groups[parent] = true
		}
	}
	for _, def := range []*groupDef{old, new} {
		if def == nil {
			continue
		}
		for _, v := range def.props {
			f.revalue(p, propertyPlace{v.name, scope{level: grouped, group: id}}, 0)
		}
	}
}

func (f *fleet) defineCheck(p *pass, id model.CheckID, old, new *checkDef) {
	c := f.checks[id]
	if old != nil {
		delete(f.checkByName, old.ref)
		for _, name := range old.props {
			f.readers[name] = remove(f.readers[name], id)
		}
		for _, t := range old.mentions() {
			f.mention(p, *t, func(u *users) { u.checks = remove(u.checks, id) })
			for _, g := range t.groups {
				f.group(g).checks = remove(f.group(g).checks, id)
			}
		}
	} else {
		c = &check{holders: roaring.New()}
		f.checks[id] = c
	}
	if new != nil {
		c.def = new
		f.checkByName[new.ref] = id
		for _, name := range new.props {
			f.readers[name] = insert(f.readers[name], id)
		}
		for _, t := range new.mentions() {
			for _, cond := range t.conditions() {
				f.acquire(cond, p)
			}
			f.mention(p, *t, func(u *users) { u.checks = insert(u.checks, id) })
			for _, g := range t.groups {
				f.group(g).checks = insert(f.group(g).checks, id)
			}
		}
	} else {
		c.def = nil // retarget takes it from its holders, then forgets it
	}
	for _, t := range old.mentions() {
		for _, cond := range t.conditions() {
			f.release(cond)
		}
	}
	p.checks[id] = true
	if old != nil && new != nil && old.chunk != new.chunk {
		p.redefine[id] = old
	}
	if old != nil && new != nil && (old.proxied == nil) != (new.proxied == nil) {
		// Who runs it has an event of its own before or after, not both.
		list := &p.lost
		if new.proxied == nil {
			list = &p.gained
		}
		for n := range values32(f.runners(c)) {
			*list = append(*list, holding{model.NodeID(n), id})
		}
	}
}

// mentions are the targets that name whom the check lands on; none where it runs nowhere.
func (d *checkDef) mentions() (list []*targets) {
	if d == nil || d.targets == nil {
		return nil
	}
	list = append(list, d.targets)
	if d.proxied != nil {
		list = append(list, d.proxied)
	}
	return list
}

// mention enters somebody in, or strikes him from, the indexes by node name and by
// condition. The condition must be acquired.
func (f *fleet) mention(p *pass, t targets, change func(*users)) {
	for _, r := range t.nodes {
		change(f.usersOf(r))
		f.dropUsers(r)
	}
	if t.where != nil {
		change(&f.conditions[t.where.key].users)
	}
}
