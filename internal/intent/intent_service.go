package intent

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// Placement counts the nodes and the other resources that use the resource written by an apply. It counts the
// nodes to which the resource applies, and the resources that use it.
type Placement = kind.ResourceUsage

// Impact is the predicted effect of a change on nodes, such as the number of affected nodes.
type Impact struct {
	Placements []Placement // of each write
	Affected   int         // existing nodes that get another assignment or are deleted
	// Reviewed has the names of existing nodes of groups with review that leave these groups, or whose policies change now,
	// not after the approval of a roll-out.
	Reviewed []string
	// HasReview says that a group has review: a change that comes between the preview and the commit makes the preview invalid.
	HasReview bool
	// Units and Timings are computed only for a preview that people look at.
	Units   []UnitImpact
	Timings []StepTime
}

// UnitImpact counts the nodes that gain, lose or change a check, directive or Template.
type UnitImpact struct {
	Key                  Key
	Gets, Loses, Changes int
	Nodes                []string // the first of these, by name
	Differences          []string // fields of the definition: old → new
	Steps                []string // of the roll-out of the change; nil: all nodes at once
}

// StepTime is how long one step of a preview took in the planner.
type StepTime struct {
	Step     string
	Duration time.Duration
}

// Options has the dependencies and settings of the intent Service.
type Options struct {
	Store Store
	// Kinds are the kinds of resources; nil: all of Muster's.
	Kinds *kind.Registry
	// Impact compiles writes without committing them. With detailed it also computes the units and timings of a preview.
	Impact func(ctx context.Context, writes []Write, detailed bool) (Impact, error)
	// NodeChanged is called when a node got another name, machine or keepalive, after LookupNode returns the new one. May
	// be nil.
	NodeChanged func(was, is NodeInfo)
	// Connected reports whether a node has a session now; nil: none has.
	Connected func(model.NodeID) bool
	// Absent returns how long a node without a session must still be away until another machine may become the node
	// by its name alone; zero: now. Nil: zero.
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

	// Validate checks one resource by itself; nil: Kinds.Validate. A load test accepts intervals below a second.
	Validate func(*model.Resource) error

	Now    func() time.Time
	Logger *slog.Logger
}

// Service reads and changes everything that users declare on the server (the intent). That is resources, nodes and
// join tokens. It consists of one type per subject (Resources, Nodes, …) on one repository; a caller that needs one
// subject takes that type. It is safe for concurrent use.
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
	Rollouts *Rollouts
}

// NewService returns an intent service on a store of declared resources. Call Load before anything else.
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
		AgentReports: &AgentReports{r}, Namespaces: &Namespaces{r}, Runs: &Runs{r}, Retention: &Retention{r}, Rollouts: &Rollouts{r},
	}
}

// CommitSignal returns a channel that gets a value after each commit of declared resources.
func (s *Service) CommitSignal() <-chan struct{} { return s.committed }

// Store returns the database of declared resources, whose rows the planner reads.
func (s *Service) Store() Store { return s.opts.Store }

// repository writes declared resources to the store and updates the in-memory indexes. All parts of a Service share
// one.
//
// Lock order: nodeIndex.enrolling, then writing, then the lock of one index. No lock of an index is held across SQL.
type repository struct {
	opts      Options
	committed chan struct{} // has a value after each commit

	// writing is locked from before a row is written until the indexes have the row, also by writers that read first.
	// Readers of the indexes do not take this lock.
	writing sync.Mutex

	previewed atomic.Int64 // commits of previewed changes; guarded by writing for writes

	nodes      nodeIndex
	tombstones tombstoneIndex
	namespaces namespaceIndex
	reserved   reservedNames
}

// Load fills the in-memory indexes from the database at the server's start. It creates the namespaces default and
// shared if they are missing. Call it before anything else.
func (r *repository) Load(ctx context.Context) error {
	if err := r.createFirstResources(ctx); err != nil {
		return err
	}
	for _, kind := range []string{"Namespace", "Node", "Group", "Check", tombstoneKind} {
		for row, err := range r.rows(ctx, ListQuery{Kind: kind}) {
			if err != nil {
				return err
			}
			if err := r.indexRow(row, false); err != nil {
				return fmt.Errorf("load %s into memory: %w", row.Key, err)
			}
		}
	}
	return nil
}

