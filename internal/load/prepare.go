package load

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Namespace is where the nodes and checks of load runs live.
const Namespace = "load"

// checkName is what check i of the short form is called.
func checkName(i int) string { return fmt.Sprintf("load-%03d", i) }

// Preparation is what a run needs of a server.
type Preparation struct {
	Agents   int
	Checks   int
	Interval time.Duration
	Seed     uint64
}

// Prepare makes nodes and checks in one namespace, without enrolment. Nodes that
// exist are left alone.
func Prepare(ctx context.Context, service *intent.Service, p Preparation) error {
	by := intent.Who{User: "load", Whence: "local", Why: "nodes and checks for a load run"}
	resources := []model.Resource{
		resource(model.Metadata{Name: Namespace}, &model.NamespaceSpec{}),
		resource(model.Metadata{Name: "agents", Namespace: Namespace}, &model.GroupSpec{Where: "true"}),
	}
	for i := range p.Checks {
		resources = append(resources, resource(model.Metadata{Name: checkName(i), Namespace: Namespace}, &model.CheckSpec{
			Targets: &model.Targets{Groups: []string{"agents"}}, Command: &model.Command{Shell: "true"}, Interval: model.Duration(p.Interval),
		}))
	}
	if _, err := service.Apply(ctx, by, resources, intent.ApplyOptions{Yes: true}); err != nil {
		return fmt.Errorf("make the checks of a load run: %w", err)
	}
	nodes := make([]intent.NewNode, p.Agents)
	for i := range nodes {
		nodes[i] = intent.NewNode{UID: NodeUID(p.Seed, i), Name: NodeName(i), Labels: map[string]string{"rack": rack(i), "site": site(i)}}
	}
	if len(nodes) > 0 {
		nodes[rareNode(len(nodes))].Labels["only"] = "yes"
	}
	if err := service.BulkNodes(ctx, by, Namespace, nodes); err != nil {
		return fmt.Errorf("make the nodes of a load run: %w", err)
	}
	return nil
}

// Labels of the nodes: forty to a rack, eight sites, and one node apart.
func rack(i int) string { return fmt.Sprintf("r%04d", i/nodesPerRack) }
func site(i int) string { return fmt.Sprintf("s%d", i%8) }

const nodesPerRack = 40

// rareNode is the number of the node apart in a fleet of n.
func rareNode(n int) int { return n / 3 }

func resource(meta model.Metadata, spec model.Spec) model.Resource {
	return model.Resource{APIVersion: model.APIVersion, Kind: spec.Kind(), Metadata: meta, Spec: spec}
}
