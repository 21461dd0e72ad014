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
	"strings"
	"sync"
	"testing"
	"time"

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
  document.getElementById("said").textContent = JSON.stringify(said);
};
</script>`

// A real browser opens the page: nothing but the page is asked for, nothing is complained
// of, a phone has no need to scroll sideways, and values follow the pointer.
func TestInABrowser(t *testing.T) {
	var said struct {
		Closed, Open, Plots, Cursors int
		Wide                         []string
		Moved                        string
		Back                         bool
	}
	browse(t, render(t, full()), frame, &said)
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

// browse shows a page in a frame, whose script writes JSON into #said; that is read into
// what it said. The console must be silent, and nothing else be asked for.
func browse(t *testing.T, page, frame string, said any) {
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
		asked.list = append(asked.list, r.Method+" "+r.Host+r.URL.Path)
		asked.Unlock()
		http.Error(w, "no", http.StatusNotFound)
	}))
	defer server.Close()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	home := t.TempDir()
	cmd := exec.CommandContext(ctx, chromium, "--headless", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions", "--disable-domain-reliability", "--enable-logging=stderr",
		"--user-data-dir="+home, "--proxy-server="+server.URL, "--proxy-bypass-list=<-loopback>", "--window-size=800,2100", "--virtual-time-budget=2000",
		"--dump-dom", "http://report.test/")
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
		if what != "GET report.test/favicon.ico" && !strings.Contains(what, "google") { // the frame's own, and the browser's
			t.Errorf("asked for %s", what)
		}
	}
	_, text, _ := strings.Cut(out.String(), `<pre id="said">`)
	text, _, found := strings.Cut(text, "</pre>")
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), said); !found || err != nil {
		t.Fatalf("%v: the page said %q\n%s", err, text, log.String())
	}
}
