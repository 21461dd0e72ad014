package core

import (
	"context"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Declarer is the interface by which a source of results creates declared resources, such as passive checks.
// *intent.Service implements it.
type Declarer interface {
	Apply(ctx context.Context, by intent.Actor, resources []model.Resource, o intent.ApplyOptions) (intent.ApplyResult, error)
}

// DeclareMissing creates missing resources, such as passive checks, and waits until the planner has compiled
// the resources. It waits by the function catchUp. exists is true if an operator has just declared one of these
// resources; then DeclareMissing has changed nothing.
func DeclareMissing(ctx context.Context, d Declarer, catchUp func(context.Context) error, by intent.Actor, missing []model.Resource) (exists bool, err error) {
	expect := make(map[intent.Key]int64, len(missing))
	for i := range missing {
		expect[intent.KeyOf(&missing[i])] = 0
	}
	_, err = d.Apply(ctx, by, missing, intent.ApplyOptions{Yes: true, Expect: expect})
	exists = model.ClassOf(err) == model.Stale || model.ClassOf(err) == model.Conflict
	if err != nil && !exists {
		return false, err
	}
	return exists, catchUp(ctx)
}

// NewDeclared returns a new resource with a label that names the source (such as alerts) creating the resource.
// source is the value of its label model.SourceLabel.
func NewDeclared(source, kind, namespace, name string, spec model.Spec) model.Resource {
	return model.Resource{APIVersion: model.APIVersion, Kind: kind, Spec: spec,
		Metadata: model.Metadata{Name: name, Namespace: namespace, Labels: map[string]string{model.SourceLabel: source}}}
}
