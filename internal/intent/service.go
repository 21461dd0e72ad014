package intent

import (
	"context"
	"log/slog"
	"time"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// Placement is the effect of one write on nodes; the planner computes it.
type Placement = kind.Placement

// Options are the dependencies and settings of a Service.
type Options struct {
	Store Store
	// Kinds are the kinds of resources; nil: all of Muster's.
	Kinds *kind.Registry
	// Impact compiles writes without keeping them. It returns where each lands, and the number of assignments
	// that change in all.
	Impact func(ctx context.Context, writes []Write) ([]Placement, int, error)
	// NodeChanged is called when a node has another name or another machine, after LookupNode says so. May be nil.
	NodeChanged func(was, is NodeInfo)
	// Connected reports whether a node has a session now; nil: none has.
	Connected func(model.NodeID) bool
	// Absent returns how long a node without a session must still be away until a machine may take its place by
	// its name alone; zero: now. Nil: zero.
	Absent func(node NodeInfo) time.Duration
	// Trusted names a trusted group of a node, as of all commits before the call; empty, or nil: none.
	Trusted func(context.Context, model.NodeID) (string, error)
	// Full is called when a limit of a namespace refuses a machine. May be nil.
	Full func(namespace, limit, reason string)
	// CertificateLife is the life of a certificate; zero: pki's default.
	CertificateLife time.Duration
	// Limits are the server's defaults; the limits of a namespace win.
	Limits model.Limits
	// AuditRetention is the life of recorded changes; zero: for ever.
	AuditRetention time.Duration

	// Validate checks one resource by itself; nil: Kinds.Validate. A load run accepts intervals below a second.
	Validate func(*model.Resource) error

	Now    func() time.Time
	Logger *slog.Logger
}

// Service is all of intent: its parts by subject, on one repository. Callers that need one part take that part.
// It is safe for concurrent use.
type Service struct {
	*repository

	*Resources
	*Nodes
	*Enrolment
	*Tombstones
	*AgentReports
	*Namespaces
	*Runs
	*Retention
}

// NewService returns a service. Call Load before anything else.
func NewService(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Kinds == nil {
		o.Kinds = kind.All()
	}
	if o.Validate == nil {
		o.Validate = o.Kinds.Validate
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &repository{
		opts: o, committed: make(chan struct{}, 1),
		nodes: newNodeIndex(), tombstones: newTombstoneIndex(o.Now), namespaces: newNamespaceIndex(o.Limits), reserved: newReservedNames(),
	}
	return &Service{
		repository: r, Resources: &Resources{r}, Nodes: &Nodes{r}, Enrolment: &Enrolment{repository: r}, Tombstones: &Tombstones{r},
		AgentReports: &AgentReports{r}, Namespaces: &Namespaces{r}, Runs: &Runs{r}, Retention: &Retention{r},
	}
}

// CommitSignal returns a channel that has a value after each commit.
func (s *Service) CommitSignal() <-chan struct{} { return s.committed }

// Store returns the store that the planner reads.
func (s *Service) Store() Store { return s.opts.Store }
