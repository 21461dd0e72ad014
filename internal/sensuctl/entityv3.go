package sensuctl

import (
	"context"
	"net/http"

	"github.com/muster-fleet/muster/internal/model"
)

// parted are the types that Sensu made of an entity, by the words of paths below core/v3: what is declared
// of it and what is measured.
var parted = map[string]struct {
	sensu  string
	fields []string
}{
	"entity-configs": {"EntityConfig", []string{"entity_class", "subscriptions", "deregister", "deregistration"}},
	"entity-states":  {"EntityState", []string{"system", "last_seen", "sensu_agent_version"}},
}

// part is an entity's part, wrapped as all of core/v3 are.
func part(kind string, whole object) object {
	spec := object{}
	for _, field := range parted[kind].fields {
		spec[field] = whole[field]
	}
	return object{"type": parted[kind].sensu, "api_version": "core/v3", "metadata": whole["metadata"], "spec": spec}
}

func (s *Server) entityParts(ctx context.Context, r *request) (answer, error) {
	heard, err := machines(ctx, r, "")
	if err != nil {
		return answer{}, err
	}
	return s.list(ctx, r, "Node", func(m *model.Resource) object {
		return part(r.kind, entity(m, heard[key{m.Metadata.Namespace, m.Metadata.Name}]))
	})
}

func (s *Server) entityPart(ctx context.Context, r *request) (answer, error) {
	out, err := s.entity(ctx, r)
	if whole, ok := out.body.(object); ok {
		out.body = part(r.kind, whole)
	}
	return out, err
}

// keepState takes what is measured of an entity, and leaves it to who measures it.
func (s *Server) keepState(ctx context.Context, r *request) (answer, error) {
	_, err := resource(ctx, r, "Node", r.namespace, r.name(0))
	return answer{http.StatusOK, nil, ""}, err
}

// entityOperation finds what answers a request below core/v3; nil: nothing does.
func (s *Server) entityOperation(method string, r *request) operation {
	if _, ok := parted[r.kind]; !ok {
		return nil
	}
	switch depth := len(r.names); {
	case method == http.MethodGet && depth == 0:
		return s.entityParts
	case method == http.MethodGet && depth == 1:
		return s.entityPart
	case method == http.MethodPut && depth == 1 && r.kind == "entity-configs":
		return s.put
	case method == http.MethodPut && depth == 1:
		return s.keepState
	}
	return nil
}
