package page

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

// desk shows the page on a screen of 1,400 pixels, and says which tables need a scroll bar.
const desk = `<!DOCTYPE html><title>desk</title><iframe id=f src="/report" style="width:1400px;height:2000px;border:0"></iframe><pre id=said></pre>
<script>
document.getElementById("f").onload = event => {
  const inner = event.target.contentDocument;
  inner.querySelectorAll("details").forEach(d => { d.open = true; });
  const all = [...inner.querySelectorAll(".scroll")], cut = e => e.scrollWidth > e.clientWidth;
  document.getElementById("said").textContent = JSON.stringify({ tables: all.length, cut: all.filter(cut).map(e => e.closest("section, figure").id + " " + e.scrollWidth) });
};
</script>`

// TestTablesFitADesk opens a page with the widest tables in a browser of 1,400 pixels, and expects that no table
// scrolls.
func TestTablesFitADesk(t *testing.T) {
	rep := kept(t, "muster-saturation")
	settled, held := 11.0, 0.748
	for i := range rep.Phases {
		p := &rep.Phases[i]
		if p.Offered > 0 {
			p.From, p.To, p.Offered, p.Acknowledged, p.InTime, p.Refused, p.Settled = p.From+600, p.To+600, 590_669, 576_244, &held, 1_234_567, settled
			p.BeyondLinger, p.Lag, p.Server = report.Latency{P50: 231, P99: 2480, P999: 12_560}, report.Latency{P99: 39.9}, report.Usage{Cores: 0.956, MicrosPerItem: 12.3}
		}
	}
	step := rep.Phases[3]
	step.Name = "step ×36.38 again"
	step.Beside = []report.Beside{{Figure: "history-behind", Count: 30, Value: 30.4}, {Figure: "list-p99", Count: 90, Value: 12}}
	for range 15 {
		rep.Phases = append(rep.Phases, step)
	}
	var said struct {
		Tables int
		Cut    []string
	}
	browse(t, render(t, rep), desk, &said)
	if said.Tables < 20 || len(said.Cut) > 0 {
		t.Errorf("of %d tables these do not fit: %q", said.Tables, said.Cut)
	}
}
