package plan

import (
	"context"
	"log/slog"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options are what a planner needs of its surroundings.
type Options struct {
	Store    intent.Store
	Epoch    uint64 // of the journal's incarnation: the first half of every generation
	Logger   *slog.Logger
	Registry prometheus.Registerer
	// Forget hears of results that are expected no more, before Apply returns. It
	// writes them into the journal. See ForgottenSince for what a crash swallowed.
	Forget func([]Forgotten)
}

// Forgotten is a node that no longer holds a check, or a check or node that is gone.
type Forgotten struct {
	Node model.NodeID // zero: all nodes
	Mark wire.ForgetMark
}

// Planner implements Assignments and Directory.
type Planner struct{}

var _ Assignments = (*Planner)(nil)

// New makes a planner that knows nothing yet: call Load.
func New(o Options) *Planner { panic("unfinished") }

// Load reads all of the intent store. Call it once, before anything else.
func (p *Planner) Load(ctx context.Context) error { panic("unfinished") }

// Run applies what the intent store records whenever wake says so, until ctx ends.
func (p *Planner) Run(ctx context.Context, wake <-chan struct{}) error { panic("unfinished") }

// CatchUp applies all changes recorded since the last one applied.
func (p *Planner) CatchUp(ctx context.Context) error { panic("unfinished") }

// Apply compiles recorded changes and returns the nodes whose assignment changed.
func (p *Planner) Apply(ctx context.Context, changes []intent.Change) ([]model.NodeID, error) {
	panic("unfinished")
}

// Revision is the intent revision that the assignments reflect.
func (p *Planner) Revision() int64 { panic("unfinished") }

// For implements Assignments.
func (p *Planner) For(node model.NodeID) *Assignment { panic("unfinished") }

// Chunk implements Assignments.
func (p *Planner) Chunk(id model.ChunkID) *model.Chunk { panic("unfinished") }

// Subscribe implements Assignments.
func (p *Planner) Subscribe(fn func(changed []model.NodeID)) { panic("unfinished") }

// ForgottenSince says what changes after the revision made nodes forget, so that
// after a crash between intent commit and journal the marks can be written again.
func (p *Planner) ForgottenSince(ctx context.Context, revision int64) ([]Forgotten, error) {
	panic("unfinished")
}

// Landing says where a change would land.
type Landing struct {
	Key      intent.Key
	Nodes    int // that would hold it (check, property), be members (group), or use it
	Affected int // whose assignment would change because of it
}

// Preview compiles writes without keeping anything and says where each lands, and
// how many assignments would change in all.
func (p *Planner) Preview(ctx context.Context, writes []intent.Write) (landings []Landing, affected int, err error) {
	panic("unfinished")
}

// Reason says why a check is, or is not, on a node.
type Reason struct {
	Lands   bool
	Through []string // "group web", "node web01", "where …"
	Not     string   // if it does not land: what keeps it away
}

// Explain says which target put the check on the node.
func (p *Planner) Explain(node model.NodeID, check model.CheckID) Reason { panic("unfinished") }

// Directory turns names into ids and back. Names of deleted things are unknown.
type Directory interface {
	NamespaceByName(name string) (model.NamespaceID, bool)
	NamespaceName(id model.NamespaceID) (string, bool)
	NodeByName(namespace, name string) (model.NodeID, bool)
	NodeName(id model.NodeID) (namespace, name string, ok bool)
	NodeByUID(uid uuid.UUID) (model.NodeID, bool)
	NodeLabels(id model.NodeID) map[string]string // server over agent over facts
	NodeFacts(id model.NodeID) map[string]string
	NodeGroups(id model.NodeID) []string
	Nodes(namespace string) []model.NodeID // "" for all, ascending
	NodesMatching(namespace string, s Selector) []model.NodeID
	GroupMembers(namespace, name string) []model.NodeID
	CheckByName(namespace, name string) (model.CheckID, bool)
	CheckName(id model.CheckID) (namespace, name string, ok bool)
	ChecksOf(node model.NodeID) []model.CheckID
	Holders(check model.CheckID) []model.NodeID
	Holds(node model.NodeID, check model.CheckID) bool
	Handler(namespace, name string) (*model.HandlerSpec, bool)
}
