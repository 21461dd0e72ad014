package cli

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
	"github.com/muster-fleet/muster/internal/prep/javascript"
	"github.com/muster-fleet/muster/internal/trigger"
	"github.com/muster-fleet/muster/internal/when"
)

// itemTestFlags holds the flags of muster item test.
type itemTestFlags struct {
	files, values, macros []string
	key, template         string
}

// itemTestCommand makes the command muster item test, which passes values through the steps and triggers of an item.
func itemTestCommand(s *commandLine) *cobra.Command {
	f := &itemTestFlags{}
	return s.buildCommand(command{
		use: "test -f FILE --item KEY --value TEXT", short: "Show each step of an item for a value, its triggers, and what a discovery rule makes of it", args: cobra.NoArgs, offline: true, noFormat: true,
		flags: func(flags *pflag.FlagSet) {
			registerFileFlag(flags, &f.files)
			flags.StringVar(&f.key, "item", "", "key of the item")
			flags.StringArrayVar(&f.values, "value", nil, "raw value; repeat it for values one interval apart")
			flags.StringArrayVar(&f.macros, "macro", nil, "value of a macro, as a Property sets it: '{$MAX}=5'")
			flags.StringVar(&f.template, "template", "", "name of the Template, if the files have several")
		},
		run: f.run,
	})
}

// run runs muster item test, which passes values through an item of a Template file.
func (f *itemTestFlags) run(c *commandCall) error {
	if f.key == "" || len(f.values) == 0 {
		return model.Errorf(model.Invalid, "the item or a value is missing").WithHint("muster item test -f FILE --item KEY --value TEXT")
	}
	spec, err := f.findTemplate(c)
	if err != nil {
		return err
	}
	t, err := newItemTest(spec, f.macros)
	if err != nil {
		return err
	}
	at, ok := t.findItemIndex(f.key)
	if !ok {
		return model.Errorf(model.NotFound, "the template has no item %s", f.key).WithHint("its items: %s", strings.Join(t.keys(), ", "))
	}
	schedule, err := when.ScheduleOf(cmp.Or(t.items[at].Interval, model.DefaultItemInterval), t.macros)
	if err != nil {
		return model.Errorf(model.Invalid, "item %s: %w", f.key, err)
	}
	interval := schedule.Period()
	first := c.Now().Add(-time.Duration(len(f.values)-1) * interval)
	for i, value := range f.values {
		if i > 0 {
			c.Printf("\n")
		}
		c.printField("value", "%s", strconv.Quote(value))
		now := first.Add(time.Duration(i) * interval).UnixNano()
		if err := t.processValue(c, at, prep.NewParsedValue(item.Sample{At: now, Value: item.FromText(value)}), now, nil); err != nil {
			return err
		}
		if err := t.evaluateFormulas(c, now); err != nil {
			return err
		}
		t.evaluateTriggers(c, now)
	}
	return nil
}

// findTemplate returns the Template in the files, chosen by --template if the files contain several.
func (f *itemTestFlags) findTemplate(c *commandCall) (*model.TemplateSpec, error) {
	docs, err := c.readFilesWithResources(f.files)
	if err != nil {
		return nil, err
	}
	found := map[string]*model.TemplateSpec{}
	for _, d := range docs {
		r := &d.located.Resource
		if spec, ok := r.Spec.(*model.TemplateSpec); ok && (f.template == "" || f.template == r.Metadata.Name) {
			found[r.Metadata.Name] = spec
		}
	}
	names := strings.Join(slices.Sorted(maps.Keys(found)), ", ")
	switch len(found) {
	case 0:
		return nil, model.Errorf(model.NotFound, "the files do not contain the requested %s", kind.Template().Name).WithHint("one of the server: muster get template NAME -o yaml | muster item test -f - --item KEY --value TEXT")
	case 1:
		return found[names], nil
	}
	return nil, model.Errorf(model.Invalid, "the files contain several templates: %s", names).WithHint("choose one: --template NAME")
}

// itemTest holds the compiled items and triggers of the Template that muster item test evaluates. It also has
// their state between values.
type itemTest struct {
	items      []model.Item // sorted by key, with those of discovery rules
	rules      map[string]*discovery.Rule
	discovered map[string]*discovery.State // by key of the rule
	macros     *model.MacroValues
	chains     map[int]*prep.Chain
	states     map[int]*prep.State
	triggers   []itemTestTrigger
	formulas   []itemTestFormula
}

// itemTestFormula is a calculated item of the tested Template, computed from other items of the same node.
type itemTestFormula struct {
	item    int
	program *trigger.Program
	windows *trigger.Windows
	touched bool // the last value was for it
}

// itemTestTrigger is one compiled trigger of the Template under test in muster item test.
type itemTestTrigger struct {
	*model.Trigger
	problem, recovery               *trigger.Program
	problemWindows, recoveryWindows *trigger.Windows
	touched                         bool // the last value was for it
}

