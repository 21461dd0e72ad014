package loadcmd

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// listed is one line of muster load list.
type listed struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Answers    string   `json:"answers,omitempty"`
	Runs       bool     `json:"runs"`               // in this version
	Waits      []string `json:"waitsFor,omitempty"` // capabilities
	Agents     int      `json:"agents"`
	Results    float64  `json:"resultsPerSecond,omitempty"`
	Values     float64  `json:"valuesPerSecond,omitempty"`
	Components float64  `json:"componentsPerSecond,omitempty"`
	States     int      `json:"states,omitempty"`
	Seconds    float64  `json:"seconds"` // at most
	Forms      []string `json:"forms"`   // other names: the same, shorter or longer

	signals, takes string // for people
}

// today says whether this version plays the scenario.
func (l *listed) today() string {
	if l.Runs {
		return "runs"
	}
	return "waits for " + strings.Join(l.Waits, ", ")
}

// listCommand makes the command muster load list.
func listCommand() *cobra.Command {
	var quick bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the shipped scenarios: which run today, how large they are, what they answer",
		Long: `Shows the scenarios that muster load run NAME plays. Each has a short form, NAME-quick: as many agents as
this machine carries easily, each as before, measured for a minute. What a scenario waits for comes with
later versions; muster load show NAME says how much memory and how many open files it takes.`,
		Example: "  muster load list\n  muster load list --quick\n  muster load list -o yaml",
		Args:    cobra.NoArgs,
	}
	format := formatFlag(cmd, "table", "json", "yaml")
	cmd.Flags().BoolVar(&quick, "quick", false, "their quick forms, as they would be on this machine")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := shippedList(quick)
		if err != nil {
			return err
		}
		if format.forPrograms() {
			return format.print(cmd.OutOrStdout(), list)
		}
		return writeList(cmd.OutOrStdout(), terminalColumns(cmd.OutOrStdout()), list)
	}
	return cmd
}

// shippedList describes the shipped scenarios, or their quick forms.
func shippedList(quick bool) ([]listed, error) {
	var list []listed
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			return nil, err
		}
		forms := []string{name + "-quick"}
		if quick {
			s, forms = s.Quick(scenario.ThisMachine()), nil
		}
		list = append(list, listed{Name: s.Name, Title: s.FullTitle(), Answers: s.Answers, Runs: s.Runs() == nil, Waits: s.Missing(),
			Agents: s.Nodes(""), Results: s.Rate(), Values: s.ValueRate(), Components: s.ComponentRate(), States: s.States(),
			Seconds: s.Duration().Seconds(), Forms: forms, signals: s.Signals(), takes: model.Duration(s.Duration().Round(time.Second)).String()})
	}
	return list, nil
}

// writeList writes a line for each scenario. On a terminal that is too narrow, titles have lines of their own.
func writeList(out io.Writer, columns int, list []listed) error {
	rows := [][]string{{"NAME", "AGENTS", "SENDS", "TAKES", "TODAY"}}
	for i := range list {
		l := &list[i]
		rows = append(rows, []string{l.Name, number.Count(l.Agents), l.signals, l.takes, l.today()})
	}
	table := report.AlignedTable(rows)
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	titles, widest, longest := []string{"TITLE"}, 0, 0
	for i := range list {
		titles = append(titles, list[i].Title)
	}
	for i := range lines {
		widest, longest = max(widest, len(lines[i])), max(longest, len(titles[i]))
	}
	for i, line := range lines {
		if columns == 0 || widest+2+longest <= columns {
			fmt.Fprintf(out, "%-*s  %s\n", widest, line, titles[i])
		} else {
			fmt.Fprintf(out, "%s\n  %s\n", line, titles[i])
		}
	}
	return nil
}

// terminalColumns returns the width of the terminal that a command writes to, or 0 without one.
func terminalColumns(w io.Writer) int {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
		return columns
	}
	return 80
}

