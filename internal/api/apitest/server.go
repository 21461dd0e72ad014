// Package apitest runs the API over real stores, planner and view in one test process. The journal is simulated: a
// result becomes a commit at once, at the time of the server's clock.
//
// Goroutines: the view's. One lock, over the server's clock and journal.
package apitest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api"
	"github.com/muster-fleet/muster/internal/api/compliance"
	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/inbound"
	"github.com/muster-fleet/muster/internal/api/inventory"
	"github.com/muster-fleet/muster/internal/api/items"
	"github.com/muster-fleet/muster/internal/api/nodes"
	"github.com/muster-fleet/muster/internal/api/rollouts"
	"github.com/muster-fleet/muster/internal/api/routing"
	"github.com/muster-fleet/muster/internal/api/server"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	inventoryreducer "github.com/muster-fleet/muster/internal/pipeline/inventory"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/rollout"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/store/textlog"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// Password is the password of the test server's administrator.
const Password = "correct horse"

// Server is a test server of the API with all state in memory. It has no agents and no journal files.
type Server struct {
	T         testing.TB
	Intent    *intent.Service
	Access    *access.Service
	Planner   *plan.Planner
	Directory *directory.Directory // of the planner
	Routes    *route.Table
	View      *event.View
	History   history.Store
	valueStores
	directiveRuns
	Dispatcher *dispatch.Dispatcher // tests handlers and replays dead letters; RunDispatcher runs it
	Handler    http.Handler
	URL        string
	Token      string // of the administrator

	mu              sync.Mutex
	now             time.Time
	number          uint64
	NotReady        []string
	agents          map[model.NodeID]v1.AgentSession
	reacts          atomic.Bool      // the dispatcher runs
	ChangeStatus    func(*v1.Status) // changes the status that the server reports of itself; nil: the server is healthy
	Pending         int              // number of machines that wait to be accepted, in the status
	PendingMachines *nodes.Pending   // machines that wait to be accepted
	Items           map[model.NodeID][]metric.ItemState
	BeforeAction    func() // runs after the API ordered an action and before the action is applied; may be nil
}

// valueStores has the test server's two stores for values of items, for numbers and for texts.
type valueStores struct {
	Series series.Store
	Texts  *textlog.Store
}

// directiveRuns has the last runs of policy directives on the test server's nodes.
type directiveRuns struct {
	Runs       map[model.NodeID][]reducer.Run // in place of the runs that RecordReport recorded
	Compliance *reducer.View
	reports    map[model.NodeID]uint64 // number of reports by node
	Lag        time.Duration           // from the receipt of a report until it is applied
}

// NewServer starts a test server of the API that stops at the end of the test. Its clock stands at noon of 2026-11-20
// UTC until Advance.
func NewServer(t testing.TB) *Server { return NewServerWithKinds(t, kind.All()) }