// newItemTest compiles a Template for muster item test, with values for its macros from --macro NAME=VALUE.
func newItemTest(spec *model.TemplateSpec, macros []string) (*itemTest, error) {
	values := maps.Clone(spec.Macros)
	if values == nil {
		values = map[string]string{}
	}
	for _, text := range macros {
		name, value, ok := strings.Cut(text, "}=")
		if !ok {
			return nil, model.Errorf(model.Invalid, "--macro %q is not {$NAME}=VALUE", text).WithHint("in quotes: --macro '{$MAX}=5'")
		}
		values[name+"}"] = value
	}
	t := &itemTest{chains: map[int]*prep.Chain{}, states: map[int]*prep.State{}, rules: map[string]*discovery.Rule{}, discovered: map[string]*discovery.State{}}
	var err error
	if t.macros, err = model.NewMacroValues(values); err != nil {
		return nil, model.Errorf(model.Invalid, "%w", err)
	}
	t.items = slices.Clone(spec.Items)
	for i := range spec.Discovery {
		rule := &spec.Discovery[i]
		t.items = append(t.items, rule.Item())
		if t.rules[rule.Key], err = discovery.Compile(new(rule.Definition()), t.macros); err != nil {
			return nil, model.Errorf(model.Invalid, "discovery rule %s: %w", rule.Key, err)
		}
		t.discovered[rule.Key] = t.rules[rule.Key].ConvertState(nil)
	}
	slices.SortFunc(t.items, func(a, b model.Item) int { return strings.Compare(a.Key, b.Key) })
	for i := range t.items {
		if t.items[i].Formula == "" {
			continue
		}
		program, err := trigger.CompileFormula(t.items, t.items[i].Formula, t.macros.Value)
		if err != nil {
			return nil, model.Errorf(model.Invalid, "formula of %s: %w", t.items[i].Key, err)
		}
		if len(program.Selections()) == 0 {
			t.formulas = append(t.formulas, itemTestFormula{item: i, program: program})
		}
	}
	for i := range spec.Triggers {
		one := itemTestTrigger{Trigger: &spec.Triggers[i]}
		if one.problem, err = trigger.CompileForItems(t.items, one.Expression, t.macros.Value); err == nil && one.Recovery != "" {
			one.recovery, err = trigger.CompileForItems(t.items, one.Recovery, t.macros.Value)
		}
		if err != nil {
			return nil, model.Errorf(model.Invalid, "trigger %q: %w", one.Name, err)
		}
		t.triggers = append(t.triggers, one)
	}
	return t, nil
}

// keys returns the keys of all items of the tested Template.
func (t *itemTest) keys() (keys []string) {
	for i := range t.items {
		keys = append(keys, t.items[i].Key)
	}
	return keys
}

// findItemIndex returns the index of the tested Template's item with a given key. Macros in the key may be
// written as such or as their values.
func (t *itemTest) findItemIndex(key string) (int, bool) {
	i := slices.IndexFunc(t.items, func(i model.Item) bool {
		expanded, err := t.macros.Expand(i.Key)
		return i.Key == key || err == nil && expanded == key
	})
	return i, i >= 0
}

// processValue passes a value through the preprocessing steps of an item, and prints each output. Then it
// continues with the dependent items. above has the masters of the item.
func (t *itemTest) processValue(c *commandCall, at int, in *prep.ParsedValue, now int64, above []int) error {
	of := &t.items[at]
	typ, _ := of.ValueType()
	c.printField("item", "%s (%s)", of.Key, typ)
	steps, err := t.macros.ExpandSteps(of.Steps)
	if err == nil && t.chains[at] == nil {
		t.chains[at], err = prep.Compile(steps, typ, javascript.Compile)
		t.states[at] = &prep.State{}
	}
	if err != nil {
		return model.Errorf(model.Invalid, "item %s: %w", of.Key, err)
	}
	value, results, err := t.chains[at].RunDependentWithResults(t.states[at], in)
	for i := range results {
		c.printField("  step "+strconv.Itoa(i+1), "%s: %s", strings.TrimSpace(steps[i].Name+" "+strings.Join(steps[i].Parameters, " ")), stepText(&results[i]))
	}
	switch {
	case err != nil:
		c.printField("  result", "unsupported: %v", err)
		return nil
	case value.Kind() == item.None:
		c.printField("  result", "no value: a step discarded it")
		return nil
	}
	c.printField("  result", "%s", value)
	if rule := t.rules[of.Key]; rule != nil {
		return t.runDiscovery(c, rule, value.String(), now)
	}
	for i := range t.triggers {
		one := &t.triggers[i]
		if one.problemWindows == nil {
			one.problemWindows = one.problem.NewWindows(now)
			if one.recovery != nil {
				one.recoveryWindows = one.recovery.NewWindows(now)
			}
		}
		if slices.Contains(one.problem.ItemIndexes(), at) {
			one.problem.Add(one.problemWindows, at, item.Sample{At: now, Value: value})
			one.touched = true
		}
		if one.recovery != nil && slices.Contains(one.recovery.ItemIndexes(), at) {
			one.recovery.Add(one.recoveryWindows, at, item.Sample{At: now, Value: value})
			one.touched = true
		}
	}
	for i := range t.formulas {
		one := &t.formulas[i]
		if one.windows == nil {
			one.windows = one.program.NewWindows(now)
		}
		if slices.Contains(one.program.ItemIndexes(), at) {
			one.program.Add(one.windows, at, item.Sample{At: now, Value: value})
			one.touched = true
		}
	}
	above = append(above, at)
	for i := range t.items {
		if t.items[i].From == of.Key && !slices.Contains(above, i) {
			if err := t.processValue(c, i, prep.NewParsedValue(item.Sample{At: now, Value: value}), now, above); err != nil {
				return err
			}
		}
	}
	return nil
}

