package metric

import (
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/trigger"
	"github.com/muster-fleet/muster/internal/when"
)

// compiledFormula is the formula of a calculated item over items of its node.
type compiledFormula struct {
	position int // of the item
	interval int64
	program  *trigger.Program
}

// compileInterval parses the interval of an item, and compiles the formula of a calculated one. Items that the server computes
// from several nodes or measures itself get their values through the journal.
func (t *template) compileInterval(position int) error {
	of := &t.Items[position]
	if !of.IsComputed() {
		_, err := when.ScheduleOf(of.Interval, t.values)
		return err
	}
	interval, err := when.FixedInterval(of.Interval, t.values)
	if err != nil || of.Formula == "" {
		return err
	}
	program, err := trigger.CompileFormula(t.Items, of.Formula, t.values.Value)
	if err != nil {
		return err
	}
	if len(program.Selections()) == 0 && interval > 0 {
		t.timed = true
		t.formulas = append(t.formulas, compiledFormula{position, int64(interval), program})
	}
	return nil
}

// orderFormulas sorts the formulas by dependency, so that the inputs of each formula are computed first. It
// also stores with each item the formulas that read the item. Formulas that read each other stay in the order
// of their keys.
func (t *template) orderFormulas() {
	byPosition := map[int]*compiledFormula{}
	for i := range t.formulas {
		byPosition[t.formulas[i].position] = &t.formulas[i]
	}
	ordered, seen := make([]compiledFormula, 0, len(t.formulas)), map[int]bool{}
	var visit func(position int)
	visit = func(position int) {
		of := byPosition[position]
		if of == nil || seen[position] {
			return
		}
		seen[position] = true
		for _, read := range of.program.ItemIndexes() {
			visit(read)
		}
		ordered = append(ordered, *of)
	}
	for i := range t.formulas {
		visit(t.formulas[i].position)
	}
	t.formulas = ordered
	for i := range ordered {
		for _, read := range ordered[i].program.ItemIndexes() {
			t.items[read].formulas = append(t.items[read].formulas, i)
		}
	}
}

// copyFormulaInputs copies the stored inputs of formulas from the previous state of the Template. The key of
// the calculated item connects old and new formula.
func (u *templateState) copyFormulaInputs(old *templateState) {
	for i := range u.formulas {
		for k := range old.formulas {
			if old.Items[old.formulas[k].position].Key == u.Items[u.formulas[i].position].Key {
				u.windows[i] = u.formulas[i].program.MigrateWindows(old.formulas[k].program, old.windows[k])
			}
		}
	}
	if len(old.formulas) > 0 {
		u.computed = old.computed
	}
}

// lastDueTime returns the latest time, up to now, at which a calculated item's formula was scheduled. Nodes
// have different times.
func (f *compiledFormula) lastDueTime(node model.NodeID, now int64) int64 {
	offset := int64(uint64(node)*0x9e3779b97f4a7c15>>1) % f.interval
	return now - (now-offset)%f.interval
}

// nextFormulaTime returns the next scheduled time of the formulas of a Template on a node. It is zero if the
// Template has no formulas.
func (u *templateState) nextFormulaTime(node model.NodeID) (next int64) {
	for i := range u.formulas {
		if at := u.formulas[i].lastDueTime(node, u.computed) + u.formulas[i].interval; next == 0 || at < next {
			next = at
		}
	}
	return next
}

// calculate computes the formulas of a Template on a node that have become due by now. A server that was away computes each once.
func (w *metricApplier) calculate(n uint32, u *templateState, now int64) {
	if len(u.formulas) == 0 {
		return
	}
	since := u.computed
	u.computed = max(since, now)
	for i := range u.formulas {
		f := &u.formulas[i]
		at := f.lastDueTime(w.p.Node(n).ID, now)
		if at <= since {
			continue
		}
		w.view.values.Add(1)
		w.measured = w.costs.isDue()
		began := w.beginCost()
		value, err := f.program.Value(u.windows[i], at)
		if err == nil {
			value, err = u.items[f.position].chain.Run(u.slots[f.position].prep, item.Sample{At: at, Value: value})
		} else {
			value, err = u.items[f.position].chain.RunFailed(u.slots[f.position].prep, at, err.Error())
		}
		w.endCost(costKey{kind: ItemCost, template: u.Unit, name: u.Items[f.position].Key}, began)
		w.applyOutcome(n, u, f.position, at, value, err)
		w.measured = false
	}
	w.applyQueuedLists(n, u)
}