// NewServerWithKinds makes a server like NewServer, with other kinds of resources.
func NewServerWithKinds(t testing.TB, kinds *kind.Registry) *Server {
	t.Helper()
	r := &Server{T: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	ctx, cancel := context.WithCancel(context.Background())
	store, err := intentdb.Open(ctx, filepath.Join(t.TempDir(), "intent.db"), kinds, r.Now)
	testenv.NoError(t, err)
	r.History, err = history.Open(ctx, filepath.Join(t.TempDir(), "history.db"), history.SizeLimit{})
	testenv.NoError(t, err)
	r.Series, err = series.Open(t.TempDir(), series.Options{Logger: slog.New(slog.DiscardHandler)})
	testenv.NoError(t, err)
	r.Texts, err = textlog.Open(ctx, filepath.Join(t.TempDir(), "text.db"), textlog.Options{Now: r.Now, Logger: slog.New(slog.DiscardHandler)})
	testenv.NoError(t, err)
	r.Intent = intent.NewService(intent.Options{
		Kinds: kinds, Store: store, Now: r.Now, Impact: r.previewChange,
		Trusted: func(ctx context.Context, node model.NodeID) (string, error) { return r.Planner.TrustedGroup(ctx, node) },
	})
	testenv.NoError(t, r.Intent.Load(ctx))
	r.Access = access.NewService(access.Options{Store: store, Now: r.Now})
	testenv.NoError(t, r.Access.Load(ctx))
	_, err = r.Access.CreateUser(ctx, intent.Actor{User: "server", Address: "local"}, access.User{Name: "admin", Grants: access.Grants{Role: access.Admin, Run: true}}, Password)
	testenv.NoError(t, err)
	r.Routes = route.NewTable()
	r.Planner = plan.New(plan.Options{Kinds: kinds, Store: store, Epoch: 1, Now: r.Now})
	r.Directory = r.Planner.Directory()
	r.Directory.Subscribe(func(c directory.Change) {
		testenv.NoError(t, r.Routes.Apply(c.Declarations))
		r.Routes.NotifyChange(c.Receivers)
	})
	testenv.NoError(t, r.Planner.Load(ctx))
	r.View = event.New(shard.New(shard.Options{Definitions: r.Directory.Definition}), event.Options{Emit: r.dispatchChanges})
	inventories := inventoryreducer.New(r.View.Shard)
	r.Compliance = reducer.New(r.View.Shard, nil)
	done := make(chan error, 1)
	go func() { done <- r.View.Run(ctx) }()

	r.Dispatcher = dispatch.New(dispatch.Options{Store: r.History, Names: explainedDirectory{r.Directory, r.Planner.Inspector()}, Now: r.Now, Queues: &queue.Registry{}})
	r.PendingMachines = nodes.NewPending(&queue.Registry{}, r.Now)
	queues := &queue.Registry{}
	queue.New[int](queues, "history", 100, queue.Rederive)
	stores := view.Stores{Kinds: kinds, Intent: r.Intent, Rows: store, Events: r.View, Directory: explainedDirectory{r.Directory, r.Planner.Inspector()}, History: r.History, Series: r.Series,
		Search: func(ctx context.Context) view.EntrySearch { return inventories.NewSearch(ctx).HasEntry }, Routing: r.Routes, Now: r.Now}
	r.Handler = api.New(api.Options{
		Stores: stores,
		Live: view.Live{
			Connected: r.hasSession, Agent: r.agentSession, Judgement: r.Directory.CheckDefinition, Assigned: func(node model.NodeID, unit model.UnitID) *model.Definition {
				return directory.AssignedDefinition(r.Directory, node, unit)
			},
			Limits:        func(string) []v1.LimitUse { return nil },
			ProblemLabels: func(model.NodeID, model.Source) map[string]string { return nil },
			StepDebt:      func(model.NodeID) time.Duration { return 0 }, OldestDeferred: func(model.NodeID) time.Time { return time.Time{} },
			Verdicts: func(model.NodeID, model.CheckID) (dispatch.PipelineDecisions, bool) {
				return dispatch.PipelineDecisions{}, false
			},
			Stream: func(route.Name) (v1.HandlerStream, bool) { return v1.HandlerStream{}, false },
		},
		Access: r.Access, Events: events.Options{Actions: r}, Routing: routing.Options{Handlers: r.Dispatcher, InForce: func(ctx context.Context) {
			testenv.NoError(t, r.Planner.CatchUp(ctx))
		}},
		Compliance: compliance.NewFleetCompliance(r.complianceOptions(), stores),
		Inventory:  inventory.Options{Inventories: inventories, Collect: r.hasSession},
		Rollouts:   rollouts.Options{Driver: r.RolloutDriver(), InForce: func(ctx context.Context) { testenv.NoError(t, r.Planner.CatchUp(ctx)) }},
		Items:      items.Options{Items: func(node model.NodeID) []metric.ItemState { return r.Items[node] }, Texts: r.findTexts, Load: func(int) items.Load { return items.Load{} }},
		Inbound:    inbound.Options{Secret: func(_ context.Context, s model.Secret) (string, error) { return s.Text, nil }, Actions: r},
		Nodes:      nodes.Options{JoinTokens: intent.JoinTokens{Store: store}, NewJoinToken: newJoinToken, PendingMachines: r.PendingMachines},
		Server:     server.Options{Describe: r.describeServer, NotReady: func() []string { return r.NotReady }, Pending: func() int { return r.Pending }},
		Queues:     queues,
		Registry:   prometheus.NewRegistry(),
	})
	listener := httptest.NewServer(r.Handler)
	r.URL = listener.URL
	r.Token, _, err = r.Access.CreateToken(ctx, intent.Actor{User: "server"}, access.AccessToken{User: "admin", Grants: access.Grants{Role: access.Admin, Run: true}})
	testenv.NoError(t, err)
	t.Cleanup(func() {
		listener.CloseClientConnections()
		listener.Close()
		cancel()
		testenv.NoError(t, <-done)
		testenv.NoError(t, r.History.Close())
		testenv.NoError(t, r.Series.Close())
		testenv.NoError(t, r.Texts.Close())
		testenv.NoError(t, store.Close())
	})
	return r
}

// Now returns the time of the server's clock.
func (r *Server) Now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// Advance moves the server's clock forward.
func (r *Server) Advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// RunDispatcher starts the dispatcher, the part of the server that notifies handlers. It also writes changes of events
// to history.
func (r *Server) RunDispatcher() {
	r.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	testenv.NoError(r.T, r.Dispatcher.Load(ctx, nil))
	done := make(chan error, 1)
	go func() { done <- r.Dispatcher.Run(ctx) }()
	r.reacts.Store(true)
	r.T.Cleanup(func() {
		r.reacts.Store(false)
		cancel()
		<-done
	})
}

// AwaitHistory waits until the changes of all recorded results are in the history store.
func (r *Server) AwaitHistory() {
	r.T.Helper()
	r.mu.Lock()
	at := journal.Position{Log: 1, Number: r.number}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	testenv.NoError(r.T, r.Dispatcher.WaitRecorded(ctx, at))
}

// dispatchChanges passes event changes to the dispatcher, if the test runs a dispatcher, for history and
// notifications.
func (r *Server) dispatchChanges(ts []event.Transition) {
	if r.reacts.Load() {
		r.Dispatcher.Emit(ts)
	}
}

// describeServer returns a fixed server status for tests.
func (r *Server) describeServer() v1.Status {
	s := v1.Status{
		Server: "muster test", Started: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), Connected: 2,
		Journal: v1.Journal{SizeBytes: 1 << 20, BudgetBytes: 4 << 30, FreeBytes: 70 << 30},
	}
	if r.ChangeStatus != nil {
		r.ChangeStatus(&s)
	}
	return s
}

