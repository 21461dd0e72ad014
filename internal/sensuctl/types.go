package sensuctl

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/muster-fleet/muster/internal/model"
)

// types are what can be declared, by the words of paths: Sensu's type, and the kind here.
var types = map[string]struct{ sensu, kind string }{
	"namespaces": {"Namespace", "Namespace"}, "checks": {"CheckConfig", "Check"}, "entities": {"Entity", "Node"}, "hooks": {"HookConfig", "Hook"},
	"filters": {"EventFilter", "Filter"}, "mutators": {"Mutator", "Mutator"}, "handlers": {"Handler", "Handler"}, "pipelines": {"Pipeline", "Pipeline"},
	"assets": {"Asset", "Asset"},
}

// kinds are the kinds here by Sensu's types.
var kinds = map[string]string{
	"Namespace": "Namespace", "CheckConfig": "Check", "Entity": "Node", "HookConfig": "Hook", "EventFilter": "Filter",
	"Mutator": "Mutator", "Handler": "Handler", "Pipeline": "Pipeline", "Silenced": "Silence", "Asset": "Asset",
}

// operation finds what answers a request; nil: nothing does.
func (s *Server) operation(r *request) operation {
	if r.group != "core/v2" || r.namespace == "" && r.kind != "namespaces" && (r.Method != http.MethodGet || len(r.names) > 0) {
		return nil
	}
	_, declared := types[r.kind]
	_, keeps := kept[r.kind]
	depth := len(r.names)
	switch r.Method {
	case http.MethodGet:
		return s.reads(r.kind, keeps, r.names)
	case http.MethodPost:
		switch {
		case r.kind == "silenced" && depth == 0:
			return s.makeSilence
		case declared && depth == 0:
			return s.put
		}
	case http.MethodPut:
		switch {
		case r.kind == "silenced" && depth == 1:
			return s.putSilence
		case r.kind == "events" && depth == 2:
			return s.resolve
		case declared && depth == 1:
			return s.put
		}
	case http.MethodDelete:
		switch {
		case r.kind == "silenced" && depth == 1:
			return s.endSilence
		case r.kind == "events" && depth == 2:
			return s.forget
		case (keeps || r.kind == "checks") && depth == 1:
			return s.remove
		}
	}
	return nil
}

func (s *Server) reads(kind string, keeps bool, names []string) operation {
	list := map[string]operation{"namespaces": s.namespaces, "checks": s.checks, "entities": s.entities, "events": s.events, "silenced": s.silences}
	one := map[string]operation{"namespaces": s.namespace, "checks": s.check, "entities": s.entity, "events": s.events, "silenced": s.oneSilence}
	switch depth := len(names); {
	case depth == 0 && keeps:
		return s.keptList
	case depth == 1 && keeps:
		return s.keptOne
	case depth == 0:
		return list[kind]
	case depth == 1:
		return one[kind]
	case depth == 2 && kind == "events":
		return s.event
	case depth == 2 && kind == "silenced" && (names[0] == "subscriptions" || names[0] == "checks"):
		return s.silences
	}
	return nil
}

// resolvedOutput is what sensuctl event resolve writes: with it, and nothing else, an event
// that is sent means that somebody resolves it.
const resolvedOutput = "Resolved manually by sensuctl"

// resolve is muster event resolve. Other events are not taken: results come from agents.
func (s *Server) resolve(ctx context.Context, r *request) (answer, error) {
	sent, err := parseResolve(r)
	if err != nil {
		return answer{}, err
	}
	if !sent {
		return answer{}, instead(r)
	}
	if r.name(0) == "" || r.name(1) == "" {
		return answer{}, model.Errorf(model.NotFound, "this names no event")
	}
	return answer{http.StatusCreated, nil, ""}, r.muster.Resolve(ctx, r.namespace, r.name(0), r.name(1), "by sensuctl")
}

// parseResolve says whether an event that is sent is one that somebody resolves.
func parseResolve(r *request) (bool, error) {
	var body struct {
		Check struct {
			Status *int   `json:"status"`
			Output string `json:"output"`
		} `json:"check"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return false, model.Errorf(model.Invalid, "the body is no event: %v", err)
	}
	return body.Check.Status != nil && *body.Check.Status == 0 && body.Check.Output == resolvedOutput, nil
}

func (s *Server) forget(ctx context.Context, r *request) (answer, error) {
	if r.name(0) == "" || r.name(1) == "" {
		return answer{}, model.Errorf(model.NotFound, "this names no event")
	}
	return answer{http.StatusNoContent, nil, ""}, r.muster.DeleteEvent(ctx, r.namespace, r.name(0), r.name(1), "by sensuctl")
}

func (s *Server) remove(ctx context.Context, r *request) (answer, error) {
	k, _ := model.KindOf(types[r.kind].kind)
	if r.name(0) == "" {
		return answer{}, model.Errorf(model.NotFound, "this names no %s", k.Name)
	}
	_, err := r.muster.Delete(ctx, k, r.namespace, r.name(0), "", "by sensuctl", 0, false, false)
	return answer{http.StatusNoContent, nil, ""}, err
}
