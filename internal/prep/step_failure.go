package prep

import (
	"errors"
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

const (
	maxFailure      = 2048 // characters of the text of a failure
	maxFailureValue = 100  // characters of one value in it
)

// Failure is the error of preprocessing, which leaves the item without a value. Its text has the form of Zabbix: the
// value, then the outcome of each step until the failed one.
type Failure struct {
	Step   int   // position of the failed step, from 1; 0: the last output does not suit the type of the item
	Reason error // of the failed step
	text   string
}

// Error returns the error text for the state of the item
func (f *Failure) Error() string { return f.text }

// Unwrap returns the error of the failed step, for errors.Is and errors.As.
func (f *Failure) Unwrap() error { return f.Reason }

// newFailure returns the error of a failed step, whose text shows the outputs of the steps before. An error text that
// onFail set stands alone.
func newFailure(input item.Value, outputs []item.Value, failed, err error, replaced bool) *Failure {
	f := &Failure{Step: len(outputs) + 1, Reason: failed, text: err.Error()}
	if replaced {
		return f
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Preprocessing failed for: %s", shorten(textOf(input), maxFailureValue))
	for i, out := range outputs {
		fmt.Fprintf(&b, "\n%d. Result: %s", i+1, shorten(textOf(out), maxFailureValue))
	}
	fmt.Fprintf(&b, "\n%d. Failed: %s", len(outputs)+1, err)
	f.text = shorten(b.String(), maxFailure)
	return f
}

// shorten cuts a text to n characters. The last three of a cut text are dots.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	seen := 0
	cut := 0 // bytes of the first n-3 characters
	for i := range s {
		if seen == n-3 {
			cut = i
		}
		if seen++; seen > n {
			return s[:cut] + "..."
		}
	}
	return s
}

// applyOnFail returns the result of a failed step, according to the step's onFail setting. The result is a
// value, no value, or another error.
func applyOnFail(h *model.OnFail) (item.Value, error) {
	switch {
	case h.Value != nil:
		return item.FromText(*h.Value), nil
	case h.Error != "":
		return item.Value{}, errors.New(h.Error)
	}
	return item.Value{}, nil
}
