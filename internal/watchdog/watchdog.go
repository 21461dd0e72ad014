// Package watchdog proves once a minute that a result goes the whole way: over the network
// and TLS into a session, through journal and view, into history and the outbox, to a
// delivery. Each delivered result calls an address outside, a dead-man's switch that raises an alarm when the calls stop:
// a server cannot report its own end.
//
// Start reading at Watchdog.Run. Locks: Watchdog.mu guards the awaited result; nothing is called under it.
package watchdog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/model"
)

// Options has the settings of a Watchdog, such as the time between two synthetic results.
type Options struct {
	Every time.Duration // between two results, and the longest time for the delivery of one; default 1 min
	// Send sends a result of check model.WatchdogCheck to the server as an agent does, and returns after the
	// acknowledgement.
	Send func(ctx context.Context, status model.Status, output string) error
	// Record records a failed round in the journal, past the sessions.
	Record func(ctx context.Context, status model.Status, output string) error
	// Call calls the address outside; nil: none is configured.
	Call       func(ctx context.Context) error
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Watchdog sends a synthetic (test) result through the server at intervals, and expects its notification.
type Watchdog struct {
	opts      Options
	delay     prometheus.Gauge
	rounds    *prometheus.CounterVec
	mu        sync.Mutex
	awaited   string        // output of the result under way
	delivered chan struct{} // closed after its delivery
}

// New returns a Watchdog, which starts to work when its method Run is called. Its work starts with Run.
// ConfirmDelivery may be called from now on.
func New(o Options) *Watchdog {
	if o.Every <= 0 {
		o.Every = time.Minute
	}
	w := &Watchdog{
		opts: o,
		delay: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "watchdog", Name: "delay_seconds",
			Help: "Time of the last synthetic result from its session to its delivery, in seconds."}),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "watchdog", Name: "rounds_total",
			Help: "Number of synthetic results, by outcome."}, []string{"outcome"}),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(w.delay, w.rounds)
	}
	return w
}

// Run sends a synthetic result every Options.Every until ctx ends. Each result reports the outcome of the one before.
func (w *Watchdog) Run(ctx context.Context) error {
	tick := time.NewTicker(w.opts.Every)
	defer tick.Stop()
	status, said := model.OK, "the first synthetic result since the server started"
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		status, said = w.runRound(ctx, status, said)
	}
}

// roundFailure says why the notification about a synthetic (test) result was not delivered. It has the label for a
// metric, and the status and text of an event.
type roundFailure struct {
	outcome string
	text    string
	status  model.Status
}

// runRound sends one synthetic (test) result, and waits until a handler has got its notification. It returns the
// status and text of the next synthetic result.
func (w *Watchdog) runRound(ctx context.Context, status model.Status, said string) (model.Status, string) {
	began := w.opts.Now()
	f := w.sendAndAwaitDelivery(ctx, status, fmt.Sprintf("%s (sent %s)", said, began.UTC().Format(time.RFC3339Nano)))
	took := w.opts.Now().Sub(began)
	if ctx.Err() != nil {
		return status, said
	}
	if f == nil {
		w.rounds.WithLabelValues("arrived").Inc()
		w.delay.Set(took.Seconds())
		return model.OK, fmt.Sprintf("the last synthetic result took %s from its session to its delivery", took.Round(time.Millisecond))
	}
	w.rounds.WithLabelValues(f.outcome).Inc()
	w.opts.Logger.Error("a synthetic result was not delivered", "outcome", f.outcome, "why", f.text)
	within, cancel := context.WithTimeout(ctx, w.opts.Every)
	defer cancel()
	if err := w.opts.Record(within, f.status, f.text); err != nil && ctx.Err() == nil {
		w.opts.Logger.Error("cannot record the event about the synthetic result", "err", err)
	}
	return f.status, f.text
}

// sendAndAwaitDelivery sends a synthetic result, and waits until its notification is delivered. Then it calls the
// outside watchdog's address.
func (w *Watchdog) sendAndAwaitDelivery(ctx context.Context, status model.Status, output string) *roundFailure {
	delivered := make(chan struct{})
	w.mu.Lock()
	w.awaited, w.delivered = output, delivered
	w.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, w.opts.Every)
	defer cancel()
	if err := w.opts.Send(within, status, output); err != nil {
		return &roundFailure{"unsent", fmt.Sprintf("cannot send a synthetic result: %v. Agents may have the same failure: check the listeners, the certificate and the journal", err), model.Critical}
	}
	select {
	case <-delivered:
	case <-within.Done():
		return &roundFailure{"undelivered", fmt.Sprintf("a synthetic result was acknowledged but not delivered within %s: notifications are late or missing; check the event muster-history, and the queues: muster get queues", w.opts.Every), model.Critical}
	}
	if w.opts.Call == nil {
		return nil
	}
	if err := w.opts.Call(within); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("the address of the external watchdog (--watchdog-url) did not answer within %s", w.opts.Every)
		}
		return &roundFailure{"uncalled", fmt.Sprintf("a synthetic result arrived, but the call of watchdog-url failed: %v", err), model.Warning}
	}
	return nil
}

// ConfirmDelivery records that the synthetic result with the given output was delivered.
func (w *Watchdog) ConfirmDelivery(output string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.delivered != nil && output == w.awaited {
		close(w.delivered)
		w.delivered = nil
	}
}
