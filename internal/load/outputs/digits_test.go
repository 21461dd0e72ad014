package outputs

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestOutputsDiffer expects different outputs of the right size, and the asked share of changes.
func TestOutputsDiffer(t *testing.T) {
	d := &Digits{Size: 100, Changes: 0.02}
	seen := map[string]bool{}
	changed := 0
	for seq := range uint64(20_000) {
		status := d.Status(int(seq%7), int(seq%40), nil, seq, model.OK, false)
		out := d.Output(nil, int(seq%7), int(seq%40), nil, seq, status)
		if len(out) != 100 || seen[string(out)] {
			t.Fatalf("output %q", out)
		}
		seen[string(out)] = true
		if status != model.OK {
			changed++
		}
	}
	if changed < 300 || changed > 500 {
		t.Errorf("%d of 20000 changed the status, want about 400", changed)
	}
}
