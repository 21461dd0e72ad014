package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) doctorCmd() *cobra.Command {
	var output *format
	p := doctor.Patient{}
	var budget string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Measure what usually hurts and name the command that mends it",
		Long: "Measures this machine and a data folder where installations usually hurt: limits, disk, fsync,\n" +
			"memory, clock, certificates, whether the server answers; worst first, each with the command to type.\n" +
			"Ends with 9 if something does not work at all.",
		Example: "  muster doctor\n  muster doctor --data /var/lib/muster --agents 5000",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			bytes, err := model.ParseSize(budget)
			if err != nil {
				return model.Errorf(model.Invalid, "%w", err)
			}
			p.Budget = int64(bytes)
			if where, err := a.context(); err == nil {
				p.URL, p.CA = where.Server, []byte(where.CA)
				p.Data = first(p.Data, where.Data)
			}
			p.Data = first(p.Data, "./muster-data")
			findings := doctor.Examine(c.Context(), p)
			bad := 0
			for _, f := range findings {
				if f.Verdict == doctor.Bad {
					bad++
				}
			}
			if output.machine() {
				if err := a.printValue(*output, findings); err != nil {
					return err
				}
			} else if err := a.printFindings(findings); err != nil {
				return err
			}
			if bad > 0 {
				return &exitError{model.Unavailable.Exit()}
			}
			return nil
		},
	}
	output = formatFlag(c)
	c.Flags().StringVar(&p.Data, "data", "", "data folder of the server; default: the context's, else ./muster-data")
	c.Flags().StringVar(&p.Journal, "journal", "", "journal folder, if it lies apart")
	c.Flags().StringVar(&budget, "journal-budget", "4GiB", "what the journal may use on disk")
	c.Flags().IntVar(&p.Agents, "agents", 1000, "agents that the machine should serve")
	return c
}

// printFindings prints what is wrong first. On a terminal too narrow for the commands
// these stand below, whole: they are to be copied.
func (a *app) printFindings(findings []doctor.Finding) error {
	order := map[doctor.Verdict]int{doctor.Bad: 0, doctor.Warn: 1, doctor.Fine: 2}
	findings = slices.Clone(findings)
	slices.SortStableFunc(findings, func(x, y doctor.Finding) int { return order[x.Verdict] - order[y.Verdict] })
	t := newTable("STATUS", "WHAT", "MEASURED", "NEEDED", "TO MEND IT, TYPE")
	colours := map[doctor.Verdict]string{doctor.Fine: green, doctor.Warn: yellow, doctor.Bad: red}
	below := false
	for _, f := range findings {
		t.add(cell{string(f.Verdict), colours[f.Verdict]}, f.What, f.Measured, dash(f.Needed), dash(f.Mend))
	}
	if wide := t.width(); a.Width > 0 && wide > a.Width {
		below = true
		t.head = t.head[:4]
		for i := range t.rows {
			t.rows[i] = t.rows[i][:4]
		}
	}
	if err := t.write(a.Env); err != nil {
		return err
	}
	bad := 0
	for _, f := range findings {
		if f.Verdict == doctor.Fine {
			continue
		}
		if bad++; below {
			fmt.Fprintf(a.Stdout, "\n%s: %s\n  needed: %s\n  to mend it: %s\n", clean(f.What, false), clean(f.Measured, false), clean(dash(f.Needed), false), clean(f.Mend, false))
		}
	}
	if bad == 0 {
		fmt.Fprintln(a.Stdout, "nothing to mend")
	}
	return nil
}
