package cli

import (
	"fmt"

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
			"memory, clock, certificates, whether the server answers. One line each, with the command to type.",
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
			}
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
	c.Flags().StringVar(&p.Data, "data", "./muster-data", "data folder of the server")
	c.Flags().StringVar(&p.Journal, "journal", "", "journal folder, if it lies apart")
	c.Flags().StringVar(&budget, "journal-budget", "4GiB", "what the journal may use on disk")
	c.Flags().IntVar(&p.Agents, "agents", 1000, "agents that the machine should serve")
	return c
}

func (a *app) printFindings(findings []doctor.Finding) error {
	t := newTable("", "WHAT", "MEASURED", "NEEDED", "TO MEND IT, TYPE")
	colours := map[doctor.Verdict]string{doctor.Fine: green, doctor.Warn: yellow, doctor.Bad: red}
	wrong := 0
	for _, f := range findings {
		if f.Verdict != doctor.Fine {
			wrong++
		}
		t.add(cell{string(f.Verdict), colours[f.Verdict]}, f.What, f.Measured, dash(f.Needed), f.Mend)
	}
	if err := t.write(&Env{Stdout: a.Stdout, Colour: a.Colour}); err != nil { // commands are not cut
		return err
	}
	if wrong == 0 {
		fmt.Fprintln(a.Stdout, "nothing found")
	}
	return nil
}
