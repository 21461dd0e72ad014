package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) authUser() *cobra.Command {
	c := &cobra.Command{Use: "user", Short: "Users, who log in with a password", RunE: helpOf,
		Example: "  muster auth user list",
	}
	c.AddCommand(a.authUserCreate(), a.authUserGrant(), a.authUserList(), a.authUserDelete())
	return c
}

func (a *app) authUserCreate() *cobra.Command {
	var r v1.UserRequest
	var file string
	var output *format
	c := &cobra.Command{
		Use: "create NAME", Short: "Make a user", Args: cobra.ExactArgs(1),
		Long:    "Makes a user who logs in with: muster login -u NAME. On a terminal it asks for a password; where\nnone is given, the server makes one, which is shown once.",
		Example: "  muster auth user create ada --role admin\n  muster auth user create bob --role operator --may-run-commands\n  muster auth user create eve --bind web=operator,db=viewer\n  muster auth user create kiosk --password-file secret\n  muster auth user create sensu --role agent --in web,db",
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			r.Name = args[0]
			if file != "" || a.ReadPassword != nil {
				if r.Password, err = a.newPassword("Password of "+r.Name+" (empty: one is made): ", file); err != nil {
					return err
				}
			}
			u, err := api.Access.CreateUser(c.Context(), r)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, u)
			}
			fmt.Fprintf(a.Stdout, "user %s (%s) created", clean(u.Name, false), clean(rights(u.Role, u.Bindings, u.Run), false))
			if u.Password != "" {
				fmt.Fprintf(a.Stdout, ", password %s (shown once; to change it: muster auth password)", clean(u.Password, false))
			}
			fmt.Fprintln(a.Stdout)
			return nil
		},
	}
	output = formatFlag(c)
	grantFlags(c, &r.UserGrants)
	c.Flags().StringVar(&file, "password-file", "", "file with the password; - for standard input. Default: ask, or without a terminal make one")
	return c
}

// grantFlags are those of the rights of a user.
func grantFlags(c *cobra.Command, g *v1.UserGrants) {
	c.Flags().StringVar(&g.Role, "role", "", "in every namespace: viewer reads everything and changes nothing; operator also runs checks, acknowledges and resolves events; admin may do all; agent lets Sensu's agents in, alerts what brings alerts (docs/alerts.md), and nobody logs in with either. Default: viewer, or none with --bind")
	c.Flags().StringToStringVar(&g.Bindings, "bind", nil, bindHelp)
	c.Flags().StringSliceVar(&g.Namespaces, "in", nil, "with --role agent or alerts: the namespaces in which its agents may be or its alerts go, with commas between them. Default: all")
	c.Flags().BoolVar(&g.Run, "may-run-commands", false, mayRunHelp)
}

func (a *app) authUserGrant() *cobra.Command {
	var g v1.UserGrants
	var output *format
	c := &cobra.Command{
		Use: "grant NAME", Short: "Replace the role and the bindings of a user", Args: cobra.ExactArgs(1),
		Long:    "Replaces all rights of a user: the role that holds everywhere, and the roles in single namespaces.\nSessions have the new rights at once; tokens of that name that permit more end.",
		Example: "  muster auth user grant eve --bind web=operator,db=viewer\n  muster auth user grant eve --role viewer --bind web=admin",
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			u, err := api.Access.GrantUser(c.Context(), args[0], g)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, u)
			}
			fmt.Fprintf(a.Stdout, "user %s is now: %s\n", clean(u.Name, false), clean(rights(u.Role, u.Bindings, u.Run), false))
			return nil
		},
	}
	output = formatFlag(c)
	grantFlags(c, &g)
	return c
}

func (a *app) authUserList() *cobra.Command {
	var output *format
	var narrow v1.Narrow
	c := &cobra.Command{
		Use: "list", Short: "List users", Args: cobra.NoArgs,
		Example: "  muster auth user list",
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			list, err := api.Access.Users(c.Context(), narrow)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, list)
			}
			t := newTable("NAME", "ROLE", "SESSIONS", "TOKENS", "MADE")
			for _, u := range list.Items {
				t.add(u.Name, rights(u.Role, u.Bindings, u.Run), fmt.Sprint(u.Sessions), fmt.Sprint(u.Tokens), model.Age(a.Now(), u.Created)+" ago")
			}
			return t.write(a.Env)
		},
	}
	output = formatFlag(c)
	whereFlag(c, &narrow, `row.role == "admin"`)
	return c
}

func (a *app) authUserDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: "End users, with their sessions and tokens", Args: cobra.MinimumNArgs(1),
		Long:    "Ends users, and at once all their sessions and all tokens that bear their names. The last\nadministrator stays.",
		Example: "  muster auth user delete ada",
		ValidArgsFunction: func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return a.ask(c, typed, func(ctx context.Context, api *client.Client) (names []string, err error) {
				list, err := api.Access.Users(ctx)
				for _, u := range list.Items {
					names = append(names, u.Name+"\t"+u.Role)
				}
				return names, err
			})
		},
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			for _, name := range args {
				u, err := api.Access.DeleteUser(c.Context(), name)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Stdout, "user %s deleted; ended: %s, %s\n", clean(u.Name, false), model.CountNoun(u.Sessions, "session"), model.CountNoun(u.Tokens, "token"))
			}
			return nil
		},
	}
}
