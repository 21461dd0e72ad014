package handler

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
)

// Limits of Slack's blocks, in characters.
const (
	slackHeader  = 150
	slackSection = 3000
	slackText    = 4000 // recommended for the text of a message
)

type slackMessage struct {
	Text        string            `json:"text"` // of the notification on a phone
	Attachments []slackAttachment `json:"attachments"`
}

type slackAttachment struct {
	Color  string       `json:"color"`
	Blocks []slackBlock `json:"blocks"`
}

type slackBlock struct {
	Type string       `json:"type"`
	Text *slackObject `json:"text,omitempty"`
}

type slackObject struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// slack is https://api.slack.com/messaging/webhooks with blocks in a coloured attachment.
func slack(s *model.Slack, m *Message, w *words) *request {
	section := func(text string) slackBlock {
		return slackBlock{"section", &slackObject{"mrkdwn", text}}
	}
	blocks := []slackBlock{{"header", &slackObject{"plain_text", body.Cut(w.title, slackHeader)}}}
	var facts strings.Builder
	for _, f := range w.facts {
		facts.WriteString("*" + f[0] + "*  " + slackEscape(f[1]) + "\n")
	}
	blocks = append(blocks, section(body.Cut(facts.String(), slackSection)))
	if w.output != "" {
		blocks = append(blocks, section(fenced(slackEscape(w.output), slackSection)))
	}
	if len(w.commands) > 0 {
		blocks = append(blocks, section(fenced(slackEscape(strings.Join(w.commands, "\n")), slackSection)))
	}
	if w.link != "" {
		blocks = append(blocks, section("<"+slackEscape(w.link)+"|the problem in Muster>"))
	}
	message := slackMessage{body.Cut(slackEscape(w.title), slackText), []slackAttachment{{w.tone.color(), blocks}}}
	return &request{kind: "slack", hidden: true, url: s.URL.Text, key: m.Key, body: encode(message)}
}

// slackEscape keeps a text from calling everybody, or from being a link.
func slackEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// fenced is a text of fixed width in at most n bytes; it cannot end the fence.
func fenced(s string, n int) string {
	const fence = "```"
	return fence + "\n" + body.Cut(strings.ReplaceAll(s, fence, "'''"), n-2*len(fence)-2) + "\n" + fence
}

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
		return errors.New("teams answered: " + answer)
	}
	return nil
}

// mattermostText bounds an attachment's text; a post has at most 16,383 characters.
const mattermostText = 7600

type mattermostMessage struct {
	Text        string                 `json:"text,omitempty"`
	Channel     string                 `json:"channel,omitempty"`
	Username    string                 `json:"username,omitempty"`
	Attachments []mattermostAttachment `json:"attachments"`
}

type mattermostAttachment struct {
	Fallback  string            `json:"fallback"`
	Color     string            `json:"color"`
	Title     string            `json:"title"`
	TitleLink string            `json:"title_link,omitempty"`
	Text      string            `json:"text,omitempty"`
	Fields    []mattermostField `json:"fields"`
}

type mattermostField struct {
	Short bool   `json:"short"`
	Title string `json:"title"`
	Value string `json:"value"`
}

// mattermost is https://developers.mattermost.com/integrate/webhooks/incoming/ with one attachment.
func mattermost(s *model.Mattermost, m *Message, w *words) *request {
	a := mattermostAttachment{Fallback: w.title, Color: w.tone.color(), Title: w.title, TitleLink: w.link, Fields: []mattermostField{}}
	var parts []string
	for _, text := range []string{w.output, strings.Join(w.commands, "\n")} {
		if text != "" {
			parts = append(parts, fenced(text, mattermostText/2))
		}
	}
	a.Text = strings.Join(parts, "\n")
	for _, f := range w.facts {
		a.Fields = append(a.Fields, mattermostField{true, f[0], literal(f[1])})
	}
	message := mattermostMessage{Channel: s.Channel, Username: s.Username, Attachments: []mattermostAttachment{a}}
	return &request{kind: "mattermost", hidden: true, url: s.URL.Text, key: m.Key, ca: s.CA, body: encode(message)}
}

// literal keeps Markdown from reading a text, and @all from calling everybody.
func literal(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(s, "`", "'") + "`"
}

// Limits of ntfy: longer texts become an attachment, or are refused.
const (
	ntfyTitle   = 250
	ntfyMessage = 3500
	ntfyRequest = 8000 // as JSON, which takes twice the bytes of a message
)

type ntfyMsg struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Priority int      `json:"priority"`
	Tags     []string `json:"tags"`
	Click    string   `json:"click,omitempty"`
}

// ntfy is https://docs.ntfy.sh/publish/#publish-as-json.
func ntfy(t *model.Ntfy, m *Message, w *words) *request {
	address := t.URL
	if address == "" {
		address = "https://ntfy.sh"
	}
	tag := map[tone]string{good: "white_check_mark", mild: "warning", bad: "rotating_light", unclear: "question", plain: "speech_balloon"}[w.tone]
	message := ntfyMsg{
		Topic: t.Topic.Text, Title: body.Cut(w.title, ntfyTitle), Message: body.Cut(w.text(), ntfyMessage), Priority: ntfyPriority(m.Note, w),
		Tags: append([]string{tag}, t.Tags...), Click: w.link,
	}
	text := encode(message)
	for len(text) > ntfyRequest && len(message.Message) > len(body.Mark) { // quotes and ends of lines are two bytes there
		message.Message = body.Cut(message.Message, len(message.Message)*3/4)
		text = encode(message)
	}
	r := &request{kind: "ntfy", url: strings.TrimRight(address, "/") + "/", key: m.Key, ca: t.CA, body: text}
	r.header = authorization(t.Username, t.Password.Text, t.Token.Text)
	return r
}

// ntfyPriority is 1 (no sound) to 5 (rings long).
func ntfyPriority(n *Notification, w *words) int {
	if w.tone == good || w.tone == plain {
		return 3
	}
	return ranked(n, [5]int{2, 3, 3, 4, 5})
}

// authorization is the header for a bearer token, or for name and password; none for neither.
func authorization(username, password, token string) [][2]string {
	switch {
	case token != "":
		return [][2]string{{"Authorization", "Bearer " + token}}
	case username != "":
		return [][2]string{{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))}}
	}
	return nil
}
