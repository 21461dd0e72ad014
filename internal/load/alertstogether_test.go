package load

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
)

// What another loader's states must have told is judged like the lead's own: the moment that counts
// is the first in which any of them was struck.
func TestAlertsTogether(t *testing.T) {
	sc := &scenario.Scenario{Agents: []scenario.Class{{Name: "web", Count: 2}}}
	c := &class{spec: &sc.Agents[0], index: map[string]int{watchedCheck: 0}}
	build := func() (*run, *alarms, *faultScript) {
		r := &run{epoch: time.Now(), cfg: Config{Scenario: sc, Members: []simulated.Member{{Name: "web-00000"}, {Name: "web-00001"}}}, classes: []*class{c}, joined: []Joined{{Number: 1, Name: "other"}}}
		own := &agent{run: r, class: c, name: "web-00000"}
		r.seats, r.agents = []*agent{own, nil}, []*agent{own}
		r.begin.Store(1000)
		al := &alarms{run: r, checks: map[string]*witness{}, machines: map[string]*machineWitness{}, keys: map[string]struct{}{}}
		al.watchCheck(own, 0, watchedCheck)
		al.watchTheirs(true, map[string]bool{watchedCheck: true})
		return r, al, &faultScript{run: r, strikes: []*strike{{index: 0, fault: scenario.Fault{Fail: &scenario.FailCheck{}}, at: 1500, until: 1900, members: []int{0, 1}, checks: struckChecks{c: {0}}, agents: []*agent{own}}}}
	}
	for name, x := range map[string]struct {
		measured                Measured
		told                    int
		alerts, missing, extra  int
		refused                 bool
		firstStruck, firstEnded int64
	}{
		"both turned, both told":       {Measured{Struck: map[int]Blow{0: {At: 480, Until: 950}}, Flips: []Flips{{Member: 1, At: []int64{490, 960}}}}, 2, 4, 0, 0, false, 1480, 1900},
		"the other's alert is missing": {Measured{Flips: []Flips{{Member: 1, At: []int64{600, 960}}}}, 1, 4, 2, 0, false, 1500, 1900},
		"an alert too many":            {Measured{}, 2, 2, 0, 2, false, 1500, 1900},
		"a machine of the lead's":      {Measured{Flips: []Flips{{Member: 0, At: []int64{600}}}}, 0, 0, 0, 0, true, 0, 0},
		"a check that nobody follows":  {Measured{Flips: []Flips{{Member: 1, Check: 7, At: []int64{600}}}}, 0, 0, 0, 0, true, 0, 0},
		"a machine that is none":       {Measured{Flips: []Flips{{Member: 9, At: []int64{600}}}}, 0, 0, 0, 0, true, 0, 0},
	} {
		r, al, d := build()
		r.measured = []*Measured{&x.measured}
		err := al.together(d)
		if x.refused != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if x.refused {
			continue
		}
		al.checks["web-00000/"+watchedCheck].must = []flip{{1600, true}, {1950, false}}
		for i := range x.told {
			w := al.checks[r.cfg.Members[i].Name+"/"+watchedCheck]
			w.came = []flip{{1700, true}, {2000, false}}
		}
		missing := al.judge(d)
		b := al.blows[d.strikes[0]]
		if b.at != x.firstStruck || b.until != x.firstEnded || b.alerts != x.alerts || missing != x.missing || b.extra != x.extra {
			t.Errorf("%s: at %d until %d, %d alerts, %d missing, %d too many", name, b.at, b.until, b.alerts, missing, b.extra)
		}
		if al.machines["web-00001"] == nil {
			t.Errorf("%s: the other's machine is not followed", name)
		}
	}
}
