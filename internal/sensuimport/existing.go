package sensuimport

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Lookup returns a resource of the server; nil: the server has none.
type Lookup func(kind, namespace, name string) (*model.Resource, error)

// find returns a resource of the object's namespace that was made of the files or that the server has; nil: neither.
func (o *object) find(kind, name string) *model.Resource {
	if r := o.importer.made[resourceKey{kind, o.targetNamespace(), name}]; r != nil {
		return r
	}
	return o.existing(kind, name)
}

// existing returns a resource of the server in the object's namespace. The first failure ends the import with its error.
func (o *object) existing(kind, name string) (r *model.Resource) {
	im := o.importer
	if im.server == nil || im.failure != nil {
		return nil
	}
	r, im.failure = im.server(kind, o.targetNamespace(), name)
	return r
}

// missing notes a resource that the object names and that does not exist. use is the type of a hook.
func (o *object) missing(kind, name, use string) {
	o.noteLoss("%s %s %s", kind, name, o.absent())
	o.importer.notes[len(o.importer.notes)-1].Missing = strings.TrimSpace(kind + " " + model.CleanName(name) + " " + use)
}

func (o *object) absent() string {
	if o.importer.server != nil {
		return "does not exist yet"
	}
	return "is not in these files"
}

// existingHandler returns a handler or a set of the server in Sensu's form, with the filters and the mutator of its own
// pipeline. A handler that sends messages by itself has none and gets incidents. nil: the server has none.
func existingHandler(o *object, handler string) *object {
	h := o.existing("Handler", name(handler))
	own := o.existing("Pipeline", PipelineOf(handler))
	if h == nil && (own == nil || own.Metadata.Annotations[SetOf] == "") {
		return nil
	}
	spec := map[string]any{}
	switch {
	case h == nil:
		spec["type"], spec["handlers"] = "set", anyList(strings.Split(own.Metadata.Annotations[SetOf], ", "))
	case own != nil && len(own.Spec.(*model.PipelineSpec).Workflows) == 1:
		flow := own.Spec.(*model.PipelineSpec).Workflows[0]
		spec["filters"], spec["mutator"] = anyList(flow.Filters), flow.Mutator
	case !readsEvents(h.Spec.(*model.HandlerSpec)):
		spec["filters"] = []any{model.FilterIncident, model.FilterNotSilenced}
	}
	return &object{importer: o.importer, kind: "Handler", name: handler, namespace: o.namespace, meta: newFields("", nil), spec: newFields("", spec)}
}

func anyList(texts []string) (list []any) {
	for _, t := range texts {
		list = append(list, t)
	}
	return list
}

// hearsExisting sends a check's events to a handler of the server: by the pipeline that was made for the handler, or
// by the check's alert where the handler sends messages by itself. false: the server has no such handler.
func routeToExisting(o *object, c *model.CheckSpec, handler string, filters []string) bool {
	if o.importer.by[key{"Handler", o.namespace, handler}] != nil || o.importer.by[key{"TCPStreamHandler", o.namespace, handler}] != nil {
		return false
	}
	pipeline := PipelineOf(handler)
	if p := o.existing("Pipeline", pipeline); p != nil {
		if slices.Contains(c.Pipelines, pipeline) {
			return true
		}
		if len(filters) > 0 {
			pipeline += "-metrics"
			o.add(pipeline, &model.PipelineSpec{Workflows: withFilters(p.Spec.(*model.PipelineSpec).Workflows, filters)})
		}
		if !slices.Contains(c.Pipelines, pipeline) {
			c.Pipelines = append(c.Pipelines, pipeline)
		}
		return true
	}
	h := o.existing("Handler", name(handler))
	if h == nil || readsEvents(h.Spec.(*model.HandlerSpec)) || len(filters) > 0 {
		return false
	}
	if alert := alertOf(c); !slices.Contains(alert.Handlers, h.Metadata.Name) {
		alert.Handlers = append(alert.Handlers, h.Metadata.Name)
	}
	return true
}

// PipelineOf returns the name of the pipeline that is made for a handler that reads Sensu's events.
func PipelineOf(handler string) string { return model.SensuPipeline(name(handler)) }

func withFilters(flows []model.Workflow, filters []string) []model.Workflow {
	out := slices.Clone(flows)
	for i := range out {
		out[i].Filters = append(slices.Clone(out[i].Filters), filters...)
	}
	return out
}
