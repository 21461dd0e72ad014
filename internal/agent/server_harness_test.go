package agent

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// testServer is a server with a real journal, TLS and enrolment, but simple in-memory nodes and assignments.
type testServer struct {
	t         testing.TB
	dir       string
	authority *pki.Authority
	addr      string
	token     string
	stop      func()

	mu              sync.Mutex
	changed         *sync.Cond
	tokens          map[string]pki.JoinToken
	uid             uuid.UUID // id of the only node
	enrolRequest    pki.EnrolRequest
	hellos          []wire.Hello
	machineKey      string            // key of the machine that enrolled as the node
	retirement      muster.Retirement // with a code: the server refuses the node as retired
	notify          func(directory.Change)
	assigned        *directory.Assignment
	definitions     map[model.DefinitionID]*model.Definition
	revision        uint64
	lastNumbers     map[wire.StreamKey]uint64
	results         []decodedResult // results in the order of their commits
	resultLanes     []wire.Lane     // of each
	reports         []wire.Report   // of directives, in the order of their commits
	repeatedNumbers int             // sequence numbers that were committed twice
	byeSessions     int             // number of sessions that ended with Bye
}

const testNode model.NodeID = 77

// newTestServer starts a server with journal, TLS and enrolment on a loopback port.
func newTestServer(t testing.TB) *testServer {
	t.Helper()
	s := &testServer{
		t: t, dir: t.TempDir(), tokens: map[string]pki.JoinToken{},
		definitions: map[model.DefinitionID]*model.Definition{}, lastNumbers: map[wire.StreamKey]uint64{},
	}
	s.changed = sync.NewCond(&s.mu)
	var err error
	if s.authority, err = pki.Open(s.dir+"/pki", []string{"127.0.0.1"}, time.Now); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", testenv.Port(t)) // which it comes back to
	testenv.NoError(t, err)
	s.addr = l.Addr().String()
	token, keep, err := s.authority.NewToken([]string{s.addr}, pki.JoinToken{Namespace: "default"})
	testenv.NoError(t, err)
	s.token, s.tokens[keep.ID] = token.String(), keep
	s.serveAgents(l)
	t.Cleanup(func() { s.stop() })
	return s
}

// serveAgents accepts connections of agents on a listener until stop is called.
func (s *testServer) serveAgents(l net.Listener) {
	s.t.Helper()
	log, err := journal.Open(s.dir+"/journal", journal.Options{Deliver: s.recordCommitted, Reserve: -1})
	testenv.NoError(s.t, err)
	front, err := muster.New(muster.Config{
		Config: core.Config{Journal: log, Assignments: s}, Nodes: s, View: s, SigningKey: s.authority.SigningKey(), Kinds: []wire.SignalKind{wire.SignalReport},
		Limits: muster.Limits{SessionLimits: core.SessionLimits{Keepalive: time.Second}},
	})
	testenv.NoError(s.t, err)
	listener := muster.Listen(l, s.authority, front, nil)
	people := &http.Server{Handler: &pki.Enroller{Authority: s.authority, Tokens: s, Registrar: s, Servers: []string{s.addr}}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = front.Run(ctx) })
	running.Go(func() { _ = listener.Run(ctx) })
	running.Go(func() { _ = people.Serve(listener.People()) })
	s.stop = sync.OnceFunc(func() {
		cancel()
		_ = people.Close()
		running.Wait()
		_ = log.Close()
	})
}

// restart stops the test server and starts a new one on the same address.
func (s *testServer) restart() {
	s.t.Helper()
	l, err := net.Listen("tcp", s.addr)
	testenv.NoError(s.t, err)
	s.serveAgents(l)
}

// recordCommitted decodes one commit of the journal, and stores the received results and sequence numbers for
// the test. The content is results, sequence numbers and session ends.
func (s *testServer) recordCommitted(c journal.Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	for _, section := range c.Sections() {
		_ = c.Entries(section, func(data []byte) error {
			var r wire.Record
			if err := r.Decode(data); err != nil {
				return err
			}
			if r.Kind == wire.RecordSession && !r.Session.Start && r.Session.Clean {
				s.byeSessions++
			}
			if r.Kind != wire.RecordBatch {
				return nil
			}
			var b wire.Batch
			if err := b.Decode(r.Batch); err != nil {
				return err
			}
			for i := range b.Signals {
				if n := b.First + uint64(i); n <= s.lastNumbers[b.StreamKey] {
					s.repeatedNumbers++
					continue
				}
				s.lastNumbers[b.StreamKey] = b.First + uint64(i)
				sig := b.Signals[i]
				if sig.Kind == wire.SignalReport {
					var r wire.Report
					if err := r.Decode(slices.Clone(sig.Body)); err != nil {
						return err
					}
					s.reports = append(s.reports, r)
				}
				if sig.Kind == wire.SignalResult {
					sig.Body = slices.Clone(sig.Body)
					r, err := sig.Result()
					if err != nil {
						return err
					}
					s.results, s.resultLanes = append(s.results, decodedResult{sig, r}), append(s.resultLanes, b.Lane)
				}
			}
			if b.Gap != nil {
				s.lastNumbers[b.StreamKey] = b.Gap.Last
			}
			return nil
		})
	}
}

// assign replaces all checks and properties of the test server's only node.
func (s *testServer) assign(properties []wire.Property, checks ...*model.CheckDefinition) {
	definitions := make([]*model.Definition, len(checks))
	for i, c := range checks {
		definitions[i] = c.ToDefinition()
	}
	s.assignDefinitions(properties, definitions...)
}

