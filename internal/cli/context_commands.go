package cli

import (
	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// contextListCommand makes the command muster context list, which lists the saved server logins.
func contextListCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "list", formats: []string{"name"}, short: "List contexts; * marks the one in use", args: cobra.NoArgs, offline: true,
		run: readAndPrintList(func(c *commandCall) (listOutput[client.NamedContext], error) {
			list, err := listContexts(c.commandLine)
			return listOutput[client.NamedContext]{
				value: list, items: list, columns: screen.SplitColumns("IN USE|NAME|SERVER|USER|NAMESPACE"),
				empty: "no contexts. Log in: muster login https://HOST:8443",
				row: func(x client.NamedContext) []any {
					return []any{textIf(x.Current, "*"), x.Name, x.Server, x.User, x.Namespace}
				},
			}, err
		}),
	})
}

// contextUseCommand makes the command muster context use, which selects the server for later commands.
func contextUseCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "use NAME", short: "Use another context from now on", args: cobra.ExactArgs(1), offline: true, noFormat: true, complete: completeContexts(s),
		run: func(c *commandCall) error {
			x, path, err := findContext(c.commandLine, c.args[0])
			if err != nil {
				return err
			}
			if !x.Current {
				if err := client.UseContext(path, x); err != nil {
					return err
				}
			}
			c.Printf("context %s is in use: %s\n", x.Name, x.Server)
			return nil
		},
	})
}

// contextDeleteCommand makes the command muster context delete, which deletes a saved server login with its token.
func contextDeleteCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "delete NAME", short: "Delete a context with its token; the session stays until it ends", args: cobra.ExactArgs(1), offline: true, noFormat: true, complete: completeContexts(s),
		run: func(c *commandCall) error {
			x, _, err := findContext(c.commandLine, c.args[0])
			if err != nil {
				return err
			}
			if err := x.Delete(); err != nil {
				return err
			}
			c.Printf("context %s deleted\n", x.Name)
			return nil
		},
	})
}

// listContexts returns the saved server logins (contexts), first the context in use.
func listContexts(s *commandLine) ([]client.NamedContext, error) {
	path, err := s.contextPath()
	if err != nil {
		return nil, err
	}
	return client.Contexts(path)
}

// findContext returns the saved server login (context) with a given name. It also returns the file path of the
// context in use.
func findContext(s *commandLine, name string) (x client.NamedContext, path string, err error) {
	list, err := listContexts(s)
	if err != nil {
		return x, "", err
	}
	path, err = s.contextPath()
	for _, x := range list {
		if x.Name == name {
			return x, path, err
		}
	}
	e := model.Errorf(model.NotFound, "context %s does not exist", name)
	if near := model.Nearest(name, convertEach(list, func(x client.NamedContext) string { return x.Name })); near != "" {
		return x, "", e.WithHint("did you mean %s? List contexts: muster context list", near)
	}
	return x, "", e.WithHint("list contexts: muster context list")
}

// completeContexts offers the names of contexts (saved server logins) for shell completion
func completeContexts(s *commandLine) completion {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		list, _ := listContexts(s)
		return convertEach(list, func(x client.NamedContext) string { return x.Name + "\t" + x.Server }), noFiles
	}
}
