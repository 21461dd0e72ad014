package model

import (
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
)

func (v *validator) handler(s *HandlerSpec) {
	switch kinds := s.Tells(); len(kinds) {
	case 0:
		var names []string
		for _, k := range HandlerKinds() {
			names = append(names, k.Name)
		}
		v.absent("spec", "write one of "+strings.Join(names, ", "), "says no way to tell")
	case 1:
	default:
		v.flaw("spec."+kinds[len(kinds)-1], "keep one of them; make a handler for each", "several ways to tell: %s", strings.Join(kinds, ", "))
	}
	v.command("spec.command", s.Command)
	if s.Webhook != nil {
		v.webhook(s.Webhook)
	}
	s.mapServices(func(t fieldText) string { v.serviceText(t); return t.value })
	v.service(s)
	v.few("spec.showLabels", len(s.ShowLabels))
	for i, name := range s.ShowLabels {
		v.labelKey(fmt.Sprintf("spec.showLabels[%d]", i), name)
	}
	v.between("spec.timeout", s.Timeout, Duration(100*time.Millisecond), Duration(10*time.Minute))
	v.env("spec.env", s.Env)
	v.handlerSecrets(s)
	v.commandsAssets(s.Assets, s.Command, "only a command needs programs")
	v.templates(Texts{Command: s.Command, Env: s.Env})
}

// serviceText is what every text of a service is held to.
func (v *validator) serviceText(t fieldText) {
	field := "spec." + t.field
	v.hidden(field, t.value)
	shown := t.value
	if t.secret {
		shown = "the text"
	}
	if len(t.value) > maxLine || hasControl(t.value) {
		v.flaw(field, "", "want one line of at most %d bytes", maxLine)
		return
	}
	if t.how == "fixed" {
		if strings.Contains(t.value, "{{") {
			v.flaw(field, "write it out; make a handler for each", "%q: no variable may stand here", shown)
		}
		return
	}
	if _, err := ParseTemplate(t.value, false); err != nil {
		v.flaw(field, "", "%v", err)
	} else if t.how == "url" {
		if _, err := (&Webhook{URL: t.value}).check(); errors.Is(err, errHostVaries) {
			v.flaw(field, "write out which server; make a handler for each", "%v", err)
		} else if err != nil {
			v.flaw(field, "write https://…", "%s is no address of a web server", shown)
		}
	}
}

// callback is a secret that a service shows; who guesses it acknowledges.
func (v *validator) callback(field string, s Secret) {
	v.secret(field, s, false)
	if s.Text != "" && len(s.Text) < 16 {
		v.flaw(field, "openssl rand -hex 32 makes one", "shorter than 16 bytes")
	}
}

