package loadcmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// sayTo writes sentences, one per line.
func sayTo(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}

// shippedNames completes the name of a shipped scenario.
func shippedNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return scenario.Names(), cobra.ShellCompDirectiveDefault
}

// noServer refuses the --server of all of muster's commands for a command whose runs each start a server.
func noServer(cmd *cobra.Command, name string) error {
	if !cmd.Flags().Changed("server") {
		return nil
	}
	return model.Errorf(model.Invalid, "each run has a server of its own: leave --server out").WithHint("muster load run %s --server HOST:PORT plays it against one that runs", name)
}

// format is the value of -o.
type format string

// formatFlag adds -o; the first format is the default.
func formatFlag(c *cobra.Command, allowed ...string) *format {
	f := new(format)
	last := len(allowed) - 1
	c.Flags().StringVarP((*string)(f), "output", "o", allowed[0], strings.Join(allowed[:last], ", ")+" or "+allowed[last])
	c.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(allowed, string(*f)) {
			return model.Errorf(model.Invalid, "--output: %q is none of %s", *f, strings.Join(allowed, ", "))
		}
		return nil
	}
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return f
}

// forPrograms reports whether the format is for programs.
func (f format) forPrograms() bool { return f == "json" || f == "yaml" }

// print writes any value as JSON or YAML.
func (f format) print(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	data = append(data, '\n')
	if f == "yaml" {
		data, err = document.YAML(data)
	}
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// login returns a client for the saved login and muster's common flags, and the namespace. server replaces the address
// of the login, unless it is empty. The --server of muster load run is the listener of agents.
func login(cmd *cobra.Command, server string) (api *client.Client, namespace string, err error) {
	path := flagValue(cmd, "context-file")
	if path == "" {
		if path, err = client.ContextPath(os.Getenv); err != nil {
			return nil, "", err
		}
	}
	known, err := client.LoadContext(path)
	if err != nil {
		return nil, "", err
	}
	if known = known.WithEnv(os.Getenv); server != "" {
		known = known.ForServer(server)
		known.Token = cmp.Or(os.Getenv("MUSTER_TOKEN"), known.Token)
	}
	if ca := flagValue(cmd, "ca"); ca != "" {
		known.CA, known.CAFile = "", ca
	}
	api, err = client.New(known)
	return api, cmp.Or(flagValue(cmd, "namespace"), known.Namespace, model.DefaultNamespaceName), err
}

// flagValue returns the value of a flag, or an empty text if the command has no such flag.
func flagValue(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// fits refuses flags that have no effect in the run of a scenario. The usage of a flag begins with the runs that it is for:
// "with --server: its data folder".
func (o *runner) fits(f *pflag.FlagSet, sc *scenario.Scenario) error {
	isSensu, server := sc.AgainstSensu(), f.Changed("server")
	holds := map[string]bool{
		"with --server": server, "without --server": !server && !isSensu, "with --target sensu": isSensu, "against Muster": !isSensu,
		"with --server of Muster": server && !isSensu, "with --loaders": o.loaders > 1,
		"with --server of Muster or --sensu-bridge": server && !isSensu || f.Changed("sensu-bridge"),
	}
	return refuseFlags(f, holds)
}

// refuseFlags refuses flags whose condition does not hold.
func refuseFlags(f *pflag.FlagSet, holds map[string]bool) (err error) {
	f.Visit(func(flag *pflag.Flag) {
		condition, _, _ := strings.Cut(flag.Usage, ": ")
		if fits, known := holds[condition]; known && !fits && err == nil {
			err = model.Errorf(model.Invalid, "--%s is for runs %s, and this is another", flag.Name, condition).WithHint("leave it out; --help names the flags that go together")
		}
	})
	return err
}
