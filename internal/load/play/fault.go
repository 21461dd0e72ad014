package play

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// strike is a fault of the scenario with the agents that it strikes, and the times at which it did. Judges read it
// after the run. Guarded by the script's lock while it plays.
type strike struct {
	fault   scenario.Fault
	index   int          // in the scenario
	places  int          // agents, or states, that it strikes
	at      int64        // ns since the run was made; zero: it did not come to that
	until   int64        // when it was undone; zero: not within the run
	members []int        // of the fleet
	agents  []*agent     // of them, those of this process
	checks  struckChecks // of a failing check …
	pairs   []*pair      // … and of one about proxy nodes those that fail, instead of agents
	status  model.Status // … and its status
	over    int64        // of a fault of the server: when the server's process was ready again; zero: not yet
	err     error        // likewise
}

// struckChecks lists the checks that a fault strikes, by class.
type struckChecks map[*class][]int

// away reports whether this fault kept the server away, or may have done so, at some time between from and to. Caller
// holds the script's lock.
func (s *strike) away(from, to int64) bool {
	if s.fault.Server == "" || s.at == 0 || s.at > to {
		return false
	}
	return s.over == 0 || s.over >= from
}

// choose draws the members of the fleet that a fault strikes, by the seed, from the classes that of accepts.
func (f *Fleet) choose(index int, p *scenario.Pick, of func(c *class) bool) (list []int) {
	random := rand.New(rand.NewPCG(f.cfg.Scenario.Seed, uint64(index)))
	all := f.among(func(c *class) bool { return p.Of(c.spec) && of(c) })
	if p.Within != "" && len(all) > 0 {
		value := f.label(all[random.IntN(len(all))], p.Within)
		all = slices.DeleteFunc(all, func(m int) bool { return f.label(m, p.Within) != value })
	}
	if p.Count == 0 && p.Share == 0 {
		return all
	}
	for _, i := range drawn(random, len(all), p) {
		list = append(list, all[i])
	}
	return list
}

// drawn returns numbers below n in random order: as many as a pick wants, or all.
func drawn(random *rand.Rand, n int, p *scenario.Pick) []int {
	order := random.Perm(n)
	switch {
	case p.Count > 0:
		return order[:min(n, p.Count)]
	case p.Share > 0:
		return order[:min(n, int(p.Share*float64(n)+0.999))]
	}
	return order
}

// among returns the members of the classes that wanted accepts.
func (f *Fleet) among(wanted func(c *class) bool) (list []int) {
	for m := range f.cfg.Members {
		if wanted(f.classes[f.cfg.Members[m].Class]) {
			list = append(list, m)
		}
	}
	return list
}

// mine returns the agents of this process among some members.
func (f *Fleet) mine(members []int) (list []*agent) {
	for _, m := range members {
		if a := f.seats[m]; a != nil {
			list = append(list, a)
		}
	}
	return list
}

// label returns a label of a member's node.
func (f *Fleet) label(member int, name string) string {
	m := &f.cfg.Members[member]
	return simulated.MemberLabels(f.classes[m.Class].spec, m.Number)[name]
}

// plan makes the strike of a fault, before it strikes.
func (f *Fleet) plan(index int) (*strike, error) {
	x := f.cfg.Scenario.Faults[index]
	s := &strike{fault: x, index: index}
	if pick := cmp.Or(x.Stop, x.Hang, x.Cut, x.Wrong); pick != nil {
		s.members = f.choose(index, pick, func(*class) bool { return true })
	} else if x.Fail != nil {
		if err := f.planFailing(s); err != nil {
			return nil, err
		}
	}
	for _, m := range s.members {
		s.places += max(1, len(s.checks[f.classes[f.cfg.Members[m].Class]]))
	}
	s.agents = f.mine(s.members)
	return s, nil
}

// planFailing adds the failing checks, their agents and their status to the strike of a fault.
func (f *Fleet) planFailing(s *strike) error {
	x := s.fault.Fail
	s.status = model.Critical
	if x.Status != "" {
		status, ok := model.ParseStatus(strings.ToUpper(x.Status))
		if !ok {
			return model.Errorf(model.Invalid, "fault %s: no status %q", What(&s.fault), x.Status)
		}
		s.status = status
	}
	s.checks = struckChecks{}
	for _, name := range f.cfg.Scenario.Failing(x) {
		for _, c := range f.classes {
			if i, holds := c.index[name]; holds {
				s.checks[c] = append(s.checks[c], i)
			}
		}
	}
	if len(s.checks) == 0 {
		return model.Errorf(model.Invalid, "fault %s: no class has that check", What(&s.fault))
	}
	for c, checks := range s.checks {
		if c.checks[checks[0]].about != nil { // such a check is of one class
			s.pairs = f.choosePairs(s.index, &x.Pick, c, checks)
			s.checks, s.places = nil, len(s.pairs)
			return nil
		}
	}
	s.members = f.choose(s.index, &x.Pick, func(c *class) bool { return s.checks[c] != nil })
	return nil
}

// What describes a fault and its duration in the scenario's words.
func What(f *scenario.Fault) string {
	text := f.What()
	if f.For > 0 {
		text += " for " + f.For.String()
	}
	return text
}

// Control acts on the process of the server under test, for faults. internal/load/subject
// has it for a server of the run's own.
type Control interface {
	Restart(ctx context.Context) error // planned; returns when it is ready again
	Kill(ctx context.Context) error    // kill -9, and started again; returns when it is ready again
	Pause() error                      // SIGSTOP …
	Continue() error                   // … and SIGCONT
}
