package loadcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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
type format struct {
	name    string
	allowed []string
}

func (f *format) String() string { return f.name }

// Type returns the name of the type in usage lines.
func (f *format) Type() string { return "format" }

// Set accepts an allowed format.
func (f *format) Set(s string) error {
	if !slices.Contains(f.allowed, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(f.allowed, ", "))
	}
	f.name = s
	return nil
}

// formatFlag adds -o; the first format is the default.
func formatFlag(c *cobra.Command, allowed ...string) *format {
	f := &format{allowed[0], allowed}
	c.Flags().VarP(f, "output", "o", strings.Join(allowed[:len(allowed)-1], ", ")+" or "+allowed[len(allowed)-1])
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return f
}

// machine reports whether the format is for programs.
func (f *format) machine() bool { return f.name == "json" || f.name == "yaml" }

// print writes any value as JSON or YAML.
func (f *format) print(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	data = append(data, '\n')
	if f.name == "yaml" {
		data, err = document.YAML(data)
	}
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// login returns a client for the saved login and muster's common flags, and the namespace. server replaces the address
// of the login, unless it is empty. The --server of muster load run is the listener of agents.
func login(cmd *cobra.Command, server string) (*client.Client, string, error) {
	path := flagValue(cmd, "context-file")
	if path == "" {
		var err error
		if path, err = client.ContextPath(os.Getenv); err != nil {
			return nil, "", err
		}
	}
	known, err := client.LoadContext(path)
	if err != nil {
		return nil, "", err
	}
	known = known.WithEnv(os.Getenv)
	if server != "" {
		if known = known.ForServer(server); os.Getenv("MUSTER_TOKEN") != "" {
			known.Token = os.Getenv("MUSTER_TOKEN")
		}
	}
	if ca := flagValue(cmd, "ca"); ca != "" {
		known.CA, known.CAFile = "", ca
	}
	namespace := model.DefaultNamespaceName
	for _, name := range []string{known.Namespace, flagValue(cmd, "namespace")} {
		if name != "" {
			namespace = name
		}
	}
	api, err := client.New(known)
	return api, namespace, err
}

// flagValue returns the value of a flag, or an empty text if the command has no such flag.
func flagValue(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}
