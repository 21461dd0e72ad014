package page

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

// Every colour that words are set in can be read on both papers: 4.5 to 1, as WCAG asks.
func TestColoursCanBeRead(t *testing.T) {
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(style, -1)
	if len(schemes) < 2 {
		t.Fatal("no light and dark scheme")
	}
	for i, name := range []string{"light", "dark"} {
		colour := map[string]string{}
		for _, c := range regexp.MustCompile(`--(\w+): (#[0-9a-f]{6})`).FindAllStringSubmatch(schemes[i][1], -1) {
			colour[c[1]] = c[2]
		}
		for _, ink := range strings.Fields("ink soft ok bad doubt blue orange teal purple red grey heat1 heat2 heat3 heat4 heat5") {
			for _, paper := range []string{"paper", "card"} {
				if ratio := contrast(colour[ink], colour[paper]); !(ratio >= 4.5) {
					t.Errorf("%s: %s (%s) on %s: %.2f to 1", name, ink, colour[ink], paper, ratio)
				}
			}
		}
	}
}

// contrast is WCAG's ratio of two colours.
func contrast(a, b string) float64 {
	light := func(hex string) float64 {
		var rgb [3]int
		if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
			return math.NaN()
		}
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			c := float64(rgb[i]) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	x, y := light(a), light(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// An hour has 3,600 samples; its page stays one that a browser opens at once.
func TestAPageOfAnHourIsNotLarge(t *testing.T) {
	rep := full()
	one := rep.Samples[40]
	rep.Samples = nil
	for i := range 3600 {
		s := one
		s.Second = i
		if i == 1801 {
			slow := *one.Latency
			slow.Max = 98_765
			s.Latency = &slow
		}
		rep.Samples = append(rep.Samples, s)
	}
	text := render(t, rep)
	if len(text) > 700_000 {
		t.Errorf("%d bytes", len(text))
	}
	for _, want := range []string{"Each point is the mean of 12" + nb + "s.", "98.8" + nb + "s"} { // the one slow second is not lost
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	var nothing report.Report
	nothing.Balance = &report.Balance{}
	if n := len(render(t, &nothing)); n > 30_000 {
		t.Errorf("a page of nothing has %d bytes", n)
	}
}
