package metric

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// discoveryDefinition returns a Template with low-level discovery of disks. The rule disks.found reads the item disks,
// and makes two items (one from disks, one from the agent) and a trigger for each disk. 21 has a second trigger
// prototype and an item in front; 22 has one prototype.
func discoveryDefinition(id model.DefinitionID) *model.Definition {
	c := &model.TemplateDefinition{
		Definition: model.Definition{ID: id, Unit: 1000, Namespace: 1, Name: "t"},
		Items: []model.Item{{Key: "disks", Type: "text"}, {Key: "disks.found", Type: "text", From: "disks",
			Steps: []model.Step{{Name: "jsonPath", Parameters: []string{"$.list"}}}}},
		Rules: []model.DefinitionRule{{
			Key: "disks.found", Paths: map[string]string{"{#NAME}": "$.name"}, DeleteAfter: model.Duration(10 * time.Second),
			Items: []model.Item{
				{Key: "disk.size[{#NAME}]", Type: "unsigned", Interval: "1m"},
				{Key: "disk.used[{#NAME}]", From: "disks", Steps: []model.Step{{Name: "jsonPath", Parameters: []string{"$.list[?(@.name == '{#NAME}')].used.first()"}}}},
			},
			Triggers: []model.DefinitionTrigger{{Name: "{#NAME} is full", Expression: "last(//disk.used[{#NAME}])>90", Severity: model.High}},
		}},
	}
	if id == 22 {
		c.Rules[0].Items, c.Rules[0].Triggers = c.Rules[0].Items[:1], nil
	}
	if id == 21 {
		c.Items = append([]model.Item{{Key: "agent"}}, c.Items...)
		c.Rules[0].Triggers = append(c.Rules[0].Triggers, model.DefinitionTrigger{Name: "{#NAME} is small", Expression: "last(//disk.size[{#NAME}])<10"})
	}
	return c.ToDefinition()
}

// discoveryTest applies commits to a view, and restores the view from a snapshot after each commit.
type discoveryTest struct {
	*testing.T
	v      *testView
	number uint64
}

// apply applies a commit with one block of values, and returns the partition's items and changed trigger states.
func (d *discoveryTest) apply(definition model.DefinitionID, keys []string, list ...wire.BlockValue) (items, verdicts string) {
	d.Helper()
	d.number++
	d.v.number++
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: d.v.number, NowMs: d.number * 1000, Signals: []wire.Signal{{
		Kind: wire.SignalValueBlock, Definition: definition, AtMs: d.number * 1000,
		Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: uint32(len(list)), Columns: wire.AppendColumns(nil, []int64{0}, list), Keys: keys}),
	}}}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	testenv.NoError(d, err)
	for range len(d.v.partitions[3].pending) { // the journal has the verdicts of the commit before
		d.v.partitions[3].pending = nil
	}
	testenv.NoError(d, d.v.shard.Apply(&testCommit{d.number, [][]byte{append(wire.AppendBatchRecord(nil, 7), body...)}}))
	state, at := d.v.shard.Snapshot(3, nil)
	again := newTestView()
	testenv.NoError(d, again.shard.Restore(3, at, state))
	if d.v.shard.Hash(3) != again.shard.Hash(3) {
		d.Fatalf("commit %d: the restored view differs", d.number)
	}
	again.number = d.v.number
	d.v = again
	var texts []string
	for _, i := range again.Items(7) {
		text := i.Key + "=" + i.Text()
		for _, suffix := range []string{i.Reason, i.Idle} {
			if suffix != "" {
				text += "(" + suffix + ")"
			}
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " "), strings.Join(d.v.pendingTexts(), ", ")
}

// disks returns an example discovery list of disks, as the value of a test item. It is a JSON list of disks
// with name and used percentage.
func disks(names ...string) wire.BlockValue {
	var list []string
	for i := 0; i < len(names); i += 2 {
		list = append(list, fmt.Sprintf(`{"name":%q,"used":%s}`, names[i], names[i+1]))
	}
	return wire.BlockValue{Value: item.FromText(`{"list":[` + strings.Join(list, ",") + `]}`)}
}

