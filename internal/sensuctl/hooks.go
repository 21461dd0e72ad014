package sensuctl

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// ofHooks says whether a request is one of sensuctl check set-hooks or remove-hook:
// checks/NAME/hooks/TYPE and checks/NAME/hooks/TYPE/hook/NAME.
func ofHooks(method string, r *request) bool {
	if r.kind != "checks" || len(r.names) < 3 || r.names[1] != "hooks" {
		return false
	}
	if method == http.MethodPut {
		return len(r.names) == 3
	}
	return method == http.MethodDelete && len(r.names) == 5 && r.names[3] == "hook"
}

// changeHooks adds hooks to those that a check has after results of a type, or takes one away.
func (s *Server) changeHooks(ctx context.Context, r *request) (answer, error) {
	return answer{http.StatusNoContent, nil, ""}, again(ctx, func() error { return s.changeHooksOf(ctx, r) })
}

func (s *Server) changeHooksOf(ctx context.Context, r *request) error {
	m, err := resource(ctx, r, "Check", r.namespace, r.name(0))
	if err != nil {
		return err
	}
	c, ok := m.Spec.(*model.CheckSpec)
	if !ok {
		return model.Errorf(model.NotFound, "this names no check")
	}
	if r.Method == http.MethodDelete {
		if !takeHook(c, r.name(4), afterWhat(r.names[2])) {
			return model.Errorf(model.NotFound, "check %s has no hook %s after %s", r.name(0), r.names[4], r.names[2])
		}
	} else {
		names, err := hooksSent(r)
		if err != nil {
			return err
		}
		for _, name := range names {
			addHook(c, model.CleanName(name), r.names[2])
		}
	}
	return s.send(ctx, r, v1.ApplyRequest{Message: "by sensuctl"}, []*model.Resource{m})
}

// hooksSent are those of {TYPE: [NAME, …]}, wrapped as {type, api_version, spec} or not.
func hooksSent(r *request) ([]string, error) {
	data, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	var body object
	if err := json.Unmarshal(data, &body); err != nil {
		return nil, model.Errorf(model.Invalid, "the body is no JSON object")
	}
	if spec, ok := body["spec"].(object); ok {
		body = spec
	}
	names := texts(body[r.names[2]])
	if len(names) == 0 || len(names) > maxNamed {
		return nil, model.Errorf(model.Invalid, "want {%q: [NAME, …]}, with the names of hooks", r.names[2])
	}
	return names, nil
}

// afterWhat is the word here for one of Sensu's types.
func afterWhat(kind string) string {
	for ours, theirs := range hookTypes {
		if theirs == kind {
			return ours
		}
	}
	switch kind {
	case "0":
		return "ok"
	case "1":
		return "warning"
	case "2":
		return "critical"
	}
	return kind
}

func addHook(c *model.CheckSpec, name, kind string) {
	when := afterWhat(kind)
	if i := slices.IndexFunc(c.Hooks, func(h model.Hook) bool { return h.Hook == name }); i >= 0 {
		c.Hooks[i].When = with(c.Hooks[i].When, when)
		return
	}
	c.Hooks = append(c.Hooks, model.Hook{Hook: name, When: []string{when}})
}

func takeHook(c *model.CheckSpec, name, when string) bool {
	for i, h := range c.Hooks {
		at := slices.Index(h.When, when)
		if h.Hook != name || at < 0 {
			continue
		}
		if c.Hooks[i].When = slices.Delete(h.When, at, at+1); len(c.Hooks[i].When) == 0 {
			c.Hooks = slices.Delete(c.Hooks, i, i+1)
		}
		return true
	}
	return false
}
