package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// whoamiCommand makes the command muster auth whoami, which shows your name and rights.
func whoamiCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "whoami", short: "Show your name and rights", args: cobra.NoArgs,
		run: fetchAndPrint(func(c *commandCall) (v1.Caller, error) { return c.api.Access.WhoAmI(c.ctx) }, func(c *commandCall, me v1.Caller) {
			c.Printf("%s (%s) at %s\n", me.User, userRightsText(me.Role, me.Bindings, me.Run), c.api.Server())
		}),
	})
}

const (
	roleHelp   = "viewer reads everything and changes nothing; operator also runs checks, acknowledges and resolves events; admin may do everything"
	mayRunHelp = "permit commands on nodes (muster run --command); no role includes this right, and only a user who has it can grant it"
	bindHelp   = "roles in single namespaces, NAMESPACE=ROLE, comma-separated: viewer, operator or admin"
)

// userRightsText formats the rights (roles and permissions) of a user or token for people. They are its role,
// its roles in single namespaces, and the right to run commands.
func userRightsText(role string, bindings map[string]string, run bool) string {
	var parts []string
	if role != "" {
		parts = append(parts, role)
	}
	for _, namespace := range slices.Sorted(maps.Keys(bindings)) {
		parts = append(parts, bindings[namespace]+" in "+namespace)
	}
	if run {
		parts = append(parts, "runs commands")
	}
	return strings.Join(parts, ", ")
}

// tokenCreateCommand makes the command muster auth token create.
func tokenCreateCommand(s *commandLine) *cobra.Command {
	var r v1.TokenRequest
	var expires, never string
	const programHelp = "alerts only sends alerts (docs/alerts.md), remote-write only writes samples of a Prometheus (docs/promql.md)"
	return s.buildCommand(command{
		use: "create", short: "Create a token and show it once", args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&r.Role, "role", "viewer", roleHelp+"; "+programHelp)
			flags.StringToStringVar(&r.Bindings, "bind", nil, bindHelp+". Without --role, the user has only these roles")
			flags.StringSliceVar(&r.Namespaces, "in", nil, "with --role alerts or remote-write: namespaces that it may send to, comma-separated. Default: all")
			flags.BoolVar(&r.Run, "may-run-commands", false, mayRunHelp)
			flags.StringVar(&r.User, "user", "", "name of the program in the audit; default: your name")
			flags.StringVar(&expires, "expires", "365d", "lifetime: 90d, 24h")
			flags.StringVar(&never, "never-expires", "", "reason why the token has no end")
			registerMessageFlag(flags, &r.Note, "purpose of the token")
		},
		check: func(c *commandCall) (err error) {
			if (r.Role != "" || len(r.Bindings) == 0) && !slices.Contains([]string{"viewer", "operator", "admin", "alerts", "remote-write"}, r.Role) {
				return model.Errorf(model.Invalid, "--role: unknown role %q", r.Role).WithHint("%s; %s", roleHelp, programHelp)
			}
			if len(r.Bindings) > 0 && !c.cmd.Flags().Changed("role") {
				r.Role = ""
			}
			if r.ExpiresIn, err = parseLifetime("--expires", expires); err != nil {
				return err
			}
			switch never = strings.TrimSpace(never); {
			case never != "" && c.cmd.Flags().Changed("expires"):
				return model.Errorf(model.Invalid, "--expires and --never-expires exclude each other").WithHint("keep one of these flags")
			case never != "":
				r.ExpiresIn, r.NeverExpires = 0, never
			case r.ExpiresIn == 0 || c.cmd.Flags().Changed("never-expires"):
				return model.Errorf(model.Invalid, "a token that never expires needs a reason").WithHint("%s --never-expires REASON", c.cmd.CommandPath())
			}
			return nil
		},
		run: fetchAndPrint(func(c *commandCall) (v1.Token, error) { return c.api.Access.CreateToken(c.ctx, r) }, func(c *commandCall, t v1.Token) {
			c.Printf("%s\n", t.Secret)
			c.Notef(2, "Token %s (%s). Copy it now: it is shown only once. Use it as MUSTER_TOKEN; revoke it: muster auth token revoke %s", t.ID, userRightsText(t.Role, t.Bindings, false), t.ID)
		}),
	})
}

// tokenListCommand makes the command muster auth token list.
func tokenListCommand(s *commandLine) *cobra.Command {
	f := listFlags{}
	return s.buildCommand(command{
		use: "list", formats: []string{"name"}, short: "List tokens and sessions", args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) {
			f.registerWhere(flags, whereRowHelp(`row.role == "admin" && !row.session`))
		},
		run: readAndPrintList(func(c *commandCall) (listOutput[v1.Token], error) {
			l, err := c.api.Access.Tokens(c.ctx, f.RowFilter)
			return listOutput[v1.Token]{value: l, items: l.Items, columns: screen.SplitColumns("ID|USER|ROLE|TYPE|EXPIRES|CREATED|BY|FOR"), row: func(t v1.Token) []any {
				kind := "token"
				if t.Session {
					kind = "session"
				}
				return []any{t.ID, t.User, userRightsText(t.Role, t.Bindings, t.Run), kind, c.TimeUntil(t.Expires), c.AgeText(t.Created), t.Maker, t.Note}
			}}, err
		}),
	})
}

