package cli

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// command describes one command of the tree. Its description and examples stand in help.md.
type command struct {
	use, short string
	aliases    []string
	args       cobra.PositionalArgs // nil: any
	complete   completion           // of arguments
	flags      func(*pflag.FlagSet)
	formats    []string          // of -o, besides table, wide, json and yaml
	noFormat   bool              // the command has no -o
	check      func(*call) error // looks at flags and arguments before the command connects
	offline    bool              // run needs no server: call.api is nil
	run        func(*call) error // nil: the command prints its help
	commands   []*cobra.Command  // below this one
}

// call is one run of a command: flags and arguments, the client, and the screen to write to.
type call struct {
	*session
	*screen.Screen
	ctx  context.Context
	cmd  *cobra.Command
	args []string
	api  *client.Client
}

func (s *session) build(d command) *cobra.Command {
	c := &cobra.Command{Use: d.use, Short: d.short, Aliases: d.aliases, Args: d.args, ValidArgsFunction: d.complete, RunE: helpOf}
	c.AddCommand(d.commands...)
	if d.flags != nil {
		d.flags(c.Flags())
	}
	if d.run == nil {
		return c
	}
	format := screen.Narrow
	if !d.noFormat {
		screen.FormatFlag(c, &format, d.formats...)
	}
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		x := &call{session: s, Screen: s.screen(), ctx: c.Context(), cmd: c, args: args}
		x.Format = format
		if d.check != nil {
			if err := d.check(x); err != nil {
				return err
			}
		}
		if !d.offline {
			if x.api, err = s.connect(); err != nil {
				return err
			}
		}
		return d.run(x)
	}
	return c
}

// group builds a command that only holds others.
func (s *session) group(name, short string, commands ...*cobra.Command) *cobra.Command {
	return s.build(command{use: name, short: short, commands: commands})
}

func helpOf(c *cobra.Command, _ []string) error { return c.Help() }

//go:embed help.md
var helpPage string

// setHelp sets description and examples of a command, and of all commands below it, from its section of help.md.
func setHelp(c *cobra.Command) {
	if _, section, found := strings.Cut(helpPage, "\n## "+c.CommandPath()+"\n"); found {
		section, _, _ = strings.Cut(section, "\n## ")
		description, examples, _ := strings.Cut("\n"+section, "\n\n    ")
		c.Long, c.Example = strings.TrimSpace(description), "  "+strings.ReplaceAll(strings.TrimSpace(examples), "\n    ", "\n  ")
	}
	for _, sub := range c.Commands() {
		setHelp(sub)
	}
}

// printValue writes a value for programs, or calls people.
func (c *call) printValue(value any, people func()) error {
	if c.Format.Machine() {
		return c.Value(value)
	}
	people()
	return nil
}

// fetchAndPrint makes the run of a command that fetches one value: programs get it as it is, print writes it for people.
func fetchAndPrint[T any](fetch func(*call) (T, error), print func(*call, T)) func(*call) error {
	return func(c *call) error {
		value, err := fetch(c)
		if err != nil {
			return err
		}
		return c.printValue(value, func() { print(c, value) })
	}
}

// readAndPrintList makes the run of a command that prints one list.
func readAndPrintList[T any](read func(*call) (list[T], error)) func(*call) error {
	return func(c *call) error {
		l, err := read(c)
		if err != nil {
			return err
		}
		return l.print(c)
	}
}

// forEachArgument makes the run of a command that does the same with each argument; done is its result, with the argument.
func forEachArgument(do func(*call, string) error, done string) func(*call) error {
	return func(c *call) error {
		for _, arg := range c.args {
			if err := do(c, arg); err != nil {
				return err
			}
			c.Printf(done+"\n", arg)
		}
		return nil
	}
}

// textIf returns a text, or none unless show.
func textIf(show bool, text string) string {
	if show {
		return text
	}
	return ""
}

// mapTexts returns a text for each item.
func mapTexts[T any](items []T, text func(T) string) []string {
	list := make([]string, len(items))
	for i, item := range items {
		list[i] = text(item)
	}
	return list
}

// list is a table of items, or for programs a value; every command prints its lists this way.
type list[T any] struct {
	value   any // for programs
	items   []T
	columns screen.Columns
	row     func(T) []any // its cells: see screen.Rows
	empty   string        // the line in place of a table without rows
	notes   []string      // lines below the table; empty ones are left out
}

func (l list[T]) print(c *call) error {
	if c.Format.Machine() {
		return c.Value(l.value)
	}
	if len(l.items) == 0 && l.empty != "" {
		c.Wrapf(2, "%s", l.empty)
	} else if err := screen.Rows(l.items, l.columns, l.row).Write(c.Screen); err != nil {
		return err
	}
	for _, note := range l.notes {
		if note != "" {
			c.Wrapf(2, "%s", note)
		}
	}
	return nil
}

// listFlags are the flags that lists share. Each list declares those that it takes.
type listFlags struct {
	v1.Narrow
	all   bool
	limit int
}

func (f *listFlags) declareAll(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "of all namespaces")
}

func (f *listFlags) declareLimit(flags *pflag.FlagSet, rows int) {
	flags.IntVar(&f.limit, "limit", rows, "maximum number of rows (0: all)")
}

// declareSelector declares -l; of names whose labels it selects by.
func (f *listFlags) declareSelector(flags *pflag.FlagSet, of string) {
	flags.StringVarP(&f.Selector, "selector", "l", "", of+": env=prod,tier!=db,owner,!old")
}

