package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/page/chart"
	"github.com/muster-fleet/muster/internal/load/report"
)

// mostMarks is how many signs a chart bears before they cover it.
const mostMarks = 20

// moments are the phases, faults and changes of the run as bands and signs of its charts,
// and what the signs mean.
func moments(rep *report.Report) (bands []chart.Band, marks []chart.Mark, legend []note) {
	if len(rep.Phases) == 0 && len(rep.Samples) > 0 && rep.Samples[0].Second < 0 {
		bands = append(bands, chart.Band{Name: "warm-up", Tone: "outside", From: float64(rep.Samples[0].Second), To: 0})
	}
	for i, p := range rep.Phases {
		if i > 0 && p.From > rep.Phases[i-1].To {
			bands = append(bands, chart.Band{Name: "warm-up", Tone: "outside", From: rep.Phases[i-1].To, To: p.From})
		}
		tone := "even"
		switch {
		case p.Kind == "ramp" || p.Kind == "drain":
			tone = "outside"
		case i%2 == 1:
			tone = "odd"
		}
		name := strings.TrimPrefix(p.Name, "step ") // which are short, and many
		bands = append(bands, chart.Band{Name: name, Tone: tone, From: p.From, To: p.To})
	}
	mark := func(tone, sign, name string, at float64) {
		if len(marks) < mostMarks {
			marks = append(marks, chart.Mark{Sign: sign, Name: name, Tone: tone, At: at})
			legend = append(legend, note{sign, fmt.Sprintf("%s, at %s", name, clock(at))})
		}
	}
	for i, f := range rep.Faults {
		if f.Until > f.At {
			bands = append(bands, chart.Band{Tone: "fault", From: f.At, To: f.Until})
		}
		mark("struck", letter(i), f.What, f.At)
	}
	name := "outage"
	if len(rep.Phases) > 0 {
		name = "" // the phases' names stand there
	}
	for i, o := range rep.Outages {
		until := o.Second + o.Seconds
		if o.Seconds < 0 && len(rep.Samples) > 0 {
			until = float64(rep.Samples[len(rep.Samples)-1].Second)
		}
		bands = append(bands, chart.Band{Name: name, Tone: "fault", From: o.Second, To: until})
		if len(rep.Faults) == 0 {
			mark("struck", letter(i), outageWords(o), o.Second)
			legend[len(legend)-1].Text = outageWords(o)
		}
	}
	for i, h := range rep.Changes {
		mark("changed", strconv.Itoa(i+1), h.What, h.At)
		if n := len(legend); every(rep, i) != "" && len(marks) < mostMarks {
			legend[n-1].Text += every(rep, i)
		}
	}
	return bands, marks, legend
}

// letter is A, B, C … for faults.
func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return "F" + strconv.Itoa(i+1)
}

// every says how often a change of intent was made again; empty: it was not.
func every(rep *report.Report, i int) string {
	if s := rep.Scenario; s != nil && i < len(s.Intent) && s.Intent[i].Every > 0 {
		return fmt.Sprintf(", then every %s", bare(seconds)(time.Duration(s.Intent[i].Every).Seconds()))
	}
	return ""
}
