package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// add declares a check for groups, and has some nodes run it.
func (f *Fleet) add(interval time.Duration, runs func(node int) bool, groups ...string) {
	id := model.CheckID(1000 + len(f.Checks))
	f.Checks[id] = Check{Name: fmt.Sprintf("payroll/zz-check-%d", id), Interval: model.Duration(interval), Groups: groups}
	for i := range f.Nodes {
		if runs(i) {
			f.States = append(f.States, State{Node: int32(i), Check: id, Bytes: 77, Results: 9})
		}
	}
}

// Checks of groups that several classes run stand in the file once, for those groups; what only
// some of their nodes run, or one class, stays with the class. The rate is the fleet's.
func TestSharedChecks(t *testing.T) {
	f := fleetOf(rand.New(rand.NewPCG(6, 6)), made{30, map[time.Duration]int{time.Minute: 20}}, made{20, map[time.Duration]int{5 * time.Second: 4}}, made{10, nil})
	for i := range f.Nodes {
		f.Nodes[i].Groups = []string{"payroll/zz-eu"}
		if i < 50 {
			f.Nodes[i].Groups = append(f.Nodes[i].Groups, "shared/zz-linux")
		}
		if i < 30 {
			f.Nodes[i].Groups = append(f.Nodes[i].Groups, "payroll/zz-web")
		}
		if i >= 30 && i < 50 {
			f.Nodes[i].Groups = append(f.Nodes[i].Groups, "payroll/zz-db")
		}
	}
	all := func(int) bool { return true }
	linux := func(i int) bool { return i < 50 }
	for range 3 {
		f.add(30*time.Second, linux, "shared/zz-linux")
	}
	f.add(30*time.Second, linux, "payroll/zz-web", "payroll/zz-db", "payroll/zz-nobody")
	f.add(5*time.Minute, all, "payroll/all")
	f.add(20*time.Second, func(i int) bool { return i < 50 && i != 7 }, "shared/zz-linux")
	own := []time.Duration{40 * time.Second, 50 * time.Second, 70 * time.Second, 80 * time.Second}
	f.add(own[0], func(i int) bool { return i < 30 }, "payroll/zz-web") // one class
	f.add(own[1], linux, "payroll/zz-eu")                               // which the third class is in, too
	f.add(own[2], linux)                                                // by a condition
	f.add(own[3], func(i int) bool { return i < 50 && i%2 == 0 }, "shared/zz-linux")
	s, again, text := written(t, f, 3)
	if math.Abs(again.Rate()-s.rate) > 1e-3*s.rate || again.States() != len(f.States)+1+25 || strings.Contains(text, "zz-") {
		t.Fatalf("%v results/s, of the fleet %v; %d states of %d\n%s", again.Rate(), s.rate, again.States(), len(f.States), text)
	}
	names, classes := again.Shared()
	size := func(g string) int { return len(classes[g]) }
	if len(names) != 4 || len(again.Checks) != 4 || !strings.Contains(text, "- 6 checks ") {
		t.Fatalf("groups %v\n%s", classes, text)
	}
	var got []string
	for i := range again.Checks {
		k := &again.Checks[i]
		line := fmt.Sprintf("%d every %s:", k.Count, k.Interval)
		for _, g := range k.Groups {
			line += fmt.Sprint(" ", max(size(g), 3*strings.Count(g, scenario.AllGroup)))
		}
		got = append(got, line)
		if k.Output.Bytes != 77 {
			t.Errorf("%+v", k)
		}
	}
	slices.Sort(got)
	if want := []string{"0 every 20.4s: 2", "0 every 30s: 1 1", "0 every 5m: 3", "3 every 30s: 2"}; !slices.Equal(got, want) {
		t.Errorf("%q\n%s", got, text)
	}
	for i := range again.Agents {
		for _, k := range again.Agents[i].Checks {
			if slices.Contains([]string{"20s", "30s", "5m"}, k.Interval.String()) {
				t.Errorf("%s has %s every %s of its own", again.Agents[i].Name, k.Name, k.Interval)
			}
		}
	}
}

// Whatever is shared, the file is a page and its rate the fleet's.
func TestAnySharingKeepsTheRate(t *testing.T) {
	shared := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		var list []made
		for range 1 + r.IntN(9) {
			list = append(list, made{1 + r.IntN(30), map[time.Duration]int{time.Duration(1+r.IntN(400)) * time.Second: r.IntN(9)}})
		}
		f := fleetOf(r, list...)
		at := 0
		for _, m := range list {
			for g := range 4 {
				for i := at; r.IntN(2) == 0 && i < at+m.nodes; i++ {
					f.Nodes[i].Groups = append(f.Nodes[i].Groups, fmt.Sprintf("payroll/zz-%d", g))
				}
			}
			at += m.nodes
		}
		for range r.IntN(60) {
			g, miss := fmt.Sprintf("payroll/zz-%d", r.IntN(4)), r.IntN(20)
			f.add(time.Duration(1+r.IntN(300))*time.Second, func(i int) bool { return slices.Contains(f.Nodes[i].Groups, g) && r.IntN(100) >= miss }, g)
		}
		most := 1 + r.IntN(9)
		s, again, text := written(t, f, most)
		shared += len(again.Checks)
		if len(again.Checks) > sharedLines || strings.Contains(text, "zz-") || math.Abs(again.Rate()-s.rate) > 0.02*s.rate+0.01 {
			t.Errorf("seed %d: %v results/s, of the fleet %v\n%s", seed, again.Rate(), s.rate, text)
		}
		if _, _, same := written(t, f, most); same != text {
			t.Errorf("seed %d: the same fleet is another file", seed)
		}
	}
	if shared < 40 {
		t.Errorf("%d lines of shared checks", shared)
	}
}
