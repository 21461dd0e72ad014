package sensuctl

import (
	"context"
	"encoding/json"
	"net/http"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// types are what can be declared, by the words of paths: Sensu's type, and the kind here.
var types = map[string]struct{ sensu, kind string }{
	"namespaces": {"Namespace", "Namespace"}, "checks": {"CheckConfig", "Check"}, "entities": {"Entity", "Node"}, "hooks": {"HookConfig", "Hook"},
	"filters": {"EventFilter", "Filter"}, "mutators": {"Mutator", "Mutator"}, "handlers": {"Handler", "Handler"}, "pipelines": {"Pipeline", "Pipeline"},
	"assets": {"Asset", "Asset"}, "entity-configs": {"EntityConfig", "Node"}, "silenced": {"Silenced", "Silence"},
}

// kinds are the kinds here by Sensu's types.
var kinds = map[string]string{
	"Namespace": "Namespace", "CheckConfig": "Check", "Entity": "Node", "HookConfig": "Hook", "EventFilter": "Filter",
	"Mutator": "Mutator", "Handler": "Handler", "Pipeline": "Pipeline", "Silenced": "Silence", "Asset": "Asset", "EntityConfig": "Node",
}

// operation finds what answers a request; nil: nothing does.
func (s *Server) operation(r *request) operation { return s.operationOf(r.Method, r) }

func (s *Server) operationOf(method string, r *request) operation {
	if r.kind == "users" && r.group == "core/v2" {
		return s.userOperation(method, r)
	}
	if isRole(r.kind) && r.group == "core/v2" {
		return s.roleOperation(method, r)
	}
	if r.namespace == "" && r.kind != "namespaces" && (method != http.MethodGet || len(r.names) > 0) {
		return nil
	}
	switch r.group {
	case "core/v2":
	case "core/v3":
		return s.entityOperation(method, r)
	default:
		return nil
	}
	if ofHooks(method, r) {
		return s.changeHooks
	}
	_, declared := types[r.kind]
	declared = declared && r.kind != "silenced" && r.kind != "entity-configs"
	_, keeps := kept[r.kind]
	depth := len(r.names)
	switch method {
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

// resolve is muster event resolve. Other events are not taken: results come from agents. One that is
// known already, as those of a dump are, changes nothing.
func (s *Server) resolve(ctx context.Context, r *request) (answer, error) {
	sent, err := parseEvent(r)
	if err != nil {
		return answer{}, err
	}
	if r.name(0) == "" || r.name(1) == "" {
		return answer{}, model.Errorf(model.NotFound, "this names no event")
	}
	if sent.resolves() {
		return answer{http.StatusCreated, nil, ""}, r.muster.Resolve(ctx, r.namespace, r.name(0), r.name(1), "by sensuctl")
	}
	is, err := r.muster.Event(ctx, r.namespace, r.name(0), r.name(1))
	switch {
	case model.ClassOf(err) == model.NotFound && err != nil:
	case err != nil:
		return answer{}, err
	case sent.Check.Executed > 0 && sent.Check.Executed <= unix(is.Executed):
		return answer{http.StatusOK, nil, ""}, nil
	}
	return answer{}, instead(r)
}

// sentEvent is what is read of an event.
type sentEvent struct {
	Check struct {
		Status   *int   `json:"status"`
		Output   string `json:"output"`
		Executed int64  `json:"executed"`
	} `json:"check"`
}

// resolves says whether it is one that somebody resolves.
func (e *sentEvent) resolves() bool {
	return e.Check.Status != nil && *e.Check.Status == 0 && e.Check.Output == resolvedOutput
}

func parseEvent(r *request) (e sentEvent, err error) {
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		return e, model.Errorf(model.Invalid, "the body is no event: %v", err)
	}
	return e, nil
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
	refs := []v1.Ref{{Kind: k.Name, Namespace: r.namespace, Name: r.name(0)}}
	if r.kind == "handlers" {
		var err error
		if refs, err = handlerIs(ctx, r); err != nil {
			return answer{}, err
		}
	}
	_, err := r.muster.DeleteMany(ctx, v1.DeleteRequest{Resources: refs, Message: "by sensuctl"})
	return answer{http.StatusNoContent, nil, ""}, byHand(err, deleteByHand(k.Name, r.namespace, r.name(0)))
}
