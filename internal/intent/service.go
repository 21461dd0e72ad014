package intent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// Landing says where one write lands; the planner computes it.
type Landing = kind.Placement

// Options are what a Service needs of its surroundings.
type Options struct {
	Store Store
	// Kinds are the kinds that resources may have; nil: all of Muster's.
	Kinds *kind.Registry
	// Impact compiles writes without keeping them: where each lands, and how many
	// assignments change in all.
	Impact func(ctx context.Context, writes []Write) ([]Landing, int, error)
	// NodeChanged hears of a node that has another name, or another machine, from the
	// moment on when LookupNode says so. May be nil.
	NodeChanged func(was, is NodeInfo)
	// Connected says whether a node has a session now; nil: nobody has.
	Connected func(model.NodeID) bool
	// Absent says for how long a node that has no session must still be away until a
	// machine may take its place by its name alone; it was known since a time, and zero is
	// now. Nil: zero.
	Absent func(node NodeInfo) time.Duration
	// Trusted names a trusted group that a node is in, as of all that is committed when it
	// is called; empty, or nil: none. Where it does not know, it is an error.
	Trusted func(context.Context, model.NodeID) (string, error)
	// Full hears of a machine that was refused because of a limit of its namespace. May be nil.
	Full func(namespace, limit, reason string)
	// CertificateLife is how long a certificate is good for; zero: pki's default.
	CertificateLife time.Duration
	// Limits are the server's defaults; a namespace's own win.
	Limits model.Limits
	// AuditRetention is how long recorded changes are kept; zero: for ever.
	AuditRetention time.Duration

	// Validate checks one resource by itself; nil: Kinds.Validate. A load run accepts
	// intervals below a second.
	Validate func(*model.Resource) error

	Now    func() time.Time
	Logger *slog.Logger
}

// Service is intent for everybody else: the API, the planner, enrolment, sessions.
// It is safe for concurrent use.
type Service struct {
	opts    Options
	wake    chan struct{}
	nodes   nodeIndex
	trusted trustedNames
	joins   joinQueue

	// writing is held from before a row is written until memory knows of it, and by who
	// must write what it reads; after joining, before all others. LookupNode and whatever
	// else memory answers does not wait for it.
	writing sync.Mutex

	mu         sync.RWMutex
	namespaces map[string]namespaceInfo
	limits     map[model.NamespaceID]model.Limits // of namespaces
}

type namespaceInfo struct {
	id     model.NamespaceID
	limits model.Limits // in force
}

// NewService makes a service; call Load before anything else.
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
	return &Service{
		opts: o, wake: make(chan struct{}, 1), namespaces: map[string]namespaceInfo{}, limits: map[model.NamespaceID]model.Limits{},
		nodes: newNodeIndex(), trusted: newTrustedNames(),
	}
}

// server is who the server is when it changes something by itself.
func server(why string) Actor { return Actor{User: "server", Whence: "local", Why: why} }

// Load makes what every installation has (the namespaces default and shared, the
// group all in every namespace) and reads what must be answered from memory.
func (s *Service) Load(ctx context.Context) error {
	if err := s.seed(ctx); err != nil {
		return err
	}
	for _, load := range []struct {
		kind string
		take func(Row) error
	}{
		{"Namespace", s.tookNamespace}, {"Node", s.tookNode}, {"Group", s.tookGroup}, {"Check", s.tookCheck}, {tombstoneKind, s.nodes.tookTombstone},
	} {
		rows, err := s.opts.Store.List(ctx, ListQuery{Kind: load.kind})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := load.take(row); err != nil {
				return fmt.Errorf("load %s: %w", row.Key, err)
			}
		}
	}
	return nil
}

func (s *Service) seed(ctx context.Context) error {
	seeds := []model.Resource{
		{Kind: "Namespace", Metadata: model.Metadata{Name: model.DefaultNamespaceName}, Spec: &model.NamespaceSpec{}},
		{Kind: "Namespace", Metadata: model.Metadata{Name: model.SharedNamespaceName, DisplayName: "Checks here may target the nodes of all"}, Spec: &model.NamespaceSpec{}},
		everybody(model.DefaultNamespaceName),
		everybody(model.SharedNamespaceName),
	}
	revision, err := s.opts.Store.Revision(ctx)
	if err != nil || revision > 0 {
		return err
	}
	writes := make([]Write, len(seeds))
	for i := range seeds {
		body, err := encode(&seeds[i])
		if err != nil {
			return err
		}
		writes[i] = Write{Key: KeyOf(&seeds[i]), Body: body}
	}
	_, err = s.opts.Store.Commit(ctx, server("first start"), writes)
	return err
}

// CommitSignal has a value after something was committed.
func (s *Service) CommitSignal() <-chan struct{} { return s.wake }

// Store is what the planner reads.
func (s *Service) Store() Store { return s.opts.Store }

// commit is the one way anything is written: rows, then what memory knows of them.
func (s *Service) commit(ctx context.Context, by Actor, writes []Write) (CommitResult, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.commitHeld(ctx, by, writes)
}

