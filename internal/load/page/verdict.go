package page

import (
	"fmt"
	"math"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
)

// verdict is what the run comes to.
type verdict struct {
	State   string // passed, failed, invalid: a class of the style sheet
	Sign    string
	Word    string
	Because string
	Remarks []string // what the run itself found wrong
}

func newVerdict(rep *report.Report) verdict {
	var v verdict
	missed, shown := 0, map[string]bool{}
	for _, g := range rep.Goals {
		if !g.Met {
			missed++
		}
		shown["short: "+g.String()] = true // among the objectives
	}
	for _, remark := range rep.Verdict {
		if !shown[remark] {
			v.Remarks = append(v.Remarks, remark)
		}
	}
	var wrong []string
	for _, h := range heard(rep) {
		if !h.well {
			wrong = append(wrong, fmt.Sprintf("%s: %s", h.what, h.got))
		}
	}
	switch {
	case !rep.Valid && !rep.Lost(): // what was lost is lost, however late the generator was
		v.State, v.Sign, v.Word = "invalid", "?", "Invalid"
		v.Because = "The generator fell behind its timetable: what was measured is not what was meant to be measured. No figure below counts."
	case rep.OnlyStopped():
		v.State, v.Sign, v.Word = "invalid", "■", "Stopped"
		v.Because = "Somebody ended it before its time. As far as it was played nothing was lost, nothing came twice, and the generator kept up."
	case !rep.OK():
		v.State, v.Sign, v.Word = "failed", "✕", "Failed"
		switch {
		case rep.Wrong().Of(report.WrongResults) > 0:
			v.Because = "What was sent and what the server holds differ."
		case len(wrong) > 0 && missed == 0:
			v.Because = upper(strings.Join(wrong, "; ")) + "."
		case missed > 0:
			v.Because = fmt.Sprintf("%s missed.", ofAll(missed, len(rep.Goals)))
		default:
			v.Because = "It did not go as it had to."
		}
		if !rep.Valid {
			v.Because += " The generator fell behind as well: no figure of time or rate counts."
		}
	default:
		v.State, v.Sign, v.Word = "passed", "✓", "Passed"
		well := "nothing lost, nothing twice, the generator kept up."
		if !rep.Balance.WasCompared() {
			well = "every result was answered, the generator kept up."
		}
		switch n := len(rep.Goals); n {
		case 0:
			v.Because = strings.ToUpper(well[:1]) + well[1:] + " No objective was set."
		case 1:
			v.Because = "The objective was reached; " + well
		case 2:
			v.Because = "Both objectives reached; " + well
		default:
			v.Because = fmt.Sprintf("All %d objectives reached; %s", n, well)
		}
	}
	if !rep.Balance.WasCompared() {
		v.Remarks = append(v.Remarks, report.NotCompared)
	}
	return v
}

func ofAll(n, of int) string {
	switch {
	case of == 1:
		return "The objective was"
	case n == 2 && of == 2:
		return "Both objectives were"
	case n == of:
		return fmt.Sprintf("All %d objectives were", of)
	case n == 1:
		return fmt.Sprintf("One of %d objectives was", of)
	}
	return fmt.Sprintf("%d of %d objectives were", n, of)
}

// objective is one line of the verdict.
type objective struct {
	State, Sign, Word string // reached, missed
	What, Asked, Got  string
	Gauge             *gauge
}

// gauge shows how far a figure is from its limit; percentages of its length.
type gauge struct{ Got, Limit float64 }

func newGauge(got, want float64) *gauge {
	if want <= 0 || got < 0 || math.IsNaN(got) || math.IsInf(got, 0) {
		return nil
	}
	full := 1.15 * max(want, min(got, 4*want))
	return &gauge{math.Round(1000*min(1, got/full)) / 10, math.Round(1000*want/full) / 10}
}

