package intent_test

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
)

// What somebody ran on many things says how many were picked when it begins, and what became of it when it
// ends; where the server does not live to see that, its next start says so, once.
func TestRunsThatWereCutOff(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	by := intent.Actor{User: "ada", Whence: "10.0.0.7", Why: "a bulk resolve"}
	record := func() (list []string) {
		t.Helper()
		entries, err := w.Audit(ctx, intent.ChangeQuery{Kind: "run"}, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Who.User != "ada" || e.Who.Whence != "10.0.0.7" || e.Diff != "" {
				t.Errorf("%+v", e)
			}
			list = append(list, e.Who.Why)
		}
		slices.Reverse(list)
		return list
	}
	is := func(want ...string) {
		t.Helper()
		if got := record(); !slices.Equal(got, want) {
			t.Errorf("recorded: %q\nwant: %q", got, want)
		}
	}
	ended, err := w.BeginRun(ctx, by, "3 events picked", " (all): tidied")
	if err != nil {
		t.Fatal(err)
	}
	first := []string{"a bulk resolve: 3 events picked (all): tidied", "a bulk resolve to its end (revision 2): done to 2 of 3"}
	is(first[:1]...)
	if err := ended("done to 2 of 3"); err != nil {
		t.Fatal(err)
	}
	is(first...)
	if _, err := w.BeginRun(ctx, by, "5 events picked", " (all)"); err != nil {
		t.Fatal(err)
	}
	if err := w.RecordRun(ctx, intent.Actor{User: "ada", Whence: "10.0.0.7", Why: "check disk on 3 nodes"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.open(t)
		if err := w.CloseInterruptedRuns(ctx); err != nil {
			t.Fatal(err)
		}
	}
	is(append(first, "a bulk resolve: 5 events picked (all)", "check disk on 3 nodes",
		"a bulk resolve perhaps not to its end (revision 4): of 5 events picked some may be left, because the server ended before it had recorded the end; type it again, it picks what there is left to do (--dry-run shows that)")...)
}
