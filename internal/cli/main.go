package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// Extra is a command that main hands in, because it needs more of the house than
// the command line may know.
type Extra struct {
	Under   string // the command it belongs to, for example "auth"; empty: the root
	Command func(*Env) *cobra.Command
}

// Main runs one command line and returns its exit code.
func Main(ctx context.Context, env *Env, extras ...Extra) int {
	root := Root(env, extras...)
	root.SetArgs(env.Args)
	err := oneDash(root, env.Args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return 0
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return 130 // as a shell reports Ctrl-C
	}
	var silent *exitError
	if errors.As(err, &silent) {
		return silent.code
	}
	printError(env.Stderr, err)
	var coded interface{ ExitCode() int } // of an extra command
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return model.ClassOf(err).Exit()
}

// exitError ends with a code and says nothing more: all was said.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// printError writes what happened and, on the next line, what to type.
func printError(w io.Writer, err error) {
	var said *model.Error
	if !errors.As(err, &said) {
		fmt.Fprintf(w, "muster: %s\n", clean(err.Error(), true))
		return
	}
	text := said.Message
	if whole := err.Error(); !strings.HasPrefix(whole, said.Message) { // wrapped: keep the words around it
		text = strings.Replace(strings.TrimSuffix(whole, said.Error()), "\n", " ", -1) + said.Message
	}
	fmt.Fprintf(w, "muster: %s\n", clean(text, true))
	if said.Hint != "" {
		fmt.Fprintf(w, "  %s\n", clean(said.Hint, true))
	}
}

// app is one command line: its surroundings and the flags that all commands share.
type app struct {
	*Env
	server, ca, contextFile string
	namespace               string
	inContext               bool // namespace is the context's, or the default: nobody asked for it
}

// Root is the whole tree of commands.
func Root(env *Env, extras ...Extra) *cobra.Command {
	if env.Kinds == nil {
		env.Kinds = kind.All()
	}
	a := &app{Env: env}
	root := &cobra.Command{
		Use:           "muster",
		Short:         "Keeps a fleet of machines honest",
		Long:          "Muster watches a fleet: checks become events, events become problems, problems reach people.\nBegin with muster up; then muster status says whether all is well, worst first.",
		Example:       "  muster up\n  muster status\n  muster get events",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.Get().String(),
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("{{ .Version }}\n")
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&a.server, "server", "", "address of the server, https://HOST:8443 (MUSTER_SERVER)")
	flags.StringVar(&a.ca, "ca", "", "file with the server's authority in PEM (MUSTER_CA)")
	flags.StringVar(&a.contextFile, "context-file", "", "file that says where the server is (MUSTER_CONTEXT)")
	flags.StringVarP(&a.namespace, "namespace", "n", "", "namespace; default: the context's, else default")
	root.SetFlagErrorFunc(wrongFlag)

	const looking, steering, running = "looking", "steering", "running"
	root.AddGroup(
		&cobra.Group{ID: looking, Title: "Looking:"},
		&cobra.Group{ID: steering, Title: "Steering:"},
		&cobra.Group{ID: running, Title: "Running:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(looking, a.statusCmd(), a.getCmd(), a.describeCmd(), a.whyCmd(), a.reportCmd(), a.auditCmd(), a.explainCmd())
	add(steering, a.applyCmd(), a.planCmd(), a.diffCmd(), a.editCmd(), a.deleteCmd(), a.lintCmd(), a.eventCmd(), a.silenceCmd(), a.routeCmd(), a.handlerCmd(), a.assetCmd(), a.runCmd(), a.nodeCmd(), a.importCmd())
	add(running, a.loginCmd(), a.logoutCmd(), a.authCmd(), a.doctorCmd(), a.debugCmd(), a.versionCmd())
	root.AddCommand(exitCodesTopic())
	root.SetCompletionCommandGroupID(running)
	root.SetHelpCommandGroupID(looking)
	for _, extra := range extras {
		parent, command := root, extra.Command(env)
		if extra.Under != "" {
			if found, _, err := root.Find(strings.Fields(extra.Under)); err == nil {
				parent = found
			}
		} else {
			command.GroupID = running
		}
		parent.AddCommand(command)
	}
	root.InitDefaultCompletionCmd() // else it is made too late to be held to the rules
	root.SetHelpCommand(a.helpCmd(root))
	a.sayWhatIsWrong(root)
	a.completeFlags(root)
	return root
}

// context is what flags, environment and file say together, in this order.
func (a *app) context() (client.Context, error) {
	path, err := a.contextPath()
	if err != nil && a.server == "" && a.Getenv("MUSTER_SERVER") == "" {
		return client.Context{}, err
	}
	var c client.Context
	if err == nil {
		if c, err = client.LoadContext(path); err != nil {
			return c, err
		}
	}
	c = c.WithEnv(a.Getenv)
	if a.server != "" {
		token := a.Getenv("MUSTER_TOKEN")
		c = c.ForServer(a.server)
		if token != "" {
			c.Token = token
		}
		if ca := a.Getenv("MUSTER_CA"); ca != "" {
			c.CA, c.CAFile = "", ca
		}
	}
	if a.ca != "" {
		c.CA, c.CAFile = "", a.ca
	}
	return c, nil
}

func (a *app) contextPath() (string, error) {
	if a.contextFile != "" {
		return a.contextFile, nil
	}
	return client.ContextPath(a.Getenv)
}

// connect makes the client, and the namespace that -n or the context name.
func (a *app) connect() (*client.Client, error) {
	c, err := a.context()
	if err != nil {
		return nil, err
	}
	if named := cmp.Or(a.contextFile, a.Getenv("MUSTER_CONTEXT")); named != "" && c.Server == "" {
		if _, err := os.Stat(named); errors.Is(err, fs.ErrNotExist) {
			return nil, model.Errorf(model.NotFound, "there is no context file %s", named).
				WithHint("muster login URL and muster up write it; see --context-file and MUSTER_CONTEXT")
		}
		return nil, model.Errorf(model.Invalid, "the context file %s names no server", named).WithHint("muster login https://HOST:8443 writes it")
	}
	if a.namespace == "" {
		a.namespace, a.inContext = c.Namespace, true
	}
	return client.New(c)
}

// ns is the namespace for one object.
func (a *app) ns() string {
	if a.namespace != "" {
		return a.namespace
	}
	return model.DefaultNamespaceName
}
