package plan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options holds the settings and dependencies of a Planner.
type Options struct {
	Store    intent.Store
	Epoch    uint64 // epoch of the journal: the first half of every generation
	Logger   *slog.Logger
	Registry prometheus.Registerer // nil: none
	Kinds    *kind.Registry        // nil: all kinds of Muster
	Now      func() time.Time      // nil: time.Now
	// Removed gets the results that the server must forget, before Apply returns. It has to write them into the journal.
	// After a crash RemovalsSince returns those that were lost.
	Removed func([]Removal)
}

// Planner compiles recorded changes of declared resources, and publishes the results in a Directory. Load, Apply,
// CatchUp, Preview, RemovalsSince and Collect exclude one another.
type Planner struct {
	o         Options
	groups    *groupNumbers
	compiler  *compiler
	directory *directory.Directory

	// The lock compiling is always taken before the lock mu.
	compiling   sync.Mutex // one list of changes at a time; guards definitions and draft
	definitions *definitionStore
	draft       *directory.Draft

	// mu guards the fleet: passes lock it, the Inspector read-locks it. Nobody does input or output while holding mu.
	mu       sync.RWMutex
	fleet    *fleet
	revision int64
	broken   uint64 // number of definitions that this version cannot compile
}

// New returns a planner without any nodes, which Load then reads from the database. The planner is ready after
// Load. The caller then calls Load.
func New(o Options) *Planner {
	if o.Kinds == nil {
		o.Kinds = kind.All()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Removed == nil {
		o.Removed = func([]Removal) {}
	}
	p := &Planner{o: o, groups: newGroupNumbers()}
	p.directory, p.draft = directory.New()
	p.compiler = newCompiler(p.groups, o.Kinds)
	p.definitions = newDefinitionStore(o.Store, p.draft)
	p.fleet = newFleet(p.groups, o.Now)
	if o.Registry != nil {
		o.Registry.MustRegister(metricsCollector{p})
	}
	return p
}

// Directory returns the in-memory table of nodes and assignments that the planner keeps up to date.
func (p *Planner) Directory() *directory.Directory { return p.directory }

// Load reads all declared resources from the database and compiles the resources. Call it once, before any other
// method.
func (p *Planner) Load(ctx context.Context) error {
	revision, err := p.o.Store.Revision(ctx)
	if err != nil {
		return fmt.Errorf("load the declared resources from the database: %w", err)
	}
	broken, err := p.definitions.load(ctx, p.o.Logger)
	if err != nil {
		return err
	}
	p.broken += broken
	var changes []intent.Change
	for _, kind := range p.compiler.names {
		rows, err := p.o.Store.List(ctx, intent.ListQuery{Kind: kind})
		if err != nil {
			return fmt.Errorf("load the declared resources from the database: list %s: %w", kind, err)
		}
		for _, row := range rows {
			changes = append(changes, intent.Change{Revision: revision, Key: row.Key, ID: row.ID, After: row.Body})
		}
	}
	if _, err := p.apply(ctx, changes, revision); err != nil {
		return err
	}
	return p.CatchUp(ctx) // compiles changes that were committed while Load read the resources
}

// Run compiles recorded changes of resources after each signal on the channel wake, until ctx ends. After an
// error of the store it tries again every second.
func (p *Planner) Run(ctx context.Context, wake <-chan struct{}) error {
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-retry:
		}
		retry = nil
		if err := p.CatchUp(ctx); err != nil && !errors.Is(err, context.Canceled) {
			p.o.Logger.Error("cannot compile changes; the server retries", "error", err)
			retry = time.After(time.Second)
		}
	}
}

// catchUpChanges is the largest number of changes that CatchUp applies in one pass.
const catchUpChanges = 10_000

// CatchUp applies all stored changes of declared resources that the planner has not applied yet
func (p *Planner) CatchUp(ctx context.Context) error {
	for {
		changes, err := p.o.Store.Changes(ctx, p.Revision(), catchUpChanges)
		if err != nil {
			return fmt.Errorf("read changes of declared resources from the database: %w", err)
		}
		if len(changes) == 0 {
			return nil
		}
		if _, err := p.Apply(ctx, changes); err != nil {
			return err
		}
	}
}

