package loadcmd

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// login makes a client from what `muster login` left, with the flags that all of muster's
// commands share, where this is one of them; and says which namespace is meant. server is
// another API's address; empty: the one that we are logged in to. A run's own --server is the
// agents' listener, and no such address.
func login(cmd *cobra.Command, server string) (*client.Client, string, error) {
	path := flagOf(cmd, "context-file")
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
	if ca := flagOf(cmd, "ca"); ca != "" {
		known.CA, known.CAFile = "", ca
	}
	namespace := model.DefaultNamespaceName
	for _, name := range []string{known.Namespace, flagOf(cmd, "namespace")} {
		if name != "" {
			namespace = name
		}
	}
	api, err := client.New(known)
	return api, namespace, err
}

// flagOf is the value of a flag; empty where the command has none of that name.
func flagOf(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}