// tokenRevokeCommand makes the command muster auth token revoke.
func tokenRevokeCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "revoke ID...", short: "Revoke tokens or sessions at once", args: cobra.MinimumNArgs(1), noFormat: true,
		complete: func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return s.completeFromServer(c, typed, func(ctx context.Context, api *client.Client) ([]string, error) {
				l, err := api.Access.Tokens(ctx)
				return convertEach(l.Items, func(t v1.Token) string { return t.ID + "\t" + t.User + " " + t.Note }), err
			})
		},
		run: forEachArgument(func(c *commandCall, id string) error { return c.api.Access.RevokeToken(c.ctx, id) }, "token %s revoked"),
	})
}

// registerGrantFlags adds to a command the flags for a user's or token's rights, such as --role.
func registerGrantFlags(flags *pflag.FlagSet, g *v1.UserGrants) {
	flags.StringVar(&g.Role, "role", "", "in every namespace: "+roleHelp+"; agent: for the password of Sensu agents; alerts: sends alerts only (docs/alerts.md); remote-write: writes samples of a Prometheus only; no login with these roles. Default: viewer, or none with --bind")
	flags.StringToStringVar(&g.Bindings, "bind", nil, bindHelp)
	flags.StringSliceVar(&g.Namespaces, "in", nil, "with a role of programs: namespaces of its agents, alerts or samples, comma-separated. Default: all")
	flags.BoolVar(&g.Run, "may-run-commands", false, mayRunHelp)
}

// userCreateCommand makes the command muster auth user create.
func userCreateCommand(s *commandLine) *cobra.Command {
	var r v1.UserRequest
	var file string
	return s.buildCommand(command{
		use: "create NAME", short: "Create a user", args: cobra.ExactArgs(1),
		flags: func(flags *pflag.FlagSet) {
			registerGrantFlags(flags, &r.UserGrants)
			flags.StringVar(&file, "password-file", "", "file with the password; - for standard input. Default: a prompt, or a random password without a terminal")
		},
		run: fetchAndPrint(func(c *commandCall) (u v1.User, err error) {
			r.Name = c.args[0]
			if file != "" || c.ReadPassword != nil {
				if r.Password, err = c.readNewPassword("Password of "+r.Name+" (empty: the server creates one): ", file); err != nil {
					return u, err
				}
			}
			return c.api.Access.CreateUser(c.ctx, r)
		}, func(c *commandCall, u v1.User) {
			c.Printf("user %s (%s) created", u.Name, userRightsText(u.Role, u.Bindings, u.Run))
			if u.Password != "" {
				c.Printf(", password %s (shown once; to change it: muster auth password)", u.Password)
			}
			c.Printf("\n")
		}),
	})
}

// userGrantCommand makes the command muster auth user grant.
func userGrantCommand(s *commandLine) *cobra.Command {
	var g v1.UserGrants
	return s.buildCommand(command{
		use: "grant NAME", short: "Replace the rights of a user", args: cobra.ExactArgs(1),
		flags: func(flags *pflag.FlagSet) { registerGrantFlags(flags, &g) },
		run: fetchAndPrint(func(c *commandCall) (v1.User, error) { return c.api.Access.GrantUser(c.ctx, c.args[0], g) }, func(c *commandCall, u v1.User) {
			c.Wrapf(2, "user %s: new rights: %s", u.Name, userRightsText(u.Role, u.Bindings, u.Run))
		}),
	})
}

// userListCommand makes the command muster auth user list.
func userListCommand(s *commandLine) *cobra.Command {
	f := listFlags{}
	return s.buildCommand(command{
		use: "list", formats: []string{"name"}, short: "List users", args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) { f.registerWhere(flags, whereRowHelp(`row.role == "admin"`)) },
		run: readAndPrintList(func(c *commandCall) (listOutput[v1.User], error) {
			l, err := c.api.Access.Users(c.ctx, f.RowFilter)
			return listOutput[v1.User]{value: l, items: l.Items, columns: screen.SplitColumns("NAME|ROLE|SESSIONS|TOKENS|CREATED"), row: func(u v1.User) []any {
				return []any{u.Name, userRightsText(u.Role, u.Bindings, u.Run), u.Sessions, u.Tokens, c.AgeText(u.Created)}
			}}, err
		}),
	})
}

// userDeleteCommand makes the command muster auth user delete.
func userDeleteCommand(s *commandLine) *cobra.Command {
	var yes bool
	return s.buildCommand(command{
		use: "delete NAME...", short: "Delete users, with their sessions and tokens", args: cobra.MinimumNArgs(1), noFormat: true,
		flags: func(flags *pflag.FlagSet) {
			flags.BoolVar(&yes, "yes", false, "also end tokens of other names, and join tokens, that the users made")
		},
		complete: func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return s.completeFromServer(c, typed, func(ctx context.Context, api *client.Client) ([]string, error) {
				l, err := api.Access.Users(ctx)
				return convertEach(l.Items, func(u v1.User) string { return u.Name + "\t" + u.Role }), err
			})
		},
		run: func(c *commandCall) error {
			for _, name := range c.args {
				u, err := c.api.Access.DeleteUser(c.ctx, name, yes)
				if err != nil {
					return err
				}
				c.Wrapf(2, "user %s deleted, with %s and %s", u.Name, model.CountNoun(u.Sessions, "session"), model.CountNoun(u.Tokens, "token"))
			}
			return nil
		},
	})
}
