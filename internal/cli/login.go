package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) loginCmd() *cobra.Command {
	var user, passwordFile string
	c := &cobra.Command{
		Use:     "login [URL]",
		Short:   "Open a session and remember it in the context file",
		Long:    "Asks for a password, opens a session of 30 days and remembers server, CA and session in the\ncontext file, so that the other commands find them. On the server, muster up has done it.",
		Example: "  muster login https://muster.example.org:8443 --ca ca.crt\n  muster login --password-file - < secret",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.server = args[0]
			}
			where, err := a.context()
			if err != nil {
				return err
			}
			where.Token = ""
			if where.CAFile != "" { // the context must work wherever it is used from
				pem, err := os.ReadFile(where.CAFile)
				if err != nil {
					return model.Errorf(model.Invalid, "read CA file: %w", err).WithHint("check --ca or MUSTER_CA")
				}
				where.CA, where.CAFile = string(pem), ""
			}
			api, err := client.New(where)
			if err != nil {
				return err
			}
			password, err := a.password(user, passwordFile)
			if err != nil {
				return err
			}
			session, err := api.Access.Login(c.Context(), user, password)
			if err != nil {
				return err
			}
			where.Server, where.Token, where.User = api.Server(), session.Token, session.User
			path, err := a.contextPath()
			if err != nil {
				return err
			}
			if err := client.SaveContext(path, where); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "logged in at %s as %s until %s; the session is kept in %s\n", where.Server, clean(session.User, false),
				session.Expires.In(a.Zone).Format("2006-01-02 15:04 MST"), path)
			return nil
		},
	}
	c.Flags().StringVarP(&user, "user", "u", "admin", "who you are")
	c.Flags().StringVar(&passwordFile, "password-file", "", "file with the password; - for standard input. Default: ask")
	return c
}

func (a *app) logoutCmd() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "End the session and forget it", Args: cobra.NoArgs,
		Example: "  muster logout",
		RunE: func(c *cobra.Command, _ []string) error {
			where, err := a.context()
			if err != nil {
				return err
			}
			api, err := client.New(where)
			if err != nil {
				return err
			}
			if err := api.Access.Logout(c.Context()); err != nil && model.ClassOf(err) != model.Unauthenticated {
				return err
			}
			path, err := a.contextPath()
			if err != nil {
				return err
			}
			kept, err := client.LoadContext(path)
			if err != nil {
				return err
			}
			if kept.Token == where.Token {
				kept.Token, kept.User = "", ""
				if err := client.SaveContext(path, kept); err != nil {
					return err
				}
			}
			fmt.Fprintln(a.Stdout, "logged out")
			return nil
		},
	}
}
