package play

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/internal/model"
)

// recordedFleet writes a random recording and a scenario that plays it, and returns both.
func recordedFleet(t *testing.T, seed uint64, times int, phases string) (*scenario.Scenario, []stream.Signal, *stream.Head) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	var list []stream.Signal
	h := &stream.Head{Began: time.Unix(1_700_000_000, 0).UTC(), Length: 60 * time.Second, Checks: make([]stream.Check, 9)}
	states, most, nodes := map[[2]uint32]bool{}, map[uint32]int{}, map[uint32]uint32{}
	for at := uint32(0); at < 59_000; at += random.Uint32N(200) {
		node := random.Uint32N(11)
		if _, known := nodes[node]; !known {
			nodes[node] = uint32(len(nodes))
		}
		s := stream.Signal{At: at, Node: nodes[node], Check: random.Uint32N(9), Output: random.Uint32N(400), Status: model.Status(random.Uint32N(4))}
		if k := [2]uint32{s.Node, s.Check}; !states[k] {
			states[k] = true
			most[s.Node]++
			h.Most = max(h.Most, most[s.Node])
		}
		h.Longest, h.Bytes, h.Signals = max(h.Longest, int(s.Output)), h.Bytes+uint64(s.Output), h.Signals+1
		list = append(list, s)
	}
	h.Nodes, h.States = len(nodes), len(states)
	var out bytes.Buffer
	w, err := stream.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if err := w.Add(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(h); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := fmt.Sprintf("scenario: muster.load/v1\nseed: %d\nagents:\n  - {name: other, count: 3, checks: [{name: disk, interval: 10s}]}\n  - {name: told, recorded: {file: a.stream, times: %d}}\nphases: %s\n", seed, times, phases)
	for name, data := range map[string][]byte{"a.stream": out.Bytes(), "a.yaml": []byte(text)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sc, err := scenario.Load(filepath.Join(dir, "a.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return sc, list, h
}

// toldOnce is one result of the timetable.
type toldOnce struct {
	at     int64 // ms of real time
	status model.Status
	output int
}

// recordedTimetable plays the timetables of all senders without a server, and returns the results by agent and check.
func recordedTimetable(t *testing.T, sc *scenario.Scenario, senders int) (r *Fleet, told map[*agent]map[int][]toldOnce) {
	t.Helper()
	o := optionsOf(sc)
	o.Senders = senders
	r = fleetWith(t, o)
	r.Follow(plan.NewTimetable(sc.Phases, 0))
	r.Deal()
	told = map[*agent]map[int][]toldOnce{}
	seen := map[string]bool{}
	for _, s := range r.senders {
		for hint := 0; ; {
			track, virtual := s.earliest()
			at := r.Present().Real(virtual, &hint)
			if at == plan.Never {
				break
			}
			what := track.take(s)
			if _, taped := track.(*reel); !taped {
				continue
			}
			a, check, seq := s.agents[what.agent], what.check, what.seq
			says := a.class.checks[check].says
			status := says.Status(a.index, check, nil, seq, 0, false)
			output := says.Output(nil, a.index, check, nil, seq, status)
			if key := fmt.Sprint(a.name, check, seq); seen[key] {
				t.Fatalf("result %s twice", key)
			} else {
				seen[key] = true
			}
			if told[a] == nil {
				told[a] = map[int][]toldOnce{}
			}
			told[a][check] = append(told[a][check], toldOnce{at / 1e6, status, len(output)})
		}
	}
	return r, told
}

// TestATapeIsPlayed plays a recording, and expects that each agent sends the results of its recorded node at the same
// times, and that each copy does so later; the number of senders changes nothing.
func TestATapeIsPlayed(t *testing.T) {
	for seed := range uint64(6) {
		sc, list, h := recordedFleet(t, seed, 4, "[{steady: 60s}]")
		var before map[string]string
		for senders := 1; senders < 4; senders++ {
			r, told := recordedTimetable(t, sc, senders)
			lines := map[string]string{}
			for a, checks := range told {
				lines[a.name] = fmt.Sprint(checks)
				node, copy := uint32(a.index%h.Nodes), a.index/h.Nodes
				shift := int64(0)
				if copy > 0 {
					shift = a.class.tape.shift(copy) / 1e6
				}
				want := map[int][]toldOnce{}
				var own []uint32
				for i := range list {
					if s := &list[i]; s.Node == node {
						if !slices.Contains(own, s.Check) {
							own = append(own, s.Check)
						}
						check := slices.Index(own, s.Check)
						want[check] = append(want[check], toldOnce{(int64(s.At) + shift) % h.Length.Milliseconds(), s.Status, int(s.Output)})
					}
				}
				for check, all := range want {
					got := slices.Clone(checks[check])
					// Only the millisecond is the recording's.
					near := func(x, y toldOnce) bool {
						return x.status == y.status && x.output == y.output && max(x.at-y.at, y.at-x.at) <= 1
					}
					first := slices.IndexFunc(all, func(x toldOnce) bool { return len(got) > 0 && near(x, got[0]) })
					if first >= 0 {
						all = append(slices.Clone(all[first:]), all[:first]...)
					}
					if !slices.EqualFunc(got, all, near) || copy == 0 && first != 0 {
						t.Errorf("seed %d, %d senders: %s check %d: %v\nwant %v", seed, senders, a.name, check, got, all)
					}
				}
			}
			if len(told) != 4*h.Nodes || r.agents[len(r.agents)-1].base == 0 {
				t.Errorf("%d agents of %d", len(told), 4*h.Nodes)
			}
			if before != nil && fmt.Sprint(before) != fmt.Sprint(lines) {
				t.Errorf("seed %d: another plan with %d senders", seed, senders)
			}
			before = lines
		}
		digest := digestOf(t, sc)
		sc.Seed++
		if other := digestOf(t, sc); digest == other {
			t.Errorf("two seeds, and the same plan %s", digest)
		}
	}
}

// TestATapeIsAsLongAsThePhases expects that a longer phase repeats the recording, a shorter one cuts it, and a higher
// rate plays it faster.
func TestATapeIsAsLongAsThePhases(t *testing.T) {
	for phases, want := range map[string]float64{"[{steady: 60s}]": 1, "[{steady: 150s}]": 2.5, "[{steady: 20s}]": 1. / 3, "[{steady: 30s, rate: 2}, {steady: 60s}]": 2} {
		sc, list, h := recordedFleet(t, 5, 3, phases)
		_, told := recordedTimetable(t, sc, 2)
		n := 0
		for _, checks := range told {
			for _, all := range checks {
				n += len(all)
			}
		}
		if got := float64(n) / float64(3*len(list)); got < want*0.9 || got > want*1.1 {
			t.Errorf("%s: %.3f times the recording, want %.3f", phases, got, want)
		}
		if rate := 3*h.Rate() + 0.3; math.Abs(sc.Rate()-rate) > 1e-9 {
			t.Errorf("%v results/s, want %v", sc.Rate(), rate)
		}
	}
}

// TestATapeThatBecameAnother changes a recording after the scenario was read, and expects an error.
func TestATapeThatBecameAnother(t *testing.T) {
	sc, _, _ := recordedFleet(t, 5, 1, "[{steady: 60s}]")
	another, _, _ := recordedFleet(t, 6, 1, "[{steady: 60s}]")
	for _, c := range []struct {
		change func(path string) error
		class  model.Class
	}{
		{func(path string) error {
			data, err := os.ReadFile(another.Agents[1].Recorded.File)
			if err != nil {
				return err
			}
			return os.WriteFile(path, data, 0o600)
		}, model.Conflict},
		{func(path string) error { return os.Truncate(path, 100) }, model.Invalid},
		{os.Remove, model.NotFound},
	} {
		if err := c.change(sc.Agents[1].Recorded.File); err != nil {
			t.Fatal(err)
		}
		if err := Joinable(sc); model.ClassOf(err) != model.Unsupported {
			t.Error(err) // another machine has another file, or none
		}
		if _, err := NewFleet(clock.New(), optionsOf(sc)); model.ClassOf(err) != c.class {
			t.Errorf("%v, want %s", err, c.class.Label())
		}
	}
}
