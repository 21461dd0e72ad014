package loadcmd

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// listed is one line of muster load list.
type listed struct {
	Name       string                `json:"name"`
	Title      string                `json:"title"`
	Answers    string                `json:"answers,omitempty"`
	Runs       bool                  `json:"runs"` // in this version
	Waits      []scenario.Capability `json:"waitsFor,omitempty"`
	Lacks      string                `json:"machineLacks,omitempty"` // what this machine has too little of; empty: nothing
	Agents     int                   `json:"agents"`
	Results    float64               `json:"resultsPerSecond,omitempty"`
	Values     float64               `json:"valuesPerSecond,omitempty"`
	Components float64               `json:"componentsPerSecond,omitempty"`
	States     int                   `json:"states,omitempty"`
	Seconds    float64               `json:"seconds"` // at most
	Forms      []string              `json:"forms"`   // other names: the same, shorter or longer
}

func listCommand() *cobra.Command {
	var quick bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the shipped scenarios: which run today, how large they are, what they answer",
		Long: `Shows the scenarios that muster load run NAME plays. Each has a short form, NAME-quick: as many agents as
this machine carries easily, each as before, measured for a minute; and, where it is one stretch, a long
one, NAME-soak: an hour. What a scenario waits for comes with later versions; what this machine has too
little of to play it whole is named, and with -o wide how much it takes.`,
		Example:       "  muster load list\n  muster load list --quick\n  muster load list -o wide",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	format := formatFlag(cmd, "table", "table", "wide", "json", "yaml")
	cmd.Flags().BoolVar(&quick, "quick", false, "their quick forms, as they would be on this machine")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := shippedList(quick)
		if err != nil {
			return err
		}
		if format.machine() {
			return format.print(cmd.OutOrStdout(), list)
		}
		return writeList(cmd.OutOrStdout(), list, format.name == "wide")
	}
	return cmd
}

func shippedList(quick bool) ([]listed, error) {
	var list []listed
	machine := scenario.ThisMachine()
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			return nil, err
		}
		forms := []string{name + "-quick"}
		if _, err := s.Soak(); err == nil {
			forms = append(forms, name+"-soak")
		}
		if quick {
			s, forms = s.Quick(machine), nil
		}
		list = append(list, listed{Name: s.Name, Title: s.FullTitle(), Answers: s.Answers, Runs: s.Runs() == nil, Waits: s.Missing(), Lacks: machine.Lacks(s),
			Agents: s.Nodes(""), Results: s.Rate(), Values: s.ValueRate(), Components: s.ComponentRate(), States: s.States(),
			Seconds: s.Duration().Seconds(), Forms: forms})
	}
	return list, nil
}

// writeList shows a scenario on a line.
func writeList(out io.Writer, list []listed, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "NAME\tAGENTS\tPER SECOND\tTAKES\tTODAY\tTITLE\n")
	for i := range list {
		l := &list[i]
		today, title := "runs", l.Title
		switch {
		case l.Runs && l.Lacks != "":
			today = "too large here: " + lacks(l.Lacks, wide)
		case !l.Runs:
			var names []string
			for _, c := range l.Waits {
				names = append(names, c.Name)
			}
			today = "waits for " + strings.Join(names, ", ")
		}
		if wide {
			title = cmp.Or(l.Answers, title)
		}
		takes := model.Duration(time.Duration(l.Seconds * float64(time.Second)).Round(time.Second)).String()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, number.Count(l.Agents), l.rate(), takes, today, title)
	}
	return w.Flush()
}

// lacks is what there is too little of; how much, where there is room to say it.
func lacks(what string, wide bool) string {
	if !wide {
		what, _, _ = strings.Cut(what, " (")
	}
	return what
}

func (l *listed) rate() string {
	for _, r := range [...]struct {
		rate float64
		what string
	}{{l.Results, "results"}, {l.Values, "values"}, {l.Components, "components"}} {
		if r.rate > 0 {
			return number.Count(r.rate) + " " + r.what
		}
	}
	return "keepalives"
}