// objectives begin with what every run must reach.
func objectives(rep *report.Report) []objective {
	one := func(met bool, what, asked, got string) objective {
		o := objective{"reached", "✓", "reached", what, asked, got, nil}
		if !met {
			o.State, o.Sign, o.Word = "missed", "✕", "missed"
		}
		return o
	}
	var list []objective
	for _, g := range rep.Goals {
		what, asked, got := g.Words()
		o := one(g.Met, what, asked, got)
		if g.Why == "" {
			o.Gauge = newGauge(g.Got, g.Want)
		} else {
			o.Word = "not measured"
		}
		list = append(list, o)
	}
	b := rep.Balance
	list = append(list, one(b.Missing == 0, "results lost", "none", fmt.Sprintf("%s of %s sent", none(b.Missing), count(float64(b.Sent)))))
	if b.Compared > 0 || b.Imbalances > 0 {
		got := fmt.Sprintf("%s of %s differ", none(differing(b)), count(float64(b.Compared)))
		if b.Imbalances != differing(b) {
			got += fmt.Sprintf(", %s in all", plural(int(b.Imbalances), "imbalance"))
		}
		list = append(list, one(b.Imbalances == 0, "what the server holds and says", "equal to the ledger", got))
	}
	for _, h := range heard(rep) {
		list = append(list, one(h.well, h.what, h.asked, h.got))
	}
	return append(list, one(rep.Valid, "the generator", "keeps up with its timetable", fmt.Sprintf("p99 %s late", millis(rep.Lag.P99))))
}

// hearing is one kind of what had to come from the server, beside acknowledgements.
type hearing struct {
	what, asked, got string
	well             bool
}

// heard is what had to come, and whether it came.
func heard(rep *report.Report) (list []hearing) {
	all := rep.Wrong()
	add := func(kind, what, asked string, due uint64, wrong string) {
		well := all.Of(kind) == 0
		h := hearing{what, asked, wrong, well}
		switch {
		case well && due == 0:
			h.got = "none was due"
		case well:
			h.got = "all of " + count(float64(due))
		}
		list = append(list, h)
	}
	wrong := func(missing, due, extra uint64, as string) string {
		return fmt.Sprintf("%s of %s missing, %s %s", none(missing), count(float64(due)), none(extra), as)
	}
	if n := rep.WrongSent; n > 0 || rep.WrongTaken > 0 {
		add(report.WrongTaken, "results that had to be refused", "each was", n, fmt.Sprintf("%s of %s taken", count(float64(rep.WrongTaken)), count(float64(n))))
	}
	var due, missing, extra uint64
	for _, f := range rep.Faults {
		due, missing, extra = due+uint64(f.Alerts), missing+uint64(f.Missing), extra+uint64(f.Extra)
	}
	if due+missing+extra > 0 {
		add(report.WrongAlerts, "alerts of what went wrong", "each once, and no other", due, wrong(missing, due, extra, "too many"))
	}
	if s := rep.Silent; s != nil && s.Unjudged == "" {
		list = append(list, hearing{"machines called silent", "none that had a session", fmt.Sprintf("%s of %s", none(uint64(s.Extra)), count(float64(s.Machines))), all.Of(report.WrongSilence) == 0})
	}
	if t := rep.Notifications; t != nil {
		add(report.WrongMessages, "messages about problems", "each, and no other", t.Due, wrong(t.Missing, t.Due, t.Extra, "too many"))
	}
	if s := rep.Streamed; s != nil {
		add(report.WrongLines, "lines of the stream", "each, in its order", s.Lines+s.Missing, wrong(s.Missing, s.Lines+s.Missing, s.Disorder+s.Extra+s.Other+s.Unread, "out of order, of no result, of another state or not to be read"))
	}
	if x := rep.Turns; x != nil {
		got := fmt.Sprintf("%s of %s run", count(float64(x.Ran)), count(float64(x.Due)))
		if x.Missed > 0 {
			got = fmt.Sprintf("%s of %s missed", count(float64(x.Missed)), count(float64(x.Due)))
		}
		if x.Twice > 0 {
			got += fmt.Sprintf(", %s given twice", count(float64(x.Twice)))
		}
		list = append(list, hearing{"turns", "none missed, none given twice", got, all.Of(report.WrongTurns) == 0})
	}
	return list
}

func none(n uint64) string {
	if n == 0 {
		return "none"
	}
	return count(float64(n))
}
