package handler

import (
	"encoding/json"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// Whatever an older or newer release left in the outbox, each kind makes a request of it
// that is JSON, and no line of a mail begins another header.
func FuzzDecode(f *testing.F) {
	for _, n := range notifications() {
		payload, err := n.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
	}
	f.Add([]byte(`{"kind":"closed","opened":"0001-01-01T00:00:00Z","node":"\r\nX: y","output":"\u0000\ud800"}`))
	out := New(Options{ProblemLink: "https://x/{problem}"})
	f.Fuzz(func(t *testing.T, payload []byte) {
		n, err := Decode(payload)
		if err != nil {
			return
		}
		m := &Message{Key: "k", Payload: payload, Note: n}
		w := out.words(n, []string{"env"})
		for kind, r := range map[string]*request{
			"pagerduty": pagerduty(&model.PagerDuty{}, m, w), "opsgenie": opsgenie(&model.Opsgenie{}, m, w), "slack": slack(&model.Slack{}, m, w),
			"mattermost": mattermost(&model.Mattermost{}, m, w), "teams": teams(&model.MSTeams{}, m, w), "ntfy": ntfy(&model.Ntfy{}, m, w),
			"alertmanager": {body: encode([]alert{out.alert(&model.Alertmanager{}, n, n, w)})},
		} {
			if !json.Valid(r.body) {
				t.Errorf("%s: %q", kind, r.body)
			}
			if r.then != nil && !json.Valid(r.then.body) {
				t.Errorf("%s: then %q", kind, r.then.body)
			}
		}
		if _, err := out.mail(&model.Email{From: "a@b.example", To: []string{"c@d.example"}}, m, w); err != nil {
			t.Errorf("mail: %v", err)
		}
		if text, err := datagram(m); err == nil && len(text) > maxDatagram {
			t.Errorf("a datagram of %d bytes", len(text))
		}
	})
}