// commitHeld is commit for who holds writing: nothing comes between the rows and memory,
// so that the last row that is written is the last that memory takes.
func (s *Service) commitHeld(ctx context.Context, by Actor, writes []Write) (CommitResult, error) {
	done, err := s.opts.Store.Commit(ctx, by, writes)
	if err != nil {
		return done, err
	}
	for i, row := range done.Rows {
		if writes[i].From != "" && row.Kind == "Node" {
			s.nodes.move(writes[i].Source(), row.Key)
		}
		if err := s.took(row, writes[i].Body == nil); err != nil {
			s.opts.Logger.Error("row was written but cannot be read back", "row", row.Key.String(), "err", err)
		}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return done, nil
}

func (s *Service) took(row Row, deleted bool) error {
	switch row.Kind {
	case "Node":
		if deleted {
			s.nodes.remove(row.Key)
			return nil
		}
		return s.tookNode(row)
	case "Namespace":
		if deleted {
			s.mu.Lock()
			delete(s.limits, s.namespaces[row.Name].id)
			delete(s.namespaces, row.Name)
			s.mu.Unlock()
			return nil
		}
		return s.tookNamespace(row)
	case tombstoneKind:
		if deleted {
			s.nodes.removeTombstone(row.Name)
			return nil
		}
		return s.nodes.tookTombstone(row)
	case "Group":
		if deleted {
			s.trusted.set(row.Key, nil)
			return nil
		}
		return s.tookGroup(row)
	case "Check":
		if deleted {
			s.trusted.set(row.Key, nil)
			return nil
		}
		return s.tookCheck(row)
	}
	return nil
}

func (s *Service) tookNamespace(row Row) error {
	r, err := s.decode(row)
	if err != nil {
		return err
	}
	info := namespaceInfo{id: model.NamespaceID(row.ID), limits: s.opts.Limits}
	if own := r.Spec.(*model.NamespaceSpec).Limits; own != nil {
		merge := func(to *int, from int) {
			if from != 0 {
				*to = from
			}
		}
		merge(&info.limits.States, own.States)
		merge(&info.limits.StatesPerNode, own.StatesPerNode)
		merge(&info.limits.Nodes, own.Nodes)
		merge(&info.limits.Labels, own.Labels)
		merge(&info.limits.OutputBytes, own.OutputBytes)
		merge(&info.limits.PassivePerNode, own.PassivePerNode)
		if own.ResultsPerSec != 0 {
			info.limits.ResultsPerSec = own.ResultsPerSec
		}
		if own.NodeResultsSec != 0 {
			info.limits.NodeResultsSec = own.NodeResultsSec
		}
	}
	s.mu.Lock()
	s.namespaces[row.Name], s.limits[info.id] = info, info.limits
	s.mu.Unlock()
	return nil
}

// LimitsFor are the limits in force in a namespace.
func (s *Service) LimitsFor(namespace string) model.Limits {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if info, ok := s.namespaces[namespace]; ok {
		return info.limits
	}
	return s.opts.Limits
}

// NamespaceLimits are the limits in force in a namespace, by number: sessions ask for
// every batch, so that a change holds at once.
func (s *Service) NamespaceLimits(id model.NamespaceID) model.Limits {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if limits, ok := s.limits[id]; ok {
		return limits
	}
	return s.opts.Limits
}

func (s *Service) namespaceID(name string) (model.NamespaceID, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	info, ok := s.namespaces[name]
	return info.id, ok
}

// KeyOf is where a resource is kept.
func KeyOf(r *model.Resource) Key {
	key := Key{Kind: r.Kind, Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}
	if key.Kind == "Namespace" {
		key.Namespace = ""
	} else if key.Namespace == "" {
		key.Namespace = model.DefaultNamespaceName
	}
	return key
}

// encode is the stored form: the resource without what the server adds.
func encode(r *model.Resource) ([]byte, error) {
	body, err := json.Marshal(struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   model.Metadata `json:"metadata"`
		Spec       model.Spec     `json:"spec"`
	}{model.APIVersion, r.Kind, r.Metadata, r.Spec})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", KeyOf(r), err)
	}
	return body, nil
}

// decode reads the stored form back, with what the server knows of it.
func (s *Service) decode(row Row) (*model.Resource, error) {
	var body struct {
		Metadata model.Metadata  `json:"metadata"`
		Spec     json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(row.Body, &body); err != nil {
		return nil, fmt.Errorf("decode %s: %w", row.Key, err)
	}
	spec, err := s.opts.Kinds.DecodeSpec(row.Kind, body.Spec)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", row.Key, err)
	}
	return &model.Resource{
		APIVersion: model.APIVersion, Kind: row.Kind, Metadata: body.Metadata, Spec: spec,
		Status: &model.ResourceStatus{ID: row.ID, Revision: row.Revision, Created: row.Created, Updated: row.Updated},
	}, nil
}

// decodeNode decodes the row of a node.
func decodeNode(row Row) (*model.Resource, *model.NodeSpec, error) {
	spec := &model.NodeSpec{}
	r := &model.Resource{Spec: spec}
	if err := json.Unmarshal(row.Body, r); err != nil {
		return nil, nil, fmt.Errorf("decode %s: %w", row.Key, err)
	}
	return r, spec, nil
}

// NodeInfo is what sessions ask of a node.
type NodeInfo struct {
	ID          model.NodeID
	UID         uuid.UUID
	Name        string
	Namespace   string
	NamespaceID model.NamespaceID
	Interval    time.Duration // keepalive; zero: the server's default
	Timeout     time.Duration
	Warning     time.Duration // zero: never
	ForgetAfter time.Duration // of an ephemeral node, without a session; zero: it stays
	Key         string        // pki.Fingerprint of its machine's key; empty: not known yet
	Written     time.Time     // when its row was last

	said uint64 // fingerprint of the facts and labels on record
}
