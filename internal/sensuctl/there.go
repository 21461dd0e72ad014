package sensuctl

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// maxNamed bounds how many others one resource may name.
const maxNamed = 200

// there are the resources that a document names and that are there.
func (s *Server) there(ctx context.Context, r *request, d *document) (list []*model.Resource, err error) {
	named := d.named()
	if len(named) > maxNamed {
		return nil, model.Errorf(model.TooLarge, "it names more than %d others", maxNamed)
	}
	for _, of := range named {
		m, err := resource(ctx, r, of[0], d.namespace, of[1])
		switch {
		case err == nil:
			list = append(list, m)
		case model.ClassOf(err) != model.NotFound:
			return nil, err
		}
	}
	return list, nil
}

// named are kind and name of the handlers, hooks, filters, mutators, pipelines and assets in a document.
func (d *document) named() (out [][2]string) {
	add := func(kind string, names ...string) {
		for _, n := range names {
			one := [2]string{kind, model.CleanName(n)}
			if one[1] != "" && len(out) <= maxNamed && !slices.Contains(out, one) {
				out = append(out, one)
			}
		}
	}
	handlers := append(texts(d.spec["handlers"]), texts(d.spec["output_metric_handlers"])...)
	add("Handler", handlers...)
	if d.kind != "HookConfig" { // it has those of the checks that name it
		add("Asset", texts(d.spec["runtime_assets"])...)
	}
	if d.kind == "CheckConfig" {
		for _, h := range handlers {
			add("Pipeline", sensuimport.PipelineOf(h))
		}
	}
	add("Filter", texts(d.spec["filters"])...)
	add("Mutator", refOf(d.spec["mutator"])...)
	for _, p := range objects(d.spec["pipelines"]) {
		add("Pipeline", refOf(p)...)
	}
	for _, list := range objects(d.spec["check_hooks"]) {
		for _, names := range list {
			add("Hook", texts(names)...)
		}
	}
	for _, w := range objects(d.spec["workflows"]) {
		add("Handler", refOf(w["handler"])...)
		add("Mutator", refOf(w["mutator"])...)
		for _, f := range objects(w["filters"]) {
			add("Filter", refOf(f)...)
		}
	}
	return out
}

func refOf(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case object:
		if name, ok := v["name"].(string); ok {
			return []string{name}
		}
	}
	return nil
}

func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, one := range list {
		if text, ok := one.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

func objects(v any) (out []object) {
	list, _ := v.([]any)
	for _, one := range list {
		if o, ok := one.(object); ok {
			out = append(out, o)
		}
	}
	return out
}