// Apply compiles committed changes of declared resources, and returns the nodes whose assignments changed. Deleted
// nodes are among them. A change that was applied before has no effect. After an error nothing is changed, and the
// caller can call Apply again.
func (p *Planner) Apply(ctx context.Context, changes []intent.Change) ([]model.NodeID, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	return p.apply(ctx, changes, changes[len(changes)-1].Revision)
}

// apply compiles changes of declared resources, and publishes the new assignments in the directory (table) of nodes
func (p *Planner) apply(ctx context.Context, changes []intent.Change, revision int64) ([]model.NodeID, error) {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	t, err := p.translate(ctx, changes)
	if err != nil {
		return nil, err
	}
	return p.commit(t, revision, nil), nil
}

// commit applies compiled changes to the planner's state, and makes the changed assignments visible to readers.
// Changed inventories count as changes, too. Then it publishes the directory, reports removals and notifies
// subscribers, in this order. The caller holds compiling.
func (p *Planner) commit(t *translation, revision int64, inventories map[model.NodeID]uint32) []model.NodeID {
	p.mu.Lock()
	pass := p.fleet.apply(t.edits, differingNodes(p.fleet, inventories))
	changed := p.fleet.build(pass, wire.Generation{Epoch: p.o.Epoch, Revision: uint64(revision)})
	p.fleet.removeUnusedSets()
	t.replaceDefinitions(p.fleet.definitions)
	p.revision = max(p.revision, revision)
	p.broken += t.broken
	p.fleet.publish(p.draft, pass, t)
	change := directory.Change{Revision: p.revision, Declarations: p.fleet.changedDeclarations(t), Dependencies: slices.ContainsFunc(t.edits, dependenciesDiffer),
		Receivers: slices.ContainsFunc(t.edits, receiversDiffer)}
	p.mu.Unlock()
	p.draft.Publish(change.Revision)

	for _, text := range pass.oversized {
		p.o.Logger.Error("an assignment is too large: its largest units are left out", "reason", text)
	}
	deleted := pass.deletedNodes()
	changed = slices.AppendSeq(changed, maps.Keys(deleted))
	change.Assignments = changed
	if removals := t.removals(pass.removed, deleted); len(removals) > 0 {
		p.o.Removed(removals)
	}
	if len(change.Assignments)+len(change.Declarations) > 0 || change.Dependencies || change.Receivers {
		p.draft.Notify(change)
	}
	return changed
}

// Revision returns the revision (version number) of the declared resources in the current assignments.
func (p *Planner) Revision() int64 { return p.directory.Revision() }

// TrustedGroup returns the name of one trusted group to which a node belongs, or an empty text. It considers all
// changes committed before the call. The name is empty if no trusted group contains the node. An unknown node, and
// anything else that makes the answer uncertain, is an error (model.Unavailable).
func (p *Planner) TrustedGroup(ctx context.Context, id model.NodeID) (string, error) {
	if err := p.CatchUp(ctx); err != nil {
		return "", model.Errorf(model.Unavailable, "cannot determine now whether node %d is in a trusted group: %w", id, err).WithHint("the machine can try again in a moment")
	}
	group, ok := p.directory.TrustedGroup(id)
	if !ok {
		return "", model.Errorf(model.Unavailable, "cannot determine whether node %d is in a trusted group: the group does not compile", id).WithHint("the machine can try again in a moment; list invalid resources: muster status")
	}
	return group, nil
}

// publish writes the changed nodes, groups and checks into the next version of the directory (table for readers).
// Sessions read the directory without a lock. Its cost depends on the number of changed records, not on the size of
// the fleet.
func (f *fleet) publish(draft *directory.Draft, p *recomputation, t *translation) {
	for _, e := range t.edits {
		switch def := newestDefinition(e.new, e.old).(type) {
		case *directory.Namespace:
			if old, ok := e.old.(*directory.Namespace); ok {
				draft.DeleteNamespace(old)
			}
			if e.new != nil {
				draft.SetNamespace(def)
			}
		case *resourceDef:
			if e.new == nil {
				draft.SetResource(def.ResourceKey, nil)
			} else {
				draft.SetResource(def.ResourceKey, def.spec)
			}
		case *unit:
			p.units[def.ID] = true
		}
	}
	for _, n := range p.deleted {
		draft.DeleteNode(n.def.ID)
	}
	for it := p.placed.Iterator(); it.HasNext(); {
		n := f.nodes[model.NodeID(it.Next())]
		record := directory.NodeEntry{Node: n.def.Node, Groups: n.groups.ids, Units: n.units.ids, Overridden: n.units.overridden, Generation: n.generation}
		if n.content != nil {
			record.Content = &n.content.SharedContent
		}
		draft.SetNode(record)
	}
	for _, list := range [...][]placement{p.removed, p.gained} {
		for _, at := range list {
			p.units[at.unit] = true
		}
	}
	for id := range p.units {
		if u := f.units[id]; u != nil {
			draft.SetUnit(directory.UnitEntry{Unit: u.def.Unit, Nodes: u.nodes.share()})
		} else {
			draft.DeleteUnit(id)
		}
	}
	for id := range p.regrouped {
		g := f.groups[id]
		draft.SetGroup(f.groupNumbers.name(id), directory.Group{Members: g.members.share(), Trusted: g.def != nil && g.def.trusted})
	}
	draft.SetGroupNames(f.groupNumbers.list())
}

