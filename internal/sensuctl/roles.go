package sensuctl

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// clusterRoles are what the roles here may by sensuctl, in Sensu's words, by name. Users show the
// groups that the bindings name (groupOf). No role here is of one namespace, and none can be made.
var clusterRoles = []struct {
	name, group string
	rules       []object
}{
	{"cluster-admin", "cluster-admins", []object{rule("*", "*")}},
	{"operator", "operators", []object{rule("get,list", readable), rule("create,delete", "silenced"), rule("update,delete", "events")}},
	{"system:agent", "system:agents", []object{rule("*", "events")}},
	{"view", "viewers", []object{rule("get,list", readable)}},
}

const readable = "assets,checks,entities,events,filters,handlers,hooks,mutators,namespaces,pipelines,silenced"

func rule(verbs, resources string) object {
	return object{"verbs": strings.Split(verbs, ","), "resources": strings.Split(resources, ","), "resource_names": []string{}}
}

// roleForms write one of them, by the words of paths.
var roleForms = map[string]func(i int) object{
	"clusterroles": func(i int) object {
		return object{"metadata": object{"name": clusterRoles[i].name}, "rules": clusterRoles[i].rules}
	},
	"clusterrolebindings": func(i int) object {
		return object{"metadata": object{"name": clusterRoles[i].name}, "role_ref": object{"type": "ClusterRole", "name": clusterRoles[i].name},
			"subjects": []object{{"type": "Group", "name": clusterRoles[i].group}}}
	},
}

// rolesOf are the kinds of roles that a namespace could have, and never has here.
var rolesOf = []string{"roles", "rolebindings"}

func isRole(kind string) bool { return roleForms[kind] != nil || slices.Contains(rolesOf, kind) }

// roles lists them.
func (s *Server) roles(ctx context.Context, r *request) (answer, error) {
	chosen, err := parseSelectors(r.URL.Query(), r.kind)
	if err != nil {
		return answer{}, err
	}
	out := []object{}
	if form := roleForms[r.kind]; form != nil {
		for i := range clusterRoles {
			if o := form(i); chosen.take(r.kind, o) {
				out = append(out, o)
			}
		}
		return answer{http.StatusOK, out, ""}, nil
	}
	return answer{http.StatusOK, out, ""}, s.namespaceIsThere(ctx, r, 0)
}

func (s *Server) oneRole(_ context.Context, r *request) (answer, error) {
	if form := roleForms[r.kind]; form != nil {
		for i := range clusterRoles {
			if clusterRoles[i].name == r.names[0] {
				return answer{http.StatusOK, form(i), ""}, nil
			}
		}
	}
	return answer{}, model.Errorf(model.NotFound, "there is no %s in %s", model.Brief(r.names[0]), r.kind).WithHint("%s", commands[r.kind][0])
}

// putRole takes one of a dump, which changes nothing; there are no others.
func (s *Server) putRole(ctx context.Context, r *request) (answer, error) {
	same, err := s.unchanged(ctx, r)
	if err != nil || same {
		return answer{http.StatusOK, nil, ""}, err
	}
	return answer{}, instead(r)
}

// roleOperation finds what answers a request about roles; nil: nothing does.
func (s *Server) roleOperation(method string, r *request) operation {
	switch depth := len(r.names); {
	case method == http.MethodGet && depth == 0:
		return s.roles
	case method == http.MethodGet && depth == 1:
		return s.oneRole
	case method == http.MethodPut && depth == 1:
		return s.putRole
	}
	return nil
}
