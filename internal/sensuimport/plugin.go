package sensuimport

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// knownPlugin makes a handler of ours out of a well-known command, if it says all that is needed;
// false: it is kept as a command.
func knownPlugin(o *object, command string, h *model.HandlerSpec) bool {
	words := strings.Fields(command)
	if len(words) == 0 || strings.ContainsAny(command, "|;&<>`$\\") {
		return false
	}
	args := flags(words[1:])
	said := func(env string, names ...string) string {
		for _, n := range names {
			if v := args[n]; v != "" {
				return v
			}
		}
		return h.Env[env]
	}
	var missing string
	switch program := path.Base(words[0]); program {
	case "sensu-slack-handler", "slack-handler":
		if url := said("SLACK_WEBHOOK_URL", "webhook-url", "w"); url != "" {
			h.Slack = &model.Slack{URL: model.Secret{Text: url}}
		}
		missing = "the address (SLACK_WEBHOOK_URL)"
	case "sensu-mattermost-handler":
		if url := said("MATTERMOST_WEBHOOK_URL", "webhook-url", "w"); url != "" {
			h.Mattermost = &model.Mattermost{URL: model.Secret{Text: url}, Channel: said("", "channel", "c")}
		}
		missing = "the address"
	case "sensu-pagerduty-handler":
		if token := said("PAGERDUTY_TOKEN", "token", "t"); token != "" {
			h.PagerDuty = &model.PagerDuty{RoutingKey: model.Secret{Text: token}}
		}
		missing = "the token (PAGERDUTY_TOKEN)"
	case "sensu-opsgenie-handler":
		if auth := said("OPSGENIE_AUTHTOKEN", "auth", "a"); auth != "" {
			h.Opsgenie = &model.Opsgenie{APIKey: model.Secret{Text: auth}}
			if said("OPSGENIE_REGION", "region", "r") == "eu" {
				h.Opsgenie.Region = "eu"
			}
		}
		missing = "the token (OPSGENIE_AUTHTOKEN)"
	case "sensu-email-handler":
		host, from := said("", "smtpHost", "s"), said("", "fromEmail", "f")
		to := slices.DeleteFunc(strings.Split(said("", "toEmail", "t"), ","), func(s string) bool { return s == "" })
		if host != "" && from != "" && len(to) > 0 {
			h.Email = &model.Email{Server: host + ":" + cmp.Or(said("", "smtpPort", "P"), "587"), From: from, To: to,
				Username: said("SMTP_USERNAME", "smtpUsername", "u"), Password: model.Secret{Text: said("SMTP_PASSWORD", "smtpPassword", "p")}}
			if args["enableLoginAuth"] == "" && args["insecure"] != "" {
				h.Email.Security = "none"
			}
		}
		missing = "host, from and to"
	default:
		return false
	}
	if readsEvents(h) || h.Slack == nil && h.Mattermost == nil && h.PagerDuty == nil && h.Opsgenie == nil && h.Email == nil {
		o.noteChange("Muster has a handler of its own for this, but the command does not say %s: it is kept as a command", missing)
		return false
	}
	o.noteChange("%s has become Muster's own handler: it is told of problems, under their ids; templates and other flags of the command are gone", path.Base(words[0]))
	return true
}

// flags returns the flags of a command line by name: -w X, --webhook-url X, --webhook-url=X, quoted or
// not.
func flags(words []string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(words); i++ {
		name, ok := strings.CutPrefix(words[i], "-")
		if !ok {
			continue
		}
		name = strings.TrimPrefix(name, "-")
		value, has := "", false
		if name, value, has = strings.Cut(name, "="); !has && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			value, has = words[i], true
		}
		if !has {
			value = "true"
		}
		out[name] = strings.Trim(value, `"'`)
	}
	return out
}
