package alertmanager

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// Config holds the settings of a Server, and the parts of the server that it calls.
type Config struct {
	Access Access
	Intent Intent
	Plan   Plan
	View   View
	// Write hands results to the journal in their order. wait returns when they are durable.
	Write func(ctx context.Context, results []Result) (wait func(context.Context) error, err error)
	// Hit is called when a limit of a namespace was met. May be nil.
	Hit    func(node model.NodeID, name string, namespace model.NamespaceID, limit, reason string)
	Limits Limits

	Now        func() time.Time      // default time.Now; with a monotonic reading
	Log        *slog.Logger          // default: nothing is logged
	Registerer prometheus.Registerer // default: metrics are kept but not exposed
}

// Access authenticates senders: *access.Service.
type Access interface {
	Authenticate(token string) (access.Subject, error)
	LoginProgram(ctx context.Context, role, name, password string, admit access.Admit) (access.Program, error)
}

// Intent creates the checks and nodes of alerts.
type Intent interface {
	CheckNamespace(name string) error
	Apply(ctx context.Context, by intent.Actor, resources []model.Resource, o intent.ApplyOptions) (intent.ApplyResult, error)
}

// Plan finds checks and nodes.
type Plan interface {
	PassiveCheck(namespace, name string) (directory.PassiveCheck, bool)
	PassiveChecks(namespace, source string) []model.CheckID
	CheckName(id model.CheckID) (namespace, name string, ok bool)
	NodeByName(namespace, name string) (model.NodeID, bool)
	NodeName(id model.NodeID) (namespace, name string, ok bool)
	NodesMatching(namespace string, s directory.Selector) []model.NodeID
	CatchUp(ctx context.Context) error
}

// View is the part of the event view that alerts need.
type View interface {
	Admit(node model.NodeID, chunk *model.CheckChunk) (code, reason string)
	List(ctx context.Context, q event.Query) (event.Page, error)
}

// Result is a new result of an event.
type Result struct {
	Node   model.NodeID
	Chunk  *model.CheckChunk
	Status model.Status
	Output string
}

// Limits holds the bounds on the cost of senders. Zero: the default.
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
	// tick is the interval of endExpired. A process that was stopped for longer could not receive: the clock does not count
	// that time.
	tick = 5 * time.Second
)

func (c *Config) complete() error {
	if c.Intent == nil || c.Plan == nil || c.View == nil || c.Write == nil {
		return errors.New("BUG: source of alerts without intent, plan, view or journal")
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
