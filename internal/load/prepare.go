package load

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// loadNamespace is where the nodes and checks of load runs live.
const loadNamespace = "load"

// checkPrefix is how the checks that a load run plays are called.
const checkPrefix = "load-"

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
		resource(model.Metadata{Name: loadNamespace}, &model.NamespaceSpec{}),
		resource(model.Metadata{Name: "agents", Namespace: loadNamespace}, &model.GroupSpec{Where: "true"}),
	}
	for i := range p.Checks {
		resources = append(resources, resource(model.Metadata{Name: fmt.Sprintf("%s%03d", checkPrefix, i), Namespace: loadNamespace}, &model.CheckSpec{
			Targets: &model.Targets{Groups: []string{"agents"}}, Command: &model.Command{Shell: "true"}, Interval: model.Duration(p.Interval),
		}))
	}
	if _, err := service.Apply(ctx, by, resources, intent.ApplyOptions{Yes: true}); err != nil {
		return fmt.Errorf("make the checks of a load run: %w", err)
	}
	nodes := make([]intent.NewNode, p.Agents)
	for i := range nodes {
		nodes[i] = intent.NewNode{UID: NodeUID(p.Seed, i), Name: NodeName(i)}
	}
	if err := service.BulkNodes(ctx, by, loadNamespace, nodes); err != nil {
		return fmt.Errorf("make the nodes of a load run: %w", err)
	}
	return nil
}

func resource(meta model.Metadata, spec model.Spec) model.Resource {
	return model.Resource{APIVersion: model.APIVersion, Kind: spec.Kind(), Metadata: meta, Spec: spec}
}

// loadCheck says whether a run plays a check.
func loadCheck(c *model.Chunk) bool { return strings.HasPrefix(c.CheckName, checkPrefix) }
