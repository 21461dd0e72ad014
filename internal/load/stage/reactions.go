package stage

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/spine"
	"github.com/muster-fleet/muster/internal/metrics"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/wire"
)

// reactions is the dispatcher alone, on a SQLite file: every result is a transition of status,
// and opens or closes a problem where it changes whether all is well, of which a webhook is
// told. What history has recorded is acknowledged.
func (d *Driven) reactions(ctx context.Context, fleet *spine.Fleet) error {
	store, err := history.Open(ctx, filepath.Join(d.dir, "history.db"), history.SizeLimit{})
	if err != nil {
		return err
	}
	d.end(store.Close)
	told, err := d.webhook()
	if err != nil {
		return err
	}
	block, err := queue.ParseSettings([]string{"reactions=block"}) // there is no journal to make transitions again from
	if err != nil {
		return err
	}
	queues := queue.NewRegistry(block)
	d.metric.MustRegister(metrics.Queues{Of: queues})
	s := &changes{fleet: fleet, store: store, began: time.Now(), states: map[state]*current{}, streams: map[model.NodeID]wire.StreamID{}, answers: make(chan batch, 1<<14)}
	s.dispatcher = dispatch.New(dispatch.Options{Store: store, Names: names{fleet, told}, Batches: dispatch.BatchOptions{Gather: 250 * time.Millisecond}, // as the server
		Registerer: d.metric, Queues: queues})
	if err := s.dispatcher.Load(ctx, nil); err != nil {
		return err
	}
	life, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.dispatcher.Run(life) })
	running.Go(func() { s.answer(life) })
	d.end(func() error { stop(); running.Wait(); return nil })
	d.config.Stage, d.config.Before = s, s
	return nil
}

// webhook is told of problems.
func (d *Driven) webhook() (url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the messages of a stage: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })}
	go func() { _ = server.Serve(listener) }() // until Close
	d.end(server.Close)
	return "http://" + listener.Addr().String(), nil
}

// changes makes transitions of results. mu is held from a position to its Emit: positions
// grow in each partition. Its answers are given in order, by one goroutine.
type changes struct {
	fleet      *spine.Fleet
	store      history.Store
	dispatcher *dispatch.Dispatcher
	began      time.Time
	readers    sync.Pool
	answers    chan batch

	mu      sync.Mutex
	firsts  []uint64 // number of the first signal of each position, from 1
	states  map[state]*current
	streams map[model.NodeID]wire.StreamID
	list    []event.Transition
}

type state struct {
	node       model.NodeID
	definition model.DefinitionID
}

type current struct {
	status  model.Status
	known   bool
	problem *model.Problem
}

// batch waits until history has what was made of it.
type batch struct {
	at     journal.Position
	waiter journal.Waiter
	token  uint64
}

// Enter implements load.Stage.
func (s *changes) Enter(_ context.Context, uid uuid.UUID, _ journal.Waiter) (model.NodeID, *link.Assignment, error) {
	node, ok := s.fleet.Lookup(uid)
	if !ok {
		return 0, nil, model.Errorf(model.NotFound, "node %s is not of the fleet", uid)
	}
	return node.ID, s.fleet.Held(node.ID), nil
}

// each is how many transitions a signal may become: it numbers them.
const each = 4