// changedDeclarations returns the changed resources that agents never receive, such as Routes and Pipelines.
// These resources are not compiled for nodes.
func (f *fleet) changedDeclarations(t *translation) (list []route.Declaration) {
	rezoned := map[string]bool{} // namespaces whose time zone changed
	for _, e := range t.edits {
		old, _ := e.old.(*directory.Namespace)
		new, ok := e.new.(*directory.Namespace)
		if ok && (old == nil && new.Zone != "" || old != nil && old.Zone != new.Zone) {
			rezoned[new.Name] = true
		}
	}
	declare := func(r directory.ResourceKey, spec model.Spec) {
		d := route.Declaration{Kind: r.Kind, Name: r.Name, Spec: spec}
		if n := f.namespaces[r.Namespace]; n != nil {
			d.Zone = n.Zone
		}
		list = append(list, d)
	}
	zoned := func(r directory.ResourceKey) bool { return rezoned[r.Namespace] && r.Kind != "Silence" }
	if len(rezoned) > 0 {
		for r, def := range f.resources {
			if publishedKinds[r.Kind] && zoned(r) {
				declare(r, def.spec)
			}
		}
	}
	for _, key := range t.keys {
		r := directory.ResourceKey{Kind: key.Kind, Name: routeName(key.Namespace, key.Name)}
		if def, ok := t.defs[key].(*resourceDef); publishedKinds[key.Kind] && !ok {
			declare(r, nil)
		} else if publishedKinds[key.Kind] && !zoned(r) {
			declare(r, def.spec)
		}
	}
	return list
}

// publishedKinds has the kinds of resources that dispatcher and handlers read.
var publishedKinds = map[string]bool{"Window": true, "Route": true, "Silence": true, "Filter": true, "Mutator": true, "Pipeline": true, "Asset": true}

// dependenciesDiffer reports whether an edit changes what a check, node or trigger depends on.
func dependenciesDiffer(e definitionEdit) bool {
	switch newestDefinition(e.new, e.old).(type) {
	case *nodeDef:
		return upstreamOf(e.old) != upstreamOf(e.new)
	case *unit:
		return !slices.Equal(dependsOn(e.old), dependsOn(e.new)) || !slices.EqualFunc(triggersOf(e.old), triggersOf(e.new), func(a, b model.DefinitionTrigger) bool {
			return a.Name == b.Name && slices.Equal(a.DependsOn, b.DependsOn)
		})
	}
	return false
}

// receiversDiffer reports whether an edit changes which handlers are notified of problems. The problems are those of a
// check, node or namespace; the receivers are handlers, route and pipelines.
func receiversDiffer(e definitionEdit) bool {
	if e.old == nil || e.new == nil {
		return false // a new one has no problems, and the problems of a deleted one close
	}
	return !slices.Equal(receiversOf(e.old), receiversOf(e.new))
}

// receiversOf returns the handlers, route and pipelines that a compiled resource names
func receiversOf(def any) (list []string) {
	switch d := def.(type) {
	case *directory.Namespace:
		return d.Handlers
	case *nodeDef:
		if k := d.KeepaliveFailureReceivers(); k != nil {
			return slices.Concat(k.Handlers, []string{""}, k.Pipelines)
		}
	case *unit:
		if c := d.definition.AsCheck(); c != nil {
			return slices.Concat(c.Handlers, []string{"", c.Route}, c.Pipelines)
		}
		if c := d.definition.AsDirective(); c != nil {
			return append(slices.Clone(c.Handlers), "", c.Route)
		}
		if t := d.definition.AsTemplate(); t != nil {
			triggers := slices.Clone(t.Triggers)
			for i := range t.Rules {
				triggers = append(triggers, t.Rules[i].Triggers...)
			}
			for i := range triggers {
				list = append(list, triggers[i].Name, triggers[i].Route, "")
				list = append(list, triggers[i].Handlers...)
			}
		}
	}
	return list
}

