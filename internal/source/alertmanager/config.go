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

// Config is everything that the receiver needs.
type Config struct {
	Access Access
	Intent Intent
	Plan   Plan
	View   View
	// Write hands results to the journal, in their order; wait returns when they are durable.
	Write func(ctx context.Context, results []Result) (wait func(context.Context) error, err error)
	// Hit hears that a limit of a namespace was met; may be nil.
	Hit    func(node model.NodeID, name string, namespace model.NamespaceID, limit, reason string)
	Limits Limits

	Now        func() time.Time      // default time.Now; with a monotonic reading
	Log        *slog.Logger          // default: nothing is logged
	Registerer prometheus.Registerer // default: metrics are kept but not exposed
}

// Access decides who may bring alerts in: *access.Service.
type Access interface {
	Authenticate(token string) (access.Subject, error)
	LoginProgram(ctx context.Context, role, name, password string, admit access.Admit) (access.Program, error)
}

// Intent makes the checks and nodes of alerts.
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

// View knows the events.
type View interface {
	Admit(node model.NodeID, chunk *model.CheckChunk) (code, reason string)
	List(ctx context.Context, q event.Query) (event.Page, error)
}

// Result is what an event becomes.
type Result struct {
	Node   model.NodeID
	Chunk  *model.CheckChunk
	Status model.Status
	Output string
}

// Limits bound what senders can cost. Zero is the default.
type Limits struct {
	BodyBytes      int64 // of one request; default 8 MiB
	Alerts         int   // of one request; default 5000
	Labels         int   // of one alert, and as many annotations; default 64
	NameBytes      int   // of a label's or annotation's name; default 256
	LabelBytes     int   // of a label's value; default 2048
	TextBytes      int   // of an annotation's value, and of generatorURL; default 16 KiB
	Firing         int   // alerts that fire at the same time; default 100,000
	FiringTogether int   // … of one name about one node; default 1000
	Checks         int   // passive checks in a namespace: no more are made; default 1000
	Nodes          int   // proxy nodes that were made for alerts in a namespace; default 10,000
}

const (
	// resolveAfter is how long an alert without an end fires that nobody says again, and what
	// was open at the start of this server: as Alertmanager's resolve_timeout.
	resolveAfter = 5 * time.Minute
	// longest is how long an alert fires at most that nobody says again.
	longest = 7 * 24 * time.Hour
	// againAfter is how old a result must be for one that says the same: Prometheus repeats
	// itself each minute, two of them twice.
	againAfter = 50 * time.Second
	// soon is when others of a place would have been said again, once one was.
	soon = 90 * time.Second
	// tick is how often it is looked for what nobody says any more; a process that stood still
	// for longer was deaf meanwhile.
	tick = 5 * time.Second
)

func (c *Config) complete() error {
	if c.Intent == nil || c.Plan == nil || c.View == nil || c.Write == nil {
		return errors.New("BUG: receiver of alerts without intent, plan, view or journal")
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
