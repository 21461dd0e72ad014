package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"sync"
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
)

// partOf returns the run of one loader, with its part of the scenario towns.
func partOf(t *testing.T, p Part) *run {
	t.Helper()
	cfg, err := Config{Server: "127.0.0.1:1", Scenario: towns(scenario.Phase{Steady: sec(10)}), Part: p, Sources: 2}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
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
		a.set, a.node, a.ledger.states = sets[a.class], model.NodeID(member+1), make(observe.Entries, len(a.class.checks))
	}
	return r.ledgers()
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
		if err := lead.fits(1, &l); (err == nil) != (name == "") || err != nil && model.ClassOf(err) != model.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestScoresTravel converts a timetable to the time of another loader, and expects the same parts; it expects an error
// for invalid ones.
func TestScoresTravel(t *testing.T) {
	phases := []scenario.Phase{{Steady: sec(4), Warmup: sec(1)}, {Step: sec(5), Rate: 1, By: 1, To: 4}, {Steady: sec(3), Rate: 0.5}}
	s := newScore(phases, 1000).cut(1000 + 12e9)
	got := s.since(1000).since(-5000)
	if err := s.since(1000).check(len(phases)); err != nil || len(got) != len(s) || got.end()-5000 != s.end()-1000 {
		t.Fatalf("%v, %v", got, err)
	}
	if again := got.since(5000).since(-1000); !reflect.DeepEqual(again, s) {
		t.Errorf("%v\n%v", s, again)
	}
	for name, spoil := range map[string]func(list []observe.Part){
		"a hole":               func(l []observe.Part) { l[1].From++ },
		"backwards":            func(l []observe.Part) { l[1].To = l[1].From - 1 },
		"no rate":              func(l []observe.Part) { l[2].Rate = 0 },
		"a phase that is not":  func(l []observe.Part) { l[0].Phase = 3 },
		"before the beginning": func(l []observe.Part) { l[0].Virtual = -1 },
	} {
		list := s.since(1000)
		spoil(list)
		if list.check(len(phases)) == nil {
			t.Errorf("%s: taken", name)
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

// TestLoadersElsewhereAreNotOfThisMachine expects that the machine's share of CPU time counts only the loaders on it.
func TestLoadersElsewhereAreNotOfThisMachine(t *testing.T) {
	g := &usage.Gained{}
	g.Add(usage.SoFar{}, usage.SoFar{At: 10e9, Loader: usage.Process{CPU: 2e9, RSS: 100}})
	g.Join([]usage.Other{{Here: true, CPU: 3e9, RSS: 10}, {CPU: 5e9, RSS: 1}})
	_, all := g.Usages(1_000_000)
	if all.Cores != 1 || all.Here() != 0.5 || all.RSS != 111 || all.MicrosPerItem != 10 {
		t.Errorf("%+v", all)
	}
}

// TestCountsWhileSessionsLast reads the counts of a run while sessions receive answers, for the race detector.
func TestCountsWhileSessionsLast(t *testing.T) {
	r := partOf(t, Part{Number: 1, Of: 3})
	r.deal()
	a, over := r.agents[0], make(chan struct{})
	var hearing sync.WaitGroup
	hearing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
			}
			why := fmt.Sprint("why ", i%1000)
			r.lost(a, errors.New(why))
			r.failed(a, errors.New(why))
			a.book.mu.Lock()
			a.book.reasons[why]++
			a.book.mu.Unlock()
		}
	})
	var c *observe.Counts
	for range 200 {
		c = r.counts()
		if _, err := json.Marshal(c); err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	hearing.Wait()
	r.lost(a, errors.New("later"))
	r.failed(a, errors.New("later"))
	if c.Losses["later"]+c.Failures["later"] > 0 {
		t.Errorf("%+v was changed after it was handed over", c)
	}
}