// upstreamOf returns the upstream node of a node, such as a router. It returns zero if the node has none.
func upstreamOf(def any) directory.Upstream {
	if n, ok := def.(*nodeDef); ok && n.Upstream != nil {
		return *n.Upstream
	}
	return directory.Upstream{}
}

// dependsOn returns the checks on which a check depends. Other resources give nil.
func dependsOn(def any) []route.Name {
	if u, ok := def.(*unit); ok {
		return u.DependsOn
	}
	return nil
}

// triggersOf returns the triggers of a Template, which may depend on other triggers. The triggers of discovery rules
// also count. Other resources give nil.
func triggersOf(def any) (list []model.DefinitionTrigger) {
	u, ok := def.(*unit)
	if !ok || u.body == nil || u.definition.AsTemplate() == nil {
		return nil
	}
	c := u.definition.AsTemplate()
	all := slices.Clone(c.Triggers)
	for i := range c.Rules {
		all = append(all, c.Rules[i].Triggers...)
	}
	return slices.DeleteFunc(all, func(t model.DefinitionTrigger) bool { return len(t.DependsOn) == 0 })
}

// metricsCollector exports the planner's counters as Prometheus metrics. It reads them under the planner's lock when
// Prometheus asks, so counting costs the passes nothing.
type metricsCollector struct{ p *Planner }

var (
	passesDesc     = newDesc("passes_total", "Lists of changes compiled.")
	nodesDesc      = newDesc("nodes_visited_total", "Nodes whose groups and checks were computed.")
	groupsDesc     = newDesc("groups_evaluated_total", "Groups whose members were computed.")
	checksDesc     = newDesc("checks_evaluated_total", "Checks whose assigned nodes were computed.")
	conditionsDesc = newDesc("conditions_evaluated_total", "Evaluations of a condition on a node.")
	builtDesc      = newDesc("assignments_built_total", "Assignments composed, changed or not.")
	changedDesc    = newDesc("assignments_changed_total", "Assignments that changed.")
	brokenDesc     = newDesc("broken_definitions_total", "Stored resources that this version cannot compile.")
	oversizedDesc  = newDesc("oversized_nodes", "Nodes whose assignment would be too large, so that it lacks the largest units.")
	knownDesc      = prometheus.NewDesc("muster_plan_known", "Objects in the planner's memory, by kind.", []string{"kind"}, nil)
)

// newDesc returns the description of a planner metric for Prometheus.
func newDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("muster_plan_"+name, help, nil, nil)
}

// Describe sends the descriptions of all planner metrics to Prometheus.
func (c metricsCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect sends the planner's counters to Prometheus.
func (c metricsCollector) Collect(ch chan<- prometheus.Metric) {
	p := c.p
	p.mu.RLock()
	counts, broken, f := p.fleet.counts, p.broken, p.fleet
	oversized := f.oversized
	known := map[string]int{
		"nodes": len(f.nodes), "groups": len(f.groups), "checks": len(f.units),
		"conditions": len(f.conditions.byKey), "check_sets": len(f.unitSets.byKey), "definitions": p.directory.FleetSnapshot().Definitions(),
	}
	p.mu.RUnlock()
	ch <- prometheus.MustNewConstMetric(oversizedDesc, prometheus.GaugeValue, float64(oversized))
	for kind, n := range known {
		ch <- prometheus.MustNewConstMetric(knownDesc, prometheus.GaugeValue, float64(n), kind)
	}
	for desc, n := range map[*prometheus.Desc]uint64{
		passesDesc: counts.Passes, nodesDesc: counts.Nodes, groupsDesc: counts.Groups, checksDesc: counts.Units,
		conditionsDesc: counts.Conditions, builtDesc: counts.Built, changedDesc: counts.Changed, brokenDesc: broken,
	} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n))
	}
}

// Counts returns how much work the planner has done since the start, as counters.
func (p *Planner) Counts() Counts {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.fleet.counts
}