// TestRuleMakesItemsAndTriggers sends lists of discovered entities, and expects items and triggers of exactly
// the listed entities. The items of lost entities end. A view from a snapshot does the same.
func TestRuleMakesItemsAndTriggers(t *testing.T) {
	d := &discoveryTest{T: t, v: newTestView()}
	for i, c := range []struct {
		definition model.DefinitionID
		keys       []string
		list       []wire.BlockValue
		items      string // but disks
		verdicts   string
	}{
		{20, nil, []wire.BlockValue{disks("sda", "50", "sdb", "95")}, "disk.size[sda]=- disk.size[sdb]=- disk.used[sda]=- disk.used[sdb]=- disks.found=2 entities", ""},
		{20, nil, []wire.BlockValue{disks("sda", "50", "sdb", "95")}, "disk.size[sda]=- disk.size[sdb]=- disk.used[sda]=50 disk.used[sdb]=95 disks.found=2 entities",
			"2 sda is full false false, 2 sdb is full true false"},
		{20, []string{"disk.size[sdb]", "disk.size[gone]"}, []wire.BlockValue{{Position: 2, Value: item.FromText("7")}, {Position: 3, Value: item.FromText("8")}},
			"disk.size[sda]=- disk.size[sdb]=7 disk.used[sda]=50 disk.used[sdb]=95 disks.found=2 entities", ""},
		{21, nil, []wire.BlockValue{{Position: 0, Value: item.FromText("1")}}, // the edit keeps the entities and their values
			"agent=1 disk.size[sda]=- disk.size[sdb]=7 disk.used[sda]=50 disk.used[sdb]=95 disks.found=2 entities", ""},
		{21, []string{"disk.size[sdb]"}, []wire.BlockValue{{Position: 3, Value: item.FromText("7")}},
			"agent=1 disk.size[sda]=- disk.size[sdb]=7 disk.used[sda]=50 disk.used[sdb]=95 disks.found=2 entities", "5 sdb is small true false"},
		{21, nil, []wire.BlockValue{{Position: 1, Value: disks("sda", "51").Value}},
			"agent=1 disk.size[sda]=- disk.size[sdb]=7(not discovered since 2001-09-09T01:46:46Z) disk.used[sda]=51 " +
				"disk.used[sdb]=95(not discovered since 2001-09-09T01:46:46Z) disks.found=1 entity, 1 lost",
			"6 sdb is full false true, 6 sdb is small false true"},
	} {
		items, verdicts := d.apply(c.definition, c.keys, c.list...)
		var others []string
		for _, one := range strings.Split(items, " ") {
			if !strings.HasPrefix(one, "disks={") {
				others = append(others, one)
			}
		}
		if got := strings.Join(others, " "); got != c.items {
			t.Errorf("step %d: items\n%s\nwant\n%s", i+1, got, c.items)
		}
		if verdicts != c.verdicts {
			t.Errorf("step %d: verdicts %q, want %q", i+1, verdicts, c.verdicts)
		}
	}
	var places []string
	d.v.EachDiscoveredItem(7, "disk.used[sda]", func(definition model.DefinitionID, _ string, own int, of *model.Item) {
		places = append(places, fmt.Sprintf("%d %d %s", definition, own, of.Key))
	})
	d.v.EachDiscoveredItem(7, "disks", func(model.DefinitionID, string, int, *model.Item) {
		t.Error("an item of the Template is no discovered one")
	})
	if fmt.Sprint(places) != "[21 3 disk.used[sda]]" {
		t.Errorf("places of a discovered item: %s", places)
	}
	for range 10 {
		d.apply(21, nil, wire.BlockValue{Position: 1, Value: disks("sda", "51").Value})
	}
	if items, _ := d.apply(21, nil, wire.BlockValue{Position: 0, Value: item.FromText("1")}); strings.Contains(items, "sdb]") {
		t.Errorf("sdb was not deleted: %s", items)
	}
	if items, _ := d.apply(21, nil, wire.BlockValue{Position: 1, Value: item.FromText(`{"list":5}`)}); !strings.Contains(items, "disks.found=1 entity(no list of entities: expected a JSON list") {
		t.Errorf("a value without a list: %s", items)
	}
}
