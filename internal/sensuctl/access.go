package sensuctl

import (
	"context"
	"net/http"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
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
	return answer{}, model.Errorf(model.NotFound, "%s does not exist in %s", model.Shorten(r.names[0]), r.kind).WithHint("%s", commandsOf(r.kind)[0])
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

// login answers the paths below /auth with users, passwords and sessions of Muster.
func (s *Server) login(r *http.Request) (answer, error) {
	inside := func(token string) *client.Client { return client.InProcess(s.api, r.RemoteAddr, token) }
	switch r.Method + " " + r.URL.Path {
	case "GET /auth":
		c := inside("")
		session, err := openSession(r, c)
		if err != nil {
			return answer{}, err
		}
		return answer{http.StatusOK, tokens(session.Token, session.Expires), ""}, nil
	case "GET /auth/test":
		c := inside("")
		if _, err := openSession(r, c); err != nil {
			return answer{}, err
		}
		return answer{http.StatusOK, nil, ""}, c.Access.Logout(r.Context())
	case "POST /auth/token": // a session ends at its time: it is not refreshed
		token := tokenOf(r)
		c := inside(token)
		me, err := c.Access.WhoAmI(r.Context())
		if err != nil {
			return answer{}, err
		}
		list, err := c.Access.Tokens(r.Context())
		if err != nil {
			return answer{}, err
		}
		for _, t := range list.Items {
			if t.ID == me.Token {
				return answer{http.StatusOK, tokens(token, t.Expires), ""}, nil
			}
		}
		return answer{}, model.Errorf(model.Unauthenticated, "the session has ended")
	case "POST /auth/logout":
		return answer{http.StatusOK, nil, ""}, inside(tokenOf(r)).Access.Logout(r.Context())
	}
	return answer{}, model.Errorf(model.NotFound, "path %s does not exist", model.Shorten(r.URL.Path))
}

func openSession(r *http.Request, c *client.Client) (session v1.Session, err error) {
	user, password, ok := r.BasicAuth()
	if !ok || user == "" || password == "" {
		return session, model.Errorf(model.Unauthenticated, "a user and a password are required")
	}
	return c.Access.Login(r.Context(), user, password)
}

// forever is the lifetime that sensuctl gets for a token without an end.
const forever = 10 * 365 * 24 * time.Hour

// tokens returns the answer to a login. The refresh token, which sensuctl requires, is the session's own.
func tokens(secret string, expires time.Time) object {
	if expires.IsZero() {
		expires = time.Now().Add(forever)
	}
	return object{"access_token": secret, "expires_at": expires.Unix(), "refresh_token": secret}
}
