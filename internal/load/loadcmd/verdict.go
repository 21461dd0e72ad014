package loadcmd

import (
	"errors"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// Exit codes of a run whose report is there. A run that could not be made ends with the
// code of its error's class.
const (
	exitMissed  = 20  // an objective was missed
	exitLost    = 21  // the ledger does not balance, alerts are missing or too many, or what had to be refused was taken
	exitStopped = 22  // somebody stopped it, and nothing was wrong as far as it was played
	exitEnded   = 130 // somebody ended it, without a report: as a shell says of Ctrl-C
)

// failed is the error of a run that shows what should not be; its report is kept.
type failed struct {
	said *model.Error
	code int
}

func (f *failed) Error() string { return f.said.Error() }

func (f *failed) Unwrap() error { return f.said }

// ExitCode is what the program ends with.
func (f *failed) ExitCode() int { return f.code }

// endsWith says whether an error is a verdict with this code.
func endsWith(err error, code int) bool {
	var judged *failed
	return errors.As(err, &judged) && judged.code == code
}

// unkept is the error of a run that has a report which could not be kept whole: err says why. What was
// lost is told all the same, and first.
func unkept(rep *report.Report, err error) error {
	if err == nil || rep == nil || !rep.Lost() {
		return err
	}
	return &failed{model.Errorf(model.Invalid, "the run failed: %s; and not all of its report could be kept: %w", strings.Join(rep.Verdict, "; "), err), exitLost}
}

// verdict is nil where all is as it should be. What was lost is told before what was slow,
// and a run whose generator fell behind says nothing about speed.
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