// declareWhere declares --where; over names its variables and gives an example.
func (f *listFlags) declareWhere(flags *pflag.FlagSet, over string) {
	flags.StringVar(&f.Where, "where", "", "CEL over "+over)
}

// narrows reports whether the flags leave rows out, other than by number.
func (f *listFlags) narrows() bool { return f.Narrow != (v1.Narrow{}) }

// whereRowHelp describes the variables of --where in lists of neither events nor resources.
func whereRowHelp(example string) string { return "row, as -o json shows it: " + example }

// emptyText returns the line in place of a list without rows: of a list that the flags narrow, of all namespaces, or
// of one. hint tells how the first row comes.
func (f *listFlags) emptyText(plural string, narrowed bool, namespace, hint string) string {
	switch {
	case narrowed || f.narrows():
		return "no " + plural + " match"
	case f.all:
		return "no " + plural + " yet. " + hint
	}
	return "no " + plural + " in namespace " + namespace + ". All namespaces: -A. " + hint
}

// messageFlag declares -m, the reason that is recorded.
func messageFlag(flags *pflag.FlagSet, to *string, usage string) {
	flags.StringVarP(to, "message", "m", "", usage)
}

// session is the part of a command line that all commands share: the machine, and the flags that
// choose server and namespace.
type session struct {
	*Env
	server, ca, contextFile string
	namespace               string
	namespaceImplied        bool // namespace comes from the context or the default, not from -n
}

// screen returns the screen of the session; commands with -o set its format.
func (s *session) screen() *screen.Screen {
	return &screen.Screen{Out: s.Stdout, Err: s.Stderr, Width: s.Width, Colours: s.Colour, Zone: s.Zone, Now: s.Now, Format: screen.Narrow}
}

// context returns the server, CA and token to use: flags win over the environment, both over the
// context file.
func (s *session) context() (client.Context, error) {
	path, err := s.contextPath()
	if err != nil && s.server == "" && s.Getenv("MUSTER_SERVER") == "" {
		return client.Context{}, err
	}
	var c client.Context
	if err == nil {
		if c, err = client.LoadContext(path); err != nil {
			return c, err
		}
	}
	c = c.WithEnv(s.Getenv)
	if s.server != "" {
		c = c.ForServer(s.server)
		c.Token = cmp.Or(s.Getenv("MUSTER_TOKEN"), c.Token)
		if ca := s.Getenv("MUSTER_CA"); ca != "" {
			c.CA, c.CAFile = "", ca
		}
	}
	if s.ca != "" {
		c.CA, c.CAFile = "", s.ca
	}
	return c, nil
}

func (s *session) contextPath() (string, error) {
	if s.contextFile != "" {
		return s.contextFile, nil
	}
	return client.ContextPath(s.Getenv)
}

// connect makes the client and takes the context's namespace where -n names none.
func (s *session) connect() (*client.Client, error) {
	c, err := s.context()
	if err != nil {
		return nil, err
	}
	if file := cmp.Or(s.contextFile, s.Getenv("MUSTER_CONTEXT")); file != "" && c.Server == "" {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil, model.Errorf(model.NotFound, "context file %s does not exist", file).
				WithHint("muster login URL and muster up write this file; see --context-file and MUSTER_CONTEXT")
		}
		return nil, model.Errorf(model.Invalid, "the context file %s has no server", file).WithHint("log in: muster login https://HOST:8443")
	}
	if s.namespace == "" {
		s.namespace, s.namespaceImplied = c.Namespace, true
	}
	return client.New(c)
}

// objectNamespace returns the namespace of one object.
func (s *session) objectNamespace() string { return cmp.Or(s.namespace, model.DefaultNamespaceName) }

// listNamespace returns the namespace of a list, or none (all namespaces) with -A.
func (s *session) listNamespace(all bool) string {
	if all {
		return ""
	}
	return s.objectNamespace()
}

// Env is the machine as a command line sees it.
type Env struct {
	Args   []string       // without the program's name
	Kinds  *kind.Registry // nil: every kind of Muster
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	Now    func() time.Time
	Zone   *time.Location // of times that people read
	Width  int            // columns of the terminal; 0: no terminal, nothing is cut
	Colour bool           // whether Stdout takes colours
	// ReadPassword asks on the terminal without an echo; nil: no terminal.
	ReadPassword func(prompt string) (string, error)
	// Edit opens a file in the user's editor and waits for its end.
	Edit func(path string) error
}

// System returns the Env of this process.
func System() *Env {
	e := &Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Now: time.Now, Zone: time.Local,
	}
	e.Edit = e.editor
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		e.Width = 80
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			e.Width = width
		}
		e.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
		e.ReadPassword = func(prompt string) (string, error) {
			_, _ = io.WriteString(os.Stderr, prompt)
			secret, err := term.ReadPassword(fd)
			_, _ = io.WriteString(os.Stderr, "\n")
			return string(secret), err
		}
	}
	return e
}

// editor opens a file in $VISUAL, $EDITOR or the editor of the system.
func (e *Env) editor(path string) error {
	words := strings.Fields(e.Getenv("VISUAL"))
	if len(words) == 0 {
		words = strings.Fields(e.Getenv("EDITOR"))
	}
	if len(words) == 0 {
		words = []string{"vi"}
		if runtime.GOOS == "windows" {
			words = []string{"notepad"}
		}
	}
	command := exec.Command(words[0], append(words[1:], path)...)
	command.Stdin, command.Stdout, command.Stderr = e.Stdin, e.Stdout, e.Stderr
	return command.Run()
}
