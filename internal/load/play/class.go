package play

import (
	"crypto/tls"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// class is a class of the scenario with the values that its agents share.
type class struct {
	spec     *scenario.Class
	number   int
	addr     string
	tls      func(uid uuid.UUID) (*tls.Config, error) // nil: plain
	linger   int64
	perFrame int
	checks   []playing      // those about the agents themselves first
	own      int            // so many of them
	states   int            // places in the timetable that each agent has: see playing.first
	tape     *tape          // a recorded stream, which is its timetable; nil: each check has its interval
	source   Source         // of values or runs of directives beside the checks; nil: none
	index    map[string]int // of checks, by the names that assignments have

	// Guarded by the run's lock.
	sets   map[[32]byte]*checkSet
	fewest int // checks in the smallest assignment seen; -1: none seen
}

// playing is one check of a class, as its agents run it.
type playing struct {
	full     string // on the server
	interval int64  // ns of virtual time
	says     outputs.Generator
	tells    bool   // its problems are told to the run
	about    *about // whom it is about; nil: the agent that runs it
	robin    *robin // the server says whose turn it is; nil: each agent has times of its own
	first    int    // number of its first place in the timetable, among the agent's; with robin it has none
}

// places returns how many slots the check has in each agent's timetable.
func (k *playing) places() int {
	switch {
	case k.robin != nil:
		return 0
	case k.about != nil:
		return len(k.about.pairs)
	}
	return 1
}

// newClasses makes the classes of a scenario whose defaults are filled in.
func newClasses(c *Options) ([]*class, error) {
	var list []*class
	things := simulated.Things(c.Scenario)
	for i := range c.Scenario.Agents {
		spec := &c.Scenario.Agents[i]
		x := &class{spec: spec, number: i, addr: c.Server, perFrame: spec.PerFrame, linger: int64(spec.Linger), fewest: -1,
			index: map[string]int{}, sets: map[[32]byte]*checkSet{}}
		if x.linger == 0 {
			x.linger = int64(DefaultLinger)
		}
		if spec.TLS {
			x.tls = c.TLS
			if c.ServerTLS != "" {
				x.addr = c.ServerTLS
			}
		}
		if spec.Recorded != nil {
			var err error
			if x.tape, err = newTape(spec.Recorded, c.Scenario.Seed^uint64(i)<<48, time.Duration(spec.Checks[0].Interval)); err != nil {
				return nil, err
			}
		}
		for _, k := range c.Scenario.Held(spec) {
			says := c.Generate
			if x.tape != nil {
				says = x.tape
			}
			if says == nil {
				says = outputs.Of(c.Scenario, i, k.Check)
			}
			for n := range max(1, k.Count) {
				full := k.FullName(n)
				if c.CheckName != nil {
					full = c.CheckName(len(x.checks))
				}
				p := playing{full: full, interval: int64(k.Interval), says: says, tells: k.Alert != ""}
				if k.Proxy != nil {
					p.about = newAbout(things, c.Scenario, k.Check)
				}
				if k.RoundRobin {
					p.robin = newRobin(k.Check, p.about)
				}
				x.checks = append(x.checks, p)
			}
		}
		x.lay()
		list = append(list, x)
	}
	return list, nil
}

// lay sorts the checks, and gives each its slots in the timetable.
func (c *class) lay() {
	slices.SortStableFunc(c.checks, func(a, b playing) int {
		if (a.about != nil) == (b.about != nil) {
			return 0
		} else if a.about == nil {
			return -1
		}
		return 1
	})
	for i := range c.checks {
		k := &c.checks[i]
		c.index[k.full] = i
		if k.about == nil {
			c.own++
			k.first, c.states = i, i+1 // one each, also of those that take turns
		} else {
			k.first = c.states
			c.states += k.places()
		}
	}
}

// DefaultLinger is how long agents hold a result back so that others join its frame.
const DefaultLinger = 500 * time.Millisecond

// checkSet is the checks of an assignment as a class plays them, shared by all agents with the same assignment: a
// definition for each check.
type checkSet struct {
	definitions []*model.CheckDefinition
	things      [][]model.NodeID               // nodes that each check reports on; nil if no check reports on other nodes
	turns       map[wire.RoundRobinRun]placing // member that has each turn
}

// checkSet returns the check set of an assignment, or nil if the assignment lacks a check of the class.
func (f *Fleet) checkSet(c *class, held *link.Assignment) *checkSet {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := held.Hash
	if len(c.checks) == 0 {
		key = [32]byte{} // all agents have the same
	}
	if s := c.sets[key]; s != nil {
		return s
	}
	s := &checkSet{definitions: make([]*model.CheckDefinition, len(c.checks))}
	c.fewest = 0
	for _, definition := range held.Definitions {
		definition := definition.AsCheck()
		if definition == nil {
			continue
		}
		if i, ok := c.index[definition.Name]; ok && s.definitions[i] == nil {
			s.definitions[i] = definition
			c.fewest++
		}
	}
	if c.fewest < len(c.checks) || !s.meet(c, held) {
		return nil
	}
	c.sets[key] = s
	return s
}
