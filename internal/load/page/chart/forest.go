package chart

import (
	"math"
	"slices"
	"unicode/utf8"
)

// Forest is how several samples lie beside one base: each a small drawing, all with the
// same axis of changes, which is fine around nought and coarse far from it.
type Forest struct {
	reach float64 // largest change shown, to both sides
}

// fine is the change from which on the axis gets coarse.
const fine = 0.02

// NewForest has room for changes as large as that: 0.5 is half as much more. What is more
// than a hundred times as much lies at the edge.
func NewForest(largest float64) Forest {
	ticks := forestTicks()
	for _, t := range ticks {
		if t.change >= largest {
			return Forest{t.change}
		}
	}
	return Forest{ticks[len(ticks)-1].change}
}

type forestTick struct {
	change float64
	text   string
}

// forestTicks are what the axis is divided at, to the right; to the left there is nothing
// beyond −100 %.
func forestTicks() []forestTick {
	return []forestTick{{fine, "2%"}, {0.1, "10%"}, {0.5, "50%"}, {4, "×5"}, {19, "×20"}, {99, "×100"}}
}

// place is where a change lies, in percent from the left.
func (f Forest) place(change float64) float64 {
	bend := func(v float64) float64 { return math.Asinh(v / fine) }
	at := bend(change) / bend(f.reach)
	return round(50 + 48*min(1, max(-1, at)))
}

// Ticks are the divisions: nought, then the coarse ones, those of the ends first. Where there is no room
// beside the words of these, a finer one has none.
func (f Forest) Ticks() []Label {
	list := []Label{{At: f.place(0), Text: "0"}}
	add := func(change float64, text string) {
		l := Label{At: f.place(change), Text: text}
		if slices.ContainsFunc(list, l.covers) {
			l.Text = ""
		}
		list = append(list, l)
	}
	for _, t := range slices.Backward(forestTicks()) {
		switch {
		case t.change > f.reach:
		case t.change > 1:
			add(t.change, t.text)
		default:
			add(t.change, "+"+t.text)
			add(-t.change, "−"+t.text)
		}
	}
	return list
}

// covers says whether the words of two divisions of a forest would touch: one is 250 pixels wide at least,
// a letter 7.
func (l Label) covers(other Label) bool {
	letters := utf8.RuneCountInString(l.Text) + utf8.RuneCountInString(other.Text)
	return l.Text != "" && other.Text != "" && math.Abs(l.At-other.At) < 100*(7*float64(letters)/2+4)/250
}

// Sample is one side: its centre, its interval (none: From and To are equal), its values.
type Sample struct {
	At, From, To float64
	Values       []float64
}

// ForestRow is one figure of a forest: changes have become places.
type ForestRow struct {
	Ticks       []Label
	Base, Other Sample
	Tone        string // of the other
	Summary     string // in words
}

// Draw places a base and what is beside it, as changes from the middle of the base.
func (f Forest) Draw(base, other Sample, tone, summary string) ForestRow {
	place := func(s Sample) Sample {
		out := Sample{At: f.place(s.At), From: f.place(s.From), To: f.place(s.To)}
		for _, v := range s.Values {
			out.Values = append(out.Values, f.place(v))
		}
		return out
	}
	return ForestRow{Ticks: f.Ticks(), Base: place(base), Other: place(other), Tone: tone, Summary: summary}
}
