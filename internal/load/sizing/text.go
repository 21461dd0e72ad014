package sizing

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// usage is the use of a machine by the server alone.
type usage struct {
	agents, results float64 // results: per second
	cores           float64
	memory          float64 // resident bytes, at the most
	expected        float64 // bytes of the event states that have not come yet
	written         float64 // to disk, bytes/s
	syncs           float64 // per second
	in, out         float64 // of the network, bytes/s; zero: not counted
	p99             float64 // beyond the linger, ms
}

// stateBytes is the memory of an event state, where a run does not measure it.
const stateBytes = 600

// usageOf reads a report. The scenario makes so many event states in the end; 0: the report has all.
func usageOf(rep *report.Report, states int) usage {
	u := usage{agents: float64(rep.Plan.Agents), results: rep.Rate, cores: rep.Server.Cores, memory: float64(rep.Server.RSS), p99: rep.BeyondLinger.P99}
	for i := range rep.Samples {
		u.memory = max(u.memory, float64(rep.Samples[i].ServerRSS))
	}
	if missing := float64(states) - float64(rep.States); rep.States > 0 && missing > 0.02*float64(states) {
		u.expected = missing * cmp.Or(max(0, rep.StateBytes), stateBytes)
	}
	if rep.Calls != nil {
		u.syncs = rep.Calls.Syncs
	}
	if d := rep.Disk; d != nil {
		u.written, u.syncs = d.PerDay/86400, cmp.Or(d.Syncs, u.syncs)
	}
	if n := rep.Network; n != nil {
		u.in, u.out = n.In, n.Out
	}
	return u
}

// Text returns a line for each size, and one sentence with the answer.
func Text(tries []Try) string {
	rows := [][]string{{"SIZE", "AGENTS", "RESULTS/S", "CORES", "MEMORY", "DISK/S", "FSYNCS/S", "NET IN/S", "NET OUT/S", "P99", "VERDICT"}}
	expected := false
	for i := range tries {
		t := &tries[i]
		verdict := "carried"
		if t.Report == nil && model.ClassOf(t.Err) != model.Limited {
			verdict = "not played"
		} else if !t.Carried() {
			verdict = "no: " + t.limit().what
		}
		cells := []string{factor(t.Factor), number.Count(t.Agents), number.Three(t.Results), "", "", "", "", "", "", "", verdict}
		if t.Report != nil {
			u := usageOf(t.Report, t.States)
			expected = expected || u.expected > 0
			cells = []string{cells[0], cells[1], number.Three(u.results), number.Three(u.cores), number.Bytes(u.memory + u.expected), number.Bytes(u.written), number.Three(u.syncs), number.Bytes(u.in), number.Bytes(u.out), number.Millis(u.p99), verdict}
		}
		rows = append(rows, cells)
	}
	var b strings.Builder
	b.WriteString(report.AlignedTable(rows) + "\n")
	if expected {
		b.WriteString("Memory includes event states that have not come yet: of checks that run less often than the run lasted.\n")
	}
	for i := range tries {
		if t := &tries[i]; t.Before != nil {
			fmt.Fprintf(&b, "%s was played twice: the first run failed (%s).\n", factor(t.Factor), (&Try{Report: t.Before}).limit().why)
		}
	}
	b.WriteString(sentence(tries) + "\n")
	return b.String()
}

// factor formats a factor, such as 1.5×.
func factor(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) + "×" }

// sentence names the largest size that is carried, its cost at 1× (or the smallest size that is carried), and the limit
// of the next one. Tries are in the order of their factors; only the last may fail.
func sentence(tries []Try) string {
	var carried, usual *Try
	least, end := "at least ", "no limit was met"
	for i := range tries {
		t := &tries[i]
		if t.Carried() {
			if carried = t; usual == nil || t.Factor == 1 {
				usual = t
			}
			continue
		}
		l := t.limit()
		if end = fmt.Sprintf("at %s the limit is %s: %s", t.size(), l.what, strings.TrimSuffix(l.why, ".")); !l.unsure {
			least = ""
		}
		if carried != nil {
			break
		}
		if l.unsure {
			return "The size that this machine carries is unknown: " + end + "."
		}
		return fmt.Sprintf("This machine does not carry %s: %s.", factor(t.Factor), end)
	}
	u := usageOf(usual.Report, usual.States)
	return fmt.Sprintf("This machine carries %s%s; at %s the server uses %s cores, %s of memory, %s/s and %s fsyncs/s of disk, and %s/s in and %s/s out of network; %s.", least, carried.size(), factor(usual.Factor),
		number.Three(u.cores), number.Bytes(u.memory+u.expected), number.Bytes(u.written), number.Three(u.syncs), number.Bytes(u.in), number.Bytes(u.out), end)
}

// size names a try.
func (t *Try) size() string {
	return fmt.Sprintf("%s (%s agents, %s results/s)", factor(t.Factor), number.Count(t.Agents), number.Three(t.Results))
}
