package prep

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

const (
	maxFailure        = 2048 // characters of the text of a failure
	maxFailureValue   = 100  // characters of one value in it
	maxFailurePattern = 500  // characters of a regular expression in it
)

// Failure is the error of preprocessing, which leaves the item without a value. Its text has the form of Zabbix: the
// value, then the outcomes of the last steps until the failed one.
type Failure struct {
	Step   int   // position of the failed step, from 1; 0: the last output does not suit the type of the item
	Reason error // of the failed step
	text   string
}

// Error returns the text of the error, which the state of the item shows.
func (f *Failure) Error() string { return f.text }

// Unwrap returns the error of the failed step, for errors.Is and errors.As.
func (f *Failure) Unwrap() error { return f.Reason }

// newFailure returns the error of a failed step, with the outputs of all earlier steps in its text. An error
// text that onFail set stands alone.
func newFailure(input item.Value, outputs []item.Value, failed, err error, replaced bool) *Failure {
	f := &Failure{Step: len(outputs) + 1, Reason: failed, text: err.Error()}
	if replaced {
		return f
	}
	head := "Preprocessing failed for: " + shorten(textOf(input), maxFailureValue)
	tail := fmt.Sprintf("\n%d. Failed: %s", len(outputs)+1, err)
	var results []string
	left := maxFailure - utf8.RuneCountInString(head+tail+"\n...")
	for i, out := range slices.Backward(outputs) {
		line := fmt.Sprintf("\n%d. Result: %s", i+1, shorten(textOf(out), maxFailureValue))
		if left -= utf8.RuneCountInString(line); left < 0 {
			results = append(results, "\n...") // the steps before
			break
		}
		results = append(results, line)
	}
	slices.Reverse(results)
	f.text = shorten(head+strings.Join(results, "")+tail, maxFailure)
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
