package page

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/report"
)

// several runs of full, changed.
func several(name string, n int, change func(i int, r *report.Report)) compare.Set {
	s := compare.Set{Name: name}
	for i := range n {
		r := full()
		r.Valid, r.Began = true, r.Began.Add(time.Duration(i)*time.Minute)
		r.Balance = &report.Balance{Sent: 5, Acknowledged: 5}
		r.Faults = nil
		change(i, r)
		s.Runs = append(s.Runs, r)
	}
	return s
}

// comparisons show each verdict: worse, better, noise, the same, too few runs, a loss.
func comparisons() []*compare.Comparison {
	base := several("old", 6, func(i int, r *report.Report) { r.Disk.PerResult *= 1 + float64(i%2); r.BeyondLinger.P99 += float64(i) })
	other := several("new <b>", 5, func(i int, r *report.Report) {
		r.Inside.Allocs *= 1.3
		r.ConnectSeconds += float64(i)
		r.SessionBytes /= 3
		r.Disk.PerResult *= 2.1
		r.Machine.Kernel = "6.13"
		r.Balance.Missing = uint64(i)
	})
	for _, r := range base.Runs {
		r.Changes = []report.Held{{Holds: report.Latency{P99: 7}}}
	}
	for _, r := range other.Runs {
		r.Changes = nil
	}
	few := several("few", 1, func(_ int, r *report.Report) { r.SessionBytes *= 30 })
	return []*compare.Comparison{compare.Compare(base, other, nil), compare.Compare(base, few, &other)}
}

func renderComparison(t *testing.T, list []*compare.Comparison) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteComparison(&b, list); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAComparisonIsShown(t *testing.T) {
	list := comparisons()
	text := renderComparison(t, list)
	wellFormed(t, text)
	for _, want := range []string{"<title>new &lt;b&gt; beside old, few beside old</title>", `class="card failed"`, "Regression in new &lt;b&gt;: imbalance 0 → 4", `class="card invalid"`, "No verdict: 6 runs of old beside 1 run of few",
		"<h2>Worse</h2>", "<h2>Better</h2>", "<h2>Noise: the base shows as much beside itself</h2>", "<h2>Too few runs to tell</h2>", "<h2>The same</h2>",
		"The kernels differ", "holds-p99", "not measured any more", "allocations of the server per 1,000 results · count", "&#43;30 %", "−67 %", "(control)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	rows := 0
	for _, c := range list {
		rows += len(c.Rows)
	}
	if got := strings.Count(text, `<span class="sign" aria-hidden="true">`) - len(list); got != rows {
		t.Errorf("%d of %d figures are shown", got, rows)
	}
}

const comparisonFrame = `<!DOCTYPE html><title>frame</title><iframe id=f src="/report" style="width:360px;height:2000px;border:0"></iframe><pre id=said></pre>
<script>
document.getElementById("f").onload = event => {
  const inner = event.target.contentDocument, width = () => inner.documentElement.scrollWidth;
  const said = { closed: width() };
  inner.querySelectorAll("details").forEach(d => { d.open = true; });
  said.open = width();
  said.wide = [...inner.querySelectorAll("body *")].filter(e => !e.closest(".scroll, pre, .unseen, defs") && e.getBoundingClientRect().right > 360.5).map(e => e.tagName + "." + e.getAttribute("class"));
  said.forests = [...inner.querySelectorAll("svg.forest")].filter(s => s.getBoundingClientRect().width > 200).length;
  document.getElementById("said").textContent = JSON.stringify(said);
};
</script>`

func TestAComparisonInABrowser(t *testing.T) {
	var said struct {
		Closed, Open, Forests int
		Wide                  []string
	}
	text := renderComparison(t, comparisons())
	browse(t, text, comparisonFrame, &said)
	if said.Closed != 360 || said.Open != 360 || len(said.Wide) > 0 {
		t.Errorf("on 360 pixels the page is %d wide, %d with all open; too wide: %q", said.Closed, said.Open, said.Wide)
	}
	if want := strings.Count(text, `<svg class="forest`); said.Forests != want || want < 20 {
		t.Errorf("%d of %d drawings are wide enough", said.Forests, want)
	}
}

// A figure that was nothing has no place on an axis of changes.
func TestFromNothingIsShown(t *testing.T) {
	row := compare.Row{Figure: "settle", Base: compare.Summary{N: 1, Values: []float64{0}}, Other: compare.Summary{Center: 3, N: 1, Values: []float64{3}}, Verdict: compare.Worse}
	text := renderComparison(t, []*compare.Comparison{{Rows: []compare.Row{row}, Verdict: []string{"?"}}})
	wellFormed(t, text)
	if !strings.Contains(text, "from 0") || strings.Contains(text, fmt.Sprintf("%q", "forest")) {
		t.Error("drawn, or not shown")
	}
}