// agentSession returns the session data that the test has set for a node.
func (r *Server) agentSession(id model.NodeID) (v1.AgentSession, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.agents[id]
	return a, ok
}

// hasSession reports whether a node has a session. Until the first call of SetSession every second node has one.
func (r *Server) hasSession(id model.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agents == nil {
		return id%2 == 0
	}
	_, ok := r.agents[id]
	return ok
}

// SetSession sets the data of a node's agent session in namespace default. With nil, the node is not connected.
func (r *Server) SetSession(node string, a *v1.AgentSession) {
	r.T.Helper()
	id := r.nodeID(model.DefaultNamespaceName, node)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agents == nil {
		r.agents = map[model.NodeID]v1.AgentSession{}
	}
	if delete(r.agents, id); a != nil {
		r.agents[id] = *a
	}
}

// RolloutDriver returns the driver that advances staged roll-outs on the test server, only when the test asks.
// Only AdvanceAll advances them.
func (r *Server) RolloutDriver() *rollout.Driver {
	return rollout.New(rollout.Options{
		Stored: r.Intent.Rollouts, Directory: r.Directory, LastRun: r.lastRun, Connected: r.hasSession, Now: r.Now, Log: slog.New(slog.DiscardHandler),
	})
}

// lastRuns returns the last run of each policy directive on a node.
func (r *Server) lastRuns(node model.NodeID) []reducer.Run {
	if list, set := r.Runs[node]; set {
		return list
	}
	return r.Compliance.Runs(node)
}

// lastRun returns the last run of a policy directive on a node.
func (r *Server) lastRun(node model.NodeID, directive model.UnitID) (reducer.Run, bool) {
	list := r.lastRuns(node)
	at := slices.IndexFunc(list, func(run reducer.Run) bool { return run.Unit == directive })
	if at < 0 {
		return reducer.Run{}, false
	}
	return list[at], true
}

// changedRuns returns the runs of policy directives that changed since the last call. Runs that the test has set are
// always among them.
func (r *Server) changedRuns(now time.Time) []reducer.RunChange {
	list := r.Compliance.TakeChanges(now)
	for node := range r.Runs {
		list = append(list, reducer.RunChange{Node: node})
	}
	return list
}

// complianceOptions returns the parts of the test server that answer requests about compliance.
func (r *Server) complianceOptions() compliance.Options {
	return compliance.Options{
		Runs: r.lastRuns, LastRun: r.lastRun, Changes: r.changedRuns, History: newRunHistory(r), Definition: r.Directory.Definition,
		Version: func(u *directory.Unit, id model.NodeID) *model.Definition {
			return directory.DefinitionOnNode(r.Directory, u, id)
		},
		Placements: r.Directory.FleetSnapshot,
		Since:      directory.NewAssignmentTimes(r.Directory, r.Now).Since,
		Mode:       func(id model.NodeID) model.NodeMode { return directory.NodeMode(r.Directory, id) },
		Chain:      func(model.NodeID) (none reducer.Chain) { return none },
		CA:         func() string { return "" },
		Overridden: func(id model.NodeID) []directory.Override { return directory.Overridden(r.Directory, id) },
		Log:        slog.New(slog.DiscardHandler),
	}
}

