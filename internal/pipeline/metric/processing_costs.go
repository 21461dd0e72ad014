package metric

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
)

// Bounds of the measurement of costs. One value in costStride is measured, on average: a measurement takes 2.7 µs, six
// values' time, so that it costs a fortieth.
const (
	costStride = 256
	costPeriod = time.Minute
	maxCosts   = 20_000 // keys in one table; others are not measured until the next period
)

// CostKind is the kind of a measured object, such as an item, a trigger or a node.
type CostKind uint8

// Kinds of costs.
const (
	ItemCost    CostKind = iota // the preprocessing steps of an item, on all nodes
	StepCost                    // one preprocessing step of an item, on all nodes
	TriggerCost                 // the evaluations of a trigger, on all nodes
	NodeCost                    // all values of a node
)

// costKey identifies an item, a trigger or a node whose processing time is measured.
type costKey struct {
	kind     CostKind
	template model.UnitID
	node     model.NodeID
	name     string
	step     int // of StepCost, from 1
}

// cost has the processing time of one item, trigger or node. It has the number of measured values, and the total time.
type cost struct {
	count    uint64
	duration time.Duration
}

// Cost is the processing time of one item, preprocessing step, trigger or node. It is extrapolated from a measured
// sample of values.
type Cost struct {
	Kind     CostKind
	Template model.UnitID // of an item or a trigger
	Node     model.NodeID // of NodeCost
	Name     string       // key of the item, name of the trigger
	Step     int          // of StepCost, from 1
	Rate     float64      // values or evaluations per second
	Seconds  float64      // by the clock, per second
}

// costTable measures processing times in one worker, for a random sample of the values. Its worker writes, any
// goroutine may read. It is no part of the view's state: it reads the clock.
type costTable struct {
	random uint32 // state of a xorshift generator: a fixed stride would always meet the same items of equal blocks
	skip   uint32 // values until the next measured one

	mu        sync.Mutex
	startedAt time.Time // of now
	now       map[costKey]*cost
	last      map[costKey]*cost // of the period before; nil: there was none
	length    time.Duration
	values    valueRate
}

// isDue reports whether to measure the next value, as one of a random sample.
func (t *costTable) isDue() bool {
	if t.skip > 0 {
		t.skip--
		return false
	}
	t.random ^= t.random << 13
	t.random ^= t.random >> 17
	t.random ^= t.random << 5
	t.skip = t.random % (2*costStride - 1)
	return true
}

// add adds the processing time of one measured value to an item, trigger or node.
func (t *costTable) add(key costKey, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := time.Now(); t.now == nil || at.Sub(t.startedAt) >= costPeriod {
		t.last, t.length = t.now, at.Sub(t.startedAt)
		t.now, t.startedAt = map[costKey]*cost{}, at
		t.values.beginPeriod(at)
	}
	of := t.now[key]
	if of == nil {
		if len(t.now) >= maxCosts {
			return
		}
		of = &cost{}
		t.now[key] = of
	}
	of.count++
	of.duration += took
}

// addTo adds the processing times of the last complete measuring period to the given totals. Without a complete
// period, it adds the costs of the present period.
func (t *costTable) addTo(sums map[costKey]*Cost) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list, seconds := t.last, t.length.Seconds()
	if age := time.Since(t.startedAt); list == nil || age > costPeriod {
		list, seconds = t.now, age.Seconds()
	}
	for key, of := range list {
		sum := sums[key]
		if sum == nil {
			sum = &Cost{Kind: key.kind, Template: key.template, Node: key.node, Name: key.name, Step: key.step}
			sums[key] = sum
		}
		sum.Rate += float64(of.count) * costStride / max(seconds, 0.001)
		sum.Seconds += of.duration.Seconds() * costStride / max(seconds, 0.001)
	}
}

// Costs returns the items, preprocessing steps, triggers and nodes with the longest processing time. The time is that
// of the last minute, and the number of each kind is limited.
func (v *View) Costs(most int) (list []Cost) {
	sums := map[costKey]*Cost{}
	v.costs.Lock()
	for _, t := range v.costs.tables {
		t.addTo(sums)
	}
	v.costs.Unlock()
	all := make([]Cost, 0, len(sums))
	for _, sum := range sums {
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(a, b Cost) int { return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Name, b.Name)) })
	var counts [NodeCost + 1]int
	for i := range all {
		if counts[all[i].Kind] < most {
			counts[all[i].Kind]++
			list = append(list, all[i])
		}
	}
	return list
}

