package load

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/model"
)

func tableCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "table FILE…",
		Short: "Show reports side by side, as Markdown",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := Table(args)
			fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
}

// Table reads reports (run.json) into one Markdown table, a row each.
func Table(files []string) (string, error) {
	var b strings.Builder
	b.WriteString("| run | agents × checks | offered/s | acknowledged/s | per frame | p50 / p99 beyond linger, ms | lag p99, ms | server cores, µs/result | loader cores | server MiB | kB/agent | connect, s | back after, s | journal B/result | ledger | load before |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, path := range files {
		rep, err := Read(path)
		if err != nil {
			return "", err
		}
		p := rep.Plan
		name := rep.Title
		if name == "" {
			name = strings.TrimSuffix(filepath.Base(path), ".json")
		}
		back := "–"
		for _, o := range rep.Outages {
			back = fmt.Sprintf("%.1f", o.Seconds)
			if o.Seconds < 0 {
				back = "not"
			}
		}
		disk := "–"
		if v, ok := rep.PerResult("muster_journal_written_bytes_total"); ok {
			disk = fmt.Sprintf("%.0f", v)
		}
		ledger := "balanced"
		switch {
		case !rep.Balance.OK():
			ledger = fmt.Sprintf("**%d missing, %d differ**", rep.Balance.Missing, rep.Balance.Imbalances)
		case !rep.Valid:
			ledger = "balanced; generator behind"
		}
		fmt.Fprintf(&b, "| %s | %d × %d | %.0f | %.0f | %.1f | %.1f / %.1f | %.1f | %.2f, %.1f | %.2f | %d | %.1f | %.1f | %s | %s | %s | %s |\n",
			name, p.Agents, p.Checks, p.Offered, rep.Rate, rep.Batch.Mean, rep.BeyondLinger.P50, rep.BeyondLinger.P99, rep.Lag.P99,
			rep.Server.Cores, rep.Server.MicrosPerItem, rep.Loader.Cores, rep.Server.RSS>>20, rep.SessionBytes/1000, rep.ConnectSeconds, back, disk, ledger, rep.Machine.Load)
	}
	return b.String(), nil
}

// Read reads run.json.
func Read(path string) (*Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	rep := &Report{}
	if err := json.Unmarshal(data, rep); err != nil {
		return nil, fmt.Errorf("read report %s: %w", path, err)
	}
	if rep.Schema != Schema || rep.Balance == nil {
		return nil, model.Errorf(model.Invalid, "%s is not a report of %s", path, Schema)
	}
	return rep, nil
}
