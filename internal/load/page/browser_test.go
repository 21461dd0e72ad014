package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/testenv"
)

// frame shows the page as a phone does, 360 pixels wide, moves a pointer over its first
// chart, opens everything, and says what came of it.
const frame = `<!DOCTYPE html><title>frame</title><iframe id=f src="/report" style="width:360px;height:2000px;border:0"></iframe><pre id=said></pre>
<script>
document.getElementById("f").onload = event => {
  const inner = event.target.contentDocument, width = () => inner.documentElement.scrollWidth;
  const said = { closed: width(), wide: [] };
  const key = inner.querySelector("#throughput .keys b"), usual = key.textContent;
  const plot = inner.querySelector("#throughput .plot > svg"), box = plot.getBoundingClientRect();
  const move = (what, part) => plot.dispatchEvent(new PointerEvent(what, { clientX: box.left + part * box.width, clientY: box.top + 5 }));
  move("pointermove", 0.01);
  said.moved = key.textContent;
  said.cursors = [...inner.querySelectorAll(".cursor")].filter(c => c.style.display === "").length;
  move("pointerleave", 0);
  said.back = key.textContent === usual;
  inner.querySelectorAll("details").forEach(d => { d.open = true; });
  said.open = width();
  said.wide = [...inner.querySelectorAll("body *")].filter(e => !e.closest(".scroll, pre, .unseen") && e.getBoundingClientRect().right > 360.5).map(e => e.tagName + "." + e.getAttribute("class"));
  said.plots = [...inner.querySelectorAll(".plot > svg")].filter(s => s.getBoundingClientRect().width < 200).length;
  said.asked = inner.defaultView.performance.getEntriesByType("resource").map(e => e.name);
  said.dark = inner.defaultView.matchMedia("(prefers-color-scheme: dark)").matches;
  const channels = colour => { const c = colour.match(/[\d.]+/g).map(Number), of = colour.startsWith("color(") ? 255 : 1; return [c[0] * of, c[1] * of, c[2] * of, c[3] ?? 1]; };
  const light = c => c.slice(0, 3).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    if (!e) return [255, 255, 255, 1];
    const c = channels(inner.defaultView.getComputedStyle(e).backgroundColor), below = c[3] < 1 ? behind(e.parentElement) : c;
    return [0, 1, 2].map(i => c[i] * c[3] + below[i] * (1 - c[3]));
  };
  said.ground = light(behind(inner.body));
  said.faint = [];
  const words = [...inner.querySelectorAll("body *")].filter(e => !e.closest("script, style, title") && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()));
  said.words = words.length;
  for (const e of words) {
    const style = inner.defaultView.getComputedStyle(e), ink = light(channels(e.closest("svg") ? style.fill : style.color)), ground = light(behind(e));
    if ((Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05) < 4.5) said.faint.push(e.tagName + "." + e.getAttribute("class") + " " + e.textContent.trim().slice(0, 20));
  }
  document.getElementById("said").textContent = JSON.stringify(said);
};
</script>`

// TestInABrowser opens the page in a browser, light and dark, and expects no other request, no console message, no
// sideways scrolling on a phone, values at the pointer, and readable contrast.
func TestInABrowser(t *testing.T) {
	for _, dark := range []bool{false, true} {
		t.Run(map[bool]string{false: "light", true: "dark"}[dark], func(t *testing.T) { inABrowser(t, dark) })
	}
}

// inABrowser opens a page in a browser that prefers dark or light pages, and checks what its script reports.
func inABrowser(t *testing.T, dark bool) {
	var said struct {
		Closed, Open, Plots, Cursors, Words int
		Wide, Faint, Asked                  []string
		Moved                               string
		Back, Dark                          bool
		Ground                              float64 // how light it is: 0 black, 1 white
	}
	browse(t, render(t, full(t)), frame, &said, scheme(dark))
	if said.Dark != dark || (said.Ground < 0.2) != dark {
		t.Errorf("the browser prefers dark: %v, and behind the words it is %.2f light", said.Dark, said.Ground)
	}
	if len(said.Asked) > 0 {
		t.Errorf("the page asked for %q", said.Asked)
	}
	if said.Words < 100 || len(said.Faint) > 0 {
		t.Errorf("of %d elements with words these cannot be read: %q", said.Words, said.Faint)
	}
	if said.Closed != 360 || said.Open != 360 || len(said.Wide) > 0 {
		t.Errorf("on 360 pixels the page is %d wide, %d with all open; too wide: %q", said.Closed, said.Open, said.Wide)
	}
	if said.Plots > 0 {
		t.Errorf("%d plots are narrower than 200 pixels", said.Plots)
	}
	if said.Moved != "0/s" || !said.Back || said.Cursors < 8 {
		t.Errorf("under the pointer: %q in %d charts, back as before: %v", said.Moved, said.Cursors, said.Back)
	}
}

// scheme returns the flag that lets the browser prefer dark or light pages.
func scheme(dark bool) string {
	return "--blink-settings=preferredColorScheme=" + map[bool]string{true: "0", false: "1"}[dark]
}

// ofTheBrowser are the hosts that Chromium itself calls, whatever page it shows: of updates,
// accounts and lists of its maker. What the page asks of these too, the browser's list of what it
// loaded says.
var ofTheBrowser = []string{"accounts.google.com", "android.clients.google.com", "clients2.google.com", "content-autofill.googleapis.com", "edgedl.me.gvt1.com",
	"mtalk.google.com", "optimizationguide-pa.googleapis.com", "redirector.gvt1.com", "safebrowsing.googleapis.com", "update.googleapis.com", "www.google.com"}

// browse shows a page in a frame, whose script writes JSON into #said; that is read into
// what it said. The console must be silent, and nothing else be asked for.
func browse(t *testing.T, page, frame string, said any, flags ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds to start")
	}
	chromium := testenv.Program(t, "chromium", "chromium")
	var asked struct {
		sync.Mutex
		list []string
	}
	// The server is the browser's proxy too, so that it sees requests to any host.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host == "report.test" && r.URL.Path == "/":
			fmt.Fprint(w, frame)
			return
		case r.Host == "report.test" && r.URL.Path == "/report":
			fmt.Fprint(w, page)
			return
		}
		asked.Lock()
		if !slices.Contains(ofTheBrowser, strings.TrimSuffix(r.Host, ":443")) {
			asked.list = append(asked.list, r.Method+" "+r.Host+r.URL.Path)
		}
		asked.Unlock()
		http.Error(w, "no", http.StatusNotFound)
	}))
	defer server.Close()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	home := t.TempDir()
	cmd := exec.CommandContext(ctx, chromium, append(flags, "--headless", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions", "--disable-domain-reliability", "--enable-logging=stderr",
		"--user-data-dir="+home, "--proxy-server="+server.URL, "--proxy-bypass-list=<-loopback>", "--window-size=800,2100", "--virtual-time-budget=2000",
		"--dump-dom", "http://report.test/")...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}

	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the console says: %s", line)
		}
	}
	asked.Lock()
	defer asked.Unlock()
	for _, what := range asked.list {
		if what != "GET report.test/favicon.ico" { // the frame's own
			t.Errorf("asked for %s", what)
		}
	}
	_, text, _ := strings.Cut(out.String(), `<pre id="said">`)
	text, _, found := strings.Cut(text, "</pre>")
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), said); !found || err != nil {
		t.Fatalf("%v: the page said %q\n%s", err, text, log.String())
	}
}

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