// runDiscovery passes discovered entities, such as file systems, to a discovery rule, and prints the created
// items. It prints the entities with their items and triggers.
func (t *itemTest) runDiscovery(c *commandCall, rule *discovery.Rule, list string, now int64) error {
	traced, err := rule.Trace(list)
	if err != nil {
		c.printField("  entities", "unsupported: no list of entities: %v", err)
		return nil
	}
	for i := range traced {
		if e := &traced[i]; !e.Accepted {
			c.printField("left out", "%s  (by the filter)", entityText(e.Macros, e.Values))
		}
	}
	state, fault, err := rule.Update(t.discovered[rule.Key], list, now)
	if err != nil {
		return err
	}
	t.discovered[rule.Key] = state
	for i := range state.Entities {
		e := &state.Entities[i]
		text := entityText(state.Macros, e.Values)
		if e.LostAt != 0 {
			text += "  (lost)"
		}
		c.printField("entity", "%s", text)
		items := rule.Items(state, e)
		discovery.SetFormulas(items, state, e, trigger.ReplaceEntityMacros)
		for _, one := range items {
			c.printField("  item", "%s  %s", one.Key, sourceText(&one))
		}
		for _, one := range discovery.TriggersOf(rule, state, e, trigger.ReplaceEntityMacros) {
			c.printField("  trigger", "%s  %s  (%s)", one.Name, one.Expression, one.Severity)
		}
	}
	if fault != "" {
		c.printField("fault", "%s", fault)
	}
	return nil
}

// entityText formats the macros of a discovered entity, such as a file system, as NAME=VALUE.
func entityText(macros, values []string) string {
	var list []string
	for i, macro := range macros {
		if values[i] != macro { // else the entity does not have it
			list = append(list, macro+"="+values[i])
		}
	}
	return strings.Join(list, " ")
}

// sourceText formats where the values of an item come from, such as the agent or a master item.
func sourceText(i *model.Item) string {
	switch {
	case i.From != "":
		return "from " + i.From
	case i.Trapper:
		return "trapper"
	case i.NotCollected != "":
		return "not collected: " + i.NotCollected
	case i.Formula != "":
		return "every " + string(i.Interval) + " = " + i.Formula
	}
	return "every " + string(i.Interval)
}

// stepText formats the output of a preprocessing step.
func stepText(r *prep.StepResult) string {
	output := r.Value.String()
	if r.Value.Kind() == item.None {
		output = "no value"
	} else if r.Value.Kind() == item.TextValue {
		output = strconv.Quote(output)
	}
	switch {
	case r.OnFail:
		return "failed: " + r.Err.Error() + "; onFail: " + output
	case r.Err != nil:
		return "failed: " + r.Err.Error()
	}
	return output
}

// evaluateFormulas computes the calculated items whose formulas read a new value. Results can be new values for other
// formulas, and so on.
func (t *itemTest) evaluateFormulas(c *commandCall, now int64) error {
	for range t.formulas { // a chain of formulas is not longer
		for i := range t.formulas {
			one := &t.formulas[i]
			if !one.touched {
				continue
			}
			one.touched = false
			value, err := one.program.Value(one.windows, now)
			if err != nil {
				c.printField("item", "%s", t.items[one.item].Key)
				c.printField("  result", "unsupported: %v", err)
				continue
			}
			if err := t.processValue(c, one.item, prep.NewParsedValue(item.Sample{At: now, Value: value}), now, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// evaluateTriggers evaluates the triggers that read an item with a new value, and prints the results.
func (t *itemTest) evaluateTriggers(c *commandCall, now int64) {
	for i := range t.triggers {
		one := &t.triggers[i]
		if !one.touched {
			continue
		}
		one.touched = false
		result, reason := one.problem.Eval(one.problemWindows, now)
		c.printField("trigger", "%s: %s  (%s)", one.Name, resultText(result, reason), one.Expression)
		if one.recovery != nil {
			result, reason := one.recovery.Eval(one.recoveryWindows, now)
			c.printField("  recovery", "%s  (%s)", resultText(result, reason), one.Recovery)
		}
	}
}

// resultText formats the result of a trigger expression, such as true or an error.
func resultText(r trigger.Result, reason string) string {
	if r == trigger.Unknown {
		return "unknown: " + reason
	}
	return r.String()
}
