package sensuctl

import (
	"context"
	"net/http"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// listCollection answers with all objects of a read-only type.
func (s *Server) listCollection(ctx context.Context, r *request) (answer, error) {
	forms, err := types[r.kind].objects(ctx, r)
	if err != nil {
		return answer{}, err
	}
	return selectForms(ctx, r, forms, "")
}

func (s *Server) oneOfCollection(ctx context.Context, r *request) (answer, error) {
	forms, err := types[r.kind].objects(ctx, r)
	if err != nil {
		return answer{}, err
	}
	for _, o := range forms {
		if o["username"] == r.names[0] || nameOf(o) == r.names[0] {
			return answer{http.StatusOK, o, ""}, nil
		}
	}
	return answer{}, model.Errorf(model.NotFound, "there is no %s in %s", model.Shorten(r.names[0]), r.kind).WithHint("%s", commandsOf(r.kind)[0])
}

// putInCollection accepts an object that the server has, such as an object of a dump; Muster has other commands for changes.
func (s *Server) putInCollection(ctx context.Context, r *request) (answer, error) {
	_, same, err := s.readDocument(ctx, r)
	if err == nil && !same {
		err = noOperation(r)
	}
	return answer{http.StatusOK, nil, ""}, err
}

// groupOf are the groups of Sensu whose members have a role of Muster. An import makes the same roles of them.
var groupOf = map[string]string{"admin": "cluster-admins", "operator": "operators", "viewer": "viewers", "agent": "system:agents"}

// users leaves out users that have no role in Sensu.
func users(ctx context.Context, r *request) (list []object, err error) {
	got, err := r.muster.Access.Users(ctx)
	for i := range got.Items {
		if group := groupOf[got.Items[i].Role]; group != "" {
			list = append(list, object{"username": got.Items[i].Name, "groups": []string{group}, "disabled": false})
		}
	}
	return list, err
}

// roleRules are the permissions of Muster's roles by sensuctl. No role belongs to one namespace.
var roleRules = []struct {
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

func clusterRoles(context.Context, *request) (list []object, err error) {
	for _, role := range roleRules {
		list = append(list, object{"metadata": object{"name": role.name}, "rules": role.rules})
	}
	return list, nil
}

func clusterRoleBindings(context.Context, *request) (list []object, err error) {
	for _, role := range roleRules {
		list = append(list, object{"metadata": object{"name": role.name}, "role_ref": object{"type": "ClusterRole", "name": role.name},
			"subjects": []object{{"type": "Group", "name": role.group}}})
	}
	return list, nil
}

func noObjects(context.Context, *request) ([]object, error) { return nil, nil }
