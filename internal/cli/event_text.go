package cli

import (
	"fmt"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// statusCell returns a status in its colour.
func statusCell(s model.Status) screen.Cell {
	switch s {
	case model.OK:
		return screen.Cell{Text: "OK", Colour: screen.Green}
	case model.Warning:
		return screen.Cell{Text: "WARNING", Colour: screen.Yellow}
	case model.Critical:
		return screen.Cell{Text: "CRITICAL", Colour: screen.Red}
	}
	return screen.Cell{Text: s.String(), Colour: screen.Purple}
}

// summary returns the first line of an output without performance data.
func summary(output string) string {
	text, _, _ := strings.Cut(screen.FirstLine(output), "|")
	return strings.TrimSpace(text)
}

// outputText returns the summary of an output, or with -o wide its whole first line.
func outputText(c *call, output string) string {
	if c.Format == screen.Wide {
		return screen.FirstLine(output)
	}
	return summary(output)
}

// historyLetters returns one letter per status, oldest first: ooowwc.
func historyLetters(statuses []int) string {
	var b strings.Builder
	for _, s := range statuses {
		if 0 <= s && s < 4 {
			b.WriteByte("owcu"[s])
		}
	}
	return screen.Dash(b.String())
}

// holdText returns the reasons why an open problem notifies nobody now; empty: none.
func holdText(c *call, p *v1.OpenProblem) string {
	if p == nil || !p.Closed.IsZero() {
		return ""
	}
	until := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return ", for " + model.TimeSpan(t.Sub(c.Now()))
	}
	var parts []string
	if ack := p.Ack; ack.Active(c.Now()) {
		parts = append(parts, "acknowledged by "+strings.TrimSuffix(ack.By+": "+ack.Note, ": ")+until(ack.Until))
	}
	for _, h := range p.Holds {
		parts = append(parts, h.Text()+until(h.Until))
	}
	return strings.Join(parts, "; ")
}

// entryText returns one entry of history as a sentence.
func entryText(e v1.Entry) string {
	output := screen.FirstLine(e.Output)
	switch e.Kind {
	case "lost":
		if e.Count == 0 {
			return "the agent reports: " + output
		}
		return fmt.Sprintf("the agent lost %s: %s", model.CountNoun(e.Count, "result"), output)
	case "late":
		return fmt.Sprintf("late result of %s: %s %s", e.Executed.UTC().Format(time.RFC3339), e.Status, output)
	}
	if words := entryWords[e.Kind]; words != "" {
		return words + ": " + output
	}
	if e.Previous == nil {
		return fmt.Sprintf("%s, the first result: %s", e.Status, output)
	}
	return fmt.Sprintf("%s, was %s: %s", e.Status, *e.Previous, output)
}

// entryWords are the words of entries by their kind.
var entryWords = map[string]string{
	"acknowledged": "acknowledged by", "unacknowledged": "acknowledgement removed by", "flapping": "flapping",
	"steady": "not flapping any more", "text": "new output", "forgotten": "the node was removed",
}
