package sensu

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/source/muster"
)

// Config is everything that the bridge needs.
type Config struct {
	Agents      *muster.Server // whose places, limits and budgets it shares
	Journal     journal.Journal
	Access      Access
	Intent      Intent
	View        View
	Assignments directory.Assignments
	Limits      Limits
	Authorities *Authorities // of agents' certificates; nil: none are taken

	Checks Checks

	// Handler is a declared one, answered from memory: agents name who is to hear that they were
	// forgotten.
	Handler func(namespace, name string) (*model.HandlerSpec, bool)

	// Secret finds the value of a Secret, for an agent that proved who it is. The error is for
	// people, and holds nothing of it. Nil: nobody is given any.
	Secret func(ctx context.Context, namespace, name string) (value string, err error)

	// OnClone hears of each machine that was sent away because another one with its name is
	// connected. It must not block. May be nil.
	OnClone func(muster.Clone)

	// OnRan and OnEnded are those of muster.Config: of round-robin checks.
	OnRan   func(check model.CheckID, about model.NodeID, age time.Duration)
	OnEnded func(node model.NodeID)

	Now        func() time.Time      // default time.Now
	Rand       func() uint64         // default math/rand's
	Queues     *queue.Registry       // where the outbox is listed; may be nil
	Log        *slog.Logger          // default: nothing is logged
	Registerer prometheus.Registerer // default: metrics are kept but not exposed
}

// Access decides which agents may connect: *access.Service.
type Access interface {
	LoginProgram(ctx context.Context, role, name, password string, admit access.Admit) (access.Program, error)
	AgentProgram(name string) (access.Program, error)
	Current(p *access.Program) bool
}

// Intent is what is declared, answered from memory but for Meet, Get and Apply.
type Intent interface {
	CheckNamespace(name string) error
	LookupNode(uid uuid.UUID) (intent.NodeInfo, bool)
	Tombstone(uid uuid.UUID) (intent.Tombstone, bool)
	RegisterExternal(ctx context.Context, by intent.Actor, m *intent.ExternalAgent) (intent.NodeInfo, error)
	RecordReport(info intent.NodeInfo, said intent.AgentReport) (limit, reason string)

	LimitsFor(namespace string) model.Limits
	Get(ctx context.Context, key intent.Key) (*model.Resource, error)
	Apply(ctx context.Context, by intent.Actor, resources []model.Resource, o intent.ApplyOptions) (intent.ApplyResult, error)
}

// Checks are the passive ones: what nobody asked an agent for is theirs.
type Checks interface {
	PassiveCheck(namespace, name string) (directory.PassiveCheck, bool)
	PassiveChecks(namespace, source string) []model.CheckID
	// CatchUp returns when what was applied is in force.
	CatchUp(ctx context.Context) error
}

// View is what sessions need of the event view.
type View interface {
	Admit(node model.NodeID, chunk *model.CheckChunk) (code, reason string)
	// Known says whether a node has an event of a check.
	Known(node model.NodeID, check model.CheckID) bool
}

// Limits bound what one agent can cost. Zero is the default.
type Limits struct {
	Sessions     int           // default 60000
	MessageBytes int           // one message; default 1 MiB
	UnackedBytes int           // of a session, with the journal; default model.DefaultUnackedBytes
	Keepalive    time.Duration // where neither node nor agent says; default model.DefaultKeepalive
	Timeout      time.Duration // default model.DefaultKeepaliveTimeout
	Handshake    time.Duration // default 15 s, which is how long agents wait
	First        time.Duration // from a session's beginning to the first message; default 60 s
	PingAfter    time.Duration // of silence; default 60 s
	DeadAfter    time.Duration // of silence: the connection is closed; default 180 s
	Probe        time.Duration // an older connection of a node may take to answer; default 3 s
	Away         time.Duration // until a connection that is refused after its handshake is closed; default 30 s
	Write        time.Duration // default 10 s
	Writers      int           // default 8
	FirstWithin  time.Duration // a new check runs once within this; default 10 s
}

func (c *Config) complete() error {
	if c.Agents == nil || c.Journal == nil || c.Intent == nil || c.View == nil || c.Assignments == nil || c.Checks == nil || c.Handler == nil {
		return errors.New("BUG: bridge without agents, journal, intent, view, assignments, checks or handlers")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Uint64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	l := &c.Limits
	l.Sessions = cmp.Or(l.Sessions, 60_000)
	l.MessageBytes = cmp.Or(l.MessageBytes, 1<<20)
	l.UnackedBytes = cmp.Or(l.UnackedBytes, model.DefaultUnackedBytes)
	l.Keepalive = cmp.Or(l.Keepalive, model.DefaultKeepalive)
	l.Timeout = cmp.Or(l.Timeout, model.DefaultKeepaliveTimeout)
	l.Handshake = cmp.Or(l.Handshake, 15*time.Second)
	l.First = cmp.Or(l.First, 60*time.Second)
	l.PingAfter = cmp.Or(l.PingAfter, 60*time.Second)
	l.DeadAfter = cmp.Or(l.DeadAfter, 180*time.Second)
	l.Probe = cmp.Or(l.Probe, 3*time.Second)
	l.Away = cmp.Or(l.Away, 30*time.Second)
	l.Write = cmp.Or(l.Write, 10*time.Second)
	l.Writers = cmp.Or(l.Writers, 8)
	l.FirstWithin = cmp.Or(l.FirstWithin, 10*time.Second)
	return nil
}
