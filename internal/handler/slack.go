package handler

import (
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
