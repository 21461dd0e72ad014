package loadcmd

import (
	"errors"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// Exit codes of a run with a report. A run that failed to begin ends with the code of its error's class.
const (
	exitMissed  = 20  // an objective was missed
	exitLost    = 21  // the ledger does not balance, alerts are missing or too many, or what had to be refused was taken
	exitStopped = 22  // it was stopped or its loader killed, and nothing was wrong until then
	exitEnded   = 130 // a person ended it, without a report: the code of a shell for Ctrl-C
)

// failed is the error of a run with a report, and its exit code.
type failed struct {
	err  *model.Error
	code int
}

func (f *failed) Error() string { return f.err.Error() }

func (f *failed) Unwrap() error { return f.err }

// ExitCode returns the program's exit code.
func (f *failed) ExitCode() int { return f.code }

// endsWith reports whether an error has this exit code.
func endsWith(err error, code int) bool {
	var judged *failed
	return errors.As(err, &judged) && judged.code == code
}

// unsaved returns the error of a run whose report could not be saved for the reason err. Losses come first.
func unsaved(rep *report.Report, err error) error {
	if err == nil || rep == nil || !rep.Lost() {
		return err
	}
	return &failed{model.Errorf(model.Invalid, "the run failed: %s; and not all of its report could be kept: %w", strings.Join(rep.Verdict, "; "), err), exitLost}
}

// verdict returns the error of a run that failed. Losses come before slowness, and a run whose generator fell behind
// measures no speed.
func verdict(rep *report.Report) error {
	if rep.OK() {
		return nil
	}
	code := exitMissed
	switch {
	case rep.Lost():
		code = exitLost
	case !rep.Valid:
		code = model.Limited.Exit()
	case rep.OnlyStopped():
		return &failed{model.Errorf(model.Unavailable, "the run was %s", rep.Verdict[0]), exitStopped}
	}
	return &failed{model.Errorf(model.Invalid, "the run failed: %s", strings.Join(rep.Verdict, "; ")), code}
}
