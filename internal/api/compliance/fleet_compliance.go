package compliance

import (
	"cmp"
	"context"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
)

// FleetCompliance has the present compliance of all nodes, with totals by node, directive and policy. Each
// refresh judges only the directives on nodes whose run, declaration or placement changed, and those whose
// report is overdue since.
type FleetCompliance struct {
	stores view.Stores // Directory, Intent and Now, of all namespaces
	statusEvaluator

	reading  sync.Mutex // guards declared
	declared declarations

	refreshing sync.Mutex // held by a refresh, also while it places policies: that may wait for the planner
	mu         sync.Mutex // guards the fields below and judge; only a refresh changes them
	tally      *complianceTotals
	placements directory.FleetSnapshot // of the last refresh
	policies   []model.Resource        // as the tally has them
	units      map[model.UnitID]*directory.Unit
	calendars  map[model.DefinitionID]time.Time // last due times
	nodes      map[model.NodeID]*assignedNode
	unplaced   map[string]string // logged errors of policies; the key is the policy's name
}

// declarations has the declared directives and policies, as read together with one snapshot of the node
// directory.
type declarations struct {
	placements directory.FleetSnapshot
	units      map[model.UnitID]*directory.Unit
	begins     map[model.UnitID]time.Time // nil: nothing has been read
	policies   []model.Resource
}

// assignedNode has a node with its assigned policy directives, and the compliance of each directive.
type assignedNode struct {
	nodeCounts
	directory.NodeEntry
	next    uint32         // no pair expires before, Unix s
	ran     []model.UnitID // directives whose runs changed since the last refresh
	all     bool           // all its directives have to be judged
	moved   bool           // directives in a roll-out have to be judged: the node may have another version of them
	deleted bool
}

// NewFleetCompliance returns an empty FleetCompliance, which the first refresh fills. The first refresh
// computes the compliance of all nodes.
func NewFleetCompliance(o Options, stores view.Stores) *FleetCompliance {
	return &FleetCompliance{stores: stores, statusEvaluator: statusEvaluator{Options: o}, tally: newComplianceTotals(nil), nodes: map[model.NodeID]*assignedNode{}, unplaced: map[string]string{}}
}

// refreshInterval is the pause between refreshes while nobody asks, so that a request finds little to judge.
const refreshInterval = time.Second

// Run refreshes the compliance of all nodes every second until ctx ends. A refresh that fails is repeated by
// the next one, and a request returns its error.
func (s *FleetCompliance) Run(ctx context.Context) error {
	for pause.For(ctx, refreshInterval) == nil {
		_ = s.refresh(ctx)
	}
	return nil
}

// declarationTimes returns, for each policy directive, the time of the last change of its declaration. Nobody
// may change the map.
func (s *FleetCompliance) declarationTimes(ctx context.Context) (map[model.UnitID]time.Time, error) {
	declared, err := s.readDeclarations(ctx, s.Placements())
	return declared.begins, err
}

