package report

import (
	"path/filepath"
	"testing"
)

// TestOnlyStopped expects that notes, such as about a repeated step, do not fail a stopped run, also after it was saved
// and read.
func TestOnlyStopped(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Report)
		want   bool
	}{
		"nothing else": {func(*Report) {}, true},
		"a note": {func(r *Report) {
			r.Verdict = append(r.Verdict, "step ×1 broke at first, was played once more, and held")
		}, true},
		"a loss": {func(r *Report) { r.Balance.Missing = 1; r.Verdict = append(r.Verdict, "1 missing") }, false},
		"a goal": {func(r *Report) { r.Goals = []Goal{{Name: "p99"}}; r.Verdict = append(r.Verdict, "short: p99") }, false},
		"people": {func(r *Report) {
			r.Trouble = []string{"1 of 2 failed"}
			r.Verdict = append(r.Verdict, "1 of 2 failed")
		}, false},
		"behind":            {func(r *Report) { r.Valid = false; r.Verdict = append(r.Verdict, "invalid: behind") }, false},
		"played to its end": {func(r *Report) { r.Stopped, r.Verdict = nil, nil }, false},
	} {
		rep := &Report{Schema: Schema, Valid: true, Balance: &Balance{}, Stopped: &Stopped{After: 1, Of: 2, Whole: 1}}
		rep.Verdict = []string{rep.Stopped.Sentence()}
		c.change(rep)
		if got := rep.OnlyStopped(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		path := filepath.Join(t.TempDir(), "run.json")
		if err := rep.Save(path); err != nil {
			t.Fatal(err)
		}
		if read, err := Read(path); err != nil || read.OnlyStopped() != c.want {
			t.Errorf("%s, read again: %v, %+v", name, err, read)
		}
	}
}
