package kind

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Handler returns the resource kind Handler, a way to notify people or programs.
func Handler() Kind {
	return Define(Definition[*model.HandlerSpec]{
		KindInfo: model.KindInfo{Name: "Handler", Plural: "handlers", Short: "ha", Namespaced: true},
		Users:    true,
		Example: `kind: Handler
metadata: {name: oncall}
spec:
  email: {server: "smtp.example.org:25", from: muster@example.org, to: [oncall@example.org]}
`,
		Validate: validateHandler,
		Redact:   redactHandler,
		Columns: []Column[*model.HandlerSpec]{
			usersColumn[*model.HandlerSpec](),
			{"NOTIFIES", 60, func(v ResourceView, s *model.HandlerSpec) string {
				if v.State.Stream != nil {
					return handlerDestinationText(s) + "; " + v.State.Stream.Lag()
				}
				return handlerDestinationText(s)
			}},
		},
		Details: func(view ResourceView, s *model.HandlerSpec) []Detail {
			list := append(assetDetails([]Detail{{"notifies", handlerDestinationText(s)}}, s.Assets), unsentDetails(view)...)
			return append(list, streamDetails(view)...)
		},
		Effect: func(_ *model.Resource, s *model.HandlerSpec, l ResourceUsage, _ bool) (note, warning string) {
			used := l.UsedBy("")
			if s.Stream == nil || s.Stream.Results != model.AllResults {
				return "used by " + cmp.Or(used, "nothing yet"), ""
			}
			return strings.TrimSuffix("receives every result; used by "+used, "; used by "), ""
		},
	})
}

// redactHandler returns a copy of a handler's spec without secret values.
func redactHandler(s *model.HandlerSpec) *model.HandlerSpec {
	out := s.MapTexts(func(t model.ServiceText) string {
		if t.Secret {
			return model.RedactURL(t.Value)
		}
		return t.Value
	})
	out.Env = redactValues(s.Env)
	if s.Webhook != nil {
		hook := *s.Webhook
		hook.URL, hook.Headers = model.RedactURL(hook.URL), redactValues(hook.Headers)
		for _, secret := range []*model.Secret{&hook.Secret, &hook.Token} {
			if secret.Text != "" {
				secret.Text = model.RedactedText
			}
		}
		out.Webhook = &hook
	}
	return out
}

// handlerDestinationText formats the service and the address of a handler.
func handlerDestinationText(s *model.HandlerSpec) string {
	switch {
	case s.Webhook != nil:
		return "POST " + s.Webhook.URL
	case s.Command != nil:
		return commandText(s.Command)
	case s.Email != nil:
		return "email " + strings.Join(append(slices.Clone(s.Email.To), s.Email.CC...), ", ")
	case s.Alertmanager != nil:
		return "alertmanager " + strings.Join(s.Alertmanager.URLs, ", ")
	case s.TCP != nil:
		return "tcp " + s.TCP.Address
	case s.UDP != nil:
		return "udp " + s.UDP.Address
	case s.Stream != nil:
		if s.Stream.Results == model.AllResults {
			return "every result to " + s.Stream.Address
		}
		return "stream " + s.Stream.Address
	}
	return strings.Join(s.Services(), ", ")
}

// unsentDetails returns the lines that `muster describe` prints about unsent messages of a handler. They say
// how many wait or were given up, the oldest, and the last error.
func unsentDetails(view ResourceView) (list []Detail) {
	u := view.State.Unsent
	if u == nil {
		return nil
	}
	if u.Waiting > 0 {
		list = append(list, Detail{"waiting", fmt.Sprintf("%s, %d of them failed and are tried again", model.CountNoun(u.Waiting, "message"), u.Failing)})
	}
	if u.Dead > 0 {
		list = append(list, Detail{"given up", fmt.Sprintf("%s in the last day: muster handler dead %s", model.CountNoun(u.Dead, "message"), u.Handler)})
	}
	list = append(list, Detail{"oldest", model.Age(view.Now, u.Since) + " ago"})
	if u.LastError != "" {
		list = append(list, Detail{"last error", u.LastError})
	}
	return list
}

// streamDetails returns the lines that `muster describe` prints about the progress of a streaming handler.
func streamDetails(view ResourceView) []Detail {
	s := view.State.Stream
	if s == nil {
		return nil
	}
	text := s.Lag()
	if s.BehindBytes > 0 {
		text += fmt.Sprintf(", %s of the journal", model.Size(s.BehindBytes).Approximate())
	}
	list := []Detail{{"stream", text}}
	if s.Trouble != "" {
		list = append(list, Detail{"error", s.Trouble})
	}
	list = append(list, Detail{"sent", fmt.Sprintf("%s over %s since the server started", model.CountNoun(s.Lines, "line"), model.CountNoun(s.Connections, "connection"))})
	if s.RewrittenLines > 0 {
		list = append(list, Detail{"repeated", fmt.Sprintf("after broken connections the server sent the latest lines again: %s", model.CountNoun(s.RewrittenLines, "time"))})
	}
	if s.Withheld > 0 {
		list = append(list, Detail{"withheld", fmt.Sprintf("%s of namespaces in shadow (notifications: shadow)", model.CountNoun(s.Withheld, "result"))})
	}
	if s.Skipped > 0 || !s.SkippedAt.IsZero() {
		list = append(list, Detail{"skipped", fmt.Sprintf("the server skipped %s, because the stream was too far behind; last %s ago", model.CountNoun(s.Skipped, "result"), model.Age(view.Now, s.SkippedAt))})
	}
	if s.News != "" {
		list = append(list, Detail{"started", s.News})
	}
	return list
}

// validateHandler validates the spec of a Handler.
func validateHandler(v *Validator, s *model.HandlerSpec) {
	switch kinds := s.Services(); len(kinds) {
	case 0:
		var names []string
		for _, k := range model.HandlerServices() {
			names = append(names, k.Name)
		}
		v.Missing("spec", "write one of "+strings.Join(names, ", "), "the notification method is missing")
	case 1:
	default:
		v.Flaw("spec."+kinds[len(kinds)-1], "keep one method; declare a handler for each", "expected one notification method, got %s", strings.Join(kinds, ", "))
	}
	v.validateCommand("spec.command", s.Command)
	validateWebhook(v, s.Webhook)
	s.MapTexts(func(t model.ServiceText) string { validateServiceText(v, t); return t.Value })
	validateService(v, s)
	v.LimitElements("spec.showLabels", len(s.ShowLabels))
	for i, name := range s.ShowLabels {
		v.validateLabelKey(fmt.Sprintf("spec.showLabels[%d]", i), name)
	}
	v.InRange("spec.timeout", s.Timeout, minHandlerTimeout, maxHandlerTimeout)
	v.validateEnv("spec.env", s.Env)
	v.validateCommandSecrets(s.Secrets, s.Command, s.Env, "write {secret: NAME} as the value of the key or the password", "only a command has an environment")
	v.refuseAssets(s.Assets, s.Command, "only a command needs assets")
	v.validateTemplates(model.TemplateTexts{Command: s.Command, Env: s.Env})
}
