package handler

import (
	"encoding/base64"
	"strings"

	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
)

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
	switch s := n.severity(); {
	case w.tone == good || w.tone == plain:
		return 3
	case s >= model.Disaster:
		return 5
	case s == model.High:
		return 4
	case s >= model.SeverityWarning:
		return 3
	}
	return 2
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
