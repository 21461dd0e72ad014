package cli

import (
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// held says in one line what keeps back that people are told of a problem now; empty:
// nothing does.
func (a *app) held(p *v1.OpenProblem) string {
	if p == nil || !p.Closed.IsZero() {
		return ""
	}
	var parts []string
	if ack := p.Ack; ack.Active(a.Now()) {
		parts = append(parts, "acknowledged by "+strings.TrimSuffix(ack.By+": "+ack.Note, ": ")+a.upTo(ack.Until))
	}
	for _, h := range p.Holds {
		parts = append(parts, h.Text()+a.upTo(h.Until))
	}
	return strings.Join(parts, "; ")
}

func (a *app) upTo(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", for " + model.TimeSpan(t.Sub(a.Now()))
}

// anyHeld says whether a list needs a column for what is held.
func anyHeld[T any](a *app, items []T, problem func(*T) *v1.OpenProblem) bool {
	for i := range items {
		if a.held(problem(&items[i])) != "" {
			return true
		}
	}
	return false
}

// describeHeld prints what keeps a problem back, each with its end.
func (a *app) describeHeld(holds []v1.Hold) {
	name := "held"
	for i := range holds {
		text := holds[i].Text()
		if !holds[i].Until.IsZero() {
			text += ", until " + a.when(holds[i].Until)
		}
		a.field(name, "%s", text)
		name = ""
	}
}
