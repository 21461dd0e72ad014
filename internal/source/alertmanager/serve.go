package alertmanager

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Path is under which senders find it: PATH/api/v2/alerts for namespace default, and
// PATH/NAMESPACE/api/v2/alerts.
const Path = "/alertmanager/"

// Serve answers a request under Path, from an address; the error is for its sender.
func (s *Server) Serve(r *http.Request, whence string) error {
	err := s.serve(r, whence)
	result := "ok"
	if err != nil {
		result = model.ClassOf(err).Label()
	}
	s.metrics.requests.WithLabelValues(result).Inc()
	return err
}

func (s *Server) serve(r *http.Request, whence string) error {
	namespace, ok := parsePath(r.URL.Path)
	if !ok {
		return model.Errorf(model.NotFound, "there is no %s", r.URL.Path).
			WithHint("alerts come in by POST %sapi/v2/alerts, or %sNAMESPACE/api/v2/alerts: docs/alerts.md", Path, Path)
	}
	if r.Method != http.MethodPost {
		return model.Errorf(model.Invalid, "alerts come in by POST; to look at them: muster get events --selector source=alertmanager").WithHint("silences are made by muster silence: docs/alerts.md")
	}
	user, err := s.login(r, namespace)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, s.cfg.Limits.BodyBytes+1))
	if err != nil {
		return model.Errorf(model.Invalid, "the request ended early: %w", err)
	}
	if int64(len(body)) > s.cfg.Limits.BodyBytes {
		return model.Errorf(model.TooLarge, "more than %s in one request", model.Size(s.cfg.Limits.BodyBytes)).WithHint("send fewer alerts at once")
	}
	return s.take(r.Context(), intent.Actor{User: user, Whence: whence}, namespace, body)
}

// parsePath finds the namespace that a sender means.
func parsePath(path string) (namespace string, ok bool) {
	rest, ok := strings.CutPrefix(path, Path)
	if !ok {
		return "", false
	}
	for _, version := range [...]string{"api/v2/alerts", "api/v1/alerts"} {
		if namespace, ok = strings.CutSuffix(rest, version); !ok {
			continue
		}
		if namespace == "" {
			return model.DefaultNamespaceName, true
		}
		namespace, ok = strings.CutSuffix(namespace, "/")
		return namespace, ok && model.NameError(namespace) == nil
	}
	return "", false
}

// login finds out who brings alerts in: a token of the role alerts or admin, or a user with the role alerts and the password. The password of Sensu's agents, which
// stands on every machine, opens nothing here.
func (s *Server) login(r *http.Request, namespace string) (user string, err error) {
	var of []string
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		who, err := s.cfg.Access.Authenticate(strings.TrimSpace(token))
		if err != nil {
			return "", model.Errorf(model.Unauthenticated, "the server does not know this token, or it has ended").WithHint("muster auth token create --role alerts -m \"alerts\"")
		}
		if who.Role != access.Alerts && !who.May(access.Change, namespace) {
			return "", model.Errorf(model.Forbidden, "a token with the role %s brings no alerts in", &who.Grants).WithHint("muster auth token create --role alerts -m \"alerts\"")
		}
		user, of = who.User, who.Namespaces
	} else if name, password, ok := r.BasicAuth(); ok {
		who, err := s.loginProgram(r.Context(), name, password)
		if err != nil {
			return "", err
		}
		user, of = who.Name, who.Namespaces
	} else {
		return "", model.Errorf(model.Unauthenticated, "this needs a token (Authorization: Bearer), or user and password").
			WithHint("muster auth token create --role alerts -m \"alerts\"; or muster auth user create NAME --role alerts")
	}
	if len(of) > 0 && !slices.Contains(of, namespace) {
		return "", model.Errorf(model.Forbidden, "%s may not bring alerts into namespace %q", user, namespace).
			WithHint("it may into: %s; the path says which: %sNAMESPACE", strings.Join(of, ", "), Path)
	}
	return user, s.cfg.Intent.CheckNamespace(namespace)
}

func (s *Server) loginProgram(ctx context.Context, name, password string) (p access.Program, err error) {
	if p, err = s.cfg.Access.LoginProgram(ctx, access.Alerts, name, password, nil); err != nil {
		return p, fmt.Errorf("log in as %q: %w", cut(oneLine(name), 100), err)
	}
	return p, nil
}
