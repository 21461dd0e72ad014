package metric

import (
	"fmt"
	"testing"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// taggedDefinition returns a Template with a trigger that has tags, a description and operational data. From 2 on, a tag is
// another one, and 3 has no trigger.
func taggedDefinition(id model.DefinitionID) *model.Definition {
	c := &model.TemplateDefinition{
		Definition: model.Definition{ID: id, Unit: 1000, Namespace: 1, Name: "t"}, Macros: map[string]string{"{$MAX}": "4"},
		Items: []model.Item{{Key: "load", Unit: "%", Tags: map[string]string{"component": "cpu", "scope": "item"}}, {Key: "used", Tags: map[string]string{"disk": "{$DISK}"}}},
		Triggers: []model.DefinitionTrigger{
			{
				Name: "high", Expression: "last(//load)>{$MAX} or last(//load)>2*last(//used)", Severity: model.High, Recovery: "last(//load)<2",
				Tags:        map[string]string{"scope": "capacity", "limit": "{$MAX} of\t{ITEM.VALUE3}", "short": `{{ITEM.VALUE}.regsub("^([0-9])", "\1x")}`, "host": "{HOST.NAME}"},
				Description: "more than {$MAX}, {$NONE}: {ITEM.KEY3} {ITEM.VALUE9}", OperationalData: "now {ITEM.LASTVALUE1}",
			},
			{Name: "plain", Expression: "last(//used)>100"},
		},
	}
	if id == 2 {
		c.Triggers[0].Tags["scope"] = "performance"
	}
	if id == 3 {
		c.Triggers = c.Triggers[1:]
	}
	return c.ToDefinition()
}

// newTaggedView returns an empty view with the Templates of taggedDefinition.
func newTaggedView() *testView {
	s := shard.New(shard.Options{Workers: 1, Definitions: taggedDefinition})
	return &testView{View: New(s, Options{Definitions: taggedDefinition}), shard: s}
}

// TestTriggerTexts expects the verdicts of a trigger to have its labels, description and output. An edit of the Template comes
// while the problem is open. Only a problem has labels, and only a change of texts makes a verdict.
func TestTriggerTexts(t *testing.T) {
	v, number := newTaggedView(), uint64(0)
	apply := func(definition model.DefinitionID, load float64, want ...string) {
		t.Helper()
		number++
		v.partitions[3].pending = nil
		testenv.NoError(t, v.shard.Apply(&testCommit{number, [][]byte{v.values(definition, item.FromFloat(load), item.FromFloat(50))}}))
		body, at := v.shard.Snapshot(3, nil)
		again := newTaggedView()
		testenv.NoError(t, again.shard.Restore(3, at, body))
		if v.shard.Hash(3) != again.shard.Hash(3) {
			t.Fatalf("commit %d: the restored view differs", number)
		}
		again.number = v.number
		v = again
		var got []string
		for _, p := range v.partitions[3].pending {
			got = append(got, fmt.Sprint(p.Trigger, " ", p.Problem, " ", p.Labels, " ", p.Description, " | ", string(p.Output)))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("commit %d: verdicts\n%q, want\n%q", number, got, want)
		}
	}
	const labels = "map[component:cpu disk:{$DISK} host:{HOST.NAME} limit:4 of 50 scope:%s short:5x] more than 4, {$NONE}: used {ITEM.VALUE9} | now 5.5 %%\nlast(//load)>4 or last(//load)>2*last(//used); load = 5.5 %%, used = 50"
	apply(1, 1, "high false map[]  | now 1 %\nlast(//load)<2; load = 1 %", "plain false map[]  | used = 50")
	apply(1, 5.5, "high true "+fmt.Sprintf(labels, "capacity"))
	apply(1, 6)
	if got := v.ProblemLabels(7, model.TriggerSource(1000, "high")); got["short"] != "6x" {
		t.Errorf("labels now: %v", got)
	}
	apply(1, 5.5)
	apply(2, 5.5, "high true "+fmt.Sprintf(labels, "performance"))
	apply(2, 5.5)
	apply(2, 1, "high false map[]  | now 1 %\nlast(//load)<2; load = 1 %")
	apply(3, 1, "high false map[]  | ")
	if got := v.ProblemLabels(7, model.TriggerSource(1000, "plain")); fmt.Sprint(got) != "map[disk:{$DISK}]" {
		t.Errorf("labels of a trigger without tags: %v", got)
	}
}

// TestDiscoveredTriggerTexts expects a discovered trigger to have the tags of its prototype, item and override. Values of the
// entity stand in them.
func TestDiscoveredTriggerTexts(t *testing.T) {
	definition := discoveryDefinition(20).AsTemplate()
	rule := &definition.Rules[0]
	rule.Items[1].Tags = map[string]string{"disk": "{#NAME}"}
	rule.Triggers[0].Tags, rule.Triggers[0].Description = map[string]string{"scope": "{#NAME}"}, "disk {#NAME} at {ITEM.VALUE}"
	rule.Overrides = []model.DiscoveryOverride{{Name: "all", Triggers: []model.TriggerOverride{{Tags: map[string]string{"found": `{{#NAME}.uppercase()}`}}}}}
	definitions := func(model.DefinitionID) *model.Definition { return definition.ToDefinition() }
	s := shard.New(shard.Options{Workers: 1, Definitions: definitions})
	v := &testView{View: New(s, Options{Definitions: definitions}), shard: s}
	for number := range uint64(2) {
		testenv.NoError(t, v.shard.Apply(&testCommit{number + 1, [][]byte{v.block(20, []int64{0}, []wire.BlockValue{disks("sda", "95")})}}))
	}
	labels := v.ProblemLabels(7, model.TriggerSource(1000, "sda is full"))
	if fmt.Sprint(labels) != "map[disk:sda found:SDA scope:sda]" {
		t.Errorf("labels %v", labels)
	}
}

// BenchmarkTriggerValue applies values that change no trigger, with and without tags. Both must cost the same.
func BenchmarkTriggerValue(b *testing.B) {
	for _, tagged := range []bool{false, true} {
		b.Run(fmt.Sprintf("tags=%v", tagged), func(b *testing.B) {
			definition := taggedDefinition(1)
			if template := definition.AsTemplate(); !tagged {
				t := &template.Triggers[0]
				t.Tags, t.Description, t.OperationalData = nil, "", ""
			}
			definitions := func(model.DefinitionID) *model.Definition { return definition }
			s := shard.New(shard.Options{Workers: 1, Definitions: definitions})
			v := &testView{View: New(s, Options{Definitions: definitions}), shard: s}
			times, list := make([]int64, 1000), make([]wire.BlockValue, 1000)
			for i := range list {
				times[i], list[i] = int64(i)*1e6, wire.BlockValue{Row: uint32(i), Value: item.FromFloat(1 + float64(i%2)/2)}
			}
			testenv.NoError(b, v.shard.Apply(&testCommit{1, [][]byte{v.block(1, times, list)}}))
			b.ReportAllocs()
			for number := uint64(2); b.Loop(); number++ {
				testenv.NoError(b, v.shard.Apply(&testCommit{number, [][]byte{v.block(1, times, list)}}))
			}
		})
	}
}
