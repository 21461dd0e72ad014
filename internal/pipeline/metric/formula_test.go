package metric

import (
	"testing"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// formulaDefinition returns a compiled template with calculated items and a trigger. One of the items reads the other.
func formulaDefinition(id model.DefinitionID) *model.Definition {
	return (&model.TemplateDefinition{
		Definition: model.Definition{ID: id, Unit: 1000, Namespace: 1, Name: "t"},
		Items: []model.Item{
			{Key: "a.twice", Interval: "5s", Formula: "2*last(//share)"},
			{Key: "missing", Interval: "5s", Formula: "last(//share)*{$NONE}"},
			{Key: "share", Interval: "5s", Formula: "100*last(//used)/last(//total)", Steps: []model.Step{{Name: "multiplier", Parameters: []string{"0.5"}}}},
			{Key: "total"}, {Key: "used"},
		},
		Triggers: []model.DefinitionTrigger{{Name: "full", Expression: "last(//share)>40"}},
	}).ToDefinition()
}

// TestFormulasAreComputed expects each calculated item to get a value per interval, after the items that its formula
// reads. A restart after each commit changes nothing.
func TestFormulasAreComputed(t *testing.T) {
	open := func() *testView {
		s := shard.New(shard.Options{Workers: 1, Definitions: formulaDefinition})
		return &testView{View: New(s, Options{Definitions: formulaDefinition}), shard: s}
	}
	v, number := open(), uint64(0)
	send := func(commits int, used float64) []ItemState {
		t.Helper()
		for range commits {
			number++
			testenv.NoError(t, v.shard.Apply(&testCommit{number, [][]byte{v.block(7, []int64{0}, []wire.BlockValue{
				{Position: 3, Value: item.FromFloat(8)}, {Position: 4, Value: item.FromFloat(used)},
			})}}))
			body, at := v.shard.Snapshot(3, nil)
			again := open()
			testenv.NoError(t, again.shard.Restore(3, at, body))
			if v.shard.Hash(3) != again.shard.Hash(3) {
				t.Fatalf("commit %d: the restored view differs", number)
			}
			again.number = v.number
			v = again
		}
		return v.Items(7)
	}
	list := send(7, 2)
	if got := list[2]; got.Value.Float() != 12.5 {
		t.Errorf("share %+v", got)
	}
	if got := list[0]; got.Value.Float() != 25 || !got.At.Equal(list[2].At) {
		t.Errorf("twice the share %+v, share at %s", got, list[2].At)
	}
	if list[1].Reason == "" || list[1].Value.Kind() != item.None {
		t.Errorf("a formula with an unknown macro: %+v", list[1])
	}
	first := list[2].At
	list = send(6, 7)
	if share := list[2]; share.Value.Float() != 43.75 || share.At.Sub(first)%5e9 != 0 || !share.At.After(first) {
		t.Errorf("share after the change %+v, first at %s", share, first)
	}
	if texts := v.pendingTexts(); len(texts) != 2 {
		t.Errorf("verdicts %v", texts)
	}
}

// TestTimedTriggerDuringDiscovery discovers an entity during the evaluation of a trigger, and expects one
// record per trigger change. A formula makes the entity.
func TestTimedTriggerDuringDiscovery(t *testing.T) {
	definition := func(id model.DefinitionID) *model.Definition {
		return (&model.TemplateDefinition{
			Definition: model.Definition{ID: id, Unit: 1000, Namespace: 1, Name: "t"},
			Items: []model.Item{
				{Key: "found", Type: "text", Interval: "5s", Formula: "last(//used)", Steps: []model.Step{{Name: "regex", Parameters: []string{"(.+)", `[{"name":"\1"}]`}}}},
				{Key: "used"},
			},
			Rules:    []model.DefinitionRule{{Key: "found", Paths: map[string]string{"{#NAME}": "$.name"}, Items: []model.Item{{Key: "x[{#NAME}]", Interval: "1s"}}}},
			Triggers: []model.DefinitionTrigger{{Name: "silent", Expression: "nodata(//used,5s)=1"}},
		}).ToDefinition()
	}
	s := shard.New(shard.Options{Workers: 1, Definitions: definition})
	v := &testView{View: New(s, Options{Definitions: definition}), shard: s}
	testenv.NoError(t, v.shard.Apply(&testCommit{1, [][]byte{v.block(7, []int64{0}, []wire.BlockValue{{Position: 1, Value: item.FromFloat(8)}})}}))
	for number := range uint64(12) {
		testenv.NoError(t, v.shard.Apply(&testCommit{number + 2, nil}))
	}
	if texts := v.pendingTexts(); len(texts) != 2 || len(v.Items(7)) != 3 {
		t.Errorf("verdicts %q, items %+v", texts, v.Items(7))
	}
}

// TestIntervalsAndUnitsHaveMacros compiles items with macros in intervals and units, and expects the values of the macros. An
// item whose interval is no time has the reason.
func TestIntervalsAndUnitsHaveMacros(t *testing.T) {
	definitions := func(id model.DefinitionID) *model.Definition {
		return (&model.TemplateDefinition{
			Definition: model.Definition{ID: id, Unit: 1000, Namespace: 1, Name: "t"}, Macros: map[string]string{"{$EVERY}": "5", "{$UNIT}": "B\nps", "{$BAD}": "soon"},
			Items: []model.Item{{Key: "bad", Interval: "{$BAD}"}, {Key: "custom", Interval: "1m;h9", Formula: "2*last(//used)"}, {Key: "none", Interval: "{$NONE}"},
				{Key: "twice", Interval: "{$EVERY}", Formula: "2*last(//used)", Unit: "{$UNIT}"}, {Key: "used", Interval: "{$EVERY};10s/1-5,09:00-18:00", Unit: "{$UNIT}"}, {Key: "wrong", Unit: "{$NONE}"}},
		}).ToDefinition()
	}
	s := shard.New(shard.Options{Workers: 1, Definitions: definitions})
	v := &testView{View: New(s, Options{Definitions: definitions}), shard: s}
	for number := uint64(1); number <= 7; number++ {
		testenv.NoError(t, v.shard.Apply(&testCommit{number, [][]byte{v.block(7, []int64{0}, []wire.BlockValue{{Position: 0, Value: item.FromFloat(8)}, {Position: 4, Value: item.FromFloat(4096)}})}}))
	}
	list, missing := v.Items(7), (&model.MissingMacroError{Macro: "{$NONE}"}).Error()
	for i, want := range []string{`the interval {$BAD} is "soon" here: expected a time of 1s to 366d, such as 5m`, "the interval 1m;h9 has custom intervals: only agents follow them",
		missing, "", "", missing} {
		if list[i].Reason != want {
			t.Errorf("%s: reason %q, expected %q", list[i].Item.Key, list[i].Reason, want)
		}
	}
	if twice := list[3]; twice.Item.Interval != "5s" || twice.Item.Unit != "B ps" || twice.Value.Float() != 8192 {
		t.Errorf("%+v of %s", twice, twice.Item.Interval)
	}
	if used := list[4].Item; used.Interval != "5;10s/1-5,09:00-18:00" || used.Unit != "B ps" {
		t.Errorf("%+v", used)
	}
}
