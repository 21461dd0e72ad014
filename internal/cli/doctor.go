package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/model"
)

// doctorCommand makes the command muster doctor, which finds faults of the server or agent on the user's
// machine.
func doctorCommand(s *commandLine) *cobra.Command {
	p := doctor.Target{}
	var admin string
	return s.buildCommand(command{
		use: "doctor", short: "Find common faults of this machine, with the command that fixes each",
		args: cobra.NoArgs, offline: true,
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags, "data", "journal", "journal-budget")
			flags.StringVar(&admin, "admin", "", "admin listener of the server; default: the context's, else "+defaultAdmin)
			flags.IntVar(&p.Agents, "agents", 1000, "number of agents that the machine must serve")
		},
		run: func(c *commandCall) error {
			if err := completeDoctorTarget(c, &p, admin); err != nil {
				return err
			}
			findings := doctor.Examine(c.ctx, p)
			show := func() error { return printFindings(c.Screen, findings) }
			if c.Format.IsForPrograms() {
				show = func() error { return c.WriteValue(findings) }
			}
			if err := show(); err != nil {
				return err
			}
			if slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Rating == doctor.Bad }) {
				return &exitError{model.Unavailable.Exit()}
			}
			return nil
		},
	})
}

// completeDoctorTarget finds the server and the folders that muster doctor examines. It takes flags, environment and
// settings file first, then the context file, then the running server.
func completeDoctorTarget(c *commandCall, p *doctor.Target, admin string) error {
	cfg, err := config.Load(c.cmd.Flags(), c.Getenv)
	if err != nil {
		return err
	}
	isSet := func(name string) bool {
		file, _ := c.cmd.Flags().GetString("config")
		return c.cmd.Flags().Changed(name) || c.Getenv("MUSTER_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))) != "" || cmp.Or(file, c.Getenv("MUSTER_CONFIG")) != ""
	}
	p.Data, p.Journal, p.Budget = cfg.Data, cfg.Journal, int64(cfg.JournalBudget)
	if target, err := c.clientContext(); err == nil {
		p.URL, p.CA, admin = target.Server, []byte(target.CA), cmp.Or(admin, target.Admin)
		api, err := client.New(target)
		switch {
		case err == nil:
			p.URL = api.Server() // with https:// before it
		case c.server != "" || c.ca != "": // a typing error, or the wrong file
			return err
		}
		if target.CA == "" && target.CAFile != "" {
			p.CA, _ = os.ReadFile(target.CAFile) // without a CA the finding reports that nothing is trusted
		}
		if !isSet("data") {
			p.Data = cmp.Or(target.Data, p.Data)
		}
	}
	if !isSet("data") && p.Data == cfg.Data {
		p.Data = usualDataFolder()
	}
	readServerSettings(c.ctx, adminURL(cmp.Or(admin, defaultAdmin)), p, isSet)
	return nil
}

// defaultAdmin is the default address of a server's admin listener.
const defaultAdmin = "127.0.0.1:8444"

// usualDataFolder returns the usual data folder of a server on the user's machine. It is muster-data in the current
// folder for muster up, or /var/lib/muster for the service.
func usualDataFolder() string {
	const up, service = "./muster-data", "/var/lib/muster"
	for _, folder := range []string{up, service} {
		if _, err := os.Stat(folder); err == nil {
			return folder
		}
	}
	return up
}

// readServerSettings fills in unset settings of muster doctor from the server on the same machine. The server must use
// the same data folder. isSet reports settings that the user chose.
func readServerSettings(ctx context.Context, admin string, p *doctor.Target, isSet func(setting string) bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var settings map[string]string
	if data, err := fetchAdminPage(ctx, admin+"/debug/config"); err != nil || json.Unmarshal(data, &settings) != nil {
		return
	}
	folder := settings["data"]
	if isSet("data") && !isSameFolder(folder, p.Data) {
		return
	}
	p.Admin = admin
	if !isSet("data") && filepath.IsAbs(folder) {
		p.Data = folder
	}
	if !isSet("journal") {
		p.Journal = settings["journal"]
	}
	if budget, err := model.ParseSize(settings["journal-budget"]); err == nil && !isSet("journal-budget") {
		p.Budget = int64(budget)
	}
}

// isSameFolder reports whether two paths name the same folder, also through symbolic links.
func isSameFolder(x, y string) bool {
	a, _ := os.Stat(x)
	b, _ := os.Stat(y)
	return a != nil && b != nil && os.SameFile(a, b)
}

// ratingOrder sorts findings, worst first.
var ratingOrder = map[doctor.Rating]int{doctor.Bad: 0, doctor.Warn: 1, doctor.Fine: 2}

var ratingColours = map[doctor.Rating]screen.Colour{doctor.Fine: screen.Green, doctor.Warn: screen.Yellow, doctor.Bad: screen.Red}

// printFindings writes the findings of muster doctor as a table, worst first. On a terminal too narrow for the
// commands, they stand below it, uncut: people copy them.
func printFindings(s *screen.Screen, findings []doctor.Finding) error {
	findings = slices.Clone(findings)
	slices.SortStableFunc(findings, func(x, y doctor.Finding) int { return ratingOrder[x.Rating] - ratingOrder[y.Rating] })
	t := screen.NewTable(findings, screen.SplitColumns("STATUS|CHECKED|MEASURED|NEEDED|COMMAND"), func(f doctor.Finding) []any {
		return []any{screen.Cell{Text: string(f.Rating), Colour: ratingColours[f.Rating]}, f.Subject, f.Measured, f.Needed, f.Mend}
	})
	below := s.Width > 0 && t.Width() > s.Width
	if below {
		t.DropLast()
	}
	if err := t.Write(s); err != nil {
		return err
	}
	faults := slices.DeleteFunc(findings, func(f doctor.Finding) bool { return f.Rating == doctor.Fine })
	if len(faults) == 0 {
		s.Printf("no faults found\n")
	}
	for _, f := range faults {
		if below {
			s.Printf("\n%s: %s\n  needed: %s\n  to fix it: %s\n", f.Subject, f.Measured, screen.DashIfEmpty(f.Needed), f.Mend)
		}
	}
	return nil
}
