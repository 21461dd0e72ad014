package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/model"
)

// unknownPath answers requests that match no route: 405 where the path has other methods, else 404.
func unknownPath(routes *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			other := *r
			other.Method = method
			if _, route := routes.Handler(&other); route != "" && route != "/" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			op.WriteError(w, model.Errorf(model.NotFound, "there is nothing at %s", model.Shorten(r.URL.Path)).WithHint("all paths: /api/v1/openapi.json"))
			return
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		p := op.Problem(model.Invalid, fmt.Sprintf("%s takes no %s", model.Shorten(r.URL.Path), model.Shorten(r.Method)), "allowed methods: "+list+"; more: /api/v1/openapi.json")
		p.Title, p.Status = "No such method here", http.StatusMethodNotAllowed
		op.WriteProblem(w, p)
	}
}

// refusePeople answers requests of people on the listener for agents.
func refusePeople(w http.ResponseWriter, _ *http.Request) {
	op.WriteError(w, model.Errorf(model.NotFound, "this address is for agents only").WithHint("people have another: --listen of the server"))
}
