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
	"slices"
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

// command declares one muster command, with usage, flags, shell completion and the function to run. It has
// usage, help, flags, completion and run function. Its description and examples stand in help.md.
type command struct {
	use, short   string
	aliases      []string
	args         cobra.PositionalArgs // nil: any
	complete     completion           // of arguments
	flags        func(*pflag.FlagSet)
	formats      []string                 // of -o, besides table, wide, json and yaml
	noFormat     bool                     // the command has no -o
	check        func(*commandCall) error // looks at flags and arguments before the command connects
	offline      bool                     // run needs no server: call.api is nil
	oneNamespace bool                     // the command writes to one namespace and refuses -A
	run          func(*commandCall) error // nil: the command prints its help
	commands     []*cobra.Command         // below this one
}

// commandCall holds the state of one running command, such as its arguments, output and API client. It has the
// flags, the arguments, the API client, and the screen to write to.
type commandCall struct {
	*commandLine
	*screen.Screen
	ctx  context.Context
	cmd  *cobra.Command
	args []string
	api  *client.Client

	sortBy string // path of the values by which a list is sorted; empty: the list's own order
}

// buildCommand converts the declaration of one muster command to a command of the library cobra.
func (s *commandLine) buildCommand(d command) *cobra.Command {
	c := &cobra.Command{Use: d.use, Short: d.short, Aliases: d.aliases, Args: d.args, ValidArgsFunction: d.complete, RunE: printHelp}
	c.AddCommand(d.commands...)
	if d.flags != nil {
		d.flags(c.Flags())
	}
	if d.run == nil {
		return c
	}
	format := screen.Narrow
	if !d.noFormat {
		screen.AddFormatFlag(c, &format, d.formats...)
	}
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		x := &commandCall{commandLine: s, Screen: s.screen(), ctx: c.Context(), cmd: c, args: args}
		x.Format = format
		switch {
		case d.oneNamespace && s.allNamespaces:
			return model.Errorf(model.Invalid, "%s does not accept -A, because it writes to one namespace only", c.CommandPath()).WithHint("name the namespace: %s -n NAMESPACE", c.CommandPath())
		case slices.Contains(args, ""):
			return model.Errorf(model.Invalid, "one of the arguments is empty").WithHint("%s --help", c.CommandPath())
		}
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

// printHelp prints the help of a command.
func printHelp(c *cobra.Command, _ []string) error { return c.Help() }

//go:embed help.md
var helpPage string

// setHelp sets the description and examples of a command and its subcommands from their sections of help.md
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

// printValue prints a value as JSON or YAML if -o requests a format, and otherwise as text. For people, it
// calls a print function.
func (c *commandCall) printValue(value any, people func()) error {
	if c.Format.IsForPrograms() {
		return c.WriteValue(value)
	}
	people()
	return nil
}

// fetchAndPrint returns a command's run function, which reads one value from the server and prints the value.
// Programs get JSON or YAML, and people get text.
func fetchAndPrint[T any](fetch func(*commandCall) (T, error), print func(*commandCall, T)) func(*commandCall) error {
	return func(c *commandCall) error {
		value, err := fetch(c)
		if err != nil {
			return err
		}
		return c.printValue(value, func() { print(c, value) })
	}
}

// readAndPrintList returns a command's run function, which reads one list from the server and prints the list.
func readAndPrintList[T any](read func(*commandCall) (listOutput[T], error)) func(*commandCall) error {
	return func(c *commandCall) error {
		l, err := read(c)
		if err != nil {
			return err
		}
		return l.print(c)
	}
}

// forEachArgument returns a command's run function, which processes each argument in turn. After each argument
// it prints the text done.
func forEachArgument(do func(*commandCall, string) error, done string) func(*commandCall) error {
	return func(c *commandCall) error {
		for _, arg := range c.args {
			if err := do(c, arg); err != nil {
				return err
			}
			c.Printf(done+"\n", arg)
		}
		return nil
	}
}

// textIf returns the text if a condition is true, and an empty text otherwise.
func textIf(show bool, text string) string {
	if show {
		return text
	}
	return ""
}

// convertEach applies a function to each element of a list and returns the results.
func convertEach[A, B any](list []A, convert func(A) B) []B {
	out := make([]B, len(list))
	for i := range list {
		out[i] = convert(list[i])
	}
	return out
}

// listOutput describes the output of a list command, with the objects and their table columns. People get table
// rows, and programs get one JSON or YAML value.
type listOutput[T any] struct {
	value   any // for programs
	items   []T
	columns screen.Columns
	row     func(T) []any // its cells: see screen.Rows
	empty   string        // the line in place of a table without rows
	notes   []string      // lines below the table; empty ones are left out
}

// sortRows sorts a list of objects in place by a field, given as a JSON path. An empty path keeps their order.
func sortRows[T any](path string, items []T) error {
	if path == "" {
		return nil
	}
	order, err := screen.SortByPath(items, path)
	if err != nil {
		return err
	}
	unsorted := slices.Clone(items)
	for to, from := range order {
		items[to] = unsorted[from]
	}
	return nil
}

// WriteValue prints a value in the format that the flag -o names. It is JSON, YAML, or only the names of the
// objects.
func (c *commandCall) WriteValue(value any) error {
	if c.Format != screen.Name {
		return c.Screen.WriteValue(value)
	}
	names, err := namesOfObjects(value)
	if err != nil {
		return err
	}
	for _, name := range names {
		c.Printf("%s\n", name)
	}
	return nil
}

// WriteDocument prints one value as one document of a JSON or YAML stream with several documents. With -o name
// it writes the name of the object.
func (c *commandCall) WriteDocument(value any) error {
	if c.Format == screen.Name {
		return c.WriteValue(value)
	}
	return c.Screen.WriteDocument(value)
}

// print prints the list in the format of flag -o. It is a table for people, or JSON, YAML and the like for scripts.
func (l listOutput[T]) print(c *commandCall) error {
	if err := sortRows(c.sortBy, l.items); err != nil {
		return err
	}
	if c.Format.IsForPrograms() {
		return c.WriteValue(l.value)
	}
	if len(l.items) == 0 && l.empty != "" {
		c.Wrapf(2, "%s", c.ReplaceProgramName(l.empty))
	} else if err := screen.NewTable(l.items, l.columns, l.row).Write(c.Screen); err != nil {
		return err
	}
	for _, note := range l.notes {
		switch {
		case note == "":
		case c.NoHeaders: // standard output has rows only
			c.Notef(2, "%s", c.ReplaceProgramName(note))
		default:
			c.Wrapf(2, "%s", c.ReplaceProgramName(note))
		}
	}
	return nil
}

// listFlags holds the flags that several list commands share. Each command registers the flags for its own list.
type listFlags struct {
	v1.RowFilter
	limit int
}

// registerLimit adds the flag --limit to a command, with the default number of rows.
func (f *listFlags) registerLimit(flags *pflag.FlagSet, rows int) {
	flags.IntVar(&f.limit, "limit", rows, "maximum number of rows (0: all)")
}

// registerSelector adds the flag -l (label selector) to a command. Parameter `of` begins its help text.
func (f *listFlags) registerSelector(flags *pflag.FlagSet, of string) {
	flags.StringVarP(&f.Selector, "selector", "l", "", of+": env=prod,tier!=db,owner,!old")
}

// registerWhere adds the flag --where (CEL condition) to a command. Parameter `over` describes the condition's
// variables in the help text.
func (f *listFlags) registerWhere(flags *pflag.FlagSet, over string) {
	flags.StringVar(&f.Where, "where", "", "CEL over "+over)
}

// hasFilter reports whether a filter flag (-l or --where) is set, as a sign of an incomplete list.
func (f *listFlags) hasFilter() bool { return f.RowFilter != (v1.RowFilter{}) }

// whereRowHelp returns the help text of flag --where about the variable row. Lists of events and resources have help
// texts of their own.
func whereRowHelp(example string) string { return "row, as -o json shows it: " + example }

// emptyText returns the line to print for an empty list, such as "no nodes match". hint tells how the first row
// comes.
func (f *listFlags) emptyText(plural string, narrowed bool, namespace, hint string) string {
	switch {
	case narrowed || f.hasFilter():
		return "no " + plural + " match"
	case namespace == "":
		return "no " + plural + " yet. " + hint
	}
	return "no " + plural + " in namespace " + namespace + ". All namespaces: -A. " + hint
}

// registerMessageFlag adds the flag -m to a command, for the reason in the audit log.
func registerMessageFlag(flags *pflag.FlagSet, to *string, usage string) {
	flags.StringVarP(to, "message", "m", "", usage)
}

// commandLine holds the state that all commands of one command line share. It includes the environment, the server
// address and the namespace.
type commandLine struct {
	*Env
	server, ca, contextFile string
	namespace               string
	namespaceImplied        bool // namespace comes from the context or the default, not from -n
	allNamespaces           bool // -A
}

// screen returns a new Screen, which writes the output of one command for the terminal
func (s *commandLine) screen() *screen.Screen {
	return &screen.Screen{Out: s.Stdout, Err: s.Stderr, Width: s.Width, ErrWidth: s.ErrWidth, Colours: s.Colour, Zone: s.Zone, Now: s.Now, Format: screen.Narrow, Program: s.Program}
}

// clientContext returns the server address, CA and token with which a command connects to the server. Flags
// come first, then environment variables, then the context file.
func (s *commandLine) clientContext() (client.Context, error) {
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

// contextPath returns the path of the context file, which has the server address and the login.
func (s *commandLine) contextPath() (string, error) {
	if s.contextFile != "" {
		return s.contextFile, nil
	}
	return client.ContextPath(s.Getenv)
}

// connect returns a client of the API for the server in the flags, environment or context file. Without -n, it takes
// the namespace from the context file.
func (s *commandLine) connect() (*client.Client, error) {
	c, err := s.clientContext()
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

// objectNamespace returns the namespace of the flag -n, or else default, for a command about one object.
func (s *commandLine) objectNamespace() string {
	return cmp.Or(s.namespace, model.DefaultNamespaceName)
}

// listNamespace returns the namespace that a list command reads. An empty text means all namespaces (-A).
func (s *commandLine) listNamespace() string {
	if s.allNamespaces {
		return ""
	}
	return s.objectNamespace()
}

// kindNamespace returns the namespace for a list of objects of one kind, or "" for all or none. It is "" for
// all namespaces, and for a kind without namespaces.
func (s *commandLine) kindNamespace(k model.KindInfo) string {
	if !k.Namespaced {
		return ""
	}
	return s.listNamespace()
}

// Env holds everything that muster commands read from the process, such as arguments and environment. Examples
// are arguments, standard streams, environment variables, clock and terminal.
type Env struct {
	Program string         // the name that the program was called by, for hints; empty: muster
	Args    []string       // without the program's name
	Kinds   *kind.Registry // nil: every kind of Muster
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Getenv  func(string) string
	Now     func() time.Time
	Zone    *time.Location // of times that people read
	// Width has the columns of Stdout's terminal, and ErrWidth those of Stderr's; 0: no terminal, nothing is cut or wrapped.
	Width, ErrWidth int
	Colour          bool // whether Stdout takes colours
	// ReadPassword asks on the terminal without an echo; nil: no terminal.
	ReadPassword func(prompt string) (string, error)
	// Edit opens a file in the user's editor and waits for its end.
	Edit func(path string) error
}

// NewProcessEnv returns the Env of the running process.
func NewProcessEnv() *Env {
	e := &Env{
		Program: os.Args[0], Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Now: time.Now, Zone: time.Local,
	}
	e.Edit = e.openInEditor
	e.Width, e.ErrWidth = terminalWidth(os.Stdout), terminalWidth(os.Stderr)
	e.Colour = e.Width > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
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

// terminalWidth returns the columns of a file's terminal. A file that is no terminal has 0.
func terminalWidth(f *os.File) int {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return 0
	}
	if width, _, err := term.GetSize(fd); err == nil && width > 0 {
		return width
	}
	return 80
}

// openInEditor opens a file in $VISUAL, $EDITOR or the editor of the system.
func (e *Env) openInEditor(path string) error {
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