// assignDefinitions replaces all definitions (such as checks and Templates) and properties of the test server's
// only node.
func (s *testServer) assignDefinitions(properties []wire.Property, definitions ...*model.Definition) {
	s.mu.Lock()
	s.revision++
	a := &directory.Assignment{Node: testNode, UID: s.uid, Generation: wire.Generation{Epoch: 1, Revision: s.revision}, Properties: properties}
	for _, c := range definitions {
		c.Hash = wire.DefinitionHash(wire.AppendDefinition(nil, c))
		s.definitions[c.ID] = c
		a.Definitions = append(a.Definitions, c)
	}
	a.Hash = wire.AssignmentHash(a.Definitions, a.Properties, nil)
	s.assigned = a
	tell := s.notify
	s.mu.Unlock()
	if tell != nil {
		tell(directory.Change{Assignments: []model.NodeID{testNode}})
	}
}

// awaitCondition waits until the function ok returns true. It holds the lock while it calls ok.
func (s *testServer) awaitCondition(what string, ok func() bool) {
	s.t.Helper()
	late := false
	timer := time.AfterFunc(time.Minute, func() { s.mu.Lock(); late = true; s.mu.Unlock(); s.changed.Broadcast() })
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok() {
		if late {
			s.t.Fatalf("not in time: %s; %d results, hellos %d", what, len(s.results), len(s.hellos))
		}
		s.changed.Wait()
	}
}

// decodedResult is a received result or keepalive with its decoded body. A keepalive has an empty body.
type decodedResult struct {
	wire.Signal
	wire.Result
}

// resultsOf returns the received results of one check. The caller must hold the lock.
func (s *testServer) resultsOf(definition model.DefinitionID) (list []decodedResult) {
	for _, r := range s.results {
		if r.Definition == definition {
			list = append(list, r)
		}
	}
	return list
}

// Nodes.

// Retirement returns the reason why the node is retired, as set by the test. It is empty if the node is not
// retired.
func (s *testServer) Retirement(uuid.UUID, string) muster.Retirement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retirement
}

// FirstKey stores the first public key that the node shows, and returns the same key in later calls.
func (s *testServer) FirstKey(_ uuid.UUID, key string) (onRecord, holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.machineKey == "" {
		s.machineKey = key
	}
	return s.machineKey, ""
}

// Lookup returns the test server's only node. ok is false if the node is retired or has another uid.
func (s *testServer) Lookup(uid uuid.UUID) (core.Node, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return core.Node{ID: testNode, Name: "web01", Namespace: 1, Key: s.machineKey}, uid == s.uid && s.retirement.Code == ""
}

// Namespace returns no limits, because the test server limits no namespace.
func (s *testServer) Namespace(model.NamespaceID) core.NamespaceLimits { return core.NamespaceLimits{} }

// RecordAgent stores the data of an agent's Hello message for the test.
func (s *testServer) RecordAgent(_ core.Node, hello *wire.Hello) (limit, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hellos = append(s.hellos, *hello)
	s.changed.Broadcast()
	return "", ""
}

// View.

// LastNumbers returns, for each of the agent's message streams, the last sequence number in the server's journal.
func (s *testServer) LastNumbers(context.Context, model.NodeID, journal.Position) (list []wire.StreamLast, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, n := range s.lastNumbers {
		list = append(list, wire.StreamLast{StreamKey: k, Last: n})
	}
	return list, nil
}

// Admit accepts every result, because the test server has no rate limits.
func (s *testServer) Admit(model.NodeID, *model.CheckDefinition) (code, reason string) { return "", "" }

// Assignments.

// AssignmentOf returns the assignment (the compiled checks) of the test server's only node.
func (s *testServer) AssignmentOf(model.NodeID) *directory.Assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.assigned == nil {
		return &directory.Assignment{Node: testNode, UID: s.uid, Generation: wire.Generation{Epoch: 1}, Hash: wire.AssignmentHash(nil, nil, nil)}
	}
	a := *s.assigned
	a.UID = s.uid
	return &a
}

// Definition returns the compiled check with the given id.
func (s *testServer) Definition(id model.DefinitionID) *model.Definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.definitions[id]
}

// Subscribe stores a function that is called when the node's assignment (list of checks) changes.
func (s *testServer) Subscribe(fn func(directory.Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify = fn
}

// Enrolment.

// Find returns the join token with the given id.
func (s *testServer) Find(_ context.Context, id string) (pki.JoinToken, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[id]
	if !ok {
		return t, model.Errorf(model.NotFound, "no such token")
	}
	return t, nil
}

// NodeOfKey returns no node, so that each key of a machine enrols as a new node.
func (s *testServer) NodeOfKey(string) (pki.Member, bool) { return pki.Member{}, false }

// RefuseKey returns no refusal, because the test server accepts the key of every machine.
func (s *testServer) RefuseKey(string) error { return nil }

// UnknownNode returns false, because the test server knows every node.
func (s *testServer) UnknownNode(uuid.UUID) bool { return false }

// Register records an enrolment and names the node web01.
func (s *testServer) Register(_ context.Context, _ string, t pki.JoinToken, request pki.EnrolRequest) (pki.Member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uid, s.enrolRequest = uuid.New(), request
	return pki.Member{UID: s.uid, Name: "web01", Namespace: t.Namespace}, nil
}
