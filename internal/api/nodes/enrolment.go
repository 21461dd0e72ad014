package nodes

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/tries"
)

// Enrolments returns the Admit of pki.Enroller and pki.Renewer, which bounds the number of
// machines that join at the same time. A request takes a place only when it has arrived whole, so
// that a slow sender holds none.
func Enrolments(r *queue.Registry) func(context.Context) (leave func(), err error) {
	slots := queue.NewSlots(r, "enrolments")
	return func(ctx context.Context) (func(), error) {
		err := slots.Enter(ctx)
		if errors.Is(err, queue.ErrFull) {
			err = op.Full()
		}
		return slots.Leave, err
	}
}

// HandleEnrolment answers agents that enrol or renew their certificate on mux. Neither has a
// caller yet, so attempts with wrong join tokens or certificates are throttled by network, as
// passwords are. A token that was used up or has expired counts as no attempt; a deleted one counts
// once, however often the machines of a network show it.
func HandleEnrolment(r *op.Routes, mux *http.ServeMux, enrol *pki.Enroller, renew *pki.Renewer) {
	renewals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_certificate_renewals_total", Help: "Requests of nodes for a new certificate, by outcome.",
	}, []string{"outcome"})
	r.Metrics.Register(renewals)
	mux.Handle(pki.EnrolPath, throttled(r, "enrol", "join_token", func(w *op.StatusRecorder, q *http.Request) (wrong bool, secret string) {
		secret = enrol.Serve(w, q)
		if w.Status == http.StatusTooManyRequests {
			r.CountRefusal("pending")
		}
		return secret != "", secret
	}))
	mux.Handle(pki.RenewPath, throttled(r, "renew", "renewal", func(w *op.StatusRecorder, q *http.Request) (wrong bool, secret string) {
		renewals.WithLabelValues(renew.Serve(w, q)).Inc()
		return w.Status == http.StatusUnauthorized, ""
	}))
}

// throttled bounds the requests of each network to serve, and its wrong attempts. name begins the
// reasons of refusals in the metrics, wrongReason is the one of a wrong attempt. serve reports
// whether the attempt was wrong, and the name of the wrong secret, if it has one.
func throttled(r *op.Routes, name, wrongReason string, serve func(*op.StatusRecorder, *http.Request) (wrong bool, secret string)) http.Handler {
	wrong, concurrent := newAttempts(r.View().Now), concurrentRequests{by: map[netip.Prefix]int{}}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		address := model.HostOf(q.RemoteAddr)
		if wrong.Exhausted(address) {
			r.CountRefusal(name + "_rate")
			op.WriteError(w, model.Errorf(model.Limited, "too many wrong join tokens or certificates from %s", address).WithHint("wait a minute, and check the token: muster node token list"))
			return
		}
		leave, ok := concurrent.enter(address)
		if !ok {
			r.CountRefusal(name + "_network")
			w.Header().Set("Connection", "close") // else the answer waits for the rest of the request
			op.WriteError(w, model.Errorf(model.Unavailable, "%d machines of the network of %s join or renew now", enrolmentsPerNetwork, address).WithHint("the agent tries again by itself"))
			return
		}
		defer leave()
		rec := &op.StatusRecorder{ResponseWriter: w}
		if bad, secret := serve(rec, q); bad {
			r.CountRefusal(wrongReason)
			wrong.count(address, secret)
		}
	})
}

// enrolmentsPerNetwork bounds the concurrent requests of one network: a fleet behind one address
// leaves places for others.
const enrolmentsPerNetwork = 32

// concurrentRequests counts the requests of each network, as tries.Limiter tells networks apart.
type concurrentRequests struct {
	mu sync.Mutex
	by map[netip.Prefix]int
}

func (c *concurrentRequests) enter(address string) (leave func(), ok bool) {
	network := tries.Network(address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[network] >= enrolmentsPerNetwork {
		return nil, false
	}
	c.by[network]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.by[network]--; c.by[network] == 0 {
			delete(c.by, network)
		}
	}, true
}
