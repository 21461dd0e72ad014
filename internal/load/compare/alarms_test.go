package compare

import (
	"math/rand/v2"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// How often chance alone makes a regression, and how often a real one is found: what
// docs/load-reference.md says of it. Figures are taken to be independent, which makes the most of
// false alarms; noise is a share of the figure.
func TestFalseAlarmsAndMissedOnes(t *testing.T) {
	const rounds = 400
	figures := scenario.Figures()[:28] // as many as a run without faults and people has
	for _, x := range []struct {
		runs                 int
		noise, shift         float64
		alarms, gated, found [2]float64 // share of the comparisons, of the comparisons with --gate count,relative, of the figures: at least and at most
	}{
		{5, 0.01, 0, [2]float64{0, 0.03}, [2]float64{0, 0.03}, [2]float64{0, 0.002}},
		{5, 0.2, 0, [2]float64{0.05, 0.13}, [2]float64{0.02, 0.08}, [2]float64{0, 0.006}},
		{10, 0.2, 0, [2]float64{0.05, 0.15}, [2]float64{0.02, 0.09}, [2]float64{0, 0.006}},
		{5, 0.02, 0.1, [2]float64{1, 1}, [2]float64{1, 1}, [2]float64{0.7, 0.95}},
		{5, 0.02, 0.2, [2]float64{1, 1}, [2]float64{1, 1}, [2]float64{0.99, 1}},
		{10, 0.05, 0.15, [2]float64{1, 1}, [2]float64{1, 1}, [2]float64{0.95, 1}},
	} {
		random := rand.New(rand.NewPCG(uint64(x.runs), 7))
		sample := func(middle float64) (list []float64) {
			for range x.runs {
				list = append(list, middle*(1+x.noise*random.NormFloat64()))
			}
			return list
		}
		alarms, gated, found := 0.0, 0.0, 0.0
		for range rounds {
			any, count := false, false
			for _, f := range figures {
				shift := 1 + x.shift
				if f.Least {
					shift = 1 - x.shift
				}
				base, other := sample(100), sample(100*shift)
				var first, second []float64
				for i, v := range base {
					if i%2 == 0 {
						first = append(first, v)
					} else {
						second = append(second, v)
					}
				}
				if judge(f, base, other, first, second).Verdict == Worse {
					found++
					any, count = true, count || f.Kind != scenario.Absolute
				}
			}
			if any {
				alarms++
			}
			if count {
				gated++
			}
		}
		for what, got := range map[string]struct {
			v    float64
			want [2]float64
		}{"comparisons": {alarms / rounds, x.alarms}, "of counts": {gated / rounds, x.gated}, "figures": {found / rounds / float64(len(figures)), x.found}} {
			if got.v < got.want[0] || got.v > got.want[1] {
				t.Errorf("%d runs, noise %g, shift %g: %s %.3f, want %g to %g", x.runs, x.noise, x.shift, what, got.v, got.want[0], got.want[1])
			}
		}
	}
}
