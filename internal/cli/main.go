package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// ExtraCommand is a command that package main adds, because package cli must not import its packages. It needs
// packages that package cli must not import.
type ExtraCommand struct {
	Parent  string // the parent, for example "auth"; empty: the root
	Command func(*Env) *cobra.Command
}

// Main runs one command line and returns its exit code.
func Main(ctx context.Context, env *Env, extras ...ExtraCommand) int {
	root := NewCommandTree(env, extras...)
	root.SetArgs(env.Args)
	err := refuseSingleDash(root, env.Args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return 0
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return 130 // as a shell reports Ctrl-C
	}
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	printError(&screen.Screen{Err: env.Stderr, ErrWidth: env.ErrWidth, Program: env.Program}, err)
	var coded interface{ ExitCode() int } // of an extra command
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return model.ClassOf(err).Exit()
}

// exitError is an error that ends the program with a given exit code, after the output is printed. The command
// has printed its result before.
type exitError struct{ code int }

// Error returns the text "exit code N" for the error's exit code N.
func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// messageIndent is the indentation of a long message's further lines. Its hint follows with two columns.
const messageIndent = len("muster: ")

// printError prints an error and, on the next line, its hint
func printError(s *screen.Screen, err error) {
	var e *model.Error
	if !errors.As(err, &e) {
		s.Notef(messageIndent, "muster: %s", screen.PaintedText(screen.CleanLines(err.Error())))
		return
	}
	text := e.Message
	if whole := err.Error(); !strings.HasPrefix(whole, e.Message) { // keep the context that a caller put around it
		text = strings.ReplaceAll(strings.TrimSuffix(whole, e.Error()), "\n", " ") + e.Message
	}
	s.Notef(messageIndent, "muster: %s", screen.PaintedText(screen.CleanLines(text)))
	if e.Hint != "" {
		s.Notef(2, "  %s", screen.PaintedText(screen.CleanLines(s.ReplaceProgramName(e.Hint))))
	}
}

// commandMaker is a function that makes one muster command for the tree of commands.
type commandMaker = func(*commandLine) *cobra.Command

// commandGroup returns a function that makes a command with subcommands only, such as muster node.
func commandGroup(name, short string, commands ...commandMaker) commandMaker {
	return func(s *commandLine) *cobra.Command {
		return s.buildCommand(command{use: name, short: short, commands: convertEach(commands, func(make commandMaker) *cobra.Command { return make(s) })})
	}
}

