package handler

import (
	"cmp"
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

// newSlackRequest returns the HTTP request that posts a message to an incoming webhook of Slack.
func newSlackRequest(s *model.Slack, m *Message, w *messageText) *request {
	block := func(kind, format, text string) jsonObject {
		return jsonObject{{"type", kind}, {"text", jsonObject{{"type", format}, {"text", text}}}}
	}
	section := func(text string) jsonObject { return block("section", "mrkdwn", text) }
	blocks := []jsonObject{block("header", "plain_text", body.Cut(w.title, slackHeader))}
	var facts strings.Builder
	for _, f := range w.facts {
		facts.WriteString("*" + f[0] + "*  " + escapeSlack(f[1]) + "\n")
	}
	blocks = append(blocks, section(body.Cut(facts.String(), slackSection)))
	for _, text := range w.fixedWidthTexts() {
		blocks = append(blocks, section(fencedText(escapeSlack(text), slackSection)))
	}
	if w.link != "" {
		blocks = append(blocks, section("<"+escapeSlack(w.link)+"|the problem in Muster>"))
	}
	message := jsonObject{{"text", body.Cut(escapeSlack(w.title), slackText)}, // phones show this text
		{"attachments", []jsonObject{{{"color", w.color.hex()}, {"blocks", blocks}}}}}
	return &request{kind: "slack", secretURL: true, url: s.URL.Text, key: m.Key, body: encodeJSON(message)}
}

// escapeSlack escapes a text so that Slack interprets no mention and no link.
func escapeSlack(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// fencedText formats a text as a Markdown code block of at most n bytes. The text cannot end the fence.
func fencedText(s string, n int) string {
	const fence = "```"
	return fence + "\n" + body.Cut(strings.ReplaceAll(s, fence, "'''"), n-2*len(fence)-2) + "\n" + fence
}

// teamsMessage is the largest body of a request; Teams refuses more than about 28 KB.
const teamsMessage = 25_000

// newTeamsRequest returns the HTTP request that posts a message as an Adaptive Card to Microsoft Teams.
func newTeamsRequest(t *model.MSTeams, m *Message, w *messageText) *request {
	output, facts := w.output, w.facts
	card := encodeJSON(teamsCard(w, facts, output))
	for len(card) > teamsMessage && len(output) > len(body.Mark) {
		output = body.Cut(output, len(output)/2)
		card = encodeJSON(teamsCard(w, facts, output))
	}
	for n := len(w.facts) / 2; len(card) > teamsMessage && n > 0; n /= 2 { // leaves out labels, which are the last facts
		facts = append(slices.Clone(w.facts[:n]), [2]string{"and more", fmt.Sprintf("%d more labels", len(w.facts)-n)})
		card = encodeJSON(teamsCard(w, facts, output))
	}
	return &request{kind: "teams", secretURL: true, url: t.URL.Text, key: m.Key, body: card, refused: teamsRefusal}
}

// teamsCard returns a Microsoft Teams card (Adaptive Card) with the message. Teams interprets no Markdown in text
// runs.
func teamsCard(w *messageText, facts [][2]string, output string) jsonObject {
	color := map[colorClass]string{good: "good", mild: "warning", bad: "attention", unclear: "accent", plain: "default"}[w.color]
	text := func(text string, style ...jsonField) jsonObject {
		return jsonObject{{"type", "RichTextBlock"}, {"inlines", []jsonObject{append(jsonObject{{"type", "TextRun"}, {"text", text}}, style...)}}}
	}
	var shown []jsonObject
	for _, f := range facts {
		shown = append(shown, jsonObject{{"title", f[0]}, {"value", escapeMarkdown(body.Cut(f[1], 300))}})
	}
	parts := []jsonObject{text(w.title, jsonField{"size", "large"}, jsonField{"weight", "bolder"}, jsonField{"color", color}),
		{{"type", "FactSet"}, {"facts", shown}}}
	for _, block := range (&messageText{output: output, commands: w.commands}).fixedWidthTexts() {
		parts = append(parts, text(block, jsonField{"fontType", "monospace"}))
	}
	var actions []jsonObject
	if w.link != "" {
		actions = []jsonObject{{{"type", "Action.OpenUrl"}, {"title", "The problem in Muster"}, {"url", w.link}}}
	}
	card := jsonObject{{"$schema", "http://adaptivecards.io/schemas/adaptive-card.json"}, {"type", "AdaptiveCard"}, {"version", "1.4"},
		{"body", parts}, {"actions?", actions}, {"msteams", map[string]string{"width": "Full"}}}
	return jsonObject{{"type", "message"},
		{"attachments", []jsonObject{{{"contentType", "application/vnd.microsoft.card.adaptive"}, {"content", card}}}}}
}

// escapeMarkdown escapes a text for the parts of a Teams card that interpret Markdown.
func escapeMarkdown(s string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]").Replace(s)
}

// teamsRefusal returns an error if a Teams workflow refuses a message in spite of a successful HTTP status.
func teamsRefusal(answer string) error {
	if strings.Contains(answer, "HTTP error") {
		return errors.New("teams answered: " + answer)
	}
	return nil
}

// mattermostText is the longest text of an attachment; a post has at most 16,383 characters.
const mattermostText = 7600

// newMattermostRequest returns the HTTP request that posts a message to an incoming webhook of Mattermost.
func newMattermostRequest(s *model.Mattermost, m *Message, w *messageText) *request {
	var parts []string
	for _, text := range w.fixedWidthTexts() {
		parts = append(parts, fencedText(text, mattermostText/2))
	}
	fields := []jsonObject{}
	for _, f := range w.facts {
		fields = append(fields, jsonObject{{"short", true}, {"title", f[0]}, {"value", codeSpan(f[1])}})
	}
	message := jsonObject{{"channel?", s.Channel}, {"username?", s.Username}, {"attachments", []jsonObject{{
		{"fallback", w.title}, {"color", w.color.hex()}, {"title", w.title}, {"title_link?", w.link},
		{"text?", strings.Join(parts, "\n")}, {"fields", fields}}}}}
	return &request{kind: "mattermost", secretURL: true, url: s.URL.Text, key: m.Key, ca: s.CA, body: encodeJSON(message)}
}

// codeSpan formats a text as Markdown code, in which Mattermost does not interpret Markdown or @all.
func codeSpan(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(s, "`", "'") + "`"
}

// Limits of ntfy, in bytes: ntfy makes longer texts an attachment, or refuses them.
const (
	ntfyTitle   = 250
	ntfyMessage = 3500
	ntfyRequest = 8000 // largest JSON body, which may take twice the bytes of its message
)

// newNtfyRequest returns the HTTP request that publishes a message on an ntfy server.
func newNtfyRequest(t *model.Ntfy, m *Message, w *messageText) *request {
	tag := map[colorClass]string{good: "white_check_mark", mild: "warning", bad: "rotating_light", unclear: "question", plain: "speech_balloon"}[w.color]
	message := func(text string) []byte {
		return encodeJSON(jsonObject{{"topic", t.Topic.Text}, {"title", body.Cut(w.title, ntfyTitle)}, {"message", text},
			{"priority", ntfyPriority(m.Note, w)}, {"tags", append([]string{tag}, t.Tags...)}, {"click?", w.link}})
	}
	text := body.Cut(w.plainText(), ntfyMessage)
	for len(message(text)) > ntfyRequest && len(text) > len(body.Mark) { // JSON writes a quote or newline in two bytes
		text = body.Cut(text, len(text)*3/4)
	}
	address := strings.TrimRight(cmp.Or(t.URL, "https://ntfy.sh"), "/") + "/"
	return &request{kind: "ntfy", url: address, key: m.Key, ca: t.CA, body: message(text),
		header: authorization(t.Username, t.Password.Text, t.Token.Text)}
}

// ntfyPriority returns the priority of a message on ntfy, from 1 (silent) to 5 (long ring).
func ntfyPriority(n *Notification, w *messageText) int {
	if w.color == good || w.color == plain {
		return 3
	}
	return rankSeverity(n, [5]int{2, 3, 3, 4, 5})
}

// authorization returns the value of the HTTP header Authorization for a bearer token, or for user and
// password. It is nil if all are empty.
func authorization(username, password, token string) [][2]string {
	switch {
	case token != "":
		return [][2]string{{"Authorization", "Bearer " + token}}
	case username != "":
		return [][2]string{{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))}}
	}
	return nil
}
