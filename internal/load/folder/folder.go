// Package folder keeps what a run shows in one folder, for people and for other programs:
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
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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
	return filepath.Join(Default, plain(run)+"-"+now.Format("20060102-150405"))
}

// plain replaces characters that file names and benchmark names must not have.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r) {
			return r
		}
		return '-'
	}, name)
	if name = strings.Trim(name, "-."); name == "" {
		name = "run"
	}
	return name
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

// File is a file that Save writes in addition to the report.
type File struct {
	Name, What string
	Write      func(ctx context.Context, w io.Writer) error // nothing written: there is no such file
}

// Save writes the report and all files, and lists the files in the report. It tries every file and joins the errors.
func (f *Folder) Save(ctx context.Context, rep *report.Report, more ...File) error {
	var errs []error
	rep.AddFile("run.json", "this report, for programs")
	rep.AddFile("report.html", "this report to look at")
	more = append(more, File{"report.html", "this report to look at", func(_ context.Context, w io.Writer) error { return page.Write(w, rep) }})
	for _, x := range more {
		var text bytes.Buffer
		err := x.Write(ctx, &text)
		if err == nil && text.Len() > 0 {
			if err = replace(filepath.Join(f.Path, x.Name), text.Bytes()); err == nil {
				rep.AddFile(x.Name, x.What)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("write %s: %w", x.Name, err))
		}
	}
	errs = append(errs, rep.Save(filepath.Join(f.Path, "run.json")))
	err := errors.Join(errs...)
	if noRoom(err) {
		return f.full(err)
	}
	return err
}

// full explains the error of a full disk, with the files that were written and those that were not.
func (f *Folder) full(err error) error {
	kept := "nothing of the report is there"
	if _, gone := os.Stat(filepath.Join(f.Path, "run.json")); gone == nil {
		kept = "run.json is there, and not all beside it"
	}
	return model.Errorf(model.Limited, "the disk of %s is full: %s (%w)", f.Path, kept, firstOf(err)).
		WithHint("the figures above are all there is; make room, or name a folder on another disk with --out, and play it again")
}

// noRoom reports whether an error means a full disk or quota.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// firstOf returns the first error about a full disk among joined errors.
func firstOf(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range many.Unwrap() {
			if noRoom(one) {
				return firstOf(one)
			}
		}
	}
	return err
}

// replace replaces a file, or keeps the old one if the disk is full.
func replace(path string, data []byte) error {
	part := path + ".part"
	err := os.WriteFile(part, data, 0o644)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}

// Discard removes the folder of a run without a report if it is empty. It reports whether the folder holds a file: the log
// that the run can be judged by.
func (f *Folder) Discard(log string) (kept bool) {
	_ = os.Remove(f.Path) // only if it is empty, as the next
	if filepath.Dir(f.Path) == Default {
		_ = os.Remove(Default)
	}
	_, err := os.Stat(filepath.Join(f.Path, log))
	return err == nil
}