// NewCommandTree returns the root command of muster, with all other commands below.
func NewCommandTree(env *Env, extras ...ExtraCommand) *cobra.Command {
	if env.Kinds == nil {
		env.Kinds = kind.All()
	}
	s := &commandLine{Env: env}
	root := &cobra.Command{
		Use: "muster", Short: "Watch a fleet of machines", Version: version.Get().String(),
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs, RunE: printHelp,
	}
	root.SetVersionTemplate("{{ .Version }}\n")
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&s.server, "server", "", "address of the server, https://HOST:8443 (MUSTER_SERVER)")
	flags.StringVar(&s.ca, "ca", "", "PEM file with the server's CA (MUSTER_CA)")
	flags.StringVar(&s.contextFile, "context-file", "", "file with server, CA and session (MUSTER_CONTEXT)")
	flags.StringVarP(&s.namespace, "namespace", "n", "", "namespace; default: the context's, else default")
	flags.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "all namespaces; a name is searched in all of them")
	root.SetFlagErrorFunc(flagError)

	const look, change, operate = "look", "change", "operate"
	root.AddGroup(&cobra.Group{ID: look, Title: "Look:"}, &cobra.Group{ID: change, Title: "Change:"}, &cobra.Group{ID: operate, Title: "Operate:"})
	add := func(id string, commands ...commandMaker) {
		for _, command := range commands {
			c := command(s)
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	add(look, statusCommand, getCommand, describeCommand, whyCommand, queryCommand, auditCommand, explainCommand,
		commandGroup("report", "Report a period: availability, noise, compliance and its evidence, messages of shadow mode",
			availabilityCommand, complianceCommand, noiseCommand, shadowCommand,
			commandGroup("evidence", "Save the signed history of compliance, and verify it without a server", evidenceSaveCommand, evidenceVerifyCommand)))
	add(change, applyCommand, planCommand, diffCommand, editCommand, labelCommand, annotateCommand, deleteCommand, lintCommand, eventCommand, silenceCommand,
		rolloutCommand, runCommand,
		commandGroup("route", "Test routes: recipients and times of the notifications of a problem", routeTestCommand),
		commandGroup("handler", "Create and test handlers; list and replay their dead letters",
			handlerCreateCommand, handlerTestCommand, handlerDeadCommand, handlerReplayCommand),
		commandGroup("asset", "Upload and list archives with programs for checks and handlers", assetAddCommand, assetListCommand),
		commandGroup("item", "Test items of Templates", itemTestCommand),
		commandGroup("node", "Enrol, list, rename, replace and retire nodes",
			joinTokenCommand, nodeListCommand, nodeAcceptCommand, nodeRefuseCommand, nodeCACommand, nodeRenameCommand, nodeReplaceCommand, nodeInventoryCommand, nodeRetireCommand, nodeUnblockCommand),
		commandGroup("import", "Convert the resources of another system", importSensuCommand, importZabbixCommand, importPrometheusCommand, importRudderCommand))
	add(operate, loginCommand, logoutCommand, doctorCommand, versionCommand,
		commandGroup("context", "List and choose servers that you logged in to", contextListCommand, contextUseCommand, contextDeleteCommand),
		commandGroup("auth", "Manage users, API tokens and passwords; show your name and rights",
			commandGroup("token", "Manage tokens for programs that call the API", tokenCreateCommand, tokenListCommand, tokenRevokeCommand),
			commandGroup("user", "Manage users, who log in with a password", userCreateCommand, userGrantCommand, userListCommand, userDeleteCommand),
			passwordCommand, whoamiCommand),
		commandGroup("debug", "Collect evidence about a faulty or slow server", bundleCommand, valuesCommand))
	setHelp(root)
	s.wrapHelp(root)
	root.AddCommand(exitCodesTopic())
	root.SetCompletionCommandGroupID(operate)
	root.SetHelpCommandGroupID(look)
	for _, extra := range extras {
		parent, command := root, extra.Command(env)
		if extra.Parent != "" {
			if found, _, err := root.Find(strings.Fields(extra.Parent)); err == nil {
				parent = found
			}
		} else {
			command.GroupID = operate
		}
		parent.AddCommand(command)
	}
	root.InitDefaultCompletionCmd() // now, so that explainWrongArguments sees it
	root.SetHelpCommand(s.helpCommand(root))
	s.explainWrongArguments(root)
	s.completeFlags(root)
	return root
}

// helpCommand makes the command muster help, which shows the help of a command or topic. An unknown command is
// an error.
func (s *commandLine) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Explain a command: purpose, flags, example",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			at, _, err := root.Find(args)
			if err != nil {
				return nil, noFiles
			}
			for _, c := range at.Commands() {
				if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, noFiles
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return s.unknownCommandError(c, rest)
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// versionCommand makes the command muster version.
func versionCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "version", short: "Print the build of this program and of the server", args: cobra.NoArgs, offline: true,
		run: func(c *commandCall) error {
			builds := map[string]any{"client": version.Get()}
			var server version.Info
			api, err := c.connect()
			if err == nil {
				if server, err = api.Version(c.ctx); err == nil {
					builds["server"] = server
				}
			}
			return c.printValue(builds, func() {
				c.Printf("client  %s\n", version.Get())
				if err == nil {
					c.Printf("server  %s\n", server)
				} else {
					c.Printf("server  unknown: %s\n", screen.FirstLine(err.Error()))
				}
			})
		},
	})
}

var classMeanings = [...]struct {
	class   model.Class
	meaning string
}{
	{model.Internal, "a fault of Muster, or an error of no other class"},
	{model.Invalid, "the input is invalid: the message names the place and the correct value"},
	{model.NotFound, "the object does not exist"},
	{model.Conflict, "the object exists already, or changed meanwhile"},
	{model.Unauthenticated, "not logged in, or the token is no longer valid"},
	{model.Forbidden, "your role does not permit it"},
	{model.Limited, "a limit is reached"},
	{model.TooLarge, "the request is too large"},
	{model.Unavailable, "unavailable: the server is down, starting or stopping, or its disk is full"},
	{model.Guarded, "refused until you confirm: read the message, then --yes"},
	{model.Stale, "the object changed since you read it: read it again"},
	{model.Unsupported, "not supported by this version: the message names the reason"},
}

// exitCodesTopic makes the help topic that explains the exit codes of muster.
func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes, the same for every command:\n\n    0  done\n")
	for _, m := range classMeanings {
		fmt.Fprintf(&b, "  %3d  %s (%s)\n", m.class.Exit(), m.meaning, m.class.Label())
	}
	b.WriteString(`  130  interrupted by Ctrl-C

Codes of single commands:

  muster diff --exit-code                20 apply would change a resource
  muster plan --exit-code                20 apply would change a resource
  muster status --exit-code              20 only warnings, 21 not well
  muster doctor                          9 a part does not work
  muster run                             20 a run was not OK, 21 a run did not start or its end is unknown
  muster handler test                    9 the handler would retry, 2 the message would become a dead letter
  muster import sensu --strict           20 a part was not converted
  muster import zabbix --strict          20 a part was not converted
  muster import prometheus --strict      20 a part was not converted
  muster import rudder --strict          20 a part was not converted
  muster agent --probe                   0 to 3, the status of the probe
  muster load run                        20 objective missed, 21 loss, duplicate or wrong alert,
                                         22 ended early by Ctrl-C without a fault, 7 the generator fell behind
  muster load compare, muster load check 20 a figure is worse, 21 as muster load run
`)
	return &cobra.Command{Use: "exit-codes", Short: "Exit codes and their meaning", Long: b.String()}
}
