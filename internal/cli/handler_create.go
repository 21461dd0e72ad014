package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// handlerCreateFlags holds the flags of muster handler create.
type handlerCreateFlags struct {
	command, slack, mattermost, teams, ntfy, webhook, pagerDuty, smtp, from, route, message string
	email                                                                                   []string
	onlyNew                                                                                 bool
}

// handlerCreateCommand makes the command muster handler create, which creates and tests a handler. After a successful
// test, the handler joins a route.
func handlerCreateCommand(s *commandLine) *cobra.Command {
	f := &handlerCreateFlags{}
	return s.buildCommand(command{
		use: "create NAME", short: "Create a handler, test it, and add it to a route: a first pager",
		args: cobra.ExactArgs(1), noFormat: true,
		flags: func(flags *pflag.FlagSet) {
			flags.StringSliceVar(&f.email, "email", nil, "mail to these addresses, through --smtp")
			flags.StringVar(&f.smtp, "smtp", "localhost:25", "HOST:PORT of the mail server; with encryption, unless it is this machine")
			flags.StringVar(&f.from, "from", "", "sender of mails (default muster@ and the domain of the first recipient)")
			flags.StringVar(&f.slack, "slack", "", "address of an incoming webhook of Slack")
			flags.StringVar(&f.mattermost, "mattermost", "", "address of an incoming webhook of Mattermost")
			flags.StringVar(&f.teams, "teams", "", "address of a workflow of Microsoft Teams")
			flags.StringVar(&f.ntfy, "ntfy", "", "topic of ntfy.sh: a push message to telephones")
			flags.StringVar(&f.pagerDuty, "pagerduty", "", "routing key of PagerDuty")
			flags.StringVar(&f.webhook, "webhook", "", "address that gets each notification as JSON")
			flags.StringVar(&f.command, "command", "", "shell command on the server that reads each notification as JSON")
			flags.StringVar(&f.route, "route", "default", "route whose first step gets the handler; it is created where it does not exist; empty: none")
			flags.BoolVar(&f.onlyNew, "only-new", false, "notify the handler of no problem that is open now")
			registerMessageFlag(flags, &f.message, "reason, recorded with the change")
		},
		check: func(c *commandCall) error {
			if services := f.spec().Services(); len(services) != 1 {
				return model.Errorf(model.Invalid, "expected exactly one flag with the address to notify, got %d", len(services)).
					WithHint("%s pager --email oncall@example.org --smtp smtp.example.org:587, or --slack, --mattermost, --teams, --ntfy, --pagerduty, --webhook, --command", c.cmd.CommandPath())
			}
			return nil
		},
		run: func(c *commandCall) error { return createHandler(c, c.args[0], f) },
	})
}

// spec converts the flags of muster handler create to the spec of the handler resource.
func (f *handlerCreateFlags) spec() *model.HandlerSpec {
	s := &model.HandlerSpec{}
	secret := func(text string) model.Secret { return model.Secret{Text: text} }
	if f.command != "" {
		s.Command = &model.Command{Shell: f.command}
	}
	if f.slack != "" {
		s.Slack = &model.Slack{URL: secret(f.slack)}
	}
	if f.mattermost != "" {
		s.Mattermost = &model.Mattermost{URL: secret(f.mattermost)}
	}
	if f.teams != "" {
		s.MSTeams = &model.MSTeams{URL: secret(f.teams)}
	}
	if f.ntfy != "" {
		s.Ntfy = &model.Ntfy{Topic: secret(f.ntfy)}
	}
	if f.webhook != "" {
		s.Webhook = &model.Webhook{URL: f.webhook}
	}
	if f.pagerDuty != "" {
		s.PagerDuty = &model.PagerDuty{RoutingKey: secret(f.pagerDuty)}
	}
	if len(f.email) > 0 {
		_, domain, _ := strings.Cut(f.email[0], "@")
		s.Email = &model.Email{Server: f.smtp, From: cmp.Or(f.from, "muster@"+domain), To: f.email}
		if host, _, _ := net.SplitHostPort(f.smtp); host == "localhost" || net.ParseIP(host).IsLoopback() {
			s.Email.Security = "none"
		}
	}
	return s
}

// createHandler declares the handler, sends a test notification, and after success adds the handler to its
// route. Only if the test succeeds, the handler is added to its route.
func createHandler(c *commandCall, name string, f *handlerCreateFlags) error {
	apply := func(r model.Resource) error {
		r.APIVersion = model.APIVersion
		body, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", r.Kind, r.Metadata.Name, err)
		}
		return c.printApplyResult(c.api.Resources.Apply(c.ctx, v1.ApplyRequest{
			ChangeOptions: v1.ChangeOptions{Message: f.message}, Resources: []json.RawMessage{body}, Namespace: c.namespace, OnlyNew: f.onlyNew}))
	}
	if err := apply(model.Resource{Kind: "Handler", Metadata: model.Metadata{Name: name, Namespace: c.objectNamespace()}, Spec: f.spec()}); err != nil {
		return err
	}
	tested, err := c.api.Notifications.TestHandler(c.ctx, c.objectNamespace(), name, v1.HandlerTest{})
	if err != nil {
		return err
	}
	if tested.Outcome != "taken" {
		printHandlerTest(c, name, &tested)
		return model.Errorf(model.Unavailable, "handler %s was created, but its test failed, so it was added to no route", name).WithHint("repeat the command with the right values")
	}
	c.Printf("handler %s accepted a test message after %.2f s\n", name, tested.Seconds)
	if f.route == "" {
		return nil
	}
	route := &model.Resource{Kind: "Route", Metadata: model.Metadata{Name: f.route, Namespace: c.objectNamespace()}, Spec: &model.RouteSpec{Steps: []model.RouteStep{{}}}}
	data, _, err := c.api.Resources.Get(c.ctx, kind.Route().KindInfo, c.objectNamespace(), f.route)
	if err == nil {
		route, err = c.Kinds.DecodeResource(data)
	}
	if err != nil && model.ClassOf(err) != model.NotFound {
		return err
	}
	route.Status = nil
	if step := &route.Spec.(*model.RouteSpec).Steps[0]; !slices.Contains(step.To, name) {
		step.To = append(step.To, name)
	}
	return apply(*route)
}
