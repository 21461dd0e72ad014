package sensuctl

import (
	"context"
	"reflect"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// sets are the handlers and pipelines of a namespace. A set of Sensu's is the pipeline that is called as its
// handlers' are, with its members in an annotation: by these it follows what becomes of them.
type sets struct {
	handlers  map[string]*model.HandlerSpec
	pipelines map[string]*model.Resource
}

func setsOf(ctx context.Context, r *request) (*sets, error) {
	x := &sets{map[string]*model.HandlerSpec{}, map[string]*model.Resource{}}
	for _, kind := range []string{"Handler", "Pipeline"} {
		for after := ""; ; {
			list, next, err := resources(ctx, r, kind, pageSize, after)
			if err != nil {
				return nil, err
			}
			for _, m := range list {
				if h, ok := m.Spec.(*model.HandlerSpec); ok {
					x.handlers[m.Metadata.Name] = h
				} else {
					x.pipelines[m.Metadata.Name] = m
				}
			}
			if next == "" {
				break
			}
			after = next
		}
	}
	return x, nil
}

// deepest is how many sets may lie within one another, as in Sensu.
const deepest = 3

// members are the handlers of a set, those of the sets within it too, and who is not there.
func (x *sets) members(names []string, depth int) (there, missing []string) {
	for _, name := range names {
		inner := x.pipelines[model.SensuPipeline(name)]
		switch {
		case x.handlers[name] != nil:
			there = with(there, name)
		case inner == nil || depth == deepest:
			missing = with(missing, name)
		default:
			more, gone := x.members(membersOf(inner), depth+1)
			for _, m := range more {
				there = with(there, m)
			}
			for _, m := range gone {
				missing = with(missing, m)
			}
		}
	}
	return there, missing
}

// membersOf are the names that a set has.
func membersOf(m *model.Resource) (names []string) {
	if text := m.Metadata.Annotations[sensuimport.SetOf]; text != "" {
		return strings.Split(text, ", ")
	}
	for _, w := range m.Spec.(*model.PipelineSpec).Workflows {
		names = append(names, w.Handler)
	}
	return names
}

// workflow lets a handler hear by the filters and the mutator that it has by itself. One that speaks for
// itself has none, and is told of incidents.
func (x *sets) workflow(name string) model.Workflow {
	flow := model.Workflow{Name: name, Handler: name}
	if own := x.pipelines[model.SensuPipeline(name)]; own != nil {
		if flows := own.Spec.(*model.PipelineSpec).Workflows; len(flows) == 1 {
			flow.Filters, flow.Mutator = flows[0].Filters, flows[0].Mutator
			return flow
		}
	}
	if speaks(x.handlers[name]) {
		flow.Filters = []string{model.FilterIncident, model.FilterNotSilenced}
	}
	return flow
}

// set makes the pipeline of a set. What it says of filters and a mutator is nothing to Sensu.
func (s *Server) set(ctx context.Context, r *request, d *document) (*converted, error) {
	x, err := setsOf(ctx, r)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range texts(d.spec["handlers"]) {
		if name = model.CleanName(name); name != "" && len(names) < maxNamed {
			names = with(names, name)
		}
	}
	there, missing := x.members(names, 0)
	if len(there) == 0 {
		return nil, model.Errorf(model.Invalid, "none of the handlers of set %s is there yet", d.name).
			WithHint("send a set after its handlers, below them in a file; muster import sensu FILE takes them in any order")
	}
	spec := &model.PipelineSpec{}
	for _, name := range there {
		spec.Workflows = append(spec.Workflows, x.workflow(name))
	}
	m := &model.Resource{APIVersion: model.APIVersion, Kind: spec.Kind(), Spec: spec,
		Metadata: model.Metadata{Name: sensuimport.PipelineOf(d.name), Namespace: d.namespace}}
	annotate(m, sensuimport.SetOf, names, ", ")
	return &converted{name: model.CleanName(d.name), main: m, lost: notThere(missing)}, nil
}

func notThere(names []string) (said []string) {
	for _, name := range names {
		said = append(said, "handler "+name+" is not there yet")
	}
	return said
}

// regroup lets the sets follow a handler that was sent: its filters, or that it is there now.
func (s *Server) regroup(ctx context.Context, r *request, sent string) error {
	x, err := setsOf(ctx, r)
	if err != nil {
		return err
	}
	var list []*model.Resource
	for _, name := range sorted(x.pipelines) {
		m := x.pipelines[name]
		spec := m.Spec.(*model.PipelineSpec)
		if m.Metadata.Annotations[sensuimport.SetOf] == "" {
			continue
		}
		there, missing := x.members(membersOf(m), 0)
		var flows []model.Workflow
		for _, name := range there {
			flow := x.workflow(name)
			if i := slices.IndexFunc(spec.Workflows, func(w model.Workflow) bool { return w.Handler == name }); i >= 0 && name != sent {
				flow = spec.Workflows[i]
			}
			flows = append(flows, flow)
		}
		if len(flows) == 0 || reflect.DeepEqual(flows, spec.Workflows) {
			continue
		}
		spec.Workflows = flows
		annotate(m, notCarried, notThere(missing), "; ")
		list = append(list, m)
	}
	if len(list) == 0 {
		return nil
	}
	return s.send(ctx, r, v1.ApplyRequest{Message: "by sensuctl: sets with handler " + sent}, list)
}

// handlerIs are the resources that are a handler of Sensu's: a Handler, and the pipeline by which it hears
// if that has nothing else; of a set, its pipeline.
func handlerIs(ctx context.Context, r *request) ([]v1.Ref, error) {
	own := v1.Ref{Kind: "Handler", Namespace: r.namespace, Name: r.name(0)}
	piped := v1.Ref{Kind: "Pipeline", Namespace: r.namespace, Name: model.SensuPipeline(r.name(0))}
	_, err := resource(ctx, r, own.Kind, own.Namespace, own.Name)
	is := err == nil
	if !is && model.ClassOf(err) != model.NotFound {
		return nil, err
	}
	m, err := resource(ctx, r, piped.Kind, piped.Namespace, piped.Name)
	if model.ClassOf(err) == model.NotFound && err != nil {
		return []v1.Ref{own}, nil
	}
	if err != nil {
		return nil, err
	}
	set := m.Metadata.Annotations[sensuimport.SetOf] != ""
	flows := m.Spec.(*model.PipelineSpec).Workflows
	switch {
	case !is && set:
		return []v1.Ref{piped}, nil
	case is && !set && len(flows) == 1 && flows[0].Handler == own.Name:
		return []v1.Ref{own, piped}, nil
	}
	return []v1.Ref{own}, nil
}
