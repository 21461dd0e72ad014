package sizing

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Scenario is the shape that docs/sizing.md shows, with 1,000 agents.
const Scenario = "muster-sizing"

// sizes are the rows of its table. Results of a size are called sizing-AGENTS.json.
func sizes() []int { return []int{1000, 4000, 10_000, 40_000} }

// page is docs/sizing.md while it is made.
type page struct {
	strings.Builder
	reports map[string]*report.Report // by name; nil: there is none
	shape   *scenario.Scenario
	rows    []figures // of the sizes that were measured
}

// Page makes docs/sizing.md of the reports in a folder, bench/results. What was not measured
// is said to be so.
func Page(dir fs.FS) (string, error) {
	shape, err := scenario.Load(Scenario)
	if err != nil {
		return "", err
	}
	p := &page{reports: map[string]*report.Report{}, shape: shape}
	for _, name := range append(sizeNames(), "rate-1k", "rate-16k", "rate-16k-tls", "sensu-4000x40x5s", "storm-15k", "storm-15k-tls", "states-1.5m") {
		if p.reports[name], err = report.ReadFS(dir, name+".json"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	for _, name := range sizeNames() {
		if rep := p.reports[name]; rep != nil {
			p.rows = append(p.rows, figuresOf(rep, 0))
		}
	}
	p.say("# How large a machine has to be\n")
	p.say("<!-- made by internal/load/sizing of bench/results/*.json: make docs -->\n")
	p.table()
	p.thumb()
	p.grows()
	p.tooMany()
	p.own()
	p.repeat()
	return p.String(), nil
}

func sizeNames() (names []string) {
	for _, n := range sizes() {
		names = append(names, sizeName(n))
	}
	return names
}

func sizeName(agents int) string { return fmt.Sprintf("sizing-%d", agents) }

// say writes one line.
func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// link names a run by its report.
func link(name string) string { return fmt.Sprintf("[%s](../bench/results/%s.json)", name, name) }

// table is what there is to order.
func (p *page) table() {
	p.say("What the server uses of its machine for so many agents of [a usual shape](../bench/scenarios/%s.yaml): %s\n", Scenario, p.describe())
	p.say("| agents | results/s | cores | memory | disk writes | fsyncs/s | network in | network out | p99 | run |")
	p.say("|---|---|---|---|---|---|---|---|---|---|")
	missing := false
	for _, agents := range sizes() {
		name, rep := sizeName(agents), p.reports[sizeName(agents)]
		switch {
		case rep != nil:
			f := figuresOf(rep, 0)
			p.say("| %s | %s | %s | %s | %s/s | %s | %s/s | %s/s | %s ms | %s |", grouped(f.agents), digits(f.results), digits(f.cores), bytes(f.memory),
				bytes(f.written), digits(f.syncs), bytes(f.in), bytes(f.out), digits(f.p99), link(name))
		case agents > p.room():
			p.say("| %s | %s | not on one server of that machine: see [below](#%d-agents) | | | | | | | |", grouped(float64(agents)), digits(p.rate(agents)), agents)
		default:
			missing = true
			p.say("| %s | %s | – | – | – | – | – | – | – | not measured yet |", grouped(float64(agents)), digits(p.rate(agents)))
		}
	}
	p.say("")
	p.say("Cores are those of the server alone, mean; memory is what is resident, at the most; disk is what the server sends to storage, in whole pages; fsyncs are those of all its files; " +
		"network is TCP with TLS, without the headers of TCP and IP; p99 is from when a result was due to leave the agent until it was acknowledged. " +
		"The simulated agents ran on the same machine; what they used is not in the table.\n")
	if missing {
		p.say("Rows that are not measured yet are filled in by the commands [at the end](#run-it-again).\n")
	}
	p.machines()
}

// describe is the shape in words.
func (p *page) describe() string {
	c := &p.shape.Agents[0]
	every := map[string]int{}
	var order []string
	for _, k := range p.shape.Held(c) {
		if every[k.Interval.String()] == 0 {
			order = append(order, k.Interval.String())
		}
		every[k.Interval.String()] += max(1, k.Count)
	}
	var parts []string
	for _, interval := range order {
		parts = append(parts, fmt.Sprintf("%d checks every %s", every[interval], interval))
	}
	return fmt.Sprintf("mutual TLS, %s with what real plug-ins say, and %s of the machines reconnect every minute.", strings.Join(parts, " and "),
		strconv.FormatFloat(100*c.Churn.Reconnects.PerSecond(1)*60, 'g', 3, 64)+" %")
}

// rate is how many results so many agents of the shape send per second.
func (p *page) rate(agents int) float64 {
	return p.shape.Rate() * float64(agents) / float64(p.shape.Nodes(""))
}

// machines are those on which it was measured, each once, with what differed between its runs.
func (p *page) machines() {
	type runs struct {
		fsyncs, slowest []float64 // ms: half of them, and p99
		commits         []string
	}
	var order []string
	all := map[string]*runs{}
	for _, name := range sizeNames() {
		rep := p.reports[name]
		if rep == nil {
			continue
		}
		m := fmt.Sprintf("%d cores of %s, %s of memory, Linux %s", rep.Machine.Cores, rep.Machine.CPU, bytes(float64(rep.Machine.Memory)), rep.Machine.Kernel)
		if all[m] == nil {
			all[m] = &runs{}
			order = append(order, m)
		}
		of := all[m]
		if e := rep.Environment; e != nil && e.Fsync.P99 > 0 {
			of.fsyncs, of.slowest = append(of.fsyncs, e.Fsync.P50), append(of.slowest, e.Fsync.P99)
		}
		commit := rep.Commit[:min(10, len(rep.Commit))]
		if rep.Dirty {
			commit += " with changes"
		}
		if !slices.Contains(of.commits, commit) {
			of.commits = append(of.commits, commit)
		}
	}
	for i, m := range order {
		of := all[m]
		if len(of.fsyncs) > 0 {
			order[i] += fmt.Sprintf("; an fsync takes %s ms (p99 %s)", span(of.fsyncs), span(of.slowest))
		}
		order[i] += ", at commit " + strings.Join(of.commits, " and ")
	}
	if len(order) > 0 {
		p.say("Measured on %s.\n", strings.Join(order, "; on "))
	}
}

// span is from the least to the greatest.
func span(values []float64) string {
	least, most := fmt.Sprintf("%.2g", slices.Min(values)), fmt.Sprintf("%.2g", slices.Max(values))
	if least == most {
		return least
	}
	return least + " to " + most
}

// fit is a straight line through the smallest and the largest size: what a server takes
// anyway, and for each 1,000 agents.
func (p *page) fit(of func(*figures) float64) (base, each float64) {
	a, b := &p.rows[0], &p.rows[len(p.rows)-1]
	each = (of(b) - of(a)) / (b.agents - a.agents) * 1000
	return max(0, of(a)-each*a.agents/1000), each
}

// thumb are rules of thumb, where there are two sizes.
func (p *page) thumb() {
	p.say("## Rules of thumb\n")
	if len(p.rows) < 2 {
		p.say("They are reckoned from the rows of the table, when two of them have been measured.\n")
		return
	}
	last := &p.rows[len(p.rows)-1]
	p.say("A straight line through the smallest and the largest row of the table:\n")
	p.say("| | a server by itself | for each 1,000 agents | for each 1,000 results/s |")
	p.say("|---|---|---|---|")
	perResult := last.agents / last.results // agents for each result per second
	for _, f := range [...]struct {
		name string
		of   func(*figures) float64
		unit func(float64) string
	}{
		{"cores", func(f *figures) float64 { return f.cores }, digits},
		{"memory", func(f *figures) float64 { return f.memory }, bytes},
		{"disk writes", func(f *figures) float64 { return f.written }, perSecond},
		{"network in", func(f *figures) float64 { return f.in }, perSecond},
		{"network out", func(f *figures) float64 { return f.out }, perSecond},
	} {
		base, each := p.fit(f.of)
		p.say("| %s | %s | %s | %s |", f.name, f.unit(base), f.unit(max(0, each)), f.unit(max(0, each*perResult)))
	}
	p.say("")
	p.say("The last two columns are the same thing said twice: an agent of this shape sends %s results/s. %s\n", digits(1/perResult), p.spare())
}

// spare is why not to order just what the table says.
func (p *page) spare() string {
	for _, agents := range slices.Backward(sizes()) {
		if rep := p.reports[sizeName(agents)]; rep != nil && rep.ConnectCPU > 0 {
			return fmt.Sprintf("Order more cores than that: when all agents come back at once, as after an outage, they are what it waits for. To let %s agents in took the server %s s of a core.",
				grouped(float64(rep.Plan.Agents)), digits(rep.ConnectCPU))
		}
	}
	return "Order more cores than that: when all agents come back at once, as after an outage, they are what it waits for."
}

func perSecond(v float64) string { return bytes(v) + "/s" }
