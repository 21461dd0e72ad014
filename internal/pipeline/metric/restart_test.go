package metric

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestRestartKeepsTriggerStates restarts one of two views with equal values, and expects both views to have
// equal trigger states. One of them is restored from a snapshot between any two commits, in the middle of the
// windows of its triggers. It expects both to make equal verdicts and to end in equal states.
func TestRestartKeepsTriggerStates(t *testing.T) {
	problems := 0
	rapid.Check(t, func(r *rapid.T) {
		steady, restarted := newTestView(), newTestView()
		for number := uint64(1); number <= 60; number++ {
			value := item.FromFloat(float64(rapid.IntRange(0, 10).Draw(r, "value")))
			batch := steady.values(13, value)
			testenv.NoError(t, steady.shard.Apply(&testCommit{number, [][]byte{batch}}))
			testenv.NoError(t, restarted.shard.Apply(&testCommit{number, [][]byte{batch}}))
			if rapid.IntRange(0, 4).Draw(r, "restart") == 0 {
				body, at := restarted.shard.Snapshot(3, nil)
				restarted = newTestView()
				testenv.NoError(t, restarted.shard.Restore(3, at, body))
			}
		}
		for _, v := range steady.partitions[3].pending {
			if v.Problem {
				problems++
			}
		}
		a, _ := steady.shard.Snapshot(3, nil)
		b, _ := restarted.shard.Snapshot(3, nil)
		if !bytes.Equal(a, b) {
			r.Fatalf("verdicts\n%s\nof the restarted view\n%s", pendingTriggerChanges(steady), pendingTriggerChanges(restarted))
		}
	})
	if problems == 0 {
		t.Error("no trigger opened a problem")
	}
}

// pendingTriggerChanges formats the trigger changes of a view that the journal does not have yet.
func pendingTriggerChanges(v *testView) (text string) {
	for _, one := range v.partitions[3].pending {
		text += fmt.Sprintf("commit %d: %s %v\n", one.Commit, one.Trigger, one.Problem)
	}
	return text
}
