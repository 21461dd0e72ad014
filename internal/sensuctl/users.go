package sensuctl

import (
	"context"
	"net/http"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// groupOf are the groups of Sensu whose members may what a role may here; an import makes the same
// roles of them.
var groupOf = map[string]string{"admin": "cluster-admins", "operator": "operators", "viewer": "viewers", "agent": "system:agents"}

// user is one without its password, as Sensu shows them.
func user(u *v1.User) object {
	return object{"username": u.Name, "groups": []string{groupOf[u.Role]}, "disabled": false}
}

func (s *Server) users(ctx context.Context, r *request) (answer, error) {
	got, err := r.muster.Users(ctx)
	if err != nil {
		return answer{}, err
	}
	out := []object{}
	for i := range got.Items {
		if groupOf[got.Items[i].Role] == "" {
			continue // what brings alerts is nobody there
		}
		out = append(out, user(&got.Items[i]))
	}
	return answer{http.StatusOK, out, ""}, nil
}

func (s *Server) oneUser(ctx context.Context, r *request) (answer, error) {
	got, err := r.muster.Users(ctx)
	if err != nil {
		return answer{}, err
	}
	for i := range got.Items {
		if got.Items[i].Name == r.names[0] {
			return answer{http.StatusOK, user(&got.Items[i]), ""}, nil
		}
	}
	return answer{}, model.Errorf(model.NotFound, "there is no user %s", model.Brief(r.names[0]))
}

// putUser takes one of a dump, which changes nothing; who is new needs a password.
func (s *Server) putUser(ctx context.Context, r *request) (answer, error) {
	same, err := s.unchanged(ctx, r)
	if err != nil || same {
		return answer{http.StatusOK, nil, ""}, err
	}
	return answer{}, instead(r)
}

// userOperation finds what answers a request about users; nil: nothing does.
func (s *Server) userOperation(method string, r *request) operation {
	switch depth := len(r.names); {
	case method == http.MethodGet && depth == 0:
		return s.users
	case method == http.MethodGet && depth == 1:
		return s.oneUser
	case method == http.MethodPut && depth == 1:
		return s.putUser
	}
	return nil
}
