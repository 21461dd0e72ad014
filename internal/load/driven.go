package load

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Driven is a system that is told results and acknowledges them. When each is made, at which
// rate, who comes and goes, what is late and what is lost is all the run's: of a target it needs
// no more than this. Its methods are called from many goroutines.
type Driven interface {
	Target
	// Open connects an agent. Where the line ends, or the scenario cuts it, the agent has
	// another one opened.
	Open(ctx context.Context, a Caller) (Line, error)
	// Each calls fn with every state that the system holds, also those that nobody of the run
	// has sent. It is asked before the run and, with the agents at rest, after it.
	Each(ctx context.Context, fn func(Shown) error) error
}

// Caller is an agent that wants a line.
type Caller struct {
	Name   string
	Stream uint64 // of its numbers, another one in each run
	// Dial connects from the run's own addresses. What goes through it is counted, and lost
	// while the scenario has the machine off the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Acked says that the system has all results up to a number, or, with an error, that the line
	// has ended. From any goroutine, also before Open returns.
	Acked func(number uint64, err error)
}

// Line is an agent's connection. Its methods are called one after the other, but for Close.
type Line interface {
	// Send hands over results in the order of their numbers, and may wait. What was not
	// acknowledged when a line ended comes again by the next one, with the same numbers.
	Send(results []Result) error
	// Close ends it, also where Send waits. It may be called more than once.
	Close() error
}

// Result is one that is sent. Its output is the run's again when Send returns.
type Result struct {
	Number uint64 // of the agent's, from 1, without holes
	Check  string // empty: none, the agent says that it lives; it is acknowledged like any other
	Status model.Status
	Output []byte
	At     time.Time // when it was made
}

// Shown is what a Driven holds of one check of one agent.
type Shown struct {
	Agent, Check string
	Results      uint64 // ever
	Digest       uint32 // Digest of the last one; zero: not told
}

// driving gives a Driven the sessions of agents, and is the View that the ledger is compared with. Agents and
// checks have numbers here: nobody else gives them any.
type driving struct {
	Driven
	nodes       map[uuid.UUID]model.NodeID
	names       map[string]model.NodeID
	checks      map[string]model.CheckID
	definitions []string           // names of checks, by number
	held        []*link.Assignment // by class
	agents      []*driven          // by number
}

// driven is an agent's line. mu guards it; the results belong to Take.
type driven struct {
	class int
	name  string

	mu   sync.Mutex
	line Line

	results []Result
}

func newDriving(t Driven, sc *scenario.Scenario, members []simulated.Member) *driving {
	d := &driving{Driven: t, nodes: map[uuid.UUID]model.NodeID{}, names: map[string]model.NodeID{}, checks: map[string]model.CheckID{}, definitions: []string{""}, agents: []*driven{nil}}
	for i := range sc.Agents {
		held := &link.Assignment{Hash: [32]byte{1}} // a class knows no other
		for _, k := range sc.Held(&sc.Agents[i]) {
			for n := range max(1, k.Count) {
				held.Definitions = append(held.Definitions, d.definition(k.FullName(n)).Seal())
			}
		}
		d.held = append(d.held, held)
	}
	for _, m := range members {
		id := model.NodeID(len(d.agents))
		d.nodes[m.UID], d.names[m.Name] = id, id
		d.agents = append(d.agents, &driven{class: m.Class, name: m.Name})
	}
	return d
}

func (d *driving) definition(name string) *model.CheckDefinition {
	id, known := d.checks[name]
	if !known {
		id = model.CheckID(len(d.definitions))
		d.checks[name], d.definitions = id, append(d.definitions, name)
	}
	return &model.CheckDefinition{Definition: model.Definition{ID: model.DefinitionID(id), Unit: id, Name: name}}
}

// Enter opens the line of a node, and returns its number and checks. The line ends with ctx; w gets each acknowledgement.
func (d *driving) Enter(ctx context.Context, uid uuid.UUID, w journal.Waiter) (model.NodeID, *link.Assignment, error) {
	a, _ := ctx.Value(cableOf{}).(*agent)
	id, ok := d.nodes[uid]
	if a == nil || !ok {
		return 0, nil, model.Errorf(model.NotFound, "node %s is not of the scenario", uid)
	}
	own := d.agents[id]
	line, err := d.Open(ctx, Caller{Name: own.name, Stream: uint64(a.stream), Dial: func(dialing context.Context, network, address string) (net.Conn, error) {
		return a.cfg.Dial(context.WithValue(dialing, cableOf{}, a), network, address)
	}, Acked: func(number uint64, err error) { w.Committed(number, journal.Position{}, err) }})
	if err != nil {
		return 0, nil, err
	}
	context.AfterFunc(ctx, func() { _ = line.Close() })
	own.mu.Lock()
	own.line = line
	own.mu.Unlock()
	return id, d.held[own.class], nil
}

// Take sends a batch of a node as results by its line. The bytes are the caller's again when it returns.
func (d *driving) Take(ctx context.Context, node model.NodeID, batch []byte, _ journal.Waiter, _ uint64) error {
	own := d.agents[node]
	own.mu.Lock()
	line := own.line
	own.mu.Unlock()
	var r wire.BatchReader
	if err := r.Reset(batch); err != nil {
		return err
	}
	a, _ := ctx.Value(cableOf{}).(*agent)
	own.results = own.results[:0]
	var s wire.Signal
	var body wire.Result
	for number := r.First; r.Next(&s); number++ {
		if err := body.Decode(s.Body); err != nil {
			return err
		}
		own.results = append(own.results, Result{Number: number, Check: d.definitions[s.Definition], Status: body.Status, Output: body.Output, At: a.run.atBoot(s.AtMs)})
	}
	if err := r.Err(); err != nil {
		return err
	}
	return line.Send(own.results)
}

// Each implements View.
func (d *driving) Each(ctx context.Context, fn func(Kept) error) error {
	return d.Driven.Each(ctx, func(s Shown) error {
		node, ours := d.names[s.Agent]
		check, known := d.checks[s.Check]
		if !ours || !known {
			return nil
		}
		return fn(Kept{Node: node, Check: check, Results: s.Results, Digest: s.Digest})
	})
}
