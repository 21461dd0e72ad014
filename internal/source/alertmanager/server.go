package alertmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/authlimit"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/recorder"
	"github.com/muster-fleet/muster/internal/source/core"
)

// Server receives alerts by Alertmanager's API and writes the alerts as results of passive checks.
type Server struct {
	cfg     Config
	metrics *metrics
	login   core.SenderLogin
	ready   chan struct{} // closed when the events that are open at the start are loaded

	creation sync.Mutex // held while checks and nodes are created

	mu        sync.Mutex
	clock     time.Duration // time that this process has run; it does not advance while the process is stopped
	clockRead time.Time     // time of day of the last reading
	events    map[eventKey]*alertEvent
	firing    int                          // number of firing alerts
	pastEnds  map[senderAlert]expiredAlert // see setLifetimes
	warned    map[string]time.Duration     // by sender: last log line on its clock
}

// New checks the configuration, registers the metrics and returns the Server. Requests wait for Run.
func New(cfg Config) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, ready: make(chan struct{}), events: map[eventKey]*alertEvent{}, pastEnds: map[senderAlert]expiredAlert{}, warned: map[string]time.Duration{}, clockRead: cfg.Now()}
	s.login = core.SenderLogin{Access: cfg.Access, CheckNamespace: cfg.Intent.CheckNamespace, Passwords: authlimit.New(cfg.Now), Role: access.Alerts, Noun: "alerts", Path: Path}
	s.metrics = newMetrics(cfg.Registerer, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(s.firing)
	})
	return s, nil
}

// Run ends the alerts that senders no longer repeat, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	if err := s.loadOpenEvents(ctx); err != nil {
		return err
	}
	close(s.ready)
	ticker := time.NewTicker(expiryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := s.endExpiredAlerts(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("cannot record ended alerts; the server retries", "err", err)
			}
		}
	}
}

