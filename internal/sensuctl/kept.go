package sensuctl

import (
	"context"
	"net"
	"net/http"
	"strconv"

	"github.com/muster-fleet/muster/internal/model"
)

// kept are the types that an import leaves as they were in Sensu, or almost so, with how they are written.
var kept = map[string]struct {
	kind string
	form func(*model.Resource) object
}{
	"hooks": {"Hook", hook}, "filters": {"Filter", filter}, "mutators": {"Mutator", mutator}, "handlers": {"Handler", handler}, "pipelines": {"Pipeline", pipeline},
	"assets": {"Asset", asset},
}

func (s *Server) keptList(ctx context.Context, r *request) (answer, error) {
	if r.kind == "handlers" {
		flows, err := s.flows(ctx, r)
		if err != nil {
			return answer{}, err
		}
		return s.list(ctx, r, "Handler", func(m *model.Resource) object { return heard(handler(m), flows[flowOf(m)]) })
	}
	return s.list(ctx, r, kept[r.kind].kind, kept[r.kind].form)
}

func (s *Server) keptOne(ctx context.Context, r *request) (answer, error) {
	of := kept[r.kind]
	m, err := resource(ctx, r, of.kind, r.namespace, r.name(0))
	if err != nil {
		return answer{}, err
	}
	o := of.form(m)
	if o == nil {
		return answer{}, instead(r)
	}
	if r.kind == "handlers" {
		flow, err := resource(ctx, r, "Pipeline", m.Metadata.Namespace, flowOf(m).name)
		if err != nil && model.ClassOf(err) != model.NotFound {
			return answer{}, err
		}
		o = heard(o, flow)
	}
	return answer{http.StatusOK, o, ""}, nil
}

func hook(m *model.Resource) object {
	h, ok := m.Spec.(*model.HookSpec)
	if !ok {
		return nil
	}
	timeout := seconds(h.Timeout)
	if timeout == 0 {
		timeout = 10
	}
	return object{"metadata": metadata(m), "command": commandText(h.Command), "timeout": timeout, "stdin": h.Stdin, "runtime_assets": []string{}}
}

// filter leaves out one with times that are not by day of the week, in UTC: Sensu has no others.
func filter(m *model.Resource) object {
	f, ok := m.Spec.(*model.FilterSpec)
	if !ok {
		return nil
	}
	when, ok := whenOf(f.When)
	if !ok {
		return nil
	}
	return object{"metadata": metadata(m), "action": f.Action, "expressions": orElse(f.Expressions), "runtime_assets": orElse(f.Assets), "when": when}
}

func mutator(m *model.Resource) object {
	u, ok := m.Spec.(*model.MutatorSpec)
	if !ok {
		return nil
	}
	o := object{"metadata": metadata(m), "timeout": seconds(u.Timeout), "env_vars": lines(u.Env), "runtime_assets": orElse(u.Assets), "secrets": []object{}}
	if u.Javascript != "" {
		o["type"], o["eval"] = "javascript", u.Javascript
	} else {
		o["type"], o["command"] = "pipe", commandText(u.Command)
	}
	return o
}

// handler is one that Sensu knows, too: a program or a socket. Others have settings of their
// own, and are left out.
func handler(m *model.Resource) object {
	h, ok := m.Spec.(*model.HandlerSpec)
	if !ok {
		return nil
	}
	o := object{"metadata": metadata(m), "timeout": seconds(h.Timeout), "env_vars": lines(h.Env), "filters": []string{}, "handlers": []string{}, "runtime_assets": orElse(h.Assets), "secrets": []object{}}
	switch {
	case h.Command != nil:
		o["type"], o["command"] = "pipe", commandText(h.Command)
	case h.TCP != nil:
		o["type"], o["socket"] = "tcp", socket(h.TCP.Address)
	case h.UDP != nil:
		o["type"], o["socket"] = "udp", socket(h.UDP.Address)
	default:
		return nil
	}
	return o
}

// flowOf names the pipeline that an import makes of a handler's filters and mutator.
func flowOf(m *model.Resource) key {
	return key{m.Metadata.Namespace, model.SensuPipeline(m.Metadata.Name)}
}

// flows are these pipelines.
func (s *Server) flows(ctx context.Context, r *request) (map[key]*model.Resource, error) {
	out := map[key]*model.Resource{}
	for after := ""; ; {
		list, next, err := resources(ctx, r, "Pipeline", pageSize, after)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			out[key{m.Metadata.Namespace, m.Metadata.Name}] = m
		}
		if after = next; next == "" {
			return out, nil
		}
	}
}

// heard is a handler with the filters and the mutator of its pipeline.
func heard(o object, flow *model.Resource) object {
	if o == nil || flow == nil {
		return o
	}
	p, ok := flow.Spec.(*model.PipelineSpec)
	if !ok || len(p.Workflows) != 1 || model.SensuPipeline(p.Workflows[0].Handler) != flow.Metadata.Name {
		return o
	}
	o["filters"], o["mutator"] = orElse(p.Workflows[0].Filters), p.Workflows[0].Mutator
	return o
}

func pipeline(m *model.Resource) object {
	p, ok := m.Spec.(*model.PipelineSpec)
	if !ok {
		return nil
	}
	flows := []object{}
	for _, w := range p.Workflows {
		o := object{"name": w.Name, "filters": references("EventFilter", w.Filters), "handler": references("Handler", []string{w.Handler})[0]}
		if w.Mutator != "" {
			o["mutator"] = references("Mutator", []string{w.Mutator})[0]
		}
		flows = append(flows, o)
	}
	return object{"metadata": metadata(m), "workflows": flows}
}

func socket(address string) object {
	host, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return object{"host": host, "port": n}
}
