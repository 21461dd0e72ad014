package simulated

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Namespace is where the nodes and checks of load runs live.
const Namespace = "load"

// NodeUID is the immutable id of simulated node i: the same for the same seed, so
// that who prepares the nodes and who plays them need no file between them.
func NodeUID(seed uint64, i int) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "muster load %d %d", seed, i))
}

// NodeName is the name of simulated node i.
func NodeName(i int) string { return fmt.Sprintf("load-%05d", i) }

// CheckName is what check i of the short form is called.
func CheckName(i int) string { return fmt.Sprintf("load-%03d", i) }

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
	by := intent.Actor{User: "load", Whence: "local", Why: "nodes and checks for a load run"}
	resources := []model.Resource{
		Resource(model.Metadata{Name: Namespace}, &model.NamespaceSpec{}),
		Resource(model.Metadata{Name: "agents", Namespace: Namespace}, &model.GroupSpec{Where: "true"}),
	}
	for i := range p.Checks {
		resources = append(resources, Resource(model.Metadata{Name: CheckName(i), Namespace: Namespace}, &model.CheckSpec{
			Targets: &model.Targets{Groups: []string{"agents"}}, Command: &model.Command{Shell: "true"}, Interval: model.Duration(p.Interval),
		}))
	}
	if _, err := service.Apply(ctx, by, resources, intent.ApplyOptions{Yes: true}); err != nil {
		return fmt.Errorf("make the checks of a load run: %w", err)
	}
	nodes := make([]intent.BulkNode, p.Agents)
	for i := range nodes {
		nodes[i] = intent.BulkNode{UID: NodeUID(p.Seed, i), Name: NodeName(i), Labels: map[string]string{"rack": Rack(i), "site": Site(i)}}
	}
	if len(nodes) > 0 {
		nodes[RareNode(len(nodes))].Labels["only"] = "yes"
	}
	if err := service.CreateNodes(ctx, by, Namespace, nodes); err != nil {
		return fmt.Errorf("make the nodes of a load run: %w", err)
	}
	return nil
}

// Labels of the nodes: forty to a rack, eight sites, and one node apart.
func Rack(i int) string { return fmt.Sprintf("r%04d", i/nodesPerRack) }
func Site(i int) string { return fmt.Sprintf("s%d", i%8) }

const nodesPerRack = 40

// RareNode is the number of the node apart in a fleet of n.
func RareNode(n int) int { return n / 3 }

func Resource(meta model.Metadata, spec model.Spec) model.Resource {
	return model.Resource{APIVersion: model.APIVersion, Kind: spec.Kind(), Metadata: meta, Spec: spec}
}