// loadOpenEvents restores the events of alerts that were open when the server stopped.
func (s *Server) loadOpenEvents(ctx context.Context) error {
	checks := s.cfg.Plan.PassiveChecks("", "")
	if len(checks) == 0 {
		return nil
	}
	q := event.Query{Checks: checks, Statuses: []model.Status{model.Warning, model.Critical, model.Unknown}, Limit: event.MaxLimit,
		ByNode: true, // a list by severity misses events that become worse meanwhile
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		page, err := s.cfg.View.List(ctx, q)
		if err != nil {
			return fmt.Errorf("list the events of open alerts: %w", err)
		}
		for i := range page.States {
			st := &page.States[i]
			namespace, check, ok := s.cfg.Plan.SourceName(model.CheckSource(st.Check))
			if !ok || st.Stream != 0 || st.Expired { // an event of an agent, or an expired event: alerts do not end it
				continue
			}
			s.events[eventKey{st.Node, st.Check}] = &alertEvent{
				node: st.Node, namespace: namespace, check: check, stateKnown: true, status: st.Status, output: st.Output,
				restored: &firingAlert{status: st.Status, text: st.Output, line: oneLine(st.Output), until: s.clock + repeatDeadline(st.Output)},
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// readClockLocked advances the clock for the expiry of alerts, which stops while the server process is stopped.
// The clock, Server.clock, stands still while the process is stopped.
func (s *Server) readClockLocked() time.Duration {
	at := s.cfg.Now()
	s.clock += min(max(0, at.Sub(s.clockRead)), 2*expiryInterval)
	s.clockRead = at
	return s.clock
}

// endExpiredAlerts ends alerts that senders stopped repeating, and writes results of changed events.
func (s *Server) endExpiredAlerts(ctx context.Context) error {
	s.mu.Lock()
	now := s.readClockLocked()
	s.pruneSendersLocked(now)
	var changed []*alertEvent
	for key, p := range s.events {
		n := p.removeExpired(now)
		s.firing -= n
		s.metrics.ended.Add(float64(n))
		if status, text := p.presentResult(); !p.stateKnown || status != p.status || text != p.output {
			changed = append(changed, p)
		} else if p.isIdle() {
			delete(s.events, key)
		}
	}
	wait, err := s.writeResultsLocked(ctx, changed, now)
	s.mu.Unlock()
	if err == nil {
		err = wait(ctx)
	}
	if err != nil {
		s.markUnknown(changed)
	}
	return err
}

// writeResultsLocked appends a check result for each event to the journal. The caller calls markUnknown if they do not
// become durable.
func (s *Server) writeResultsLocked(ctx context.Context, list []*alertEvent, now time.Duration) (wait func(context.Context) error, err error) {
	var results []recorder.Result
	for _, p := range list {
		check, ok := s.cfg.Plan.PassiveCheck(p.namespace, p.check)
		status, text := p.presentResult()
		ended := len(p.alerts) == 0 && p.restored == nil
		p.stateKnown, p.written = true, now
		before := p.status
		p.status, p.output = status, text
		if !ok || check.Definition == nil || check.Disabled {
			continue // the check was deleted with its events, or is disabled
		}
		if ended && before == model.OK {
			continue // the event was OK before; its TTL expires if no sender repeats the alert
		}
		results = append(results, recorder.Result{Node: p.node, Definition: check.Definition.ID, Status: status, Output: truncate(text, max(check.Definition.MaxOutput, 1024))})
	}
	if len(results) == 0 {
		return func(context.Context) error { return nil }, nil
	}
	s.metrics.results.Add(float64(len(results)))
	return s.cfg.Write(ctx, results)
}

// markUnknown marks events whose last results may be lost, because the journal refused a write. The next tick writes
// their results again.
func (s *Server) markUnknown(list []*alertEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range list {
		p.stateKnown, p.status = false, model.Unknown
	}
}

// Config holds the settings and dependencies of a Server.
type Config struct {
	Access core.Access
	Intent Intent
	Plan   Plan
	View   View
	// Write hands results to the journal in their order. wait returns when they are durable.
	Write func(ctx context.Context, results []recorder.Result) (wait func(context.Context) error, err error)
	// Hit is called when a limit of a namespace was met. May be nil.
	Hit func(node model.NodeID, name string, namespace model.NamespaceID, limit, reason string)
	// Charge charges the bytes of a request to the limits of its namespace and user; it returns the reason to refuse the
	// request, or "".
	Charge func(namespace, user string, bytes int) (reason string)
	Limits Limits

	Now        func() time.Time      // default time.Now; with a monotonic reading
	Log        *slog.Logger          // default: nothing is logged
	Registerer prometheus.Registerer // default: metrics are kept but not exposed
}

// Intent is the interface that creates the checks and nodes of alerts as declared resources.
type Intent interface {
	CheckNamespace(name string) error
	core.Declarer
}

// Plan is the interface that looks up passive checks (results from outside) and nodes by name. The planner implements
// it.
type Plan interface {
	PassiveCheck(namespace, name string) (directory.PassiveCheck, bool)
	PassiveChecks(namespace, source string) []model.CheckID
	SourceName(s model.Source) (namespace, name string, ok bool)
	NodeByName(namespace, name string) (model.NodeID, bool)
	NodeName(id model.NodeID) (namespace, name string, ok bool)
	NodesMatching(namespace string, s directory.Selector) []model.NodeID
	CatchUp(ctx context.Context) error
}

// View is the interface to the event states, for limits on events and events open at the start.
type View interface {
	Admit(node model.NodeID, definition *model.CheckDefinition) (code, reason string)
	List(ctx context.Context, q event.Query) (event.Page, error)
}

// Limits has the limits for the number and size of alerts from senders. Zero: the default.
type Limits struct {
	BodyBytes      int64 // of one request; default 8 MiB
	Alerts         int   // of one request; default 5000
	Labels         int   // of one alert, and as many annotations; default 64
	NameBytes      int   // of a label's or annotation's name; default 256
	LabelBytes     int   // of a label's value; default 2048
	TextBytes      int   // of an annotation's value, and of generatorURL; default 16 KiB
	Firing         int   // firing alerts; default 100,000
	FiringTogether int   // … of one name on one node; default 1000
	Checks         int   // passive checks of a namespace; default 1000
	Nodes          int   // proxy nodes of a namespace that were created for alerts; default 10,000
}

const (
	// resolveAfter ends an alert without an end that is not repeated, and an event that was open at the start: like
	// Alertmanager's resolve_timeout.
	resolveAfter = 5 * time.Minute
	// maxLifetime bounds the time for which an alert fires without being repeated.
	maxLifetime = 7 * 24 * time.Hour
	// minResultAge is the age from which an equal result is written again: Prometheus repeats alerts every minute, two
	// servers twice.
	minResultAge = 50 * time.Second
	// repeatWindow is the time within which a sender repeats the other alerts of an event after one of them.
	repeatWindow = 90 * time.Second
	// expiryInterval is the time between two calls of endExpiredAlerts. A process that was stopped for longer could not
	// receive alerts, so Server.clock does not count that time.
	expiryInterval = 5 * time.Second
)

// setDefaults fills zero values with defaults and fails if a dependency is missing.
func (c *Config) setDefaults() error {
	if c.Intent == nil || c.Plan == nil || c.View == nil || c.Write == nil || c.Charge == nil {
		return errors.New("BUG: the source of alerts needs intent, plan, view, journal and limits")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	l := &c.Limits
	l.BodyBytes = cmp.Or(l.BodyBytes, 8<<20)
	l.Alerts = cmp.Or(l.Alerts, 5000)
	l.Labels = cmp.Or(l.Labels, 64)
	l.NameBytes = cmp.Or(l.NameBytes, 256)
	l.LabelBytes = cmp.Or(l.LabelBytes, 2048)
	l.TextBytes = cmp.Or(l.TextBytes, 16<<10)
	l.Firing = cmp.Or(l.Firing, 100_000)
	l.FiringTogether = cmp.Or(l.FiringTogether, 1000)
	l.Checks = cmp.Or(l.Checks, model.MaxPassives)
	l.Nodes = cmp.Or(l.Nodes, 10_000)
	return nil
}

// alertOutcome is the way in which the server handled one alert, such as fired or malformed. It is a label for
// metrics. Every alert raises exactly one.
type alertOutcome uint8

const (
	alertFires alertOutcome = iota
	alertResolved
	alertMalformed // cannot be decoded, or exceeds a limit of one alert
	nameTaken      // agents run a check of this name
	disabledCheck  // the check of the alert is disabled
	noLocation     // no check or node could be created
	stateLimit     // no room for another event of the node, or of its namespace
	tooManyFiring  // too many alerts fire already
	notJournaled   // the journal did not accept it
	outcomes
)

var outcomeNames = [outcomes]string{"fires", "resolved", "malformed", "name_taken", "disabled", "places", "states", "too_many", "not_stored"}

// metrics holds the metrics of the alert source.
type metrics struct {
	requests    *prometheus.CounterVec
	alerts      [outcomes]prometheus.Counter
	results     prometheus.Counter
	ended       prometheus.Counter
	clockDelays prometheus.Counter
}

// newMetrics registers the metrics of the alert source.
func newMetrics(r prometheus.Registerer, firing func() float64) *metrics {
	meter := core.Meter{Registerer: r, Prefix: "muster_alerts_"}
	m := &metrics{
		requests:    meter.Vector("requests_total", "Requests with alerts, by outcome: ok, or the class of the error.", "outcome"),
		results:     meter.Counter("results_total", "Results written for alerts."),
		ended:       meter.Counter("ended_total", "Alerts that ended because no sender repeated them."),
		clockDelays: meter.Counter("behind_total", "Firing alerts whose endsAt was in the past when they arrived: the clock of their sender is behind."),
	}
	meter.Outcomes("received_total", "Received alerts, by outcome.", m.alerts[:], func(i int) string { return outcomeNames[i] })
	meter.Gauge("firing", "Firing alerts.", firing)
	return m
}
