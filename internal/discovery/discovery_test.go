package discovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/trigger"
)

// fileSystems returns a discovery rule for file systems, for tests. The function edit may change the rule.
func fileSystems(edit func(*model.DefinitionRule)) *model.DefinitionRule {
	d := &model.DefinitionRule{
		Key:          "vfs.fs.discovery",
		Items:        []model.Item{{Key: "vfs.fs.size[{#FSNAME},pused]", Interval: "1m", Tags: map[string]string{"fs": "{#FSNAME}"}}},
		Triggers:     []model.DefinitionTrigger{{Name: "{#FSNAME}: full", Expression: `last(//vfs.fs.size[{#FSNAME},pused])>{$MAX:"{#FSNAME}"}`, Severity: model.Average}},
		DeleteAfter:  model.Duration(time.Hour),
		DisableAfter: 0,
	}
	if edit != nil {
		edit(d)
	}
	return d
}

// compileRule compiles a discovery rule and fails the test on an error.
func compileRule(t *testing.T, d *model.DefinitionRule) *Rule {
	values, err := model.NewMacroValues(map[string]string{"{$TYPES}": "^(ext4|xfs)$"})
	testenv.NoError(t, err)
	return testenv.Value(Compile(d, values))(t)
}

// keysOf lists the item keys and trigger names that a discovery rule creates, for comparison in tests. It lists the
// key of each item, and the name and severity of each trigger.
func keysOf(r *Rule, s *State) (list []string) {
	for i := range s.Entities {
		for _, one := range r.Items(s, &s.Entities[i]) {
			list = append(list, one.Key)
		}
		for _, one := range TriggersOf(r, s, &s.Entities[i], trigger.ReplaceEntityMacros) {
			list = append(list, one.Name+" "+one.Severity.String())
		}
	}
	return list
}

const mounts = `[{"{#FSNAME}":"/","{#FSTYPE}":"ext4"},{"{#FSNAME}":"/mnt","{#FSTYPE}":"xfs"},{"{#FSNAME}":"/proc","{#FSTYPE}":"proc"},{"{#FSNAME}":"/bare"}]`

