package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// made describes equal nodes of a made-up installation: their number, and their checks by interval.
type made struct {
	nodes  int
	checks map[time.Duration]int
}

// fleetOf returns an installation with these nodes and random states.
func fleetOf(r *rand.Rand, list ...made) *Fleet {
	now := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	f := &Fleet{At: now, Version: "1.2.3", Checks: map[model.CheckID]Check{}}
	for _, m := range list {
		var held []model.CheckID
		for interval, n := range m.checks {
			for range n {
				id := model.CheckID(1000 + len(f.Checks))
				f.Checks[id] = Check{Name: fmt.Sprintf("payroll/zz-check-%d", id), Interval: model.Duration(interval), TTL: model.Duration(3 * interval)}
				held = append(held, id)
			}
		}
		for range m.nodes {
			at := int32(len(f.Nodes))
			f.Nodes = append(f.Nodes, Node{Name: fmt.Sprintf("payroll/zz-node-%d", at), Interval: model.Duration(20 * time.Second), Timeout: model.Duration(2 * time.Minute), TLS: true})
			for _, id := range held {
				s := State{Node: at, Check: id, Bytes: int32(20 + r.IntN(300)), Changes: 3 * uint32(1-min(1, r.IntN(20))), Flaps: r.IntN(100) == 0, Results: 1440}
				if r.IntN(10) == 0 {
					s.Status = model.Status(1 + r.IntN(3))
				}
				f.States = append(f.States, s)
			}
		}
	}
	return f
}

// written returns the file of a fleet, the scenario in it, and the results per second of the fleet.
func written(t *testing.T, f *Fleet, classes int) (text string, sc *scenario.Scenario, rate float64) {
	t.Helper()
	data, sc, err := f.YAML(classes)
	if err != nil {
		t.Fatal(err)
	}
	_, rate, err = f.Scenario(classes)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), sc, rate
}

// TestTheSameIsOneClass expects one class for nodes with equal checks.
func TestTheSameIsOneClass(t *testing.T) {
	f := fleetOf(rand.New(rand.NewPCG(1, 1)), made{300, map[time.Duration]int{time.Minute: 20, 10 * time.Second: 5}}, made{40, map[time.Duration]int{5 * time.Second: 40}},
		made{7, nil})
	f.Nodes = append(f.Nodes, Node{Name: "payroll/zz-never", Left: true})
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
		if at := regexp.MustCompile(`payroll|zz-`).FindString(text); at != "" {
			t.Fatalf("seed %d: %q of the fleet is in the file\n%s", seed, at, text)
		}
		if same, _, _ := written(t, f, most); same != text {
			t.Errorf("seed %d: the same fleet is another file", seed)
		}
	}
}

// TestLines expects lines with whole counts, the sizes of the checks, and intervals that keep the rate.
func TestLines(t *testing.T) {
	k := func(interval time.Duration) kind { return kind{interval: model.Duration(interval)} }
	for _, c := range []struct {
		counts map[kind]float64
		lines  int
		rate   float64
	}{
		{map[kind]float64{k(time.Minute): 1.4}, 1, 1.4 / 60},
		{map[kind]float64{k(time.Minute): 0.3, k(time.Hour): 2}, 2, 0.3/60 + 2.0/3600},
		{map[kind]float64{k(time.Second): 1, k(2 * time.Second): 1, k(3 * time.Second): 1, k(4 * time.Second): 1, k(5 * time.Second): 1, k(6 * time.Second): 1}, linesOfClass, 2.45},
		{map[kind]float64{k(time.Minute): 3000}, 1, 50},
	} {
		list, rate := linesOf(&class{[]int32{0}, c.counts, 0}, model.DefaultStatesPerNode), 0.0
		for _, l := range list {
			interval, _ := l.times()
			rate += l.count / time.Duration(interval).Seconds()
			if l.count != math.Trunc(l.count) || l.count < 1 || l.count > model.DefaultStatesPerNode {
				t.Errorf("%v: %v checks", c.counts, l.count)
			}
		}
		if len(list) != c.lines || c.counts[k(time.Minute)] < 1000 && math.Abs(rate-c.rate) > 0.01*c.rate {
			t.Errorf("%v: %d lines, %v results/s", c.counts, len(list), rate)
		}
	}
}

// TestChangesCanBePlayed makes a scenario of a fleet whose states changed earlier, and expects that it changes as
// often.
func TestChangesCanBePlayed(t *testing.T) {
	f := fleetOf(rand.New(rand.NewPCG(4, 4)), made{50, map[time.Duration]int{time.Hour: 4}})
	for i := range f.States {
		f.States[i] = State{Node: f.States[i].Node, Check: f.States[i].Check, Changes: uint32(3 * (i % 2)), Results: 24}
	}
	text, again, _ := written(t, f, 1)
	k := again.Agents[0].Checks[0]
	if want := 0.5 * 3 / 24; math.Abs(k.Changes-want) > 0.001 || k.Status["critical"] < 0.6*k.Changes-0.001 {
		t.Errorf("%+v\n%s", k, text)
	}
}

// TestStateOfAnEvent converts events, and expects states without output that tell whether they flap.
func TestStateOfAnEvent(t *testing.T) {
	now := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		e    v1.Event
		want State
	}{
		{"steady", v1.Event{Event: model.Event{CheckID: 9, Output: "fine", Results: 9999, StateChanges: 5}, History: []int{0, 0, 0}}, State{Node: 3, Check: 9, Bytes: 4, Changes: 5, Results: 9999}},
		{"flaps", v1.Event{Event: model.Event{Status: 2, Results: 30}, History: []int{0, 1, 0, 1, 0, 1, 0, 0, 0, 1}}, State{Node: 3, Status: 2, Results: 30, Flaps: true}},
	} {
		if got := stateOf(&c.e, 3); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	for cron, want := range map[string]time.Duration{"*/5 * * * *": 5 * time.Minute, "0 3 * * *": day} {
		if got := meanInterval(cron, "UTC", now); got != model.Duration(want) {
			t.Errorf("%s: every %s", cron, got)
		}
	}
}

// FuzzDecode decodes random resources, and expects an error or a resource with a name.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","namespace":"b"},"spec":{"interval":"60s","ttl":"3m","keepalive":{"interval":"5s"}},"status":{"id":7}}`))
	f.Add([]byte(`{"spec":{"cron":"* * * * *","interval":60}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if d, err := decode(raw); err == nil && d.name() == "" {
			t.Error("no name")
		}
	})
}