// report returns the rows of a compliance report, such as one per policy, and their total.
func (s *FleetCompliance) report(ctx context.Context, of *rowSelection) (total reportRow, rows map[rowKey]*reportRow, err error) {
	if err := s.refresh(ctx); err != nil {
		return total, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	total, rows = s.tally.report(of, s.placements)
	return total, rows, nil
}

// refreshedPolicies refreshes the compliance, and returns all policies with their nodes and directives. It also
// returns the names and groups of all nodes.
func (s *FleetCompliance) refreshedPolicies(ctx context.Context) (policies []*resolvedPolicy, names directory.FleetSnapshot, err error) {
	err = s.refresh(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.tally.policies {
		policies = append(policies, p.resolvedPolicy)
	}
	return policies, s.placements, err
}

// refresh updates the compliance of all nodes after changes of runs, declarations or assignments. An error
// changes nothing.
func (s *FleetCompliance) refresh(ctx context.Context) error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	placements := s.Placements()
	isNew := placements != s.placements
	var declared declarations
	var policies []*resolvedPolicy
	selects := false // policies may select other nodes or directives
	if isNew {
		var err error
		if declared, err = s.readDeclarations(ctx, placements); err != nil {
			return err
		}
		if selects = s.selectionDiffers(&declared, placements); selects {
			policies = s.resolvePolicies(declared.policies)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startEvaluation(s.stores.Now())
	changed := map[model.UnitID]bool{} // directives to be judged on all nodes
	if isNew {
		s.storeDirectives(&declared, changed)
		s.storeNodes(placements)
	}
	if selects {
		s.tally.setPolicies(policies)
		s.policies = declared.policies
	}
	var staged []model.UnitID // directives in a roll-out
	for id, unit := range s.units {
		if unit.Rollout != nil {
			staged = append(staged, id)
		}
	}
	s.addDueDirectives(changed)
	for _, c := range s.Changes(s.now) {
		switch n := s.nodes[c.Node]; {
		case n == nil:
		case c.Directive == 0:
			n.all = true
		default:
			n.ran = append(n.ran, c.Directive)
		}
	}
	now := uint32(s.now.Unix())
	var list []model.UnitID
	for id, n := range s.nodes {
		if n.deleted {
			s.tally.remove(&n.nodeCounts)
			delete(s.nodes, id)
			continue
		}
		list = append(list[:0], n.ran...)
		n.ran = n.ran[:0]
		for unit := range changed {
			list = append(list, unit)
		}
		if n.moved {
			list = append(list, staged...)
		}
		if n.all {
			list = append(list[:0], n.Units...)
		}
		if n.all || n.next <= now {
			n.next = math.MaxUint32
			for i := range n.pairs {
				if n.all || n.pairs[i].until <= now {
					list = append(list, n.pairs[i].directive)
				} else {
					n.next = min(n.next, n.pairs[i].until)
				}
			}
		}
		if len(list) > 0 {
			slices.Sort(list)
			s.evaluateNode(n, slices.Compact(list))
		}
	}
	return nil
}

// evaluateNode computes the component counts of some policy directives on a node again, and replaces the old
// counts. The directives are in ascending order.
func (s *FleetCompliance) evaluateNode(n *assignedNode, directives []model.UnitID) {
	var runs []reducer.Run
	if n.all {
		runs = s.Runs(n.id)
	}
	pairs := make([]directiveCounts, 0, len(directives))
	for _, id := range directives {
		unit := s.units[id]
		if _, placed := slices.BinarySearch(n.Units, id); !placed || unit == nil {
			pairs = append(pairs, directiveCounts{directive: id})
			continue
		}
		var run *reducer.Run
		if n.all {
			if i, ok := reducer.FindRun(runs, id); ok {
				run = &runs[i]
			}
		} else if last, ok := s.LastRun(n.id, id); ok {
			run = &last
		}
		s.codes = s.codes[:0]
		d := s.evaluateDirective(n.id, unit, run)
		until := uint32(math.MaxUint32)
		if !d.until.IsZero() {
			until = uint32(min(d.until.Unix(), math.MaxUint32))
		}
		n.next = min(n.next, until)
		pairs = append(pairs, directiveCounts{id, until, s.tally.result(n.namespace, &d)})
	}
	n.all, n.moved = false, false
	s.tally.replaceCounts(&n.nodeCounts, pairs)
}

// addDueDirectives adds to the set `changed` each policy directive whose cron schedule came due since the last
// refresh.
func (s *FleetCompliance) addDueDirectives(changed map[model.UnitID]bool) {
	calendars := map[model.DefinitionID]time.Time{}
	for id, unit := range s.units {
		versions := []*model.Definition{unit.Definition}
		if unit.Rollout != nil {
			versions = append(versions, unit.Rollout.New)
		}
		for _, v := range versions {
			if d := v.AsDirective(); d.Cron != "" {
				calendars[d.ID] = s.lastDueTime(d)
				changed[id] = changed[id] || !calendars[d.ID].Equal(s.calendars[d.ID])
			}
		}
	}
	maps.DeleteFunc(changed, func(_ model.UnitID, is bool) bool { return !is })
	s.calendars = calendars
}

// readDeclarations returns the declared directives and policies of one snapshot of the node directory. It reads
// them only where directives or policies changed, and never waits for the planner.
func (s *FleetCompliance) readDeclarations(ctx context.Context, placements directory.FleetSnapshot) (declarations, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	is := s.declared
	if is.placements == placements {
		return is, nil
	}
	units := placements.Directives()
	if is.begins == nil || !maps.Equal(units, is.units) {
		var err error
		if is.begins, is.policies, err = readChangeTimes(ctx, s.stores.Intent); err != nil {
			return declarations{}, err
		}
	}
	is.placements, is.units = placements, units
	s.declared = is
	return is, nil
}

// selectionDiffers reports whether policies may apply to other nodes, or contain other directives, than at the
// last refresh. Only then must the refresh wait for the planner. A condition on inventories may select others
// in each version of the directory.
func (s *FleetCompliance) selectionDiffers(declared *declarations, placements directory.FleetSnapshot) bool {
	if !slices.EqualFunc(s.policies, declared.policies, func(a, b model.Resource) bool {
		return a.Metadata.Namespace == b.Metadata.Namespace && a.Metadata.Name == b.Metadata.Name && reflect.DeepEqual(a.Spec, b.Spec) && !readsInventory(a.Spec.(*model.PolicySpec).Targets)
	}) || !maps.EqualFunc(s.units, declared.units, func(a, b *directory.Unit) bool { return a.Name == b.Name }) {
		return true
	}
	nodes := 0
	for id, node := range placements.Nodes() {
		if n := s.nodes[id]; n == nil || n.Node != node.Node || !slices.Equal(n.Groups, node.Groups) {
			return true
		}
		nodes++
	}
	return nodes != len(s.nodes)
}

// readsInventory reports whether the conditions of a policy's targets may use inventories of nodes.
func readsInventory(t *model.Targets) bool {
	return t != nil && (strings.Contains(t.Where, "inventory") || readsInventory(t.Except))
}

// resolvePolicies finds the nodes and directives of each policy. A policy whose targets do not compile has none; the log
// says so once.
func (s *FleetCompliance) resolvePolicies(policies []model.Resource) (placed []*resolvedPolicy) {
	for i := range policies {
		p, err := resolvePolicy(s.stores.Directory, policies[i].Metadata.Namespace, policies[i].Metadata.Name, policies[i].Spec.(*model.PolicySpec))
		placed = append(placed, p)
		name := p.namespace + "/" + p.name
		if err == nil {
			delete(s.unplaced, name)
		} else if s.unplaced[name] != err.Error() {
			s.unplaced[name] = err.Error()
			s.Log.Warn("reports of compliance leave out the nodes of a policy, because its targets do not compile", "policy", name, "err", err)
		}
	}
	return placed
}

// storeDirectives stores the declared directives of a new snapshot, and adds changed directives to the set
// `changed`. It adds each directive with another declaration to changed.
func (s *FleetCompliance) storeDirectives(declared *declarations, changed map[model.UnitID]bool) {
	for id, unit := range declared.units {
		if s.units[id] != unit || !s.begins[id].Equal(declared.begins[id]) {
			changed[id] = true
		}
	}
	s.units, s.begins = declared.units, declared.begins
}

// storeNodes stores the assignments and groups of all nodes of a new snapshot.
func (s *FleetCompliance) storeNodes(placements directory.FleetSnapshot) {
	s.placements = placements
	for _, n := range s.nodes {
		n.deleted = true
	}
	for id, node := range placements.Nodes() {
		n := s.nodes[id]
		if n != nil && n.namespace != node.Namespace {
			s.tally.remove(&n.nodeCounts)
			n = nil
		}
		if n == nil {
			n = &assignedNode{nodeCounts: nodeCounts{id: id, namespace: node.Namespace}, all: true}
			s.nodes[id], s.tally.nodes[id] = n, &n.nodeCounts
		}
		n.all = n.all || unsafe.SliceData(n.Units) != unsafe.SliceData(node.Units) || len(n.Units) != len(node.Units)
		n.moved = n.moved || n.Content != node.Content
		n.NodeEntry, n.deleted, n.groups = node, false, node.Groups
	}
}

// readChangeTimes returns the time of the last change of each directive's declaration, and all policies. A
// change of the directive, its technique or one of its policies counts. It returns the policies, too.
func readChangeTimes(ctx context.Context, stored view.Intent) (begins map[model.UnitID]time.Time, policies []model.Resource, err error) {
	begins = map[model.UnitID]time.Time{}
	techniques, directives := map[string]time.Time{}, map[string]model.UnitID{}
	note := func(id model.UnitID, at time.Time) {
		if at.After(begins[id]) {
			begins[id] = at
		}
	}
	for _, kind := range []string{"Technique", "Directive", "Policy"} {
		rows, err := stored.List(ctx, intent.ListQuery{Kind: kind}, nil)
		if err != nil {
			return nil, nil, err
		}
		for i := range rows {
			m, changed := &rows[i].Metadata, rows[i].Status.Updated
			name, id := m.Namespace+"/"+m.Name, model.UnitID(rows[i].Status.ID)
			switch spec := rows[i].Spec.(type) {
			case *model.TechniqueSpec:
				techniques[name] = changed
			case *model.DirectiveSpec:
				directives[name] = id
				note(id, changed)
				note(id, techniques[model.QualifyRef(m.Namespace, spec.Technique)])
			case *model.PolicySpec:
				for _, d := range spec.Directives {
					note(directives[model.QualifyRef(m.Namespace, d)], changed)
				}
			}
		}
		policies = rows
	}
	return begins, policies, nil
}

// findPolicy returns the policy with the given name, with its nodes and directives.
func (s *complianceRequest) findPolicy(ctx context.Context, namespace, text string) (*resolvedPolicy, error) {
	ns, name := model.SplitRef(cmp.Or(namespace, model.DefaultNamespaceName), text)
	key := intent.Key{Kind: "Policy", Namespace: ns, Name: name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.ExplainNotFound(ctx, err, key)
	}
	return resolvePolicy(s.Directory, ns, name, r.Spec.(*model.PolicySpec))
}

// resolvePolicy finds the nodes that a policy applies to, and its directives. If its targets do not compile, the policy has neither.
func resolvePolicy(of view.Directory, namespace, name string, spec *model.PolicySpec) (*resolvedPolicy, error) {
	p := &resolvedPolicy{namespace: namespace, name: name, nodes: roaring.New()}
	if spec.Disabled || spec.Targets == nil {
		return p, nil
	}
	nodes, err := of.Select(namespace, spec.Targets)
	if err != nil {
		return p, err
	}
	for _, id := range nodes {
		p.nodes.Add(uint32(id))
	}
	for _, text := range spec.Directives {
		ns, name := model.SplitRef(namespace, text)
		if id, ok := of.UnitByName(directory.DirectiveKind, ns, name); ok {
			p.directives = append(p.directives, id)
		}
	}
	slices.Sort(p.directives)
	p.directives = slices.Compact(p.directives)
	return p, nil
}