// TestRuleFindsEntities runs discovery rules on example lists of entities, and expects the items and triggers
// that Zabbix creates.
func TestRuleFindsEntities(t *testing.T) {
	text := func(s string) *string { return &s }
	yes, no := true, false
	filter := func(formula string, conditions ...model.DiscoveryCondition) func(*model.DefinitionRule) {
		return func(d *model.DefinitionRule) {
			d.Triggers = nil
			d.Filter = &model.DiscoveryFilter{Formula: formula, Conditions: conditions}
		}
	}
	override := func(list ...model.DiscoveryOverride) func(*model.DefinitionRule) {
		return func(d *model.DefinitionRule) { d.Overrides = list }
	}
	root := &model.DiscoveryFilter{Conditions: []model.DiscoveryCondition{{Macro: "{#FSNAME}", Matches: text("^/$")}}}
	for _, c := range []struct {
		name, list string
		edit       func(*model.DefinitionRule)
		want       string
	}{
		{"all", `[{"{#FSNAME}":"/"},{"{#FSNAME}":"/a"}]`, nil, "vfs.fs.size[/,pused] /: full average vfs.fs.size[/a,pused] /a: full average"},
		{"data, numbers, other elements, repetitions", `{"data":[1,{"{#FSNAME}":7},{"{#FSNAME}":"7"}]}`, nil, "vfs.fs.size[7,pused] 7: full average"},
		{"quotation marks", `[{"{#FSNAME}":"a,\"b"}]`, filter(""), `vfs.fs.size["a,\"b",pused]`},
		{"matches a user macro", mounts, filter("", model.DiscoveryCondition{Macro: "{#FSTYPE}", Matches: text("{$TYPES}")}), "vfs.fs.size[/,pused] vfs.fs.size[/mnt,pused]"},
		{"does not match; without the macro", mounts, filter("", model.DiscoveryCondition{Macro: "{#FSTYPE}", NotMatches: text("ext4")}), "vfs.fs.size[/mnt,pused] vfs.fs.size[/proc,pused]"},
		{"exists not", mounts, filter("", model.DiscoveryCondition{Macro: "{#FSTYPE}", Exists: &no}), "vfs.fs.size[/bare,pused]"},
		{"or for one macro, and for two", mounts, filter("", model.DiscoveryCondition{Macro: "{#FSTYPE}", Matches: text("ext4")}, model.DiscoveryCondition{Macro: "{#FSTYPE}", Matches: text("xfs")},
			model.DiscoveryCondition{Macro: "{#FSNAME}", Matches: text("m")}), "vfs.fs.size[/mnt,pused]"},
		{"formula", mounts, filter("A and not (B or C)", model.DiscoveryCondition{Macro: "{#FSTYPE}", Exists: &yes}, model.DiscoveryCondition{Macro: "{#FSNAME}", Matches: text("^/$")},
			model.DiscoveryCondition{ID: "C", Macro: "{#FSNAME}", Matches: text("proc")}), "vfs.fs.size[/mnt,pused]"},
		{"paths", `[{"name":"/","sub":{"type":"ext4"}}]`, func(d *model.DefinitionRule) {
			d.Triggers, d.Paths = nil, map[string]string{"{#FSNAME}": "$.name", "{#FSTYPE}": "$.sub.type"}
			d.Filter = &model.DiscoveryFilter{Conditions: []model.DiscoveryCondition{{Macro: "{#FSTYPE}", Matches: text("ext")}}}
		}, "vfs.fs.size[/,pused]"},
		{"override of the severity", `[{"{#FSNAME}":"/"},{"{#FSNAME}":"/a"}]`, override(model.DiscoveryOverride{Name: "root", Filter: root, Triggers: []model.TriggerOverride{{Severity: "disaster"}}}),
			"vfs.fs.size[/,pused] /: full disaster vfs.fs.size[/a,pused] /a: full average"},
		{"no items, then stop", `[{"{#FSNAME}":"/"},{"{#FSNAME}":"/a"}]`, override(
			model.DiscoveryOverride{Name: "root", Filter: root, Stop: true, Items: []model.ItemOverride{{Discover: &no}}},
			model.DiscoveryOverride{Name: "others", Triggers: []model.TriggerOverride{{Names: []string{"{#FSNAME}: full"}, Discover: &no}}}),
			"/: full average vfs.fs.size[/a,pused]"},
		{"a disabled prototype that an override enables", `[{"{#FSNAME}":"/"},{"{#FSNAME}":"/a"}]`, func(d *model.DefinitionRule) {
			d.Triggers, d.Items[0].Disabled = nil, true
			d.Overrides = []model.DiscoveryOverride{{Name: "root", Filter: root, Items: []model.ItemOverride{{Keys: []string{"vfs.fs.size[{#FSNAME},pused]"}, Discover: &yes}}}}
		}, "vfs.fs.size[/,pused]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compileRule(t, fileSystems(c.edit))
			s, _, err := r.Update(r.ConvertState(nil), c.list, 1)
			testenv.NoError(t, err)
			if got := strings.Join(keysOf(r, s), " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestLostEntities drops an entity from the discovered list, and expects its items to be disabled and later
// deleted. When the entity returns, it is created again.
func TestLostEntities(t *testing.T) {
	r := compileRule(t, fileSystems(func(d *model.DefinitionRule) { d.DisableAfter = model.Duration(time.Minute) }))
	s := r.ConvertState(nil)
	for _, step := range []struct {
		at   time.Duration
		list string
		want string
	}{
		{0, `[{"{#FSNAME}":"/"},{"{#FSNAME}":"/a"}]`, "/ found, /a found"},
		{time.Second, `[{"{#FSNAME}":"/"}]`, "/ found, /a lost"},
		{2 * time.Second, `[]`, "/ lost, /a lost"},
		{61 * time.Second, `[{"{#FSNAME}":"/"}]`, "/ found, /a disabled"},
		{time.Hour, `[{"{#FSNAME}":"/"}]`, "/ found, /a disabled"},
		{time.Hour + time.Second, `[{"{#FSNAME}":"/"}]`, "/ found"},
		{time.Hour + time.Minute, `[{"{#FSNAME}":"/a"}]`, "/a found, / lost"},
	} {
		var err error
		s, _, err = r.Update(s, step.list, 1e18+int64(step.at))
		testenv.NoError(t, err)
		var got []string
		for i := range s.Entities {
			e := &s.Entities[i]
			items, triggers := r.Items(s, e), TriggersOf(r, s, e, trigger.ReplaceEntityMacros)
			state := "found"
			switch {
			case e.Disabled && len(triggers) == 0 && items[0].Interval == "" && strings.HasPrefix(items[0].NotCollected, "not discovered since 2001-09-09T01:46:4"):
				state = "disabled"
			case e.LostAt != 0 && len(triggers) == 1:
				state = "lost"
			}
			got = append(got, e.Values[0]+" "+state)
		}
		if text := strings.Join(got, ", "); text != step.want {
			t.Errorf("after %s: %s, want %s", step.at, text, step.want)
		}
	}
	if _, _, err := r.Update(s, `{"x":1}`, 2e18); err == nil {
		t.Error("a value without a list: no error")
	}
}

// TestRuleHasLimits runs a rule on 1,500 entities, and expects items of 1,000 and a reason for the rest.
func TestRuleHasLimits(t *testing.T) {
	r := compileRule(t, fileSystems(nil))
	var rows []string
	for i := range 1500 {
		rows = append(rows, fmt.Sprintf(`{"{#FSNAME}":"/%d"}`, i))
	}
	s, fault, err := r.Update(r.ConvertState(nil), "["+strings.Join(rows, ",")+"]", 1)
	testenv.NoError(t, err)
	if len(s.Entities) != MaxEntities || fault != "1500 entities were found, at most 1000 have items: write a filter" {
		t.Errorf("%d entities, fault %q", len(s.Entities), fault)
	}
	again, _, err := r.Update(s, `[{"{#FSNAME}":"/new"}]`, 2)
	testenv.NoError(t, err)
	if found, lost := again.Counts(); found != 1 || lost != MaxEntities-1 {
		t.Errorf("%d found, %d lost", found, lost)
	}
	_, fault, err = r.Update(s, `[{"{#FSNAME}":"/`+strings.Repeat("x", 2000)+`"}]`, 3)
	if err != nil || fault != "1 entity left out: a macro has more than 1024 bytes" {
		t.Error(fault, err)
	}
}

// TestRuleWithoutItemsCountsEntities expects a discovery rule that creates no items to still count the entities in its list.
func TestRuleWithoutItemsCountsEntities(t *testing.T) {
	r := compileRule(t, fileSystems(func(d *model.DefinitionRule) { d.Items, d.Triggers = nil, nil }))
	s := r.ConvertState(nil)
	for list, want := range map[string]int{mounts: 4, `[{}]`: 1, `[]`: 0} {
		var err error
		s, _, err = r.Update(s, list, 1)
		testenv.NoError(t, err)
		if found, lost := s.Counts(); found != want || lost != 0 {
			t.Errorf("%s: %d found, %d lost", list, found, lost)
		}
	}
}

// TestInstanceReplacesMacros expects the macro values of a discovered entity in all texts of its items and
// triggers. The texts are those of its items and triggers; values are escaped where needed.
func TestInstanceReplacesMacros(t *testing.T) {
	r := compileRule(t, fileSystems(func(d *model.DefinitionRule) {
		d.Items = append(d.Items, model.Item{Key: `x["{#FSNAME}", {$M:"{#FSNAME}"}, [{#FSNAME},b]]`, From: "vfs.fs.size[{#FSNAME},pused]", Unit: "{#UNIT}",
			Steps: []model.Step{{Name: "jsonPath", Parameters: []string{"$[?(@.n == '{#FSNAME}')]"}}, {Name: "regex", Parameters: []string{"{#UNIT}", ""}}}})
		d.Triggers = []model.DefinitionTrigger{{Name: "{#FSNAME} {#NONE}", Expression: `last(//vfs.fs.size[{#FSNAME},pused])>{#UNIT} and find(//x[{#FSNAME}],,"like","{#FSNAME}")={#N}`}}
	}))
	s, _, err := r.Update(r.ConvertState(nil), `[{"{#FSNAME}":"it's \"a, b\"","{#UNIT}":"a.b","{#N}":"-1.5"}]`, 1)
	testenv.NoError(t, err)
	items := r.Items(s, &s.Entities[0])
	got := []string{items[0].Key, items[1].Key, items[1].From, items[1].Unit, items[1].Steps[0].Parameters[0], items[1].Steps[1].Parameters[0]}
	triggers := TriggersOf(r, s, &s.Entities[0], trigger.ReplaceEntityMacros)
	got = append(got, triggers[0].Name, triggers[0].Expression)
	want := []string{
		`vfs.fs.size["it's \"a, b\"",pused]`, `x["it's \"a, b\"", {$M:"it's \"a, b\""}, ["it's \"a, b\"",b]]`, `vfs.fs.size["it's \"a, b\"",pused]`, "a.b",
		`$[?(@.n == 'it\'s \"a, b\"')]`, `a\.b`, `it's "a, b" {#NONE}`,
		`last(//vfs.fs.size["it's \"a, b\"",pused])>"a.b" and find(//x["it's \"a, b\""],,"like","it's \"a, b\"")=-1.5`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestInstanceHasLimits discovers entities with too many triggers or too long texts, and expects the excess
// entities without items. It expects that entities beyond the limits have no items.
func TestInstanceHasLimits(t *testing.T) {
	var rows []string
	for i := range MaxEntities {
		rows = append(rows, fmt.Sprintf(`{"{#FSNAME}":"%s%d"}`, strings.Repeat("x", 1000), i))
	}
	for name, edit := range map[string]func(*model.DefinitionRule){
		"long steps": func(d *model.DefinitionRule) {
			d.Items[0].Key = "x[{#FSNAME}]"
			d.Items[0].Steps = []model.Step{{Name: "trim", Parameters: []string{strings.Repeat("{#FSNAME}", 6000)}}}
		},
		"functions that repeat a value": func(d *model.DefinitionRule) {
			d.Items[0].Key = "x[{#FSNAME}]"
			text := `{{#FSNAME}.regsub("(.*)","` + strings.Repeat(`\1`, 60) + `")}`
			d.Items[0].Steps = []model.Step{{Name: "trim", Parameters: []string{strings.Repeat(text, 100)}}}
		},
		"triggers": func(d *model.DefinitionRule) {
			for i := range 2000 {
				d.Triggers = append(d.Triggers, model.DefinitionTrigger{Name: fmt.Sprint(i, "{#FSNAME}"), Expression: "1"})
			}
		},
	} {
		r := compileRule(t, fileSystems(edit))
		s, _, err := r.Update(r.ConvertState(nil), "["+strings.Join(rows, ",")+"]", 1)
		testenv.NoError(t, err)
		size := 0
		out, faults := Instantiate(&model.TemplateDefinition{}, []*Rule{r}, []*State{s}, trigger.ReplaceEntityMacros)
		for i := range out.Items {
			for k := range out.Items[i].Steps {
				size += len(strings.Join(out.Items[i].Steps[k].Parameters, ""))
			}
		}
		if len(out.Items) == 0 || size > maxTexts || len(out.Triggers) > maxTriggers || !strings.Contains(faults[0], "entities without items") {
			t.Errorf("%s: %d items, %d bytes of steps, %d triggers, fault %q", name, len(out.Items), size, len(out.Triggers), faults)
		}
		if limited := LimitItems([]*Rule{r}, []*State{s}, len(r.Items(s, &s.Entities[0]))); len(limited[0].Entities) != 1 {
			t.Errorf("%s: %d entities for the items of one", name, len(limited[0].Entities))
		}
	}
}

// FuzzUpdate runs a rule with a random filter twice on the same random list, and expects equal states.
func FuzzUpdate(f *testing.F) {
	f.Add(mounts, "A and not B", "ext", "$.name")
	f.Add(`{"data":[{"name":"x"}]}`, "(A or B)", "^", "$['name']")
	f.Fuzz(func(t *testing.T, list, formula, pattern, path string) {
		d := fileSystems(func(d *model.DefinitionRule) {
			d.Paths = map[string]string{"{#X}": path}
			d.Filter = &model.DiscoveryFilter{Formula: formula, Conditions: []model.DiscoveryCondition{{Macro: "{#FSTYPE}", Matches: &pattern}, {Macro: "{#X}", NotMatches: &pattern}}}
		})
		r, err := Compile(d, nil)
		if err != nil || len(list) > 10_000 || len(pattern) > 50 {
			return
		}
		s, _, err := r.Update(r.ConvertState(nil), list, 1)
		if err != nil {
			return
		}
		again, _, err := r.Update(s, list, 2)
		if err != nil || !again.Equal(s) {
			t.Fatalf("%q: another state the second time: %v", list, err)
		}
		keysOf(r, s)
		_ = conditionName(len(list))
	})
}

// TestMacroFunctions makes items and triggers from prototypes with functions of macros, and expects escaped results.
func TestMacroFunctions(t *testing.T) {
	d := &model.DefinitionRule{
		Key: "list",
		Items: []model.Item{
			{Key: `disk[{{#NAME}.regsub("^(.*) .*$","\1")},used]`, Interval: "1m"},
			{Key: `port["{{#NAME}.uppercase()}"]`, From: "list", Steps: []model.Step{
				{Name: "jsonPath", Parameters: []string{`$[?(@.name == "{#NAME}")].{{#NAME}.iregsub("^([A-Z]+)", "\1")}`}},
				{Name: "matches", Parameters: []string{`{{#NAME}.regsub("(.)$", "\0+")}`}},
			}},
		},
		Triggers: []model.DefinitionTrigger{{
			Name: `{{#NAME}.regsub("^(\w+)", \1)} of {#ID}`, Expression: `last(//disk[{{#NAME}.regsub("^(.*) .*$","\1")},used])>{{#ID}.regsub("(\d+)$","\1")} or "{{#NAME}.lowercase()}"="{{#NONE}.uppercase()}"`,
			Severity: model.Average, DependsOn: []string{`{{#NAME}.regsub("^(\w+)", \1)} is away`},
		}, {Name: `{{#NAME}.regsub("^(\w+)", \1)} is away`, Expression: "1"}},
	}
	r := compileRule(t, d)
	s, fault, err := r.Update(nil, `[{"{#NAME}":"sda's, x", "{#ID}":"a12"}]`, 1)
	if err != nil || fault != "" || len(s.Entities) != 1 {
		t.Fatalf("%+v %s %v", s, fault, err)
	}
	var got []string
	for _, one := range r.Items(s, &s.Entities[0]) {
		got = append(got, one.Key)
		for _, step := range one.Steps {
			got = append(got, step.Parameters[0])
		}
	}
	for _, one := range TriggersOf(r, s, &s.Entities[0], trigger.ReplaceEntityMacros) {
		got = append(got, one.Name, one.Expression)
	}
	want := []string{
		`disk["sda's,",used]`, `port["SDA'S, X"]`, `$[?(@.name == "sda\'s, x")].sda`, `x\+`,
		"sda of a12", `last(//disk["sda's,",used])>12 or "sda's, x"="{{#NONE}.uppercase()}"`, "sda is away", "1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	c := &model.TemplateDefinition{Rules: []model.DefinitionRule{*d}}
	if names := c.Dependencies("sda of a12"); !slices.Equal(names, []string{"sda is away"}) {
		t.Errorf("dependencies %q", names)
	}
}

// TestIntervalsOfEntities makes items whose interval has macros of the entity, and expects its values. The times of lost
// entities have macros of the node.
func TestIntervalsOfEntities(t *testing.T) {
	d := fileSystems(func(d *model.DefinitionRule) {
		d.Items[0].Interval, d.DeleteAfterText, d.DisableAfterText = "{#EVERY}", "{$KEEP}", "{$KEEP}"
		d.Overrides = []model.DiscoveryOverride{{Name: "o", Filter: &model.DiscoveryFilter{Conditions: []model.DiscoveryCondition{{Macro: "{#OWN}", Exists: new(true)}}}, Items: []model.ItemOverride{{Interval: "{$OWN}"}}}}
	})
	values := testenv.Value(model.NewMacroValues(map[string]string{"{$KEEP}": "86400"}))(t)
	r := testenv.Value(Compile(d, values))(t)
	if day := model.Duration(24 * time.Hour); r.DeleteAfter != day || r.DisableAfter != day {
		t.Errorf("lost entities: %s and %s", r.DeleteAfter, r.DisableAfter)
	}
	s, _, err := r.Update(r.ConvertState(nil), `[{"{#FSNAME}":"/","{#EVERY}":"30"},{"{#FSNAME}":"/b","{#EVERY}":"1h","{#OWN}":"1"}]`, 1)
	testenv.NoError(t, err)
	for i, want := range []model.Interval{"30", "{$OWN}"} {
		if items := r.Items(s, &s.Entities[i]); len(items) != 1 || items[0].Interval != want {
			t.Errorf("entity %d: %+v, expected the interval %s", i, items, want)
		}
	}
	if got := values.WithMacros([]model.Item{{Interval: "30"}}); got[0].Interval != "30s" {
		t.Errorf("interval %s", got[0].Interval)
	}
	for _, bad := range []string{"{$NONE}", "{$BAD}"} {
		d.DeleteAfterText = bad
		values := testenv.Value(model.NewMacroValues(map[string]string{"{$KEEP}": "never", "{$BAD}": "soon"}))(t)
		if _, err := Compile(d, values); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
