package sizing

import (
	"fmt"
	"math"
	"strconv"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// figures are what a run used of its machine, the server alone.
type figures struct {
	agents, results float64 // results: per second
	cores           float64
	memory          float64 // bytes resident, at the most
	later           float64 // bytes that event states which had not come yet will take
	written         float64 // to disk, bytes/s
	syncs           float64 // per second
	in, out         float64 // of the network, bytes/s; zero: not counted
	p99             float64 // beyond the linger, ms
}

// stateBytes is what an event state takes, where a run does not say it.
const stateBytes = 600

// figuresOf are those of a report; states is how many the scenario makes in the end, 0: not
// asked.
func figuresOf(rep *report.Report, states int) figures {
	f := figures{agents: float64(rep.Plan.Agents), results: rep.Rate, cores: rep.Server.Cores, memory: float64(rep.Server.RSS), p99: rep.BeyondLinger.P99}
	for i := range rep.Samples {
		f.memory = max(f.memory, float64(rep.Samples[i].ServerRSS))
	}
	if missing := float64(states) - float64(rep.States); rep.States > 0 && missing > 0.02*float64(states) {
		each := rep.StateBytes
		if each <= 0 {
			each = stateBytes
		}
		f.later = missing * each
	}
	if rep.Calls != nil {
		f.syncs = rep.Calls.Syncs
	}
	if d := rep.Disk; d != nil {
		f.written = d.PerDay / 86400
		if d.Syncs > 0 {
			f.syncs = d.Syncs
		}
	}
	if n := rep.Network; n != nil {
		f.in, f.out = n.In, n.Out
	}
	return f
}

// bytes is a number of bytes for people: 1.2 MB.
func bytes(v float64) string {
	for _, u := range [...]struct {
		name string
		one  float64
	}{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if v >= 0.9995*u.one {
			return digits(v/u.one) + " " + u.name
		}
	}
	return digits(v) + " B"
}

// digits shows three of them.
func digits(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 99.95:
		return grouped(v)
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// grouped is a whole number with its thousands apart.
func grouped(v float64) string { return scenario.Grouped(int(math.Round(v))) }

func factor(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) + "×" }

// uses is what they are, in words.
func (f *figures) uses() string {
	text := fmt.Sprintf("%s cores, %s of memory, %s/s and %s fsyncs/s of disk", digits(f.cores), bytes(f.memory+f.later), bytes(f.written), digits(f.syncs))
	if f.in > 0 {
		text += fmt.Sprintf(", and %s/s in and %s/s out of network", bytes(f.in), bytes(f.out))
	}
	return text
}

// limited says whether an error is a limit of this machine.
func limited(err error) bool { return model.ClassOf(err) == model.Limited }
