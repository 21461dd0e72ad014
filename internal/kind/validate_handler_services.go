package kind

import (
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
)

// validateServiceText validates one text field of a handler's service, such as its URL.
func validateServiceText(v *Validator, t model.ServiceText) {
	field := "spec." + t.Field
	v.refuseRedacted(field, t.Value)
	shown := t.Value
	if t.Secret {
		shown = "the text"
	}
	if len(t.Value) > maxLine || model.HasControl(t.Value) {
		v.Flaw(field, "", "expected one line of at most %d bytes", maxLine)
		return
	}
	if t.Form == "fixed" {
		v.FlawIf(strings.Contains(t.Value, "{{"),
			field, "write the value without a variable; declare a handler for each", "%q: variables are not allowed here", shown)
		return
	}
	if _, err := model.ParseTemplate(t.Value, false); err != nil {
		v.Flaw(field, "", "%v", err)
	} else if t.Form == "url" {
		if _, err := (&model.Webhook{URL: t.Value}).Check(); errors.Is(err, model.ErrHostVaries) {
			v.Flaw(field, "write the server without a variable; declare a handler for each", "%v", err)
		} else if err != nil {
			v.Flaw(field, "write https://…", "%s is not the address of a web server", shown)
		}
	}
}

// validateService validates the fields of a handler's service.
func validateService(v *Validator, s *model.HandlerSpec) {
	if p := s.PagerDuty; p != nil {
		validateSecretText(v, "spec.pagerduty.routingKey", p.RoutingKey, true)
		validateBaseURL(v, "spec.pagerduty.url", p.URL)
		validateCallback(v, "spec.pagerduty.callback", p.Callback)
	}
	if o := s.Opsgenie; o != nil {
		validateSecretText(v, "spec.opsgenie.apiKey", o.APIKey, true)
		validateBaseURL(v, "spec.opsgenie.url", o.URL)
		validateCallback(v, "spec.opsgenie.callback", o.Callback)
		v.requireOneOf("spec.opsgenie.region", o.Region, "us", "eu")
		v.FlawIf(o.Region != "" && o.URL != "",
			"spec.opsgenie.region", "keep one of these fields", "region and url exclude each other")
		for i, r := range o.Responders {
			if kind, name, _ := strings.Cut(r, ":"); name == "" || !slices.Contains([]string{"team", "user", "escalation", "schedule"}, kind) {
				v.Flaw(fmt.Sprintf("spec.opsgenie.responders[%d]", i), "write team:NAME, user:NAME, escalation:NAME or schedule:NAME", "invalid responder %q", r)
			}
		}
		v.FlawIf(len(o.Tags) > 20 || len(o.Responders) > 50, "spec.opsgenie", "", "at most 20 tags and 50 responders")
	}
	if a := s.Alertmanager; a != nil {
		v.MissingIf(len(a.URLs) == 0, "spec.alertmanager.urls", "write urls: [\"http://alertmanager:9093\"]", "missing")
		v.LimitElements("spec.alertmanager.urls", len(a.URLs))
		for i, address := range a.URLs {
			validateBaseURL(v, fmt.Sprintf("spec.alertmanager.urls[%d]", i), address)
		}
		validateLogin(v, "spec.alertmanager", a.Username, a.Password, a.Token)
		v.LimitElements("spec.alertmanager.labels", len(a.Labels))
	}
	if c := s.Slack; c != nil {
		validateSecretText(v, "spec.slack.url", c.URL, true)
	}
	if m := s.Mattermost; m != nil {
		validateSecretText(v, "spec.mattermost.url", m.URL, true)
	}
	if t := s.MSTeams; t != nil {
		validateSecretText(v, "spec.teams.url", t.URL, true)
	}
	if n := s.Ntfy; n != nil {
		validateSecretText(v, "spec.ntfy.topic", n.Topic, true)
		validateBaseURL(v, "spec.ntfy.url", n.URL)
		validateLogin(v, "spec.ntfy", n.Username, n.Password, n.Token)
	}
	validateEmail(v, s.Email)
	if t := s.TCP; t != nil {
		validateHostPort(v, "spec.tcp.address", t.Address)
	}
	if u := s.UDP; u != nil {
		validateHostPort(v, "spec.udp.address", u.Address)
	}
	if t := s.Stream; t != nil {
		validateHostPort(v, "spec.stream.address", t.Address)
		v.FlawIf(t.Connections < 0 || t.Connections > model.MaxStreamConnections,
			"spec.stream.connections", "", "expected 1 to %d", model.MaxStreamConnections)
		v.requireOneOf("spec.stream.results", t.Results, model.AllResults)
		v.requireOneOf("spec.stream.from", t.From, "head", "oldest")
		v.validateSelector("spec.stream.only", t.Only)
		v.MissingIf(t.Results == "" && (t.Only != nil || t.From != ""),
			"spec.stream.results", "write results: all, or leave only and from out: routes select the problems to notify", "only and from need results: all")
	}
}

// validateCallback records an error if the secret for a service's callbacks is shorter than 16 bytes.
func validateCallback(v *Validator, field string, s model.Secret) {
	validateSecretText(v, field, s, false)
	v.FlawIf(s.Text != "" && len(s.Text) < 16, field, "create one: openssl rand -hex 32", "shorter than 16 bytes")
}

