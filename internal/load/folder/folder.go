// Package folder writes the files of a load run to one folder, for people and for other programs:
//
//	run.json        the whole report (report.Report)
//	report.html     the same to look at
//	observed.jsonl  the observation log, written during the run
//	server.log      of the server under test
//	profiles/       of the server, for go tool pprof
//
// A Folder belongs to one goroutine. Locks: none. Start reading at folder.go.
package folder

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/muster-fleet/muster/internal/load/page"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// Default is where a run keeps its report unless it is told.
const Default = "muster-load"

// Folder is the folder of one run's report.
type Folder struct{ Path string }

// Name returns the path of a folder for a run that begins now.
func Name(run string, now time.Time) string {
	return filepath.Join(Default, cmp.Or(model.CleanName(run), "run")+"-"+now.Format("20060102-150405"))
}

// Make creates the folder, or returns an error if it already holds a report.
func Make(path string) (*Folder, error) {
	if _, err := os.Stat(filepath.Join(path, "run.json")); err == nil {
		return nil, model.Errorf(model.Conflict, "%s holds the report of another run", path).WithHint("give another folder with --out, or remove that one")
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return nil, fmt.Errorf("make the folder of the report: %w", err)
		}
		return nil, model.Errorf(model.Invalid, "make the folder of the report: %w", err).WithHint("name one with --out that can be made and written to")
	}
	return &Folder{path}, nil
}

// Files of a folder beside run.json and report.html.
const (
	ServerLog      = "server.log"     // of the server under test
	ObservationLog = "observed.jsonl" // the input of muster load judge
)

// Save writes the report, its page, and the server's log unless it is empty, and lists them in the report. It tries every file.
func (f *Folder) Save(rep *report.Report, serverLog []byte) error {
	var errs []error
	if len(serverLog) > 0 {
		err := f.Write(ServerLog, serverLog)
		if errs = append(errs, err); err == nil {
			rep.AddFile(ServerLog, "log of the server under test")
		}
	}
	rep.AddFile("run.json", "this report, for programs")
	rep.AddFile("report.html", "this report to look at")
	html, err := page.HTML(rep)
	errs = append(errs, err, f.Write("report.html", html), rep.Save(filepath.Join(f.Path, "run.json")))
	for _, err := range errs {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return f.full(err)
		}
	}
	return errors.Join(errs...)
}

// full explains the error of a full disk, with the files that were written and those that were not.
func (f *Folder) full(err error) error {
	kept := "nothing of the report is there"
	if _, gone := os.Stat(filepath.Join(f.Path, "run.json")); gone == nil {
		kept = "run.json is there, and not all beside it"
	}
	return model.Errorf(model.Limited, "the disk of %s is full: %s (%w)", f.Path, kept, err).
		WithHint("the figures above are all there is; make room, or name a folder on another disk with --out, and play it again")
}

// Write replaces a file of the folder, or keeps the old one if the disk is full.
func (f *Folder) Write(name string, data []byte) error {
	path := filepath.Join(f.Path, name)
	part := path + ".part"
	err := os.WriteFile(part, data, 0o644)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Discard removes the folder of a run without a report if it is empty. It reports whether the folder holds the observation log.
func (f *Folder) Discard() (kept bool) {
	_ = os.Remove(f.Path) // only if it is empty, as the next
	if filepath.Dir(f.Path) == Default {
		_ = os.Remove(Default)
	}
	_, err := os.Stat(filepath.Join(f.Path, ObservationLog))
	return err == nil
}
