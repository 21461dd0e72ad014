package sensuctl

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// listCollection answers a list request with all objects of a read-only type, such as users. Sensuctl can only read
// such types.
func (r *request) listCollection() (answer, error) {
	forms, err := sensuTypes[r.kind].objects(r)
	if err != nil {
		return answer{}, err
	}
	return r.selectForms(forms, "")
}

// getFromCollection answers with one object of a read-only type, such as a user or role. The path names the object.
func (r *request) getFromCollection() (answer, error) {
	forms, err := sensuTypes[r.kind].objects(r)
	if err != nil {
		return answer{}, err
	}
	for _, o := range forms {
		if o["username"] == r.names[0] || objectName(o) == r.names[0] {
			return answer{body: o}, nil
		}
	}
	return answer{}, model.Errorf(model.NotFound, "object %s does not exist in the collection %s", model.Shorten(r.names[0]), r.kind).WithHint("%s", commandsOf(r.kind)[0])
}

// putInCollection accepts sensuctl's PUT of a read-only object, such as a role, if the object is unchanged. It
// refuses changes.
func (r *request) putInCollection() (answer, error) {
	_, same, err := r.readDocument()
	if err == nil && !same {
		err = unsupportedRequestError(r)
	}
	return answer{status: http.StatusOK}, err
}

// sensuRoles are the roles of users with their names in Sensu: the group whose members have the role, as an import reads
// it, and the ClusterRole with its permissions by sensuctl. No role belongs to one namespace.
var sensuRoles = []struct {
	ours, group, clusterRole string
	rules                    []object
}{
	{"admin", "cluster-admins", "cluster-admin", []object{permissionRule("*", "*")}},
	{"operator", "operators", "operator", []object{permissionRule("get,list", readableTypes), permissionRule("create,delete", "silenced"), permissionRule("update,delete", "events")}},
	{"agent", "system:agents", "system:agent", []object{permissionRule("*", "events")}},
	{"viewer", "viewers", "view", []object{permissionRule("get,list", readableTypes)}},
}

const readableTypes = "assets,checks,entities,events,filters,handlers,hooks,mutators,namespaces,pipelines,silenced"

// permissionRule returns one rule of a Sensu role, made from comma-separated verbs and resource types.
func permissionRule(verbs, resources string) object {
	return object{"verbs": strings.Split(verbs, ","), "resources": strings.Split(resources, ","), "resource_names": []string{}}
}

// listUsers returns the Muster users whose role has an equivalent in Sensu, in Sensu's JSON format.
func listUsers(r *request) (list []object, err error) {
	got, err := r.muster.Access.Users(r.Context())
	for i := range got.Items {
		for _, role := range sensuRoles {
			if role.ours == got.Items[i].Role {
				list = append(list, object{"username": got.Items[i].Name, "groups": []string{role.group}, "disabled": false})
			}
		}
	}
	return list, err
}

// listClusterRoles returns Muster's roles as ClusterRoles of Sensu.
func listClusterRoles(*request) (list []object, err error) {
	for _, role := range sensuRoles {
		list = append(list, object{"metadata": object{"name": role.clusterRole}, "rules": role.rules})
	}
	return list, nil
}

// listClusterRoleBindings returns Muster's roles as ClusterRoleBindings of Sensu.
func listClusterRoleBindings(*request) (list []object, err error) {
	for _, role := range sensuRoles {
		list = append(list, object{"metadata": object{"name": role.clusterRole}, "role_ref": object{"type": "ClusterRole", "name": role.clusterRole},
			"subjects": []object{{"type": "Group", "name": role.group}}})
	}
	return list, nil
}

// answerEmptyList answers with an empty list, for Sensu types without an equivalent in Muster.
func answerEmptyList(*request) ([]object, error) { return nil, nil }

// answerLogin answers sensuctl's login, refresh and logout below the path /auth. It uses the users, passwords and
// sessions of Muster.
func (s *Server) answerLogin(r *http.Request) (answer, error) {
	token := tokenOf(r)
	if r.Method == http.MethodGet {
		token = ""
	}
	c := client.InProcess(s.api, r.RemoteAddr, token)
	out := answer{status: http.StatusOK}
	switch r.Method + " " + r.URL.Path {
	case "GET /auth":
		session, err := openSession(r, c)
		out.body = tokenAnswer(session.User, session.Token, session.Expires)
		return out, err
	case "GET /auth/test":
		if _, err := openSession(r, c); err != nil {
			return out, err
		}
		return out, c.Access.Logout(r.Context())
	case "POST /auth/token": // a session ends at its time: it is not refreshed
		me, err := c.Access.WhoAmI(r.Context())
		if err != nil {
			return out, err
		}
		list, err := c.Access.Tokens(r.Context())
		if err != nil {
			return out, err
		}
		for _, t := range list.Items {
			if t.ID == me.Token {
				out.body = tokenAnswer(me.User, token, t.Expires)
				return out, nil
			}
		}
		return out, model.Errorf(model.Unauthenticated, "the login session of the user has ended")
	case "POST /auth/logout":
		return out, c.Access.Logout(r.Context())
	}
	return out, model.Errorf(model.NotFound, "path %s does not exist", model.Shorten(r.URL.Path))
}

// openSession checks the user name and password of sensuctl's login and returns the tokens of a new session.
// The client keeps the session.
func openSession(r *http.Request, c *client.Client) (session v1.Session, err error) {
	user, password, ok := r.BasicAuth()
	if !ok || user == "" || password == "" {
		return session, model.Errorf(model.Unauthenticated, "a user and a password are required")
	}
	return c.Access.Login(r.Context(), user, password)
}

// endlessLife is the lifetime that sensuctl gets for a token without an end.
const endlessLife = 10 * 365 * 24 * time.Hour

// tokenAnswer returns the JSON body of the answer to a login, with the session's tokens. The refresh token, which
// sensuctl requires, is the session's own.
func tokenAnswer(user, secret string, expires time.Time) object {
	if expires.IsZero() {
		expires = time.Now().Add(endlessLife)
	}
	return object{"access_token": webToken(user, secret), "expires_at": expires.Unix(), "refresh_token": secret}
}

// webToken returns a session's token in the form of a JSON Web Token. The command sensuctl config view reads the
// user's name there. The server reads the last part alone, which is the session's secret.
func webToken(user, secret string) string {
	claims, _ := json.Marshal(map[string]string{"sub": user}) // texts have an encoding
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(claims) + "." + encode([]byte(secret))
}

// sessionSecret returns the session's secret, extracted from the token that webToken has made. A token of another form
// is returned whole.
func sessionSecret(token string) string {
	parts := strings.Split(token, ".")
	if secret, err := base64.RawURLEncoding.DecodeString(parts[len(parts)-1]); err == nil && len(parts) == 3 {
		return string(secret)
	}
	return token
}
