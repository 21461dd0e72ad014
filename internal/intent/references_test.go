package intent_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// An apply reads all references of its resources together: the number of queries depends on the
// longest chain of references, and not on the number of resources.
func TestReferencesAreReadInOneQuery(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	handler := func(i int) model.Resource {
		return model.Resource{Kind: "Handler", Metadata: model.Metadata{Name: fmt.Sprintf("handler-%d", i)}, Spec: &model.HandlerSpec{Command: &model.Command{Shell: "true"}}}
	}
	const most = 500
	var targets, edges []model.Resource
	for i := range most {
		targets = append(targets, handler(i), group(fmt.Sprintf("group-%d", i)))
	}
	for i := range most {
		c := check(fmt.Sprintf("check-%d", i), fmt.Sprintf("handler-%d", i))
		spec := c.Spec.(*model.CheckSpec)
		spec.Targets, spec.TTL = &model.Targets{Groups: []string{fmt.Sprintf("group-%d", i)}, Nodes: []string{fmt.Sprintf("node-%d", i)}}, model.Duration(time.Hour)
		if i%2 == 1 {
			spec.DependsOn = []string{fmt.Sprintf("check-%d", i-1)}
		}
		edges = append(edges, c)
	}
	apply := func(resources []model.Resource) int64 {
		t.Helper()
		before := w.queries.Load()
		if _, err := w.Apply(ctx, ada, resources, intent.ApplyOptions{Yes: true}); err != nil {
			t.Fatal(err)
		}
		return w.queries.Load() - before
	}
	apply(targets)
	few := apply(edges[:4])
	created, unchanged := apply(edges), apply(edges)
	if created != few || unchanged != few || few > 3 {
		t.Errorf("queries: %d for 4 checks, %d for %d new ones, %d for as many unchanged; want at most 3 and no difference", few, created, most, unchanged)
	}
}