// previewChange returns the nodes that a change of resources would affect
func (r *Server) previewChange(ctx context.Context, writes []intent.Write, detailed bool) (intent.Impact, error) {
	if err := r.Planner.CatchUp(ctx); err != nil {
		return intent.Impact{}, err
	}
	return r.Planner.Preview(ctx, writes, detailed)
}

// newJoinToken returns a join token with a fixed id.
func newJoinToken(keep pki.JoinToken) (pki.Token, pki.JoinToken, error) {
	keep.ID, keep.Hash = "0123456789abcdef", []byte("hash")
	return pki.Token{Addresses: []string{"127.0.0.1:8443"}}, keep, nil
}

// DeclareNodes declares nodes with labels. Each node id is computed from the node's name.
func (r *Server) DeclareNodes(namespace string, labels map[string]string, names ...string) {
	r.T.Helper()
	list := make([]intent.BulkNode, len(names))
	for i, name := range names {
		list[i] = intent.BulkNode{UID: uuid.NewSHA1(uuid.NameSpaceDNS, []byte(name)), Name: name, Labels: labels}
	}
	testenv.NoError(r.T, r.Intent.CreateNodes(context.Background(), intent.Actor{User: "server"}, namespace, list))
	testenv.NoError(r.T, r.Planner.CatchUp(context.Background()))
}

// JoinNode declares a node with facts, like a node that enrolled with a join token.
func (r *Server) JoinNode(name string, facts map[string]string) {
	r.T.Helper()
	r.JoinNodeWith(name, nil, model.NodeSpec{Facts: facts})
}

// JoinNodeWith declares a node with labels and a spec, like a node that enrolled with a join token. It replaces a node
// of the same name.
func (r *Server) JoinNodeWith(name string, labels map[string]string, spec model.NodeSpec) {
	r.T.Helper()
	spec.UID = uuid.NewSHA1(uuid.NameSpaceDNS, []byte(name)).String()
	body, err := json.Marshal(model.Resource{
		APIVersion: model.APIVersion, Kind: "Node", Metadata: model.Metadata{Name: name, Namespace: model.DefaultNamespaceName, Labels: labels},
		Spec: &spec,
	})
	testenv.NoError(r.T, err)
	key := intent.Key{Kind: "Node", Namespace: model.DefaultNamespaceName, Name: name}
	_, err = r.Intent.Store().Commit(context.Background(), intent.Actor{User: "token:test", Message: "joined"}, []intent.Write{{Key: key, Body: body, Expect: -1}})
	testenv.NoError(r.T, err)
	testenv.NoError(r.T, r.Planner.CatchUp(context.Background()))
}

// nodeID returns the id of a node that the test declared.
func (r *Server) nodeID(namespace, name string) model.NodeID {
	r.T.Helper()
	id, ok := r.Directory.NodeByName(namespace, name)
	if !ok {
		r.T.Fatalf("node %s/%s does not exist", namespace, name)
	}
	return id
}

// RecordSession applies the start or end of a node's agent session, in namespace default, to the test server.
func (r *Server) RecordSession(node string, begun, clean bool) {
	r.T.Helper()
	r.recordSession(model.DefaultNamespaceName, node, begun, clean)
}

// ConnectNodes starts agent sessions for several nodes of a namespace on the test server.
func (r *Server) ConnectNodes(namespace string, nodes ...string) {
	r.T.Helper()
	for _, node := range nodes {
		r.recordSession(namespace, node, true, false)
	}
}

// recordSession applies the start or end of a node's session to the in-memory event state
func (r *Server) recordSession(namespace, node string, begun, clean bool) {
	r.T.Helper()
	id := r.nodeID(namespace, node)
	ns, _ := r.Directory.NamespaceByName(namespace)
	r.commitRecord(id, &wire.Record{Kind: wire.RecordSession, Node: id, Session: &wire.SessionRecord{
		Session: 1, Start: begun, Clean: clean, Namespace: ns, KeepaliveMs: 20_000, TimeoutMs: 120_000,
	}})
}

// RecordMissedKeepalive records a missed keepalive of a node in namespace default, so that the node counts as down
func (r *Server) RecordMissedKeepalive(node, output string) {
	r.T.Helper()
	id := r.nodeID(model.DefaultNamespaceName, node)
	r.commitRecord(id, &wire.Record{Kind: wire.RecordServerResult, Node: id, ServerResult: &wire.ServerResult{
		Definition: model.BuiltinDefinitionID(model.KeepaliveCheck), Status: model.Critical, Output: []byte(output),
	}})
}