// service is what each kind asks for beside that.
func (v *validator) service(s *HandlerSpec) {
	if p := s.PagerDuty; p != nil {
		v.secret("spec.pagerduty.routingKey", p.RoutingKey, true)
		v.base("spec.pagerduty.url", p.URL)
		v.callback("spec.pagerduty.callback", p.Callback)
	}
	if o := s.Opsgenie; o != nil {
		v.secret("spec.opsgenie.apiKey", o.APIKey, true)
		v.base("spec.opsgenie.url", o.URL)
		v.callback("spec.opsgenie.callback", o.Callback)
		v.oneOf("spec.opsgenie.region", o.Region, "us", "eu")
		if o.Region != "" && o.URL != "" {
			v.flaw("spec.opsgenie.region", "keep one of them", "both region and url")
		}
		for i, r := range o.Responders {
			if kind, name, _ := strings.Cut(r, ":"); name == "" || !slices.Contains([]string{"team", "user", "escalation", "schedule"}, kind) {
				v.flaw(fmt.Sprintf("spec.opsgenie.responders[%d]", i), "write team:NAME, user:NAME, escalation:NAME or schedule:NAME", "%q says not who", r)
			}
		}
		if len(o.Tags) > 20 || len(o.Responders) > 50 {
			v.flaw("spec.opsgenie", "", "at most 20 tags and 50 responders")
		}
	}
	if a := s.Alertmanager; a != nil {
		if len(a.URLs) == 0 {
			v.absent("spec.alertmanager.urls", "write urls: [\"http://alertmanager:9093\"]", "missing")
		}
		v.few("spec.alertmanager.urls", len(a.URLs))
		for i, address := range a.URLs {
			v.base(fmt.Sprintf("spec.alertmanager.urls[%d]", i), address)
		}
		v.login("spec.alertmanager", a.Username, a.Password, a.Token)
		v.few("spec.alertmanager.labels", len(a.Labels))
	}
	if c := s.Slack; c != nil {
		v.secret("spec.slack.url", c.URL, true)
	}
	if m := s.Mattermost; m != nil {
		v.secret("spec.mattermost.url", m.URL, true)
	}
	if t := s.Teams; t != nil {
		v.secret("spec.teams.url", t.URL, true)
	}
	if n := s.Ntfy; n != nil {
		v.secret("spec.ntfy.topic", n.Topic, true)
		v.base("spec.ntfy.url", n.URL)
		v.login("spec.ntfy", n.Username, n.Password, n.Token)
	}
	if e := s.Email; e != nil {
		v.email(e)
	}
	if t := s.TCP; t != nil {
		v.address("spec.tcp.address", t.Address)
	}
	if u := s.UDP; u != nil {
		v.address("spec.udp.address", u.Address)
	}
	if t := s.Stream; t != nil {
		v.address("spec.stream.address", t.Address)
		if t.Connections < 0 || t.Connections > MaxStreamConnections {
			v.flaw("spec.stream.connections", "", "want 1 to %d", MaxStreamConnections)
		}
		v.oneOf("spec.stream.results", t.Results, AllResults)
		v.oneOf("spec.stream.from", t.From, "head", "oldest")
		if t.Only != nil {
			v.selector("spec.stream.only", t.Only)
		}
		if t.Results == "" && (t.Only != nil || t.From != "") {
			v.absent("spec.stream.results", "write results: all, or leave only and from out: routes say which problems are told", "only and from choose among results, of which it is not told")
		}
	}
}

// MaxStreamConnections bounds what a handler keeps open.
const MaxStreamConnections = 256

func (v *validator) email(e *Email) {
	v.address("spec.email.server", e.Server)
	v.oneOf("spec.email.security", e.Security, "starttls", "tls", "none")
	v.login("spec.email", e.Username, e.Password, Secret{})
	if e.Username != "" && e.Security == "none" {
		v.flaw("spec.email.security", "write security: starttls, or leave username out", "a password would go over the network as it is")
	}
	v.mailbox("spec.email.from", e.From)
	if len(e.To) == 0 {
		v.absent("spec.email.to", "write to: [oncall@example.org]", "missing")
	}
	for field, list := range map[string][]string{"to": e.To, "cc": e.CC} {
		v.few("spec.email."+field, len(list))
		for i, address := range list {
			v.mailbox(fmt.Sprintf("spec.email.%s[%d]", field, i), address)
		}
	}
}

// mailbox checks an address that holds no variable.
func (v *validator) mailbox(field, address string) {
	if address == "" {
		v.absent(field, "write name@example.org", "missing")
	} else if _, err := mail.ParseAddress(address); err != nil && !strings.Contains(address, "{{") {
		v.flaw(field, "write name@example.org or Name <name@example.org>", "%q is no mail address", address)
	}
}

// address checks HOST:PORT.
func (v *validator) address(field, text string) {
	if text == "" {
		v.absent(field, "write HOST:PORT", "missing")
	} else if err := CheckHostPort(text); err != nil && !strings.Contains(text, "{{") {
		v.flaw(field, "write HOST:PORT, an IPv6 address in brackets", "%q is no address with a port", text)
	}
}

// base checks the address of a web server, if there is one.
func (v *validator) base(field, text string) {
	if u, err := url.Parse(text); text != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil) {
		v.flaw(field, "write https://HOST, without a name and password", "%q is no address of a web server", text)
	}
}

func (v *validator) oneOf(field, text string, words ...string) {
	if text != "" && !slices.Contains(words, text) {
		v.flaw(field, "write "+strings.Join(words, " or "), "%q is not known", text)
	}
}

// login checks who logs in how.
func (v *validator) login(field, username string, password, token Secret) {
	v.secret(field+".password", password, username != "")
	v.secret(field+".token", token, false)
	if username == "" && !password.IsZero() {
		v.absent(field+".username", "", "a password, and nobody whose it is")
	}
	if username != "" && !token.IsZero() {
		v.flaw(field+".token", "keep one of them", "both username and token")
	}
}
