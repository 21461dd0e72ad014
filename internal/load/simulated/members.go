package simulated

import (
	"context"
	"fmt"
	"maps"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Namespace is the namespace of the nodes and checks of load runs.
const Namespace = "load"

// ClassLabel is the label of a scenario's nodes that names their class.
const ClassLabel = "class"

// Member is one machine of a scenario. Where the server gave its id at enrolment, UID is
// that one instead.
type Member struct {
	Class  int // of Scenario.Agents
	Number int // in its class, from 0
	UID    uuid.UUID
	Name   string
}

// Members lists a scenario's machines, class after class.
func Members(sc *scenario.Scenario) []Member {
	var list []Member
	for c, class := range sc.Agents {
		for i := range class.Count {
			list = append(list, Member{Class: c, Number: i, UID: MemberUID(sc.Seed, class.Name, i), Name: MemberName(class.Name, i)})
		}
	}
	return list
}

// MemberName returns the name of a class's i-th node.
func MemberName(class string, i int) string { return fmt.Sprintf("%s-%05d", class, i) }

// MemberUID returns the id of a class's i-th node, on a server that Prepare filled.
func MemberUID(seed uint64, class string, i int) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "muster load %d %s %d", seed, class, i))
}

// MemberLabels returns the labels of a class's i-th node: forty nodes share a rack, and there are eight sites, unless
// the class sets these labels.
func MemberLabels(class *scenario.Class, i int) map[string]string {
	labels := map[string]string{"rack": fmt.Sprintf("r%04d", i/nodesPerRack), "site": fmt.Sprintf("s%d", i%8)}
	maps.Copy(labels, class.Labels)
	maps.Copy(labels, plan.GroupLabels(class, i))
	labels[ClassLabel] = class.Name
	return labels
}

const nodesPerRack = 40

// Thing is one proxy node of a scenario.
type Thing struct {
	Kind   int // of Scenario.Proxies
	Number int // of its kind, from 0
	Name   string
}

// Things lists a scenario's proxy nodes, kind after kind.
func Things(sc *scenario.Scenario) (list []Thing) {
	for k, kind := range sc.Proxies {
		for i := range kind.Count {
			list = append(list, Thing{k, i, MemberName(kind.Name, i)})
		}
	}
	return list
}

// leastSeries is the least limit of series of the namespace: the server's default.
const leastSeries = 2_000_000

// Resources are the namespace, groups, proxy nodes, checks, Templates and policies of a scenario.
func Resources(sc *scenario.Scenario) []model.Resource {
	namespace, values := &model.NamespaceSpec{}, plan.New(sc)
	if values != nil {
		namespace.Limits = &model.Limits{Series: max(leastSeries, 2*values.Series())} // an earlier run may have as many
	}
	list := []model.Resource{Resource(model.Metadata{Name: Namespace}, namespace)}
	group := func(name string) {
		where := fmt.Sprintf("%q in node.labels && node.labels[%q] == %q", ClassLabel, ClassLabel, name)
		list = append(list, Resource(model.Metadata{Name: name, Namespace: Namespace}, &model.GroupSpec{Where: where}))
	}
	for _, kind := range sc.Proxies {
		group(kind.Name)
	}
	for _, x := range Things(sc) {
		labels := map[string]string{}
		maps.Copy(labels, sc.Proxies[x.Kind].Labels)
		labels[ClassLabel] = sc.Proxies[x.Kind].Name
		list = append(list, Resource(model.Metadata{Name: x.Name, Namespace: Namespace, Labels: labels}, &model.NodeSpec{Proxy: true}))
	}
	for _, class := range sc.Agents {
		group(class.Name)
	}
	if sc.TargetsAll() {
		list = append(list, Resource(model.Metadata{Name: scenario.AllGroup, Namespace: Namespace}, &model.GroupSpec{Where: "true"}))
	}
	shared, classes := sc.Shared()
	for _, name := range shared {
		list = append(list, Resource(model.Metadata{Name: name, Namespace: Namespace}, &model.GroupSpec{Groups: classes[name]}))
	}
	for _, check := range sc.Placed() {
		for i := range max(1, check.Count) {
			spec := &model.CheckSpec{
				Targets: &model.Targets{Groups: check.Groups}, Command: &model.Command{Shell: "true"}, Interval: check.Interval, TTL: check.TTL,
				MaxOutput: max(check.Output.Bytes, model.DefaultOutputBytes), RoundRobin: check.RoundRobin, Timeout: check.Timeout,
				Metrics: &model.Metrics{Format: model.NoMetrics}, // runs with values have Templates
			}
			if check.Proxy != nil {
				spec.Proxy = &model.Targets{Groups: check.Proxy.Groups}
			}
			list = append(list, Resource(model.Metadata{Name: check.FullName(i), Namespace: Namespace}, spec))
		}
	}
	declare := func(name string, spec model.Spec) model.Resource {
		return Resource(model.Metadata{Name: name, Namespace: Namespace}, spec)
	}
	if values != nil {
		list = append(list, values.Resources(declare)...)
	}
	if p := plan.NewDirectives(sc); p != nil {
		list = append(list, p.Resources(declare)...)
	}
	return list
}

// Nodes returns the nodes of all members.
func Nodes(sc *scenario.Scenario, members []Member) []model.Resource {
	directives, list := plan.NewDirectives(sc), make([]model.Resource, len(members))
	for i, m := range members {
		class, spec := &sc.Agents[m.Class], &model.NodeSpec{}
		if directives != nil && class.Name == directives.Class {
			spec = directives.Node(m.Number)
		}
		spec.Keepalive = class.Keepalive
		list[i] = Resource(model.Metadata{Name: m.Name, Namespace: Namespace, Labels: MemberLabels(class, m.Number)}, spec)
	}
	return list
}

// Resource returns a resource with this metadata and spec.
func Resource(meta model.Metadata, spec model.Spec) model.Resource {
	return model.Resource{APIVersion: model.APIVersion, Kind: spec.Kind(), Metadata: meta, Spec: spec}
}

// Prepare creates a scenario's resources and nodes on a stopped server, without enrolment. It leaves existing nodes
// unchanged.
func Prepare(ctx context.Context, service *intent.Service, sc *scenario.Scenario) error {
	by := intent.Actor{User: "load", Address: "local", Message: "nodes and checks for " + sc.Name}
	if _, err := service.Apply(ctx, by, Resources(sc), intent.ApplyOptions{Yes: true}); err != nil {
		return fmt.Errorf("make the checks of %s: %w", sc.Name, err)
	}
	members := Members(sc)
	nodes := make([]intent.BulkNode, len(members))
	for i, m := range members {
		nodes[i] = intent.BulkNode{UID: m.UID, Name: m.Name, Labels: MemberLabels(&sc.Agents[m.Class], m.Number), Keepalive: sc.Agents[m.Class].Keepalive}
	}
	if err := service.CreateNodes(ctx, by, Namespace, nodes); err != nil {
		return fmt.Errorf("make the nodes of %s: %w", sc.Name, err)
	}
	if sc.ComponentRate() == 0 {
		return nil
	}
	_, err := service.Apply(ctx, by, Nodes(sc, members), intent.ApplyOptions{Yes: true}) // with modes and properties
	return err
}
