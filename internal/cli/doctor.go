package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) doctorCmd() *cobra.Command {
	var output *format
	p := doctor.Patient{}
	var admin string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Measure what usually hurts and name the command that mends it",
		Long: "Measures this machine and a data folder where installations usually hurt: limits, disk, fsync,\n" +
			"memory, clock, certificates, whether the server answers and history keeps up, and archives of\nAssets that are missing or damaged; worst first, each with the command to type.\n" +
			"Folders and budget are those of the server that runs here, unless flags, environment or a\nsettings file say otherwise.\n" +
			"Ends with 9 if something does not work at all.",
		Example: "  muster doctor\n  muster doctor --data /var/lib/muster --agents 5000",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(c.Flags(), a.Getenv)
			if err != nil {
				return err
			}
			given := func(name string) bool {
				file, _ := c.Flags().GetString("config")
				return c.Flags().Changed(name) || a.Getenv("MUSTER_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))) != "" || cmp.Or(file, a.Getenv("MUSTER_CONFIG")) != ""
			}
			p.Data, p.Journal, p.Budget = cfg.Data, cfg.Journal, int64(cfg.JournalBudget)
			if where, err := a.context(); err == nil {
				p.URL, p.CA, admin = where.Server, []byte(where.CA), cmp.Or(admin, where.Admin)
				api, err := client.New(where)
				switch {
				case err == nil:
					p.URL = api.Server() // with https:// before it
				case a.server != "" || a.ca != "": // typed wrong, or the wrong file
					return err
				}
				if where.CA == "" && where.CAFile != "" {
					p.CA, _ = os.ReadFile(where.CAFile) // where there is none, nothing is trusted, which is said
				}
				if !given("data") {
					p.Data = cmp.Or(where.Data, p.Data)
				}
			}
			if !given("data") && p.Data == cfg.Data {
				p.Data = dataFolder()
			}
			asRunning(c.Context(), adminURL(cmp.Or(admin, defaultAdmin)), &p, given)
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
	config.Flags(c.Flags(), "data", "journal", "journal-budget")
	c.Flags().StringVar(&admin, "admin", "", "the server's admin listener; default: the context's, else "+defaultAdmin)
	c.Flags().IntVar(&p.Agents, "agents", 1000, "agents that the machine should serve")
	return c
}

// defaultAdmin is where a server's admin listener is, unless it is told otherwise.
const defaultAdmin = "127.0.0.1:8444"

// dataFolder is where a server of this machine keeps all, if nobody says it: muster up in
// this folder, else the service.
func dataFolder() string {
	const up, service = "./muster-data", "/var/lib/muster"
	if _, err := os.Stat(up); err == nil {
		return up
	}
	if _, err := os.Stat(service); err == nil {
		return service
	}
	return up
}

// asRunning completes a patient with the settings of the server that runs on this
// machine, where it answers, is of the same data folder, and nothing else was given.
func asRunning(ctx context.Context, admin string, p *doctor.Patient, given func(setting string) bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var running map[string]string
	if data, err := fetch(ctx, admin+"/debug/config"); err != nil || json.Unmarshal(data, &running) != nil {
		return
	}
	folder := running["data"]
	if given("data") && !sameFolder(folder, p.Data) {
		return
	}
	p.Admin = admin
	if !given("data") && filepath.IsAbs(folder) {
		p.Data = folder
	}
	if !given("journal") {
		p.Journal = running["journal"]
	}
	if budget, err := model.ParseSize(running["journal-budget"]); err == nil && !given("journal-budget") {
		p.Budget = int64(budget)
	}
}

func sameFolder(x, y string) bool {
	a, err := os.Stat(x)
	if err != nil {
		return false
	}
	b, err := os.Stat(y)
	return err == nil && os.SameFile(a, b)
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
