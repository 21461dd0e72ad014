package play

import (
	"fmt"
	"hash"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// about holds the proxy nodes that a check reports on, shared by all agents of its class.
type about struct {
	names []string // of the proxy nodes
	pairs []pair   // the check's event states, one for each of them
}

// pair is the event state of one proxy node and one check, for which many agents send results. Its lock is taken under
// the agents'.
type pair struct {
	thing int // number of the proxy node in the scenario; it determines the outputs, on any agent

	mu           sync.Mutex
	observe.Pair // the entry counts results and refusals of all agents; number and digest are those of Last
	begun        bool
	seq          uint64 // of the last result that was made, and its status
	status       model.Status
	forced       *forced // by a fault; nil: none
	judged       int64   // when the newest result was made that the witness heard of
	watched      *alerts.Witness
}

// lateUnit is the unit of sign.late, in ns.
const lateUnit = int64(1e7)

// newAbout returns the proxy nodes of a check's groups.
func newAbout(things []simulated.Thing, sc *scenario.Scenario, k *scenario.Check) *about {
	var list []int
	for i, x := range things {
		if slices.Contains(k.Proxy.Groups, sc.Proxies[x.Kind].Name) {
			list = append(list, i)
		}
	}
	a := &about{pairs: make([]pair, len(list))}
	for i, x := range list {
		a.names = append(a.names, things[x].Name)
		a.pairs[i].Name, a.pairs[i].thing = things[x].Name, x
	}
	return a
}

// offsetAbout returns the offset of a check about a proxy node within its interval, from 0 to 1.
func (f *Fleet) offsetAbout(class *class, index, c, about int) float64 {
	own := outputs.Mix(f.cfg.Scenario.Seed ^ uint64(class.number)<<48 ^ uint64(index)<<16 ^ uint64(c))
	return outputs.Share(outputs.Mix(own ^ uint64(about)))
}

// hash hashes the first statuses and outputs of a check about proxy nodes, and the name and interval of a round-robin
// check.
func (k *playing) hash(h hash.Hash, c int) {
	if k.robin != nil {
		fmt.Fprintln(h, "in turn", k.full, k.interval)
	}
	if k.about == nil {
		return
	}
	for i := range k.about.pairs {
		p := &k.about.pairs[i]
		fmt.Fprintln(h, k.full, p.Name)
		numbers(h, uint64(k.says.Status(p.thing, c, nil, 0, 0, true)))
	}
}

// meet finds the node ids of the proxy nodes in an assignment; it returns false if one is missing. The run's lock is
// held.
func (s *checkSet) meet(c *class, held *link.Assignment) bool {
	ids := make(map[string]model.NodeID, len(held.ProxyChecks.Nodes))
	for i := range held.ProxyChecks.Nodes {
		ids[observe.OwnName(held.ProxyChecks.Nodes[i].Name)] = held.ProxyChecks.Nodes[i].Node
	}
	for i := range c.checks {
		k, definition := &c.checks[i], s.definitions[i]
		if k.about != nil {
			if s.things == nil {
				s.things = make([][]model.NodeID, len(c.checks))
			}
			s.things[i] = make([]model.NodeID, len(k.about.names))
			for n, name := range k.about.names {
				id, known := ids[name]
				if !known {
					return false
				}
				s.things[i][n] = id
			}
		}
		if k.robin != nil {
			if s.turns == nil {
				s.turns = map[wire.RoundRobinRun]placing{}
			}
			k.robin.learn(definition, s.thingsOf(i))
			for n, id := range s.thingsOf(i) {
				s.turns[wire.RoundRobinRun{Definition: definition.ID, Node: id}] = placing{int16(i), uint16(n)}
			}
		}
	}
	return true
}

// thingsOf returns the proxy nodes that a check reports on, or one zero id for a check about the agents themselves.
func (s *checkSet) thingsOf(check int) []model.NodeID {
	if s.things == nil || s.things[check] == nil {
		return []model.NodeID{0}
	}
	return s.things[check]
}

// next returns the status of the next result, and whether it differs from the status before. A repeated number, such as
// of a round-robin run that another agent takes over, returns the same status.
func (p *pair) next(says outputs.Generator, c int, definition *model.CheckDefinition, seq uint64, intended int64) (model.Status, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.status
	if !p.begun || p.seq != seq {
		p.status = says.Status(p.thing, c, definition, seq, p.status, !p.begun)
		p.begun, p.seq = true, seq
	}
	status, changed, ended := p.forced.apply(p.status, p.status != before, intended)
	if ended {
		p.forced = nil
	}
	return status, changed
}

// force gives a status to results whose intended time is not before from, until release.
func (p *pair) force(status model.Status, from int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forced = &forced{status: status, from: from}
}

// release ends force for results whose intended time is not before until.
func (p *pair) release(until int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forced.release(until)
}

// passed records the outcome of a result in its pair, its round-robin run or its stream line.
func (a *agent) passed(number uint64, s *sign, heard, refused bool, now int64) {
	if s.check < 0 {
		return
	}
	if a.ledger.lines != nil && !refused {
		a.ledger.lines.Acknowledged(number, a.line(s))
	}
	k := &a.class.checks[s.check]
	if k.about != nil && s.about > 0 {
		k.about.pairs[s.about-1].passed(a.stream, number, s, heard, refused, now)
	}
	if k.robin != nil && !refused {
		k.robin.ran(a.fleet, max(0, int(s.about)-1), s.intended, now)
	}
}

// passed records the outcome of a result; the order of two agents' results is known only if one was made after the
// other was acknowledged.
func (p *pair) passed(stream wire.StreamID, number uint64, s *sign, heard, refused bool, now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if refused {
		p.Entry.Refused = more(p.Entry.Refused)
		return
	}
	p.Entry.Results++
	if !heard {
		p.Entry.Unheard = more(p.Entry.Unheard)
	}
	x := observe.Final{Stream: uint64(stream), Number: uint32(number), Digest: s.digest, Status: s.status, Made: s.intended + int64(s.late)*lateUnit, Acked: now}
	p.Last = slices.DeleteFunc(p.Last, func(f observe.Final) bool { return f.Acked < x.Made || f.Stream == x.Stream })
	p.Entry.Order = p.Entry.Order.Append(uint64(stream), number)
	p.AtOnce = p.AtOnce || len(p.Last) > 0
	unsure := false
	for _, f := range p.Last {
		unsure = unsure || f.Status != x.Status && f.Made < x.Made+surelyLater && x.Made < f.Made+surelyLater
	}
	p.Last = append(p.Last, x)
	if p.watched == nil {
		return
	}
	switch {
	case unsure:
		p.watched.Unknown()
	case x.Made+surelyLater < p.judged: // late: it judges nothing
	default:
		p.watched.Result(s.status, s.intended)
		p.judged = max(p.judged, x.Made)
	}
}

// surelyLater is the least time in ns between runs of two agents after which the server surely receives them in this
// order, however long their frames linger.
const surelyLater = int64(2e9)

// choosePairs draws the proxy nodes for which checks of a class fail.
func (f *Fleet) choosePairs(index int, pick *scenario.Pick, c *class, checks []int) (list []*pair) {
	random := rand.New(rand.NewPCG(f.cfg.Scenario.Seed, uint64(index)))
	for _, i := range drawn(random, len(c.checks[checks[0]].about.pairs), pick) {
		for _, check := range checks {
			list = append(list, &c.checks[check].about.pairs[i])
		}
	}
	return list
}

// pairLedgers returns the ledger of each proxy node and check.
func (f *Fleet) pairLedgers() (list []observe.Pair) {
	type place struct {
		node  model.NodeID
		check model.CheckID
	}
	known := map[place]int{}
	for _, a := range f.agents {
		a.mu.Lock()
		if a.set == nil || a.set.things == nil {
			a.mu.Unlock()
			continue
		}
		for i := a.class.own; i < len(a.class.checks); i++ {
			check := observe.Check{ID: a.set.definitions[i].Unit, Name: a.set.definitions[i].Name}
			for n, node := range a.set.things[i] {
				if _, seen := known[place{node, check.ID}]; seen {
					break // another agent's of the class
				}
				known[place{node, check.ID}] = len(list)
				p := &a.class.checks[i].about.pairs[n]
				p.mu.Lock()
				x := p.Pair
				x.Node, x.Check, x.Last = node, check, slices.Clone(x.Last)
				list = append(list, x)
				p.mu.Unlock()
			}
		}
		a.eachUnanswered(func(s *sign) {
			if s.about > 0 {
				list[known[place{a.set.things[s.check][s.about-1], a.set.definitions[s.check].Unit}]].Open++
			}
		})
		a.mu.Unlock()
	}
	return list
}
