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

// Path is the prefix of the URL paths: PATH/api/v2/alerts for namespace default, and PATH/NAMESPACE/api/v2/alerts.
const Path = "/alertmanager/"

// Serve answers a request under Path from an address. The error is for its sender.
func (s *Server) Serve(r *http.Request, address string) error {
	err := s.serve(r, address)
	result := "ok"
	if err != nil {
		result = model.ClassOf(err).Label()
	}
	s.metrics.requests.WithLabelValues(result).Inc()
	return err
}

func (s *Server) serve(r *http.Request, address string) error {
	namespace, ok := parsePath(r.URL.Path)
	if !ok {
		return model.Errorf(model.NotFound, "there is no %s", r.URL.Path).
			WithHint("send alerts by POST %sapi/v2/alerts, or %sNAMESPACE/api/v2/alerts: docs/alerts.md", Path, Path)
	}
	if r.Method != http.MethodPost {
		return model.Errorf(model.Invalid, "send alerts by POST; to look at them: muster get events --selector source=alertmanager").WithHint("silences are made by muster silence: docs/alerts.md")
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
	return s.receive(r.Context(), intent.Actor{User: user, Whence: address}, namespace, body)
}

// parsePath returns the namespace of a URL path.
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

// login authenticates a sender by a token of the role alerts or admin, or by user and password with the role alerts. The
// password of Sensu agents, which every machine has, is not accepted.
func (s *Server) login(r *http.Request, namespace string) (user string, err error) {
	var namespaces []string
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		who, err := s.cfg.Access.Authenticate(strings.TrimSpace(token))
		if err != nil {
			return "", model.Errorf(model.Unauthenticated, "the server does not know this token, or it has expired").WithHint("muster auth token create --role alerts -m \"alerts\"")
		}
		if who.Role != access.Alerts && !who.May(access.Change, namespace) {
			return "", model.Errorf(model.Forbidden, "a token with the role %s may not send alerts", &who.Grants).WithHint("muster auth token create --role alerts -m \"alerts\"")
		}
		user, namespaces = who.User, who.Namespaces
	} else if name, password, ok := r.BasicAuth(); ok {
		who, err := s.loginProgram(r.Context(), name, password)
		if err != nil {
			return "", err
		}
		user, namespaces = who.Name, who.Namespaces
	} else {
		return "", model.Errorf(model.Unauthenticated, "want a token (Authorization: Bearer), or user and password").
			WithHint("muster auth token create --role alerts -m \"alerts\"; or muster auth user create NAME --role alerts")
	}
	if len(namespaces) > 0 && !slices.Contains(namespaces, namespace) {
		return "", model.Errorf(model.Forbidden, "%s may not send alerts to namespace %q", user, namespace).
			WithHint("it may to: %s; the path names it: %sNAMESPACE", strings.Join(namespaces, ", "), Path)
	}
	return user, s.cfg.Intent.CheckNamespace(namespace)
}

func (s *Server) loginProgram(ctx context.Context, name, password string) (p access.Program, err error) {
	if p, err = s.cfg.Access.LoginProgram(ctx, access.Alerts, name, password, nil); err != nil {
		return p, fmt.Errorf("log in as %q: %w", truncate(oneLine(name), 100), err)
	}
	return p, nil
}