// validateEmail validates the mail settings of a handler.
func validateEmail(v *Validator, e *model.Email) {
	if e == nil {
		return
	}
	validateHostPort(v, "spec.email.server", e.Server)
	v.requireOneOf("spec.email.security", e.Security, "starttls", "tls", "none")
	validateLogin(v, "spec.email", e.Username, e.Password, model.Secret{})
	v.FlawIf(e.Username != "" && e.Security == "none",
		"spec.email.security", "write security: starttls, or leave username out", "the connection would send the password unencrypted")
	validateMailbox(v, "spec.email.from", e.From)
	v.MissingIf(len(e.To) == 0, "spec.email.to", "write to: [oncall@example.org]", "missing")
	for field, list := range map[string][]string{"to": e.To, "cc": e.CC} {
		v.LimitElements("spec.email."+field, len(list))
		for i, address := range list {
			validateMailbox(v, fmt.Sprintf("spec.email.%s[%d]", field, i), address)
		}
	}
}

// validateMailbox validates a mail address without template variables.
func validateMailbox(v *Validator, field, address string) {
	if address == "" {
		v.Missing(field, "write name@example.org", "missing")
	} else if _, err := mail.ParseAddress(address); err != nil && !strings.Contains(address, "{{") {
		v.Flaw(field, "write name@example.org or Name <name@example.org>", "%q is not a mail address", address)
	}
}

// validateHostPort validates an address HOST:PORT.
func validateHostPort(v *Validator, field, text string) {
	if text == "" {
		v.Missing(field, "write HOST:PORT", "missing")
	} else if err := model.CheckHostPort(text); err != nil && !strings.Contains(text, "{{") {
		v.Flaw(field, "write HOST:PORT, an IPv6 address in brackets", "%q is not an address with a port", text)
	}
}

// validateBaseURL validates the address of a web server. An empty address is allowed.
func validateBaseURL(v *Validator, field, text string) {
	if u, err := url.Parse(text); text != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil) {
		v.Flaw(field, "write https://HOST, without a name and password", "%q is not the address of a web server", text)
	}
}

// validateLogin validates that a service has either a user with password, or a token.
func validateLogin(v *Validator, field, username string, password, token model.Secret) {
	validateSecretText(v, field+".password", password, username != "")
	validateSecretText(v, field+".token", token, false)
	v.MissingIf(username == "" && !password.IsZero(), field+".username", "", "the user name is missing: a password needs a user name")
	v.FlawIf(username != "" && !token.IsZero(), field+".token", "keep one of these fields", "username and token exclude each other")
}

// validateWebhook validates the webhook of a handler.
func validateWebhook(v *Validator, w *model.Webhook) {
	if w == nil {
		return
	}
	v.refuseRedacted("spec.webhook.url", w.URL)
	v.LimitElements("spec.webhook.headers", len(w.Headers))
	switch field, err := w.Check(); {
	case errors.Is(err, model.ErrHostVaries):
		v.Flaw("spec.webhook."+field, "write the server without a variable; declare a handler for each", "%v", err)
	case w.URL == "":
		v.Missing("spec.webhook.url", "write https://…", "missing")
	case field == "url" && !errors.As(err, new(*model.TemplateError)):
		v.Flaw("spec.webhook.url", "write https://…", "%q is not the address of a web server", w.URL)
	case err != nil:
		v.Flaw("spec.webhook."+field, "", "%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		v.refuseRedacted("spec.webhook.headers."+name, w.Headers[name])
		v.FlawIf(!isHeaderName(name) || model.HasControl(w.Headers[name]),
			"spec.webhook.headers."+name, "", "%q is not an HTTP header", name)
	}
	validateSecretText(v, "spec.webhook.secret", w.Secret, false)
	v.refuseRedacted("spec.webhook.secret", w.Secret.Text)
	validateSecretText(v, "spec.webhook.token", w.Token, false)
	v.refuseRedacted("spec.webhook.token", w.Token.Text)
	for name := range w.Headers {
		v.FlawIf(strings.EqualFold(name, "Authorization") && !w.Token.IsZero(),
			"spec.webhook.token", "keep one of these fields", "token and the header %s exclude each other", name)
	}
	if w.Template != "" {
		if err := body.CheckTemplate(w.Template); err != nil {
			v.Flaw("spec.webhook.template", "fields of a notification: docs/notifications.md", "%v", err)
		}
	}
	v.FlawIf(w.ContentType != "" && (w.Template == "" || model.HasControl(w.ContentType) || !strings.Contains(w.ContentType, "/")),
		"spec.webhook.contentType", "write a media type such as text/plain, and a template", "%q is not a media type for a template", w.ContentType)
}

// validateSecretText records an error unless a secret has one source, such as a file, or none if optional. The
// sources are text, file, variable and Secret.
func validateSecretText(v *Validator, field string, s model.Secret, needed bool) {
	places := countTrue(s.Text != "", s.FromFile != "", s.FromEnv != "", s.SecretName != "")
	switch {
	case places == 0 && needed:
		v.Missing(field, "write {secret: NAME} for a Secret; or {fromFile: /etc/muster/NAME} for a file that the server's user may read; or {fromEnv: NAME}; or the text itself", "missing")
	case places > 1:
		v.Flaw(field, "keep one of these fields", "the value has more than one source")
	case s.FromFile != "" && !strings.HasPrefix(s.FromFile, "/"):
		v.Flaw(field+".fromFile", "write the absolute path on the server, from /", "%q is not an absolute path", s.FromFile)
	case strings.HasPrefix(s.FromEnv, "MUSTER_"):
		v.Flaw(field+".fromEnv", "give the variable another name", "variables MUSTER_… are the server's own settings")
	case strings.ContainsAny(s.FromEnv, "= \t\n\x00"):
		v.Flaw(field+".fromEnv", "", "invalid variable name %q", s.FromEnv)
	}
}