// Take implements load.Stage.
func (s *changes) Take(ctx context.Context, node model.NodeID, body []byte, w journal.Waiter, token uint64) error {
	r, _ := s.readers.Get().(*wire.BatchReader)
	if r == nil {
		r = new(wire.BatchReader)
	}
	defer s.readers.Put(r)
	if err := r.Reset(body); err != nil {
		return err
	}
	s.mu.Lock()
	s.firsts = append(s.firsts, r.First)
	s.streams[node] = r.Stream
	at := journal.Position{Log: 1, Number: uint64(len(s.firsts))}
	list := s.list[:0]
	now := time.Now()
	var sig wire.Signal
	var own wire.Result
	for i := uint32(0); r.Next(&sig); i++ {
		if sig.Kind == wire.SignalResult && own.Decode(sig.Body) == nil {
			list = s.transitions(list, node, sig.Definition, &own, at, i*each, now)
		}
	}
	s.list = list
	if len(list) > 0 {
		s.dispatcher.Emit(list)
	}
	s.mu.Unlock()
	select {
	case s.answers <- batch{at, w, token}:
		return r.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// transitions are those of one result. Caller holds the lock.
func (s *changes) transitions(list []event.Transition, node model.NodeID, id model.DefinitionID, sig *wire.Result, at journal.Position, index uint32, now time.Time) []event.Transition {
	key := state{node, id}
	c := s.states[key]
	if c == nil {
		c = &current{}
		s.states[key] = c
	}
	definition := s.fleet.CheckDefinition(id)
	t := event.Transition{At: at, Index: index, Partition: s.fleet.Partition(node), Kind: event.StatusChanged, Node: node, Namespace: definition.Namespace,
		Source: model.CheckSource(definition.Unit), Definition: definition.ID, Status: sig.Status, Previous: c.status, First: !c.known, Severity: definition.Severities[sig.Status],
		Received: now.UnixNano(), Executed: now.UnixNano(), Output: string(sig.Output)}
	list = append(list, t)
	well := sig.Status == model.OK
	if well != (c.problem == nil) {
		t.Index++
		t.Kind = event.ProblemOpened
		if well {
			t.Kind, t.Problem, c.problem = event.ProblemClosed, c.problem, nil
			t.Problem.Closed = now
		} else {
			c.problem = &model.Problem{ID: fmt.Sprintf("%d-%d", at.Number, index), NodeID: node, Source: model.CheckSource(definition.Unit), Definition: definition.ID,
				Status: sig.Status, Severity: t.Severity, Opened: now, Output: t.Output}
			copied := *c.problem
			t.Problem = &copied
		}
		list = append(list, t)
	}
	c.status, c.known = sig.Status, true
	return list
}

// answer tells who waits that history has it, until ctx ends.
func (s *changes) answer(ctx context.Context) {
	for {
		select {
		case b := <-s.answers:
			if s.dispatcher.Recorded(ctx, b.at) != nil {
				return
			}
			b.waiter.Committed(b.token, b.at, nil)
		case <-ctx.Done():
			return
		}
	}
}

// Each implements load.View: of each node and check, how many transitions history holds, and
// which is the last.
func (s *changes) Each(ctx context.Context, fn func(load.Kept) error) error {
	for _, node := range s.fleet.NodeIDs() {
		list, err := s.store.Entries(ctx, history.EntryQuery{NodeID: node, Limit: math.MaxInt32})
		if err != nil {
			return err
		}
		kept := map[model.Source]*load.Kept{}
		s.mu.Lock()
		for i := range list { // the newest first
			e := &list[i]
			if kept[e.Source] == nil {
				kept[e.Source] = &load.Kept{Node: node, Check: e.Source.Check(), Stream: uint64(s.streams[node]),
					Number: s.firsts[e.Place.At.Number-1] + uint64(e.Place.Index/each), Digest: load.Digest(e.Status, e.Output)}
			}
			kept[e.Source].Results++
		}
		s.mu.Unlock()
		for _, k := range kept {
			if err := fn(*k); err != nil {
				return err
			}
		}
	}
	return nil
}

// names implements dispatch.Names: one handler is told of everything.
type names struct {
	fleet *spine.Fleet
	url   string
}

func (n names) NodeName(id model.NodeID) (namespace, name string, ok bool) {
	name = n.fleet.Name(id)
	return simulated.Namespace, name, name != ""
}

func (n names) SourceName(s model.Source) (namespace, name string, ok bool) {
	c := n.fleet.Definition(model.DefinitionID(s.ID)) // they have the same numbers
	if c == nil {
		return "", "", false
	}
	return simulated.Namespace, c.Name, true
}

func (n names) Judgement(id model.DefinitionID, _ string) *model.CheckDefinition {
	return n.fleet.CheckDefinition(id)
}
func (n names) SourceUnit(model.Source) *directory.Unit          { return nil }
func (n names) Keepalive(model.NodeID) *model.CheckDefinition    { return nil }
func (n names) NodeLabels(model.NodeID) map[string]string        { return nil }
func (n names) NodeFacts(model.NodeID) map[string]string         { return nil }
func (n names) NodeGroups(model.NodeID) []string                 { return nil }
func (n names) NodeProperties(model.NodeID) model.PropertyValues { return nil }
func (n names) NamespaceName(model.NamespaceID) (name string, ok bool) {
	return simulated.Namespace, true
}
func (n names) NamespaceHandlers(string) []string { return []string{"told"} }

func (n names) Handler(string, string) (*model.HandlerSpec, bool) {
	return &model.HandlerSpec{Webhook: &model.Webhook{URL: n.url}}, true
}
