package loadcmd

import (
	"strings"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/model"
)

// Exit codes of a run whose report is there. A run that could not be made ends with the
// code of its error's class.
const (
	exitMissed = 20 // an objective was missed
	exitLost   = 21 // the ledger does not balance, alerts are missing or too many, or what had to be refused was taken
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

// verdict is nil where all is as it should be. What was lost is told before what was slow,
// and a run whose generator fell behind says nothing about speed.
func verdict(rep *load.Report) error {
	if rep.OK() {
		return nil
	}
	code := exitMissed
	switch {
	case rep.Lost():
		code = exitLost
	case !rep.Valid:
		code = model.Limited.Exit()
	}
	return &failed{model.Errorf(model.Invalid, "the run failed: %s", strings.Join(rep.Verdict, "; ")), code}
}
