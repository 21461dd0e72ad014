package load

import (
	"crypto/tls"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// class is a scenario's class as it is played: what its agents share.
type class struct {
	spec     *scenario.Class
	number   int
	addr     string
	tls      func(uid uuid.UUID) (*tls.Config, error) // nil: plain
	linger   int64
	perFrame int
	checks   []playing
	tape     *tape          // a recorded stream, which is its timetable; nil: each check has its interval
	index    map[string]int // of checks, by the names that assignments have

	// Guarded by the run's lock.
	sets   map[[32]byte]*checkSet
	fewest int // checks in the smallest assignment seen; -1: none seen
}

// playing is one check of a class.
type playing struct {
	full     string // on the server
	interval int64  // ns of virtual time
	says     Generator
	tells    bool // its problems are told to the run
}

// newClasses reads a scenario that has defaults where it said nothing.
func newClasses(c *Config) ([]*class, error) {
	var list []*class
	for i := range c.Scenario.Agents {
		spec := &c.Scenario.Agents[i]
		x := &class{spec: spec, number: i, addr: c.Server, perFrame: spec.PerFrame, linger: int64(spec.Linger), fewest: -1,
			index: map[string]int{}, sets: map[[32]byte]*checkSet{}}
		if x.linger == 0 {
			x.linger = int64(defaultLinger)
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
				says = newGenerator(c.Scenario.Seed^uint64(i)<<48, k.Check)
			}
			for n := range max(1, k.Count) {
				full := k.FullName(n)
				if c.checks != nil {
					full = c.checks(len(x.checks))
				}
				x.index[full] = len(x.checks)
				x.checks = append(x.checks, playing{full: full, interval: int64(k.Interval), says: says, tells: k.Alert != ""})
			}
		}
		list = append(list, x)
	}
	return list, nil
}

// defaultLinger is for how long agents let a result wait for company.
const defaultLinger = 500 * time.Millisecond

// checkSet is an assignment as its class plays it, shared by all agents that hold the
// same: a definition for each check.
type checkSet struct {
	chunks []*model.Chunk
}

// checkSet is nil while an assignment lacks a check of the class.
func (r *run) checkSet(c *class, held *link.Held) *checkSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := c.sets[held.Hash]; s != nil {
		return s
	}
	s := &checkSet{chunks: make([]*model.Chunk, len(c.checks))}
	c.fewest = 0
	for _, chunk := range held.Chunks {
		if i, ok := c.index[chunk.CheckName]; ok && s.chunks[i] == nil {
			s.chunks[i] = chunk
			c.fewest++
		}
	}
	if c.fewest < len(c.checks) {
		return nil
	}
	c.sets[held.Hash] = s
	return s
}