// costTables has the processing-time tables of all workers, to sum the times.
type costTables struct {
	sync.Mutex
	tables []*costTable
}

// newTable creates a table of processing times for one worker, and adds the table to View.Costs. total counts the
// values of all workers.
func (c *costTables) newTable(total *atomic.Uint64) *costTable {
	c.Lock()
	defer c.Unlock()
	t := &costTable{random: uint32(len(c.tables)) + 1, values: valueRate{total: total}}
	c.tables = append(c.tables, t)
	return t
}

// measureValue applies a raw value as applyValue does, and measures the processing time.
func (w *metricApplier) measureValue(n uint32, u *templateState, position int, raw item.Sample) {
	w.measured = true
	whole := w.beginCost()
	value, err := w.runMeasured(u, position, raw, nil)
	w.applyOutcome(n, u, position, raw.At, value, err)
	w.endCost(costKey{kind: NodeCost, node: w.p.Node(n).ID}, whole)
	w.measured = false
}

// runMeasured preprocesses a value of an item, and measures the time of each step. master has the parsed forms of a
// dependent's value.
func (w *metricApplier) runMeasured(u *templateState, position int, raw item.Sample, master *prep.ParsedValue) (item.Value, error) {
	key := costKey{kind: ItemCost, template: u.Unit, name: u.Items[position].Key}
	began := time.Now()
	value, err := u.items[position].chain.RunWithResults(u.slots[position].prep, raw, master, &w.steps)
	w.endCost(key, began)
	key.kind = StepCost
	for i := range w.steps {
		key.step = i + 1
		w.costs.add(key, w.steps[i].Duration)
	}
	clear(w.steps)
	w.steps = w.steps[:0]
	return value, err
}

// valueRate measures how many values per second arrive.
type valueRate struct {
	total *atomic.Uint64
	from  uint64 // total at the beginning of the present period
	since time.Time
	last  float64 // of the period before
}

// beginPeriod begins a new measuring period for the rate of values.
func (r *valueRate) beginPeriod(now time.Time) {
	r.last = r.perSecond(now)
	r.from, r.since = r.total.Load(), now
}

// perSecond returns the values per second in the present period.
func (r *valueRate) perSecond(now time.Time) float64 {
	if r.since.IsZero() {
		return 0
	}
	return float64(r.total.Load()-r.from) / max(now.Sub(r.since).Seconds(), 0.001)
}

// ValuesPerSecond returns how many raw values per second arrived within the last minute or two.
func (v *View) ValuesPerSecond() (rate float64) {
	v.costs.Lock()
	defer v.costs.Unlock()
	now := time.Now()
	for _, t := range v.costs.tables {
		t.mu.Lock()
		one := t.values.last
		if age := now.Sub(t.startedAt); t.last == nil || age > costPeriod {
			one = t.values.perSecond(now)
		}
		t.mu.Unlock()
		rate = max(rate, one) // each table counts the values of all workers; an idle one has an old period
	}
	return rate
}

// beginCost returns the start time of a measurement, or zero if the present value is not measured.
func (w *metricApplier) beginCost() time.Time {
	if !w.measured {
		return time.Time{}
	}
	return time.Now()
}

// endCost adds the time since the start of the measurement to an item, trigger or node. The argument began is the
// result of beginCost.
func (w *metricApplier) endCost(key costKey, began time.Time) {
	if !began.IsZero() {
		w.costs.add(key, time.Since(began))
	}
}

// Counts has the numbers of processed values, failed items and samples since the start of the server.
type Counts struct{ Values, Unsupported, Samples, Verdicts uint64 }

// Counts returns how many item values, failed items and samples the server has processed since its start.
func (v *View) Counts() Counts {
	return Counts{v.values.Load(), v.unsupported.Load(), v.samples.Load(), v.recorded.Load()}
}