// Apply declares resources, written as YAML.
func (r *Server) Apply(text string) {
	r.T.Helper()
	located, err := kind.All().Decode("test", []byte(text))
	testenv.NoError(r.T, err)
	resources := make([]model.Resource, len(located))
	for i := range located {
		resources[i] = located[i].Resource
		kind.All().Defaults(&resources[i])
	}
	_, err = r.Intent.Apply(context.Background(), intent.Actor{User: "admin", Address: "10.0.0.7", Message: "for the test"}, resources, intent.ApplyOptions{Yes: true})
	testenv.NoError(r.T, err)
	testenv.NoError(r.T, r.Planner.CatchUp(context.Background()))
}

// RecordResult applies one result of a check on a node to the in-memory event state
func (r *Server) RecordResult(namespace, node, check string, status model.Status, output string) {
	r.T.Helper()
	testenv.NoError(r.T, r.Planner.CatchUp(context.Background()))
	id := r.nodeID(namespace, node)
	for _, c := range r.Directory.AssignmentOf(id).Definitions {
		if c.Name == check {
			r.commitRecord(id, &wire.Record{Kind: wire.RecordServerResult, Node: id, ServerResult: &wire.ServerResult{Definition: c.ID, Status: status, Output: []byte(output)}})
			return
		}
	}
	r.T.Fatalf("node %s does not hold check %s", node, check)
}

// RecordReport applies the report of one run of a policy directive to the in-memory event state. Parameter definition
// is the version of the directive.
func (r *Server) RecordReport(node model.NodeID, definition model.DefinitionID, report *wire.Report) {
	r.T.Helper()
	const now = 10_000_000 // of the agent's clock, in ms
	if r.reports == nil {
		r.reports = map[model.NodeID]uint64{}
	}
	r.reports[node]++
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9, Lane: wire.Live}, First: r.reports[node], NowMs: now, Signals: []wire.Signal{{
		Kind: wire.SignalReport, Definition: definition, AtMs: now, Body: wire.AppendReport(nil, report),
	}}}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	testenv.NoError(r.T, err)
	r.commit(node, append(wire.AppendBatchRecord(nil, node), body...))
}

// RecordValue stores a number as an item's value at the time of the test server's clock.
func (r *Server) RecordValue(namespace, node, key string, value float64) {
	r.T.Helper()
	r.Series.Append(0, &series.Series{}, func() labels.Labels { return series.Labels(key, node, namespace, "linux") }, r.Now().UnixNano(), value)
}

// RecordText stores a text as an item's value at the time of the test server's clock.
func (r *Server) RecordText(namespace, node, key, text string) {
	r.T.Helper()
	id, ok := r.Directory.NodeByName(namespace, node)
	if !ok {
		r.T.Fatalf("no node %s", node)
	}
	r.Texts.Append(0, journal.Position{Log: 1, Number: r.Texts.Position(0).Number + 1}, []textlog.Row{{Node: id, Key: key, At: r.Now().UnixNano(), Text: text}})
}

// findTexts searches the texts that are stored as item values on the test server.
func (r *Server) findTexts(ctx context.Context, q textlog.Query) ([]textlog.Row, bool, error) {
	return r.Texts.Find(ctx, &q)
}

// Act applies an operator's action, such as an acknowledgement, to an event.
func (r *Server) Act(_ context.Context, node model.NodeID, action wire.Action) error {
	if r.BeforeAction != nil {
		r.BeforeAction()
	}
	r.commitRecord(node, &wire.Record{Kind: wire.RecordAction, Node: node, Action: &action})
	return nil
}

// commitRecord applies one journal record about a node to the in-memory event state
func (r *Server) commitRecord(node model.NodeID, record *wire.Record) {
	r.T.Helper()
	r.commit(node, wire.AppendRecord(nil, record))
}

// commit applies one encoded journal record about a node, as a commit of the journal would.
func (r *Server) commit(node model.NodeID, record []byte) {
	r.T.Helper()
	r.mu.Lock()
	r.number++
	c := &journaltest.Commit{
		At: journal.Position{Log: 1, Number: r.number}, Time: r.now.Add(-r.Lag).UnixNano(),
		Listened: r.now.Sub(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)),
	}
	c.AddEntry(journal.Section(uint32(node)%model.Partitions), record)
	r.View.Deliver(c) // in the order of their numbers, as a journal does
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	testenv.NoError(r.T, r.View.WaitApplied(ctx, c.At))
}

// explainedDirectory is a node directory that also returns the reason why a node has each check.
type explainedDirectory struct {
	*directory.Directory
	*plan.Inspector
}
