package api

import (
	"net/http"
	"strings"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/inbound"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// open reports whether a path needs no token: it shows nothing, or has a proof of its own.
func open(path string) bool {
	switch path {
	case "/livez", "/readyz", "/api/v1/login", pki.EnrolPath, pki.RenewPath:
		return true
	}
	return inbound.Serves(path)
}

// authenticated finds the caller of a request by its token. Programs have doors of their own, and
// their roles are refused here; every operation refuses other callers by its declaration.
func (h *handler) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := access.Caller{Address: model.HostOf(r.RemoteAddr)}
		if !open(r.URL.Path) {
			token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok {
				h.CountRefusal("no_token")
				op.WriteError(w, model.Errorf(model.Unauthenticated, "this needs a token").WithHint("muster login"))
				return
			}
			var err error
			if c.Subject, err = h.Access.Authenticate(token); err != nil {
				h.CountRefusal("bad_token")
				op.WriteError(w, op.Refusal(err))
				return
			}
			if h.vouch != nil {
				h.vouch(r.Context())
			}
			if err := c.Allow(access.ByAnybody("api")); err != nil {
				h.CountRefusal("role")
				op.WriteError(w, op.Refusal(err))
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(access.WithCaller(r.Context(), c)))
	})
}
