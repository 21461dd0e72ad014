package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/wire"
)

// edits makes changes of intent of results. mu is held from a result to its change: what comes
// later in a stream is recorded later.
type edits struct {
	planner *plan.Planner
	readers sync.Pool
	wake    chan struct{} // capacity 1

	mu       sync.Mutex
	room     chan struct{} // closed when there is room again; nil: nobody waits for it
	checks   map[model.CheckID]*check
	states   map[state]*edited // by the definitions that nodes began with
	revision int64
	changes  []intent.Change // that wait
	waiters  []waiter
}

// check is one that changes.
type check struct {
	resource model.Resource
	property string // that its command names
	version  int
}

// name is the version's.
func (c *check) name() string { return strconv.Itoa(c.version) }

// edited is a node's property for one check.
type edited struct {
	id      uint32
	check   model.CheckID
	node    string
	results uint64
	status  model.Status
}

// mostChanges is how many wait at most.
const mostChanges = 10_000

// versioned is what tells one definition of a check from the next.
const versioned = "VERSION"

// define has every check name a property, which is its first version.
func (e *edits) define(ctx context.Context, sc *scenario.Scenario) error {
	e.checks = map[model.CheckID]*check{}
	for _, r := range simulated.Resources(sc) {
		spec, ok := r.Spec.(*model.CheckSpec)
		if !ok {
			continue
		}
		id, ok := e.planner.Directory().CheckByName(simulated.Namespace, r.Metadata.Name)
		if !ok {
			return model.Errorf(model.Internal, "the planner does not know the check %s", r.Metadata.Name)
		}
		c := &check{resource: r, property: fmt.Sprintf("s%d", len(e.checks))}
		spec.Command = &model.Command{Shell: fmt.Sprintf(`true '{{ .props.%s | default "" }}'`, c.property)}
		e.checks[id] = c
		e.redefine(id)
	}
	changes := e.changes
	e.changes = nil
	_, err := e.planner.Apply(ctx, changes)
	return err
}

// redefine changes a check. Caller holds the lock, as of change.
func (e *edits) redefine(id model.CheckID) {
	c := e.checks[id]
	c.version++
	c.resource.Spec.(*model.CheckSpec).Env = map[string]string{versioned: c.name()}
	e.change(&c.resource, uint32(id))
}

func (e *edits) change(r *model.Resource, id uint32) {
	body, err := json.Marshal(r)
	if err != nil {
		panic("BUG: a resource that is no JSON: " + err.Error())
	}
	e.revision++
	e.changes = append(e.changes, intent.Change{Revision: e.revision, ID: id, After: body,
		Key: intent.Key{Kind: r.Kind, Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}})
}

// result is a new value of its property, and a new definition of its check where the status is
// another one than before.
func (e *edits) result(node model.NodeID, sig *wire.Signal, status model.Status, last said) {
	key := state{node, sig.Definition}
	s := e.states[key]
	if s == nil {
		_, name, _ := e.planner.Directory().NodeName(node)
		s = &edited{id: uint32(len(e.states) + 1), check: e.planner.Directory().Definition(sig.Definition).Unit, node: name, status: status}
		e.states[key] = s
	}
	c := e.checks[s.check]
	s.results++
	last.results = s.results
	spec := &model.PropertySpec{Property: c.property, Scope: "node:" + s.node, Value: last.value()}
	e.change(&model.Resource{APIVersion: model.APIVersion, Kind: spec.Kind(), Metadata: model.Metadata{Name: s.node + "-" + c.property, Namespace: simulated.Namespace}, Spec: spec}, s.id)
	if status != s.status {
		s.status = status
		e.redefine(s.check)
	}
}

// said is what a property says of the last result.
type said struct {
	stream, results, number uint64
	digest                  uint32
}

func (s said) value() json.RawMessage {
	return fmt.Appendf(nil, `"%d/%d/%d/%d"`, s.stream, s.results, s.number, s.digest)
}

// saidIn reads what an assignment says; not ok: nothing.
func saidIn(properties []wire.Property, name string) (s said, ok bool, err error) {
	i := slices.IndexFunc(properties, func(p wire.Property) bool { return p.Name == name })
	if i < 0 {
		return s, false, nil
	}
	_, err = fmt.Sscanf(string(properties[i].Value), `"%d/%d/%d/%d"`, &s.stream, &s.results, &s.number, &s.digest)
	if err != nil {
		return s, false, fmt.Errorf("read property %s (%s): %w", name, properties[i].Value, err)
	}
	return s, true, nil
}

// Enter implements load.Stage.
func (e *edits) Enter(_ context.Context, uid uuid.UUID, _ journal.Waiter) (model.NodeID, *link.Assignment, error) {
	node, ok := e.planner.Directory().NodeByUID(uid)
	if !ok {
		return 0, nil, model.Errorf(model.NotFound, "node %s is not of the fleet", uid)
	}
	a := e.planner.Directory().For(node)
	return node, &link.Assignment{Generation: a.Generation, Hash: a.Hash, Definitions: a.Definitions}, nil
}

// Take implements load.Stage. It waits while too much waits.
func (e *edits) Take(ctx context.Context, node model.NodeID, body []byte, w journal.Waiter, last uint64) error {
	r, _ := e.readers.Get().(*wire.BatchReader)
	if r == nil {
		r = new(wire.BatchReader)
	}
	defer e.readers.Put(r)
	if err := r.Reset(body); err != nil {
		return err
	}
	if err := e.awaitRoom(ctx); err != nil {
		return err
	}
	var sig wire.Signal
	var own wire.Result
	for number := r.First; r.Next(&sig); number++ {
		if sig.Kind == wire.SignalResult && own.Decode(sig.Body) == nil {
			e.result(node, &sig, own.Status, said{stream: uint64(r.Stream), number: number, digest: load.Digest(own.Status, string(own.Output))})
		}
	}
	e.waiters = append(e.waiters, waiter{w, last})
	e.mu.Unlock()
	token(e.wake)
	return r.Err()
}

// awaitRoom returns with the lock held, but for an error.
func (e *edits) awaitRoom(ctx context.Context) error {
	for {
		e.mu.Lock()
		if len(e.changes) < mostChanges {
			return nil
		}
		if e.room == nil {
			e.room = make(chan struct{})
		}
		room := e.room
		e.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
