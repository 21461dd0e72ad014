package loadcmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/muster-fleet/muster/internal/load/page"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

func reportCommand() *cobra.Command {
	var out string
	var open bool
	cmd := &cobra.Command{
		Use:   "report RUN.json|FOLDER",
		Short: "Show a run's summary, write its report as one HTML file, and open it",
		Long: `Reads what muster load run left (run.json, or the folder that holds it), prints the summary
and writes one HTML file with the verdict, the charts and all figures. The file needs nothing
else and asks no other host for anything.`,
		Example: "  muster load report bench/results/rate-16k.json\n" +
			"  muster load report FOLDER -o - --open=false >report.html",
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			run, beside, err := findRun(args[0])
			if err != nil {
				return err
			}
			rep, err := report.Read(run)
			if err != nil {
				return err
			}
			var text bytes.Buffer
			if err := page.Write(&text, rep); err != nil {
				return err
			}
			if out == "-" {
				_, err := cmd.OutOrStdout().Write(text.Bytes())
				return err
			}
			if out == "" {
				out = beside
			}
			if err := os.WriteFile(out, text.Bytes(), 0o644); err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
			fmt.Fprint(cmd.OutOrStdout(), rep.Text())
			fmt.Fprintln(cmd.OutOrStdout(), "page:", out)
			if open && hasScreen(cmd.OutOrStdout()) {
				if err := show(out); err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "the browser was not started (%v): open the file yourself\n", err)
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "out", "o", "", "the file to write; - is standard output. Default: report.html in the folder, or RUN.html beside RUN.json")
	f.BoolVar(&open, "open", true, "open it in the browser, where there is a screen")
	return cmd
}

// findRun is the run.json that path means, and the name of the report beside it.
func findRun(path string) (run, beside string, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", model.Errorf(model.NotFound, "there is no %s", path).WithHint("give a run.json, or the folder that muster load run wrote")
	case err != nil:
		return "", "", fmt.Errorf("read report: %w", err)
	case info.IsDir():
		run = filepath.Join(path, "run.json")
		if _, err := os.Stat(run); err != nil {
			hint := "give a run.json, or the folder that muster load run wrote"
			if last := lastRun(path); last != "" {
				hint = "give one of the folders in it: muster load report " + last
			}
			return "", "", model.Errorf(model.NotFound, "there is no run.json in %s", path).WithHint("%s", hint)
		}
		return run, filepath.Join(path, "report.html"), nil
	case filepath.Base(path) == "run.json":
		return path, filepath.Join(filepath.Dir(path), "report.html"), nil
	}
	return path, strings.TrimSuffix(path, filepath.Ext(path)) + ".html", nil
}

// lastRun is the newest of the runs whose folders are in one; empty: there is none.
func lastRun(dir string) (folder string) {
	var newest time.Time
	runs, _ := filepath.Glob(filepath.Join(dir, "*", "run.json"))
	for _, run := range runs {
		if info, err := os.Stat(run); err == nil && info.ModTime().After(newest) {
			folder, newest = filepath.Dir(run), info.ModTime()
		}
	}
	return folder
}

// hasScreen says whether somebody reads out who would see a browser too.
func hasScreen(out io.Writer) bool {
	if f, ok := out.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return false
	}
	return runtime.GOOS == "windows" || runtime.GOOS == "darwin" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// show opens a file in the browser, which outlives this process.
func show(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case "darwin":
		command = []string{"open"}
	}
	cmd := exec.Command(command[0], append(command[1:], path)...)
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
