package load

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/version"
)

// Schema is the version of run.json: fields are added, never changed.
const Schema = "muster.load/1"

// Report is what one run shows; run.json is this.
type Report struct {
	Schema  string    `json:"schema"`
	Title   string    `json:"title,omitempty"`
	Began   time.Time `json:"began"`
	Version string    `json:"version"`
	Commit  string    `json:"commit"`
	Command []string  `json:"command"`
	Machine Machine   `json:"machine"`
	Plan    Plan      `json:"plan"`

	Valid   bool     `json:"valid"` // the generator kept up
	Verdict []string `json:"verdict"`
	Balance *Balance `json:"balance"`

	ConnectSeconds float64  `json:"connectSeconds"` // until every agent had a session
	ReadySeconds   float64  `json:"readySeconds"`   // … and its checks
	Outages        []Outage `json:"outages,omitempty"`

	Results      uint64            `json:"results"` // measured
	Rate         float64           `json:"rate"`    // acknowledged per second
	Frames       uint64            `json:"frames"`
	Resent       uint64            `json:"resent"`
	Refusals     map[string]uint64 `json:"refusals,omitempty"`
	Slowed       int               `json:"slowed"`
	Latency      Latency           `json:"latencyMs"`      // intended → acknowledged
	BeyondLinger Latency           `json:"beyondLingerMs"` // due to leave → acknowledged
	Lag          Latency           `json:"generatorLagMs"` // due to leave → handed over to be sent
	Batch        Spread            `json:"signalsPerFrame"`
	Server       Usage             `json:"server"`
	Loader       Usage             `json:"loader"`
	MachineShare float64           `json:"machineShare"`      // both processes, of all cores
	ConnectCPU   float64           `json:"connectCpuSeconds"` // of the server, until all agents held their checks
	SessionBytes float64           `json:"sessionBytes"`      // resident on the server per agent: sessions and assignments, before any result

	// Metrics are the server's counters over the measured span, by name.
	Metrics  map[string]float64 `json:"metrics,omitempty"`
	Failures map[string]uint64  `json:"failures,omitempty"` // connections not opened
	Losses   map[string]uint64  `json:"losses,omitempty"`   // sessions ended
	Samples  []Sample           `json:"samples"`

	first, last usage
}

// Machine is where it ran.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory"` // bytes
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Load   string `json:"load"` // averages over 1, 5 and 15 minutes before the run: was it alone?
}

// Plan is the configuration that matters, with defaults filled in.
type Plan struct {
	Agents   int     `json:"agents"`
	Checks   int     `json:"checks"`
	Interval float64 `json:"intervalSeconds"`
	Offered  float64 `json:"offeredPerSecond"`
	PerFrame int     `json:"perFrame"`
	Linger   float64 `json:"lingerMs"`
	Output   int     `json:"outputBytes"`
	Changes  float64 `json:"changes"`
	Duration float64 `json:"seconds"`
	TLS      bool    `json:"tls"`
	Storm    bool    `json:"storm"`
	Seed     uint64  `json:"seed"`
}

// Latency in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Spread of a count.
type Spread struct {
	Mean float64 `json:"mean"`
	P50  int64   `json:"p50"`
	P99  int64   `json:"p99"`
	Max  int64   `json:"max"`
}

// Usage of one process in the measured span.
type Usage struct {
	Cores         float64 `json:"cores"`
	MicrosPerItem float64 `json:"cpuMicrosPerResult"`
	RSS           int64   `json:"rss"` // at the end, bytes
}

