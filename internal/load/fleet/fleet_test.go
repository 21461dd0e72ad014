package fleet

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// made describes equal nodes of a made-up installation: their number, and their checks by interval.
type made struct {
	nodes  int
	checks map[time.Duration]int
}

// fleetOf returns an installation with these nodes and random states.
func fleetOf(r *rand.Rand, list ...made) *Fleet {
	f := &Fleet{At: time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC), Version: "1.2.3", Checks: map[model.CheckID]Kind{}}
	for _, m := range list {
		for range m.nodes {
			n := &Node{Interval: model.Duration(20 * time.Second), Timeout: model.Duration(2 * time.Minute), TLS: true, Held: Held{}}
			f.Nodes = append(f.Nodes, n)
			for interval, checks := range m.checks {
				for range checks {
					e := v1.Event{Event: model.Event{Output: strings.Repeat("zz-", 7+r.IntN(100)), StateChanges: 3 * uint32(1-min(1, r.IntN(20))), Results: 1440}}
					if r.IntN(10) == 0 {
						e.Status = model.Status(1 + r.IntN(3))
					}
					if r.IntN(100) == 0 {
						e.History = []int{0, 1, 0, 1, 0, 1, 0, 1, 0, 1}
					}
					n.Held.add(Kind{model.Duration(interval), model.Duration(3 * interval)}, tallyOf(&e))
					f.States++
				}
			}
		}
	}
	return f
}

// written returns the file of a fleet, the scenario in it, and the results per second of the fleet.
func written(t *testing.T, f *Fleet, classes int) (text string, sc *scenario.Scenario, rate float64) {
	t.Helper()
	data, sc, err := f.YAML(classes)
	testenv.NoError(t, err)
	_, rate, err = f.Scenario(classes)
	testenv.NoError(t, err)
	return string(data), sc, rate
}

// TestTheSameIsOneClass expects one class for nodes with equal checks.
func TestTheSameIsOneClass(t *testing.T) {
	f := fleetOf(rand.New(rand.NewPCG(1, 1)), made{300, map[time.Duration]int{time.Minute: 20, 10 * time.Second: 5}}, made{40, map[time.Duration]int{5 * time.Second: 40}},
		made{7, nil})
	f.Nodes = append(f.Nodes, &Node{Left: true})
	f.Never = 1
	text, again, rate := written(t, f, DefaultClasses)
	if len(again.Agents) != 3 || again.Agents[0].Count != 40 || again.Agents[1].Count != 300 || again.Agents[2].Count != 7 {
		t.Fatal(text)
	}
	if k := again.Agents[1].Checks; len(k) != 2 || k[0].Count != 5 || k[0].Interval != model.Duration(10*time.Second) || k[1].Count != 20 || k[1].TTL != model.Duration(3*time.Minute) {
		t.Errorf("%+v", k)
	}
	if again.Rate() != rate {
		t.Errorf("%v results/s, of the fleet %v", again.Rate(), rate)
	}
	k := again.Agents[1].Checks[1]
	if k.Output.Bytes < 150 || k.Output.Bytes > 190 || k.Status["warning"] < 0.02 || k.Status["warning"] > 0.05 || k.Flapping < 0.005 || k.Flapping > 0.015 {
		t.Errorf("%+v", k)
	}
	if want := 0.05 * 3 / 1440; k.Changes < 0.8*want || k.Changes > 1.2*want {
		t.Errorf("%v changes for each result, want about %v", k.Changes, want)
	}
	if !strings.Contains(text, "# Left out: 1 node that never had an agent") {
		t.Error(text)
	}
}

// TestAnyFleetIsAPage makes scenarios of random fleets, and expects a short file with the fleet's rate, and no names of the
// installation.
func TestAnyFleetIsAPage(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		var list []made
		for range 1 + r.IntN(60) {
			m := made{1 + r.IntN(20), map[time.Duration]int{}}
			for range r.IntN(12) {
				m.checks[time.Duration(1+r.IntN(4000))*time.Second] += 1 + r.IntN(9)
			}
			list = append(list, m)
		}
		f := fleetOf(r, list...)
		most := 1 + r.IntN(12)
		text, again, rate := written(t, f, most)
		if len(again.Agents) > most || strings.Count(text, "\n") > 40+most*(16+12*linesOfClass) {
			t.Errorf("seed %d: %d classes of at most %d, %d lines", seed, len(again.Agents), most, strings.Count(text, "\n"))
		}
		if n := again.Nodes(""); n != len(f.Nodes) {
			t.Errorf("seed %d: %d nodes of %d", seed, n, len(f.Nodes))
		}
		if got := again.Rate(); math.Abs(got-rate) > 0.02*rate+0.01 {
			t.Errorf("seed %d: %v results/s, the fleet has %v", seed, got, rate)
		}
		if strings.Contains(text, "zz-") {
			t.Fatalf("seed %d: an output is in the file\n%s", seed, text)
		}
		if same, _, _ := written(t, f, most); same != text {
			t.Errorf("seed %d: the same fleet is another file", seed)
		}
	}
}

