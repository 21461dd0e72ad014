package outputs

import (
	"math"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestChangesNeedNoStatus expects that the asked share of results changes the status, even if the check names no other
// status.
func TestChangesNeedNoStatus(t *testing.T) {
	const states, rounds, asked = 500, 200, 0.02
	for name, k := range map[string]scenario.Check{
		"a plug-in":                    {Output: scenario.Output{Like: "http"}},
		"digits":                       {Output: scenario.Output{Like: scenario.Digits}},
		"digits, some of which flap":   {Output: scenario.Output{Like: scenario.Digits}, Flapping: 1e-9},
		"a plug-in, all of it unknown": {Output: scenario.Output{Like: "disk"}, Status: map[string]float64{"UNKNOWN": 1}},
		"a plug-in with a status":      {Output: scenario.Output{Like: "disk"}, Status: map[string]float64{"WARNING": 0.2}},
	} {
		k.Changes = asked
		g := New(7, &k)
		changes, seen := 0, [4]int{}
		for a := range states {
			before := g.Status(a, 0, nil, uint64(a), 0, true)
			for n := range rounds {
				next := g.Status(a, 0, nil, uint64((n+1)*states+a), before, false)
				if next != before {
					changes++
				}
				seen[next]++
				before = next
			}
		}
		if want := asked * states * rounds; math.Abs(float64(changes)-want) > 0.1*want {
			t.Errorf("%s: %d changes of the status, want about %.0f", name, changes, want)
		}
		for status, n := range seen {
			if wanted := k.Status["WARNING"] == 0 || status < 2; (n > 0) != wanted {
				t.Errorf("%s: %d results are %s", name, n, model.Status(status))
			}
		}
	}
}

// TestSays expects the asked mix of statuses, share of changes and share of flapping states, and outputs without
// placeholders.
func TestSays(t *testing.T) {
	const states, rounds = 500, 200
	g := New(3, &scenario.Check{Status: map[string]float64{"WARNING": 0.1, "CRITICAL": 0.05}, Changes: 0.02, Flapping: 0.1, Output: scenario.Output{Like: "http"}})
	counts, changes, flaps := [4]int{}, 0, 0
	for a := range states {
		before := g.Status(a, 0, nil, 0, 0, true)
		changed := 0
		for n := range rounds {
			next := g.Status(a, 0, nil, uint64((n+1)*states+a), before, false)
			if next != before {
				changed++
			}
			before = next
			counts[next]++
		}
		if changed == rounds {
			flaps++
		} else {
			changes += changed
		}
	}
	if flaps < 35 || flaps > 65 {
		t.Errorf("%d of %d states flap", flaps, states)
	}
	if want := 0.02 * rounds * float64(states-flaps); math.Abs(float64(changes)-want) > 0.2*want {
		t.Errorf("%d changes, want about %.0f", changes, want)
	}
	warning := float64(counts[1]) / float64((states-flaps)*rounds)
	if warning < 0.08 || warning > 0.12 {
		t.Errorf("%.3f are WARNING", warning)
	}
	for _, like := range scenario.Outputs()[1:] {
		seen := map[string]bool{}
		for status := range 4 {
			g := New(1, &scenario.Check{Output: scenario.Output{Like: like}})
			text := string(g.Output(nil, 1, 2, nil, 77, model.Status(status)))
			if strings.Contains(text, "#") || text == "" || seen[text] {
				t.Errorf("%s: %q", like, text)
			}
			seen[text] = true
		}
		long := New(1, &scenario.Check{Output: scenario.Output{Like: like, Bytes: 3000}})
		if n := len(long.Output(nil, 1, 2, nil, 77, 0)); n != 3000 {
			t.Errorf("%s: %d bytes", like, n)
		}
	}
}

// TestOutputsDiffer expects different outputs of the right size, and the asked share of changes.
func TestOutputsDiffer(t *testing.T) {
	d := &Digits{Size: 100, Changes: 0.02}
	seen := map[string]bool{}
	changed := 0
	for seq := range uint64(20_000) {
		status := d.Status(int(seq%7), int(seq%40), nil, seq, model.OK, false)
		out := d.Output(nil, int(seq%7), int(seq%40), nil, seq, status)
		if len(out) != 100 || seen[string(out)] {
			t.Fatalf("output %q", out)
		}
		seen[string(out)] = true
		if status != model.OK {
			changed++
		}
	}
	if changed < 300 || changed > 500 {
		t.Errorf("%d of 20000 changed the status, want about 400", changed)
	}
}

// BenchmarkGenerate generates one output of 100 bytes.
func BenchmarkGenerate(b *testing.B) {
	d := &Digits{Size: 100, Changes: 0.02}
	var out []byte
	b.ReportAllocs()
	for i := range b.N {
		out = d.Output(out[:0], i%2000, i%40, nil, uint64(i), d.Status(i%2000, i%40, nil, uint64(i), model.OK, false))
	}
}