// showCommand makes the command muster load show.
func showCommand() *cobra.Command {
	var quick bool
	scale := 1.0
	cmd := &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "Show a scenario with its defaults filled in, and what it needs",
		Long: `Prints the scenario as it would be played: what the file leaves out is filled in, and --quick and --scale
have done their work. What it prints is a scenario file again; how large it is stands at its head, as a
comment.`,
		Example: "  muster load show sensu-4000x40x5s\n  muster load show sensu-4000x40x5s --quick\n" +
			"  muster load show muster-mixed >mine.yaml",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: shippedNames,
	}
	format := formatFlag(cmd, "yaml", "json")
	cmd.Flags().BoolVar(&quick, "quick", false, "as many agents as this machine carries easily, measured for a minute")
	cmd.Flags().Float64Var(&scale, "scale", 1, "so many times its agents: 0.1, 2")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := scenario.LoadAs(args[0], scale, quick)
		if err != nil {
			return err
		}
		if *format == "yaml" {
			for line := range strings.Lines(s.Describe()) {
				fmt.Fprintf(cmd.OutOrStdout(), "# %s", line)
			}
			for _, name := range s.Missing() {
				fmt.Fprintf(cmd.OutOrStdout(), "# Waits for %s.\n", name)
			}
		}
		return format.print(cmd.OutOrStdout(), s.File())
	}
	return cmd
}

// lintCommand makes the command muster load lint.
func lintCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE…",
		Short: "Say what is wrong with scenario files, without running them",
		Long: `Reads scenario files as muster load run does and says all that is wrong with them, with line and column and
what is allowed; recorded streams are read to their ends. - is the standard input.
docs/load-reference.md is the manual of the file.`,
		Example: "  muster load lint mine.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var wrong []string
			for _, file := range args {
				data, err := readFile(cmd.InOrStdin(), file)
				if err != nil {
					return err
				}
				s, err := scenario.Parse(file, data)
				if err == nil {
					err = s.Verify()
				}
				if err != nil {
					wrong = append(wrong, err.Error())
					continue
				}
				s.Defaults()
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", file, s.Brief())
				for _, name := range s.Missing() {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: waits for %s\n", file, name)
				}
			}
			if len(wrong) > 0 {
				return model.Errorf(model.Invalid, "%s", strings.Join(wrong, "\n"))
			}
			return nil
		},
	}
}

// readFile reads a file, or the standard input for -.
func readFile(stdin io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, scenario.ReadError(file, err)
	}
	return data, nil
}

// newCommand makes the command muster load new.
func newCommand() *cobra.Command {
	var u scenario.Uniform
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Write a scenario of equal agents, as a beginning of your own",
		Long: `Writes a scenario file to the standard output: equal agents with equal checks, a ramp, one measured phase and
a drain. Edit it, play it with muster load run FILE. docs/load-reference.md names what else it may have.`,
		Example: "  muster load new --agents 2000 --checks 40 --interval 5s >mine.yaml\n  muster load run mine.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sc := u.Scenario()
			sc.Name = "" // that of the file
			text, err := sc.YAML()
			if err == nil {
				_, err = scenario.Parse("new.yaml", text)
			}
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&u.Agents, "agents", 100, "agents")
	f.IntVar(&u.Checks, "checks", 40, "checks of each agent")
	f.DurationVar(&u.Interval, "interval", 5*time.Second, "interval of every check")
	f.IntVar(&u.OutputBytes, "output-bytes", 100, "length of each output; all differ")
	f.Float64Var(&u.Changes, "status-changes", 0.02, "share of results that change the status; those leave at once")
	f.DurationVar(&u.Steady, "duration", time.Minute, "measured time")
	f.DurationVar(&u.Warmup, "warmup", 5*time.Second, "time before it that is not measured")
	f.BoolVar(&u.TLS, "tls", false, "mutual TLS")
	f.Uint64Var(&u.Seed, "seed", 0, "same seed, same nodes and timetable")
	return cmd
}
