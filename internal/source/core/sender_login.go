package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/authlimit"
	"github.com/muster-fleet/muster/internal/model"
)

// Access is the interface that authenticates sending programs, such as Prometheus with its alerts.
// *access.Service implements it.
type Access interface {
	Authenticate(token string) (access.Subject, error)
	LoginProgram(ctx context.Context, role, name, password string, admit access.PasswordThrottle) (access.Program, error)
}

// SenderLogin authenticates programs that send without a session, such as a Prometheus. Each request has a token, or a
// user and password.
type SenderLogin struct {
	Access         Access
	CheckNamespace func(name string) error
	Passwords      *authlimit.Limiter
	Role           string // that permits to send
	Noun           string // for messages: alerts
	Path           string // prefix of the URL paths: PATH/METHOD for namespace default, and PATH/NAMESPACE/METHOD
}

// NamespaceOf returns the namespace in a request's URL path, if the path ends with a known API method.
func (l *SenderLogin) NamespaceOf(path string, methods ...string) (namespace string, ok bool) {
	rest, ok := strings.CutPrefix(path, l.Path)
	if !ok {
		return "", false
	}
	for _, method := range methods {
		if namespace, ok = strings.CutSuffix(rest, method); !ok {
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

// Authenticate authenticates a sender by a token or by user and password. The token is of the role or of an admin, the
// user is of the role. The password of Sensu agents, which every machine has, is not accepted.
func (l *SenderLogin) Authenticate(r *http.Request, namespace string) (user string, err error) {
	create := fmt.Sprintf("create a token: muster auth token create --role %s -m %q", l.Role, l.Noun)
	var namespaces []string
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		who, err := l.Access.Authenticate(strings.TrimSpace(token))
		if err != nil {
			return "", model.Errorf(model.Unauthenticated, "the token is unknown or has expired").WithHint("%s", create)
		}
		if who.Role != l.Role && !who.May(access.Change, namespace) {
			return "", model.Errorf(model.Forbidden, "a token with the role %s may not send %s", &who.Grants, l.Noun).WithHint("%s", create)
		}
		user, namespaces = who.User, who.Namespaces
	} else if name, password, ok := r.BasicAuth(); ok {
		who, err := l.loginProgram(r.Context(), name, password, model.HostOf(r.RemoteAddr))
		if err != nil {
			return "", err
		}
		user, namespaces = who.Name, who.Namespaces
	} else {
		return "", model.Errorf(model.Unauthenticated, "the request has no credentials: expected a token (Authorization: Bearer), or user and password").
			WithHint("%s; or a user:  muster auth user create NAME --role %s", create, l.Role)
	}
	if len(namespaces) > 0 && !slices.Contains(namespaces, namespace) {
		return "", model.Errorf(model.Forbidden, "%s may not send %s to namespace %q", user, l.Noun, namespace).
			WithHint("allowed: %s; name the namespace in the path: %sNAMESPACE", strings.Join(namespaces, ", "), l.Path)
	}
	return user, l.CheckNamespace(namespace)
}

// loginProgram checks the user name and password of a sender, and limits wrong passwords per address. One that was
// right before is never limited, even if somebody at the same address guesses passwords.
func (l *SenderLogin) loginProgram(ctx context.Context, name, password, from string) (p access.Program, err error) {
	if p, err = l.Access.LoginProgram(ctx, l.Role, name, password, func(ctx context.Context) (func(bool), error) {
		done, _, err := l.Passwords.Acquire(ctx, from)
		if errors.Is(err, authlimit.ErrExhausted) {
			err = model.Errorf(model.Limited, "too many wrong passwords from %s", from).WithHint("wait half a minute; passwords that were right since the server started still work")
		}
		return done, err
	}); err != nil {
		return p, fmt.Errorf("log in as %q: %w", model.Truncate(strings.Join(strings.Fields(strings.ToValidUTF8(name, "\uFFFD")), " "), 100), err)
	}
	return p, nil
}
