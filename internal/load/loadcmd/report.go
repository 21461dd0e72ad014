package loadcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/page"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// reportCommand makes the command muster load report.
func reportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report RUN.json|FOLDER",
		Short: "Show a run's findings, and write its report as one HTML file",
		Long: `Reads what muster load run left (run.json, or the folder that holds it), prints the summary
and writes one HTML file with the verdict, the charts and all figures. The file needs nothing
else and asks no other host for anything.`,
		Example: "  muster load report bench/results/rate-16k.json\n" +
			"  muster load report FOLDER --out - >report.html",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, beside := findRun(args[0])
			rep, err := report.Read(run)
			if errors.Is(err, fs.ErrNotExist) {
				return model.Errorf(model.NotFound, "there is no %s", run).
					WithHint("give a run.json, or the folder that muster load run wrote")
			}
			if err != nil {
				return err
			}
			html, err := page.HTML(rep)
			if err != nil {
				return err
			}
			if out == "-" {
				_, err := cmd.OutOrStdout().Write(html)
				return err
			}
			out = cmp.Or(out, beside)
			if err := os.WriteFile(out, html, 0o644); err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%spage: %s\n", rep.Text(), out)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "the file to write; - is standard output. Default: report.html in the folder, or RUN.html beside RUN.json")
	return cmd
}

// findRun returns the run.json of a path, and the name of the page beside it.
func findRun(path string) (run, beside string) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "run.json")
	}
	if filepath.Base(path) == "run.json" {
		return path, filepath.Join(filepath.Dir(path), "report.html")
	}
	return path, strings.TrimSuffix(path, filepath.Ext(path)) + ".html"
}

// tableCommand makes the command muster load table.
func tableCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "table FILE…",
		Short:   "Show reports side by side, as Markdown",
		Example: "  muster load table bench/results/rate-16k.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := report.Markdown(args)
			fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
}
