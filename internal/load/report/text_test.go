package report

import (
	"strings"
	"testing"
)

// What a run did not look at, and what has to be said with its figures, stands in the terminal
// as in the page: nobody takes what was not compared for what is equal.
func TestWhatWasNotDoneIsInTheText(t *testing.T) {
	rep := &Report{Valid: true, Plan: Plan{Agents: 2, Checks: 3}, Balance: &Balance{Sent: 6, Acknowledged: 6}, Label: []string{"operators did nothing: there was no login"}}
	text := rep.Text()
	for _, want := range []string{"  not compared: whether the server holds", "0 missing; not compared with the server's states\n", "operators did nothing"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "nothing lost") {
		t.Error(text)
	}
	rep.Balance.Missing, rep.Verdict = 1, []string{"1 results were sent and neither acknowledged nor refused"}
	if text := rep.Text(); !strings.Contains(text, "  not compared: ") || !strings.Contains(text, "  ! 1 results") {
		t.Error(text)
	}
	rep.Balance.Missing, rep.Balance.Compared, rep.Verdict = 0, 6, []string{"step ×2 broke at first, was played once more, and held"}
	if text := rep.Text(); !strings.Contains(text, "nothing lost, nothing twice, the generator kept up\n  · step ×2 broke") {
		t.Error(text) // a note is no failure
	}
	rep.Verdict = nil
	if text := rep.Text(); strings.Contains(text, "not compared") || !strings.Contains(text, "nothing lost, nothing twice") {
		t.Error(text)
	}
	sensu := &Report{Targeted: &Targeted{Name: "sensu"}, Balance: &Balance{}, Label: rep.Label}
	if !strings.Contains(sensu.Text(), "operators did nothing") {
		t.Error(sensu.Text())
	}
}