func newReport(c Config) *Report {
	r := &Report{Schema: Schema, Began: time.Now().UTC(), Command: os.Args, Version: version.Get().Version, Commit: version.Get().Commit, Machine: machine()}
	r.Plan = Plan{Agents: c.Agents, Checks: c.Checks, Interval: c.Interval.Seconds(), Offered: c.Rate, PerFrame: c.PerFrame,
		Linger: ms(c.Linger), Output: c.Output, Changes: c.Changes, Duration: c.Duration.Seconds(), TLS: c.TLS != nil, Storm: c.Storm, Seed: c.Seed}
	return r
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func latency(h *hdrhistogram.Histogram) Latency {
	q := func(p float64) float64 { return float64(h.ValueAtQuantile(p)) / 1000 }
	return Latency{Mean: h.Mean() / 1000, P50: q(50), P90: q(90), P99: q(99), P999: q(99.9), Max: float64(h.Max()) / 1000}
}

func (rep *Report) finish(c Config, t *tally, slowed int) {
	rep.Results, rep.Frames, rep.Resent, rep.Refusals, rep.Slowed = t.results, t.frames, t.resent, t.reasons, slowed
	rep.Rate = float64(t.acked) / c.Duration.Seconds()
	rep.Latency, rep.BeyondLinger, rep.Lag = latency(t.whole), latency(t.beyond), latency(t.lag)
	rep.Batch = Spread{t.batches.Mean(), t.batches.ValueAtQuantile(50), t.batches.ValueAtQuantile(99), t.batches.Max()}
	span := rep.last.at - rep.first.at
	use := func(first, last process) Usage {
		u := Usage{Cores: last.cores(first, span), RSS: last.rss}
		if t.results > 0 && u.Cores > 0 {
			u.MicrosPerItem = float64((last.cpu - first.cpu).Microseconds()) / float64(t.results)
		}
		return u
	}
	rep.Server, rep.Loader = use(rep.first.server, rep.last.server), use(rep.first.loader, rep.last.loader)
	rep.MachineShare = (rep.Server.Cores + rep.Loader.Cores) / float64(runtime.NumCPU())
	rep.Metrics = difference(rep.first.metrics, rep.last.metrics)
	rep.judge(c)
}

// judge fills Valid and Verdict: what is wrong, in sentences; empty when nothing is.
func (rep *Report) judge(c Config) {
	rep.Valid = true
	say := func(format string, args ...any) { rep.Verdict = append(rep.Verdict, fmt.Sprintf(format, args...)) }
	if lag := rep.Lag.P99; lag > ms(c.MaxLag) {
		rep.Valid = false
		say("invalid: the generator fell behind (p99 %.1f ms after the due time, allowed %.0f ms)", lag, ms(c.MaxLag))
	}
	if b := rep.Balance; b.Missing > 0 {
		say("%d results were sent and neither acknowledged nor refused", b.Missing)
	}
	if b := rep.Balance; b.Imbalances > 0 {
		e := b.Examples[0]
		say("%d of %d event states differ from the ledger; node %d check %d: %s", b.Imbalances, b.Compared, e.Node, e.Check, e.Problem)
	}
	if rep.Balance.Refused > 0 {
		say("%d results were refused: %v", rep.Balance.Refused, rep.Refusals)
	}
}

// OK: valid and balanced. Refusals are counted, not wrong.
func (rep *Report) OK() bool { return rep.Valid && rep.Balance.OK() }

// Text is the summary for people.
func (rep *Report) Text() string {
	var b strings.Builder
	p := rep.Plan
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-16s %s\n", name, fmt.Sprintf(format, args...))
	}
	mode := "plain"
	if p.TLS {
		mode = "mutual TLS"
	}
	fmt.Fprintf(&b, "%d agents × %d checks, %s, %.0f results/s offered for %.0f s\n", p.Agents, p.Checks, mode, p.Offered, p.Duration)
	if len(rep.Verdict) == 0 {
		b.WriteString("  nothing lost, nothing twice, the generator kept up\n")
	}
	for _, v := range rep.Verdict {
		b.WriteString("  ! " + v + "\n")
	}
	line("connected", "all within %.2f s, all checks held after %.2f s", rep.ConnectSeconds, rep.ReadySeconds)
	line("acknowledged", "%.0f results/s; %d per frame (p50), %.1f mean, %d p99", rep.Rate, rep.Batch.P50, rep.Batch.Mean, rep.Batch.P99)
	lat := func(l Latency) string {
		return fmt.Sprintf("p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f ms", l.P50, l.P90, l.P99, l.P999, l.Max)
	}
	line("latency", "%s (from the intended time)", lat(rep.Latency))
	line("beyond linger", "%s (linger %.0f ms)", lat(rep.BeyondLinger), p.Linger)
	line("generator lag", "%s", lat(rep.Lag))
	for _, o := range rep.Outages {
		line("reconnect", "%d agents away at %.1f s, all back after %.2f s", o.Lost, o.Second, o.Seconds)
	}
	use := func(u Usage) string {
		return fmt.Sprintf("%.2f cores, %.1f µs CPU per result, %d MiB resident", u.Cores, u.MicrosPerItem, u.RSS>>20)
	}
	if rep.Server.RSS > 0 {
		line("server", "%s", use(rep.Server))
		line("session", "%.1f kB resident per agent before any result, %.2f ms of server CPU to connect", rep.SessionBytes/1000, 1000*rep.ConnectCPU/float64(p.Agents))
	}
	line("loader", "%s", use(rep.Loader))
	if rep.Server.RSS > 0 {
		line("both", "%.0f %% of the machine's %d cores", 100*rep.MachineShare, rep.Machine.Cores)
	}
	bal := rep.Balance
	line("ledger", "%d sent = %d acknowledged + %d refused + %d missing; %d event states compared, %d differ",
		bal.Sent, bal.Acknowledged, bal.Refused, bal.Missing, bal.Compared, bal.Imbalances)
	if disk, ok := rep.PerResult("muster_journal_written_bytes_total"); ok {
		line("disk", "%.1f bytes of journal per result", disk)
	}
	return b.String()
}

// PerResult divides a counter of the server by the results of the measured span.
func (rep *Report) PerResult(metric string) (float64, bool) {
	v, ok := rep.Metrics[metric]
	if !ok || rep.Results == 0 {
		return 0, false
	}
	return v / float64(rep.Results), true
}

func machine() Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), CPU: field("/proc/cpuinfo", "model name")}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(kernel))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	}
	kb, _ := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	m.Memory = kb << 10
	return m
}

// field is the value of the first line of a file that begins with a name.
func field(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// readMetrics sums a server's /metrics by name; nil where there are none.
func readMetrics(url string) map[string]float64 {
	if url == "" {
		return nil
	}
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	sums := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(text, "#") {
			continue
		}
		name, _, _ := strings.Cut(text, " ")
		name, _, _ = strings.Cut(name, "{")
		if v, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64); err == nil && !strings.HasSuffix(name, "_bucket") {
			sums[name] += v
		}
	}
	return sums
}

func difference(before, after map[string]float64) map[string]float64 {
	d := map[string]float64{}
	for name, v := range after {
		if strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count") {
			v -= before[name]
		}
		if v != 0 && strings.HasPrefix(name, "muster_") {
			d[name] = v
		}
	}
	return d
}
