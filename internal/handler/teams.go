package handler

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
)

// teamsMessage bounds the request: Teams takes about 28 KB.
const teamsMessage = 25_000

type teamsEnvelope struct {
	Type        string            `json:"type"`
	Attachments []teamsAttachment `json:"attachments"`
}

type teamsAttachment struct {
	ContentType string    `json:"contentType"`
	Content     teamsCard `json:"content"`
}

type teamsCard struct {
	Schema  string            `json:"$schema"`
	Type    string            `json:"type"`
	Version string            `json:"version"`
	Body    []any             `json:"body"`
	Actions []teamsAction     `json:"actions,omitempty"`
	MSTeams map[string]string `json:"msteams"`
}

// teamsText shows its runs as they are: Markdown is not read in it.
type teamsText struct {
	Type    string     `json:"type"` // RichTextBlock
	Inlines []teamsRun `json:"inlines"`
}

type teamsRun struct {
	Type     string `json:"type"` // TextRun
	Text     string `json:"text"`
	Size     string `json:"size,omitempty"`
	Weight   string `json:"weight,omitempty"`
	Color    string `json:"color,omitempty"`
	FontType string `json:"fontType,omitempty"`
}

type teamsFacts struct {
	Type  string      `json:"type"` // FactSet
	Facts []teamsFact `json:"facts"`
}

type teamsFact struct {
	Title string `json:"title"`
	Value string `json:"value"`
}

type teamsAction struct {
	Type  string `json:"type"` // Action.OpenUrl
	Title string `json:"title"`
	URL   string `json:"url"`
}

// teams is an Adaptive Card for a workflow that begins with "When a Teams webhook request is
// received".
func teams(t *model.MSTeams, m *Message, w *words) *request {
	output, facts := w.output, w.facts
	card := encode(teamsCardOf(w, facts, output))
	for len(card) > teamsMessage && len(output) > len(body.Mark) {
		output = body.Cut(output, len(output)/2)
		card = encode(teamsCardOf(w, facts, output))
	}
	for n := len(w.facts) / 2; len(card) > teamsMessage && n > 0; n /= 2 { // labels, which come last
		facts = append(slices.Clone(w.facts[:n]), [2]string{"and more", fmt.Sprintf("%d labels that do not fit", len(w.facts)-n)})
		card = encode(teamsCardOf(w, facts, output))
	}
	return &request{kind: "teams", hidden: true, url: t.URL.Text, key: m.Key, body: card, refused: teamsRefused}
}

func teamsCardOf(w *words, told [][2]string, output string) teamsEnvelope {
	color := map[tone]string{good: "good", mild: "warning", bad: "attention", unclear: "accent", plain: "default"}[w.tone]
	run := func(r teamsRun) teamsText {
		r.Type = "TextRun"
		return teamsText{"RichTextBlock", []teamsRun{r}}
	}
	facts := teamsFacts{Type: "FactSet"}
	for _, f := range told {
		facts.Facts = append(facts.Facts, teamsFact{f[0], unmarked(body.Cut(f[1], 300))})
	}
	card := teamsCard{
		Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4",
		MSTeams: map[string]string{"width": "Full"},
		Body:    []any{run(teamsRun{Text: w.title, Size: "large", Weight: "bolder", Color: color}), facts},
	}
	for _, text := range []string{output, strings.Join(w.commands, "\n")} {
		if text != "" {
			card.Body = append(card.Body, run(teamsRun{Text: text, FontType: "monospace"}))
		}
	}
	if w.link != "" {
		card.Actions = []teamsAction{{"Action.OpenUrl", "The problem in Muster", w.link}}
	}
	return teamsEnvelope{"message", []teamsAttachment{{"application/vnd.microsoft.card.adaptive", card}}}
}

// unmarked keeps the Markdown of a card from reading a value.
func unmarked(s string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]").Replace(s)
}

// teamsRefused finds a refusal of Teams in the body of a successful answer of the workflow.
func teamsRefused(answer string) error {
	if strings.Contains(answer, "HTTP error") {
		return &BusyError{Err: errors.New("teams answered: " + answer)}
	}
	return nil
}
