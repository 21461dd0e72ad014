package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// bounded lets only so many requests in at the same time. Those that are open to all
// (health, login, enrolment), watches and runs have bounds of their own.
func (s *server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open(r.URL.Path) || strings.HasSuffix(r.URL.Path, "/watch") || r.URL.Path == runsPath {
			next.ServeHTTP(w, r)
			return
		}
		inSlots(s.slots, w, r, next)
	})
}

// inSlots answers a request in one of the slots, or refuses it.
func inSlots(slots *queue.Slots, w http.ResponseWriter, r *http.Request, next http.Handler) {
	if err := slots.Enter(r.Context()); err != nil {
		if errors.Is(err, queue.ErrFull) {
			writeError(w, full())
		}
		return
	}
	defer slots.Leave()
	next.ServeHTTP(w, r)
}

func full() *model.Error {
	return model.Errorf(model.Unavailable, "the server answers as many requests as it may").
		WithHint("try again; muster get queues shows how many wait, --queues raises the bound")
}
