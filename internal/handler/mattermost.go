package handler

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

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
