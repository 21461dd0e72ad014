package metric

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/trigger"
	"github.com/muster-fleet/muster/internal/wire"
)

// Texts of triggers are computed when a trigger changes, never for each value. The server replaces {HOST.NAME} and its like
// where it writes the verdict to the journal, because a view knows no names.

// verdict returns the verdict about a state of a trigger, with the texts of its event.
func (u *templateState) verdict(i int, problem bool, now int64) wire.Verdict {
	of := &u.Triggers[i]
	v := wire.Verdict{Definition: u.ID, Trigger: of.Name, Problem: problem, Severity: of.Severity, Executed: now, Output: []byte(u.triggerOutput(i, problem))}
	if problem {
		v.Labels, v.Description = u.problemLabels(i), u.problemDescription(i)
	}
	return v
}

// hasOtherTexts reports whether an open problem has other labels or another description than in an old state. It is false for
// a trigger without an open problem.
func (u *templateState) hasOtherTexts(i int, old *templateState) bool {
	k, ok := slices.BinarySearchFunc(old.Triggers, u.Triggers[i].Name, compareTrigger)
	if state := &u.triggers[i]; !ok || !state.judged || state.problem == nil || !state.problem.Problem || old.triggers[k].problem == nil {
		return false
	}
	return !maps.Equal(u.problemLabels(i), old.problemLabels(k)) || u.problemDescription(i) != old.problemDescription(k)
}

// problemLabels returns the labels of a trigger's problem. They are the tags of the trigger, then of its items.
func (u *templateState) problemLabels(i int) (labels map[string]string) {
	add := func(tags map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(tags)) {
			if _, taken := labels[name]; taken || len(labels) == model.MaxProblemLabels {
				continue
			}
			if labels == nil {
				labels = map[string]string{}
			}
			labels[name] = model.LabelValue(u.shownText(i, tags[name]))
		}
	}
	add(u.Triggers[i].Tags)
	for _, position := range u.template.triggers[i].problem.ItemIndexes() {
		add(u.Items[position].Tags)
	}
	return labels
}

// ProblemLabels returns the labels that a problem of a trigger on a node would have now. Macros of the host stay in them.
func (v *View) ProblemLabels(node model.NodeID, source model.Source) (labels map[string]string) {
	v.eachTemplateState(node, func(u *templateState) {
		i, ok := slices.BinarySearchFunc(u.Triggers, source.Instance, compareTrigger)
		if source == model.TriggerSource(u.Unit, source.Instance) && ok && u.triggers[i].problem != nil {
			labels = u.problemLabels(i)
		}
	})
	return labels
}

// problemDescription returns the description of a trigger's problem.
func (u *templateState) problemDescription(i int) string {
	return model.Truncate(u.shownText(i, u.Triggers[i].Description), model.MaxProblemDescription)
}

// shownText returns a text of a trigger with values in place of macros, such as {$NAME} and {ITEM.LASTVALUE2}.
func (u *templateState) shownText(i int, text string) string {
	if text = u.values.ExpandShown(text); !strings.Contains(text, "{ITEM.") {
		return text
	}
	keys := trigger.Keys(u.Triggers[i].Expression)
	return model.ReplaceBuiltinMacros(text, func(m model.BuiltinMacro) (string, bool) {
		if m.Index > len(keys) {
			return "", false
		}
		position, ok := u.ItemIndex(keys[m.Index-1])
		if !ok {
			return "", false
		}
		switch s := &u.slots[position]; m.Name {
		case "ITEM.VALUE", "ITEM.LASTVALUE":
			if m.Raw {
				return s.value.String(), true
			}
			return valueText(s.value, u.Items[position].Unit, u.items[position].valueMap), true
		case "ITEM.KEY", "ITEM.NAME":
			return u.Items[position].Key, true
		}
		return "", false
	})
}

// triggerOutput returns the output of a trigger's event after a change of the trigger. It is the operational data, then the
// expression that changed the trigger, with the last values of its items. A recovery without an expression of its own has
// the values alone.
func (u *templateState) triggerOutput(i int, problem bool) string {
	var b strings.Builder
	of, text := u.template.triggers[i].problem, u.Triggers[i].Expression
	if !problem {
		text = u.Triggers[i].Recovery
		if recovery := u.template.triggers[i].recovery; recovery != nil {
			of = recovery
		}
	}
	if data := u.Triggers[i].OperationalData; data != "" {
		b.WriteString(model.LabelValue(u.shownText(i, data)) + "\n")
	}
	b.WriteString(u.expressionText(text))
	for k, position := range of.ItemIndexes() {
		separator := ", "
		switch {
		case k == 0 && text == "":
			separator = ""
		case k == 0:
			separator = "; "
		}
		s := &u.slots[position]
		fmt.Fprintf(&b, "%s%s = %s", separator, u.Items[position].Key, valueText(s.value, u.Items[position].Unit, u.items[position].valueMap))
	}
	return model.Truncate(b.String(), MaxVerdictText)
}

// expressionText returns the text of a trigger's expression, with values in place of its macros.
func (u *templateState) expressionText(expression string) string {
	text, err := u.values.Expand(expression)
	if err != nil {
		return expression
	}
	return text
}

// MaxVerdictText bounds the output of a verdict, in bytes.
const MaxVerdictText = 1024