// TestLines expects lines with whole counts, the sizes of the checks, and intervals that keep the rate.
func TestLines(t *testing.T) {
	k := func(interval time.Duration) Kind { return Kind{Interval: model.Duration(interval)} }
	for _, c := range []struct {
		states map[Kind]int // of ten nodes
		lines  int
		rate   float64
	}{
		{map[Kind]int{k(time.Minute): 14}, 1, 1.4 / 60},
		{map[Kind]int{k(time.Minute): 3, k(time.Hour): 20}, 2, 0.3/60 + 2.0/3600},
		{map[Kind]int{k(time.Second): 10, k(2 * time.Second): 10, k(3 * time.Second): 10, k(4 * time.Second): 10, k(5 * time.Second): 10, k(6 * time.Second): 10}, linesOfClass, 2.45},
		{map[Kind]int{k(time.Minute): 30_000}, 1, 50},
	} {
		all := &class{nodes: make([]*Node, 10), held: Held{}}
		for kind, n := range c.states {
			all.held.add(kind, &Tally{States: n})
		}
		list, rate := all.lines(), 0.0
		for _, l := range list {
			interval, _ := l.times()
			rate += l.count / time.Duration(interval).Seconds()
			if l.count != math.Trunc(l.count) || l.count < 1 || l.count > model.DefaultStatesPerNode {
				t.Errorf("%v: %v checks", c.states, l.count)
			}
		}
		if len(list) != c.lines || c.states[k(time.Minute)] < 10_000 && math.Abs(rate-c.rate) > 0.01*c.rate {
			t.Errorf("%v: %d lines, %v results/s", c.states, len(list), rate)
		}
	}
}

// TestChangesCanBePlayed makes a scenario of a fleet whose states changed earlier, and expects that it changes as
// often.
func TestChangesCanBePlayed(t *testing.T) {
	f := fleetOf(rand.New(rand.NewPCG(4, 4)), made{50, map[time.Duration]int{time.Hour: 4}})
	for _, n := range f.Nodes {
		for _, held := range n.Held {
			*held = Tally{States: 4, Status: [4]int{4}, Changes: 2 * 3, Results: 4 * 24}
		}
	}
	text, again, _ := written(t, f, 1)
	k := again.Agents[0].Checks[0]
	if want := 0.5 * 3 / 24; math.Abs(k.Changes-want) > 0.001 || k.Status["critical"] < 0.6*k.Changes-0.001 {
		t.Errorf("%+v\n%s", k, text)
	}
}

// TestTallyOfAnEvent converts events, and expects counts that tell whether they flap.
func TestTallyOfAnEvent(t *testing.T) {
	for _, c := range []struct {
		e    v1.Event
		want Tally
	}{
		{v1.Event{Event: model.Event{Output: "fine", Results: 9999, StateChanges: 5}, History: []int{0, 0, 0}}, Tally{States: 1, Status: [4]int{1}, Bytes: 4, Changes: 5, Results: 9999}},
		{v1.Event{Event: model.Event{Status: 2, Results: 30}, History: []int{0, 1, 0, 1, 0, 1, 0, 0, 0, 1}}, Tally{States: 1, Status: [4]int{2: 1}, Flapping: 1}},
	} {
		if got := tallyOf(&c.e); *got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
	for cron, want := range map[string]time.Duration{"*/5 * * * *": 5 * time.Minute, "0 3 * * *": day} {
		if got := meanInterval(cron, "UTC", time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)); got != model.Duration(want) {
			t.Errorf("%s: every %s", cron, got)
		}
	}
}

// FuzzDecode decodes random resources, and expects an error or a resource whose keepalive has times.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","namespace":"b"},"spec":{"interval":"60s","ttl":"3m","keepalive":{"interval":"5s"}},"status":{"id":7}}`))
	f.Add([]byte(`{"spec":{"cron":"* * * * *","interval":60}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := decode(raw)
		if interval, timeout := d.Spec.Keepalive.EffectiveTimes(); err == nil && (interval == 0 || timeout == 0) {
			t.Errorf("%+v", d)
		}
	})
}
