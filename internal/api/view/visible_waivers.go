package view

import (
	"context"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Waivers has the unexpired Waivers (permitted exceptions from policy rules) that the caller may see.
type Waivers struct {
	directory Directory
	list      []model.Resource // by namespace and name
}

// ReadWaivers returns the unexpired Waivers (permitted exceptions from policy rules).
func (v *View) ReadWaivers(ctx context.Context) (*Waivers, error) {
	now := v.Now()
	list, err := v.Intent.List(ctx, intent.ListQuery{Kind: "Waiver"}, func(r *model.Resource) bool {
		spec, ok := r.Spec.(*model.WaiverSpec)
		return ok && spec.Expires.After(now)
	})
	slices.SortFunc(list, func(a, b model.Resource) int {
		return strings.Compare(a.Metadata.Namespace+"/"+a.Metadata.Name, b.Metadata.Namespace+"/"+b.Metadata.Name)
	})
	return &Waivers{v.Directory, list}, err
}

// Covering returns the Waivers (permitted exceptions) that apply to a directive's components on one node. They
// are sorted by namespace and name.
func (w *Waivers) Covering(node model.NodeID, d *model.DirectiveDefinition) (list []v1.ComplianceWaiver) {
	for i := range w.list {
		m, spec := &w.list[i].Metadata, w.list[i].Spec.(*model.WaiverSpec)
		namespace, name, _ := w.directory.SourceName(model.DirectiveSource(d.Unit))
		covers := spec.Technique != "" && model.QualifyRef(m.Namespace, spec.Technique) == d.Technique ||
			spec.Directive != "" && model.QualifyRef(m.Namespace, spec.Directive) == namespace+"/"+name
		if !covers || !w.directory.RunsUnit(node, model.UnitID(w.list[i].Status.ID)) {
			continue
		}
		list = append(list, v1.ComplianceWaiver{Namespace: m.Namespace, Name: m.Name, Components: spec.Components, Reason: spec.Reason, Owner: spec.Owner, Expires: spec.Expires.Time})
	}
	return list
}
