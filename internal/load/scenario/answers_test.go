package scenario

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// TestQuickPhasesHaveEnoughAnswers expects that the compared phases of quick forms are long enough for twenty answers
// to the rarest request, and not longer than in the whole form.
func TestQuickPhasesHaveEnoughAnswers(t *testing.T) {
	mixed, err := Load("muster-mixed")
	if err != nil {
		t.Fatal(err)
	}
	quick := mixed.Scaled(0.2).Quick(Machine{})
	for i, p := range quick.Phases {
		if !p.Measured() {
			continue
		}
		for _, r := range []Rate{quick.Operators.Applies, quick.Operators.Runs, quick.Operators.Facts, quick.Operators.Silences} {
			if n := r.PerSecond(quick.Nodes("")) * time.Duration(*p.length()-p.Warmup).Seconds(); n < FewAnswers {
				t.Errorf("%s lasts %s: %.0f answers at %s", p.Name, time.Duration(*p.length()), n, r)
			}
		}
		if *p.length() > *mixed.Phases[i].length() {
			t.Errorf("%s is longer than in the whole", p.Name)
		}
	}
	if whole := time.Duration(quick.played()); whole > 2*time.Minute {
		t.Errorf("%s for a quick run", whole)
	}
	rare := mixed.clone()
	rare.Operators.Silences = "1/min"
	for i, p := range rare.Quick(Machine{}).Phases {
		if p.Measured() && *p.length() != *mixed.Phases[i].length() {
			t.Errorf("one answer a minute: %s lasts %s, want the whole's", p.Name, time.Duration(*p.length()))
		}
	}
	even := mixed.clone()
	for i := range even.Phases {
		even.Phases[i].Faster = nil
	}
	if d := even.Quick(Machine{}).played(); d > model.Duration(70*time.Second) {
		t.Errorf("nothing is sped up, and it takes %s", time.Duration(d))
	}
}
