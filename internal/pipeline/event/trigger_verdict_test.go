package event

import (
	"fmt"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestProblemHasTextsOfVerdict expects a problem to have the labels and the description of its trigger's last verdict. A
// restart from a snapshot keeps them.
func TestProblemHasTextsOfVerdict(t *testing.T) {
	template := (&model.TemplateDefinition{
		Definition: model.Definition{ID: 10, Unit: 1000, Namespace: 3, Name: "linux"},
		Triggers:   []model.DefinitionTrigger{{Name: "load is high", Severity: model.High}},
	}).ToDefinition()
	newTriggerView := func() *View {
		return New(shard.New(shard.Options{Workers: 1, Definitions: func(model.DefinitionID) *model.Definition { return template }}), Options{})
	}
	v := newTriggerView()
	source := model.TriggerSource(1000, "load is high")
	for number, step := range []struct {
		verdict wire.Verdict
		want    string
	}{
		{wire.Verdict{Labels: map[string]string{"not": "open"}}, "<nil>"},
		{wire.Verdict{Problem: true, Severity: model.High, Labels: map[string]string{"scope": "capacity", "disk": "/"}, Description: "one"}, "map[disk:/ scope:capacity] one"},
		{wire.Verdict{Problem: true, Severity: model.High, Labels: map[string]string{"scope": "capacity"}, Description: "two"}, "map[scope:capacity] two"},
		{wire.Verdict{Problem: true, Severity: model.High}, "map[] "},
		{wire.Verdict{}, "<nil>"},
	} {
		c := newCommit(uint64(number+1), time.Duration(number+1)*time.Minute, 0)
		c.addRecord(1, &wire.Record{Kind: wire.RecordSession, Node: 1, Session: &wire.SessionRecord{Session: 5, Start: true, Namespace: 3, TimeoutMs: 600_000}})
		step.verdict.Definition, step.verdict.Trigger, step.verdict.Executed = 10, "load is high", c.Time
		c.addRecord(1, &wire.Record{Kind: wire.RecordVerdict, Node: 1, Verdict: &step.verdict})
		testenv.NoError(t, v.Shard.Apply(c))
		body, at := v.Snapshot(1, nil)
		again := newTriggerView()
		testenv.NoError(t, again.Restore(1, at, body))
		if v.Hash(1) != again.Hash(1) {
			t.Fatalf("commit %d: the restored view differs", number+1)
		}
		v = again
		st, ok := v.Get(1, source)
		got := "<nil>"
		if st.Problem != nil {
			got = fmt.Sprint(st.Problem.Labels, " ", st.Problem.Description)
		}
		if !ok || got != step.want {
			t.Errorf("verdict %d: problem %s, want %s", number, got, step.want)
		}
	}
}
