package handler

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
)

// Callback is a service's report about a person's action, such as an acknowledgement in PagerDuty. The service reports
// it to the server.
type Callback struct {
	Verb     string // acknowledge, unacknowledge or resolve; empty: Muster does nothing
	Problem  string // id of the problem
	By       string
	Note     string
	Incident string // id of the problem in the service: its id, and a suffix after ended acknowledgements
}

// maxPersonName is the longest name of a person, in bytes.
const maxPersonName = 200

// CallbackSecret returns the secret to verify callbacks (requests from a handler's external service to Muster).
// It is zero if the service sends no callbacks.
func CallbackSecret(spec *model.HandlerSpec) model.Secret {
	switch {
	case spec.PagerDuty != nil:
		return spec.PagerDuty.Callback
	case spec.Opsgenie != nil:
		return spec.Opsgenie.Callback
	}
	return model.Secret{}
}

// Secret returns the value of a secret from a Secret resource, an environment variable or a file.
func (o *Sender) Secret(ctx context.Context, s model.Secret) (string, error) {
	if s.Text != "" {
		return s.Text, nil
	}
	return o.secret(ctx, s)
}

// ReadCallback verifies and decodes a callback, the report of a handler's external service about a person's
// action. It first checks the proof that the service knows the secret, and refuses a callback without it.
func ReadCallback(spec *model.HandlerSpec, secret string, header http.Header, text []byte) (c Callback, err error) {
	switch {
	case secret == "":
		err = model.Errorf(model.Unauthenticated, "the handler has no callback secret, so callbacks are refused")
	case spec.PagerDuty != nil:
		if !isSignedBy(secret, header.Values("X-Pagerduty-Signature"), text) {
			return c, model.Errorf(model.Unauthenticated, "the callback has an invalid signature").
				WithHint("set pagerduty.callback of the handler to the secret that PagerDuty showed for the webhook: docs/pagers.md")
		}
		c, err = parsePagerduty(text)
	case spec.Opsgenie != nil:
		if subtle.ConstantTimeCompare([]byte(header.Get("Authorization")), []byte("Bearer "+secret)) != 1 {
			return c, model.Errorf(model.Unauthenticated, "the callback's header Authorization has a wrong secret").
				WithHint("set the header Authorization of the webhook integration to Bearer and the secret in opsgenie.callback of the handler: docs/pagers.md")
		}
		c, err = parseOpsgenie(text)
	}
	if err != nil || c.Verb == "" {
		return Callback{}, err
	}
	if c.By = strings.Join(strings.Fields(body.Cut(c.By, maxPersonName)), " "); c.By == "" {
		c.By = "somebody"
	}
	c.By += " (" + CallbackService(spec) + ")"
	c.Incident = c.Problem
	c.Problem, _, _ = strings.Cut(c.Incident, ".")
	return c, nil
}

// CallbackService returns the name of the external service, such as PagerDuty, that calls Muster back for a handler. It is ""
// if no service sends callbacks.
func CallbackService(spec *model.HandlerSpec) string {
	switch {
	case spec == nil:
	case spec.PagerDuty != nil:
		return "PagerDuty"
	case spec.Opsgenie != nil:
		return "Opsgenie"
	}
	return ""
}

// isSignedBy reports whether a callback's signature is valid, an HMAC-SHA256 of the callback's body. PagerDuty sends
// two signatures while its secret changes.
func isSignedBy(secret string, values []string, text []byte) bool {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write(text)
	want := h.Sum(nil)
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			sum, ok := strings.CutPrefix(strings.TrimSpace(one), "v1=")
			if got, err := hex.DecodeString(sum); ok && err == nil && hmac.Equal(got, want) {
				return true
			}
		}
	}
	return false
}

// parsePagerduty decodes a callback of PagerDuty (webhook v3). See
// https://developer.pagerduty.com/docs/webhooks-overview.
func parsePagerduty(text []byte) (c Callback, err error) {
	var said struct {
		Event struct {
			Type  string `json:"event_type"`
			Agent struct {
				Summary string `json:"summary"`
			} `json:"agent"`
			Data struct {
				Key string `json:"incident_key"`
				URL string `json:"html_url"`
			} `json:"data"`
		} `json:"event"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return c, unreadableCallback(err)
	}
	verb := map[string]string{"incident.acknowledged": "acknowledge", "incident.unacknowledged": "unacknowledge", "incident.resolved": "resolve"}[said.Event.Type]
	return Callback{Verb: verb, Problem: said.Event.Data.Key, By: said.Event.Agent.Summary, Note: cutNote(said.Event.Data.URL)}, nil
}

// parseOpsgenie decodes a callback of Opsgenie or Jira Service Management.
func parseOpsgenie(text []byte) (c Callback, err error) {
	var said struct {
		Action string `json:"action"`
		Alert  struct {
			Alias string `json:"alias"`
			User  string `json:"username"`
			Note  string `json:"note"`
		} `json:"alert"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return c, unreadableCallback(err)
	}
	verb := map[string]string{"Acknowledge": "acknowledge", "UnAcknowledge": "unacknowledge", "Close": "resolve"}[said.Action]
	return Callback{Verb: verb, Problem: said.Alert.Alias, By: said.Alert.User, Note: cutNote(said.Alert.Note)}, nil
}

// cutNote cuts a person's note in a callback to at most 1,000 bytes of valid UTF-8.
func cutNote(text string) string { return body.Cut(strings.ToValidUTF8(text, ""), 1000) }

// unreadableCallback returns the error for a callback whose request body cannot be read.
func unreadableCallback(err error) error {
	return model.Errorf(model.Invalid, "read the body of the callback: %w", err)
}
