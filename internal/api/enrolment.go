package api

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/tries"
)

// Enrolments is what pki.Enroller.Admit asks: so many machines join at the same time. A
// request has arrived whole before it takes a place, so that nobody holds one by sending
// slowly.
func Enrolments(r *queue.Registry) func(context.Context) (leave func(), err error) {
	slots := queue.NewSlots(r, "enrolments")
	return func(ctx context.Context) (func(), error) {
		err := slots.Enter(ctx)
		if errors.Is(err, queue.ErrFull) {
			err = full()
		}
		return slots.Leave, err
	}
}

// enrolment has no caller yet. Who tries join tokens that do not exist is slowed down as
// with passwords, and one network has only so many requests under way. A token that was
// used up or has expired is no guess, and one that was deleted is one guess, however often
// its machines show it: they may ask on without tiring the others of their network.
func (s *server) enrolment() http.Handler {
	return s.newcomers("enrol", "join_token", newGuesses(s.Now), func(w *recorder, r *http.Request) (wrong bool, shown string) {
		shown = s.Enrol.Serve(w, r)
		if w.status == http.StatusTooManyRequests {
			s.metrics.refused.WithLabelValues("pending").Inc()
		}
		return shown != "", shown
	})
}

// renewal has shown nothing yet either: its certificate is in the request.
func (s *server) renewal() http.Handler {
	return s.newcomers("renew", "renewal", newGuesses(s.Now), func(w *recorder, r *http.Request) (wrong bool, shown string) {
		s.metrics.renewals.WithLabelValues(s.Renew.Serve(w, r)).Inc()
		return w.status == http.StatusUnauthorized, ""
	})
}

// newcomers bounds what each network asks of serve: what is the prefix, wrong a reason,
// of refusals in the metrics. serve says whether something wrong was shown, and what, if that
// has a name; of such guesses each network has what tries allows, for what alone.
func (s *server) newcomers(what, wrong string, tries *guesses, serve func(*recorder, *http.Request) (wrong bool, shown string)) http.Handler {
	var under underWay
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whence := model.HostOf(r.RemoteAddr)
		if tries.Exhausted(whence) {
			s.metrics.refused.WithLabelValues(what + "_rate").Inc()
			writeError(w, model.Errorf(model.Limited, "too many wrong join tokens or certificates from %s", whence).WithHint("wait a minute, and check the token: muster node token list"))
			return
		}
		leave, ok := under.enter(whence)
		if !ok {
			s.metrics.refused.WithLabelValues(what + "_network").Inc()
			w.Header().Set("Connection", "close") // else the answer waits for the rest of the request
			writeError(w, model.Errorf(model.Unavailable, "%d machines of the network of %s join or renew now", enrolmentsPerNetwork, whence).WithHint("the agent tries again by itself"))
			return
		}
		defer leave()
		rec := &recorder{ResponseWriter: w}
		if bad, shown := serve(rec, r); bad {
			s.metrics.refused.WithLabelValues(wrong).Inc()
			tries.count(whence, shown)
		}
	})
}

// enrolmentsPerNetwork leaves places for others: a fleet behind one address joins by and
// by.
const enrolmentsPerNetwork = 32

// underWay counts the requests of each network, as tries.Limiter tells networks apart.
type underWay struct {
	mu sync.Mutex
	by map[netip.Prefix]int
}

func (u *underWay) enter(address string) (leave func(), ok bool) {
	from := tries.Network(address)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by[from] >= enrolmentsPerNetwork {
		return nil, false
	}
	if u.by == nil {
		u.by = map[netip.Prefix]int{}
	}
	u.by[from]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.by[from]--; u.by[from] == 0 {
			delete(u.by, from)
		}
	}, true
}
