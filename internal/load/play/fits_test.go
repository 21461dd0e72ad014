package play

import (
	"net"
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// partOf returns the run of one loader, with its part of the scenario towns.
func partOf(t *testing.T, p Part) *Fleet {
	t.Helper()
	o := optionsOf(towns(scenario.Phase{Steady: sec(10)}))
	o.Part, o.Sources = p, 2
	return fleetWith(t, o)
}

// ledgersOf returns the ledgers of a loader whose agents all hold their checks.
func ledgersOf(t *testing.T, p Part) observe.Ledgers {
	t.Helper()
	r := partOf(t, p)
	sets := map[*class]*checkSet{}
	for member, a := range r.seats {
		if a == nil {
			continue
		}
		if sets[a.class] == nil {
			sets[a.class] = &checkSet{definitions: make([]*model.CheckDefinition, len(a.class.checks))}
			for name, c := range a.class.index {
				sets[a.class].definitions[c] = &model.CheckDefinition{Definition: model.Definition{Unit: model.CheckID(100*a.class.number + c + 1), Name: name}}
			}
		}
		a.set, a.node, a.ledger.States = sets[a.class], model.NodeID(member+1), make(observe.Entries, len(a.class.checks))
	}
	return r.Ledgers()
}

// TestLedgersThatDoNotFit changes the ledgers of a follower, and expects that the lead refuses them.
func TestLedgersThatDoNotFit(t *testing.T) {
	lead, own := partOf(t, Part{Number: 0, Of: 3}), Part{Number: 1, Of: 3}
	for name, spoil := range map[string]func(l *observe.Ledgers){
		"":                    func(*observe.Ledgers) {},
		"one is missing":      func(l *observe.Ledgers) { l.Agents = l.Agents[1:] },
		"one comes twice":     func(l *observe.Ledgers) { l.Agents[1] = l.Agents[0] },
		"of somebody else":    func(l *observe.Ledgers) { l.Agents[0].Member++ },
		"of nobody":           func(l *observe.Ledgers) { l.Agents[0].Member = 1 << 40 },
		"before the first":    func(l *observe.Ledgers) { l.Agents[0].Member = -2 },
		"of no assignment":    func(l *observe.Ledgers) { l.Agents[0].Set = 9 },
		"of another class":    func(l *observe.Ledgers) { l.Agents[0].Set = l.Agents[len(l.Agents)-1].Set },
		"too few states":      func(l *observe.Ledgers) { l.Agents[0].States = l.Agents[0].States[:1] },
		"a class that is not": func(l *observe.Ledgers) { l.Sets[0].Class = 7 },
		"too few checks":      func(l *observe.Ledgers) { l.Sets[0].Checks = l.Sets[0].Checks[1:] },
	} {
		l := ledgersOf(t, own)
		spoil(&l)
		if err := lead.Fits(1, &l); (err == nil) != (name == "") || err != nil && model.ClassOf(err) != model.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLoadersHaveAddressesOfTheirOwn expects that loaders on one machine connect from different addresses.
func TestLoadersHaveAddressesOfTheirOwn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	seen := map[string]bool{}
	for number := range 3 {
		r := partOf(t, Part{Number: number, Of: 3})
		for i := range r.cfg.Sources {
			c, err := r.dialer(i)(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Skipf("this system has one loopback address: %v", err)
			}
			host, _, _ := net.SplitHostPort(c.LocalAddr().String())
			if seen[host] {
				t.Errorf("two loaders connect from %s", host)
			}
			seen[host] = true
			_ = c.Close()
		}
	}
}