// createFirstResources creates the namespaces default and shared, each with its built-in group "all". They are
// missing in a new or damaged store.
func (r *repository) createFirstResources(ctx context.Context) error {
	var writes []Write
	for _, seed := range []model.Resource{
		{Kind: "Namespace", Metadata: model.Metadata{Name: model.DefaultNamespaceName}, Spec: &model.NamespaceSpec{}},
		{Kind: "Namespace", Metadata: model.Metadata{Name: model.SharedNamespaceName, DisplayName: "Checks here may target the nodes of all"}, Spec: &model.NamespaceSpec{}},
		newAllGroup(model.DefaultNamespaceName),
		newAllGroup(model.SharedNamespaceName),
	} {
		if _, err := r.opts.Store.Get(ctx, KeyOf(&seed)); err == nil {
			continue
		} else if model.ClassOf(err) != model.NotFound {
			return err
		}
		body, err := encode(&seed)
		if err != nil {
			return err
		}
		writes = append(writes, Write{Key: KeyOf(&seed), Body: body})
	}
	if len(writes) == 0 {
		return nil
	}
	_, err := r.opts.Store.Commit(ctx, serverActor("first start"), writes)
	return err
}

// serverActor returns the server as the audit's author of its own changes.
func serverActor(why string) Actor { return Actor{User: "server", Address: "local", Message: why} }

// rows returns an iterator over stored database rows in the order of their keys. Each query reads q.Limit rows
// (0 means all at once). After an error the iteration ends.
func (r *repository) rows(ctx context.Context, q ListQuery) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for {
			page, err := r.opts.Store.List(ctx, q)
			if err != nil {
				yield(Row{}, err)
				return
			}
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
			}
			if q.Limit == 0 || len(page) < q.Limit {
				return
			}
			q.After = page[len(page)-1].Key
		}
	}
}

// commit writes rows to the store, then updates the in-memory indexes. Every write of package intent goes through this
// method.
func (r *repository) commit(ctx context.Context, by Actor, writes []Write) (CommitResult, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.commitLocked(ctx, by, writes)
}

// commitLocked writes rows and updates the in-memory indexes, under the lock of the repository. The caller holds the
// lock. No other write comes between rows and indexes, so the row that is written last is also the row that is indexed
// last.
func (r *repository) commitLocked(ctx context.Context, by Actor, writes []Write) (CommitResult, error) {
	done, err := r.opts.Store.Commit(ctx, by, writes)
	if err != nil {
		return done, err
	}
	for i, row := range done.Rows {
		if writes[i].From != "" && row.Kind == "Node" {
			r.nodes.renameNode(writes[i].Source(), row.Key)
		}
		if err := r.indexRow(row, writes[i].Body == nil); err != nil {
			r.opts.Logger.Error("cannot read a row that was just written", "row", row.Key.String(), "err", err)
		}
	}
	select {
	case r.committed <- struct{}{}:
	default:
	}
	return done, nil
}

// indexRow updates the in-memory index for a written or deleted row.
func (r *repository) indexRow(row Row, deleted bool) error {
	switch row.Kind {
	case tombstoneKind:
		if deleted {
			r.tombstones.removeRow(row.Name)
			return nil
		}
		return r.tombstones.putRow(row)
	case "Node":
		if deleted {
			r.nodes.removeByName(row.Key)
			return nil
		}
	case "Namespace":
		if deleted {
			r.namespaces.removeNamespace(row.Name)
			return nil
		}
	case "Group", "Check", "Template":
		if deleted || sendsSecrets(row.Kind) && !mayHaveSecrets(row) {
			r.reserved.reserveNames(row.Key, nil)
			return nil
		}
	default:
		return nil
	}
	resource, err := r.decode(row)
	if err != nil {
		return err
	}
	switch spec := resource.Spec.(type) {
	case *model.NodeSpec:
		r.indexNode(row, spec)
	case *model.NamespaceSpec:
		r.namespaces.putLimits(row.Name, model.NamespaceID(row.ID), spec.Limits)
	case *model.GroupSpec:
		var listed []string
		if spec.Trusted {
			listed = spec.Nodes
		}
		r.reserved.reserveNames(row.Key, nodeKeys(row.Namespace, listed))
	case *model.CheckSpec:
		r.reserveTargets(row.Key, len(spec.Secrets) > 0, spec.Targets)
	case *model.TemplateSpec:
		r.reserveTargets(row.Key, len(spec.Secrets) > 0, spec.Targets)
	}
	return nil
}

// reserveTargets reserves node names in targets that get secrets, so no machine can join under such a name. So
// no new machine can take such a name.
func (r *repository) reserveTargets(key Key, secrets bool, targets *model.Targets) {
	var listed []string
	if secrets && targets != nil {
		listed = targets.Nodes
	}
	r.reserved.reserveNames(key, nodeKeys(key.Namespace, listed))
}
