package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) authCmd() *cobra.Command {
	c := &cobra.Command{Use: "auth", Short: "Users, tokens for programs, passwords, who am I", RunE: helpOf,
		Long:    "Makes, lists and ends users, and the tokens with which programs call the API; changes your password;\nsays who you are; sets a password anew on the server's machine.",
		Example: "  muster auth whoami\n  muster auth token create --role viewer --expires 90d -m \"dashboard\"",
	}
	token := &cobra.Command{Use: "token", Short: "Tokens with which programs call the API", RunE: helpOf,
		Example: "  muster auth token list",
	}
	token.AddCommand(a.authTokenCreate(), a.authTokenList(), a.authTokenRevoke())
	var output *format
	whoami := &cobra.Command{
		Use: "whoami", Short: "Say who the server takes you for", Args: cobra.NoArgs,
		Example: "  muster auth whoami",
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			me, err := api.Access.WhoAmI(c.Context())
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, me)
			}
			fmt.Fprintf(a.Stdout, "%s (%s) at %s\n", clean(me.User, false), clean(rights(me.Role, me.Bindings, me.Run), false), api.Server())
			return nil
		},
	}
	output = formatFlag(whoami)
	c.AddCommand(token, a.authUser(), a.authPassword(), whoami)
	return c
}

const mayRunHelp = "may run commands on nodes (muster run --command): no role has that by itself, and only who has it can give it"

const bindHelp = "roles in single namespaces, NAMESPACE=ROLE with commas between them: viewer, operator or admin"

// rights shows a role, bindings and the right to run commands: "viewer, admin in web, runs commands".
func rights(role string, bindings map[string]string, run bool) string {
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

func (a *app) authTokenCreate() *cobra.Command {
	var r v1.TokenRequest
	var expires string
	var output *format
	c := &cobra.Command{
		Use: "create", Short: "Make a token; it is shown once", Args: cobra.NoArgs,
		Example: "  muster auth token create -m \"dashboard\" --role viewer --expires 90d\n  muster auth token create -m \"alerts of prometheus\" --role alerts --in web",
		RunE: func(c *cobra.Command, _ []string) error {
			if (r.Role != "" || len(r.Bindings) == 0) && r.Role != "viewer" && r.Role != "operator" && r.Role != "admin" && r.Role != "alerts" {
				return model.Errorf(model.Invalid, "--role: there is no role %q", r.Role).WithHint("viewer reads everything and changes nothing; operator also runs checks, acknowledges and resolves events; admin may do all; alerts brings alerts in, and nothing else")
			}
			if len(r.Bindings) > 0 && !c.Flags().Changed("role") {
				r.Role = ""
			}
			seconds, err := lasting("--expires", expires)
			if err != nil {
				return err
			}
			r.ExpiresIn = seconds
			api, err := a.connect()
			if err != nil {
				return err
			}
			t, err := api.Access.CreateToken(c.Context(), r)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, t)
			}
			fmt.Fprintf(a.Stdout, "%s\n", clean(t.Secret, false))
			fmt.Fprintf(a.Stderr, "Token %s (%s). It is not shown again. Use it as MUSTER_TOKEN; end it with: muster auth token revoke %s\n",
				clean(t.ID, false), clean(rights(t.Role, t.Bindings, false), false), clean(t.ID, false))
			return nil
		},
	}
	output = formatFlag(c)
	c.Flags().StringVar(&r.Role, "role", "viewer", "viewer reads everything and changes nothing; operator also runs checks, acknowledges and resolves events; admin may do all; alerts brings alerts in (docs/alerts.md), and nothing else")
	c.Flags().StringToStringVar(&r.Bindings, "bind", nil, bindHelp+". Without --role, these alone")
	c.Flags().StringSliceVar(&r.Namespaces, "in", nil, "with --role alerts: the namespaces into which it may bring alerts, with commas between them. Default: all")
	c.Flags().BoolVar(&r.Run, "may-run-commands", false, mayRunHelp)
	c.Flags().StringVar(&r.User, "user", "", "whose name it bears in the record of changes; default: yours")
	c.Flags().StringVar(&expires, "expires", "0", "how long it is valid (0: for ever)")
	c.Flags().StringVarP(&r.Note, "message", "m", "", "what it is for")
	return c
}

func (a *app) authTokenList() *cobra.Command {
	var output *format
	var narrow v1.Narrow
	c := &cobra.Command{
		Use: "list", Short: "List tokens and sessions", Args: cobra.NoArgs,
		Example: "  muster auth token list",
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			list, err := api.Access.Tokens(c.Context(), narrow)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, list)
			}
			t := newTable("ID", "USER", "ROLE", "TYPE", "EXPIRES", "MADE", "FOR")
			for _, k := range list.Items {
				kind := "token"
				if k.Session {
					kind = "session"
				}
				t.add(k.ID, k.User, rights(k.Role, k.Bindings, k.Run), kind, a.until(k.Expires), model.Age(a.Now(), k.Created)+" ago", dash(k.Note))
			}
			return t.write(a.Env)
		},
	}
	output = formatFlag(c)
	whereFlag(c, &narrow, `row.role == "admin" && !row.session`)
	return c
}

func (a *app) authTokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID...", Short: "End tokens or sessions at once", Args: cobra.MinimumNArgs(1),
		Example: "  muster auth token revoke 549c7b29b360",
		ValidArgsFunction: func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return a.ask(c, typed, func(ctx context.Context, api *client.Client) (ids []string, err error) {
				list, err := api.Access.Tokens(ctx)
				for _, t := range list.Items {
					ids = append(ids, t.ID+"\t"+t.User+" "+t.Note)
				}
				return ids, err
			})
		},
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			for _, id := range args {
				if err := api.Access.RevokeToken(c.Context(), id); err != nil {
					return err
				}
				fmt.Fprintf(a.Stdout, "token %s revoked\n", clean(id, false))
			}
			return nil
		},
	}
}
