package sensuimport

import (
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// there is a resource that was there before; nil: it was not, or is in these files.
func (im *importer) there(o *object, kind, ref string) *model.Resource {
	if !im.beside {
		return nil
	}
	return im.made[made{kind, im.ns(o), ref}]
}

// hearsBeside lets a handler hear of a check's events that is there already: by the pipeline that
// was made for it, or, where it speaks for itself, by the check. false: it is not there.
func (im *importer) hearsBeside(o *object, c *model.CheckSpec, handler string, filters []string) bool {
	if im.by[key{"Handler", o.namespace, handler}] != nil || im.by[key{"TCPStreamHandler", o.namespace, handler}] != nil {
		return false
	}
	ref := name(handler)
	pipeline := PipelineOf(handler)
	if p := im.there(o, "Pipeline", pipeline); p != nil {
		if slices.Contains(c.Pipelines, pipeline) {
			return true
		}
		if len(filters) > 0 {
			pipeline += "-metrics"
			im.add(im.ns(o), pipeline, &model.PipelineSpec{Workflows: withFilters(p.Spec.(*model.PipelineSpec).Workflows, filters)})
		}
		if !slices.Contains(c.Pipelines, pipeline) {
			c.Pipelines = append(c.Pipelines, pipeline)
		}
		return true
	}
	h := im.there(o, "Handler", ref)
	if h == nil || kept(h.Spec.(*model.HandlerSpec)) || len(filters) > 0 {
		return false
	}
	if alert := im.alert(c); !slices.Contains(alert.Handlers, ref) {
		alert.Handlers = append(alert.Handlers, ref)
	}
	return true
}

// PipelineOf is the name of the pipeline that is made for a handler that reads Sensu's events.
func PipelineOf(handler string) string { return model.SensuPipeline(name(handler)) }

func withFilters(flows []model.Workflow, filters []string) []model.Workflow {
	out := slices.Clone(flows)
	for i := range out {
		out[i].Filters = append(slices.Clone(out[i].Filters), filters...)
	}
	return out
}
