package trigger

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/muster-fleet/muster/internal/item"
)

// historyFunctions has the compile functions of all functions over an item's stored values, by name.
var historyFunctions = map[string]func(c *compiler, n *node) evaluator{
	"last": compileLast, "first": compileFirst, "change": compileChange, "bitand": compileBitand,
	"fuzzytime": compileFuzzytime, "lastclock": compileLast, "firstclock": compileFirst,
	"min": compileAggregate, "max": compileAggregate, "sum": compileAggregate, "avg": compileAggregate,
	"count": compileCount, "find": compileCount, "countunique": compileCount, "changecount": compileChangecount,
	"nodata": compileNodata, "monoinc": compileMonotone, "monodec": compileMonotone,
	"percentile": compilePercentile, "rate": compileRate, "forecast": compileForecast, "timeleft": compileForecast,
	"kurtosis": compileStatistic, "mad": compileStatistic, "skewness": compileStatistic, "sumofsquares": compileStatistic,
	"stddevpop": compileStatistic, "stddevsamp": compileStatistic, "varpop": compileStatistic, "varsamp": compileStatistic,
	"trendavg": compileTrend, "trendcount": compileTrend, "trendmax": compileTrend, "trendmin": compileTrend, "trendsum": compileTrend,
	"baselinewma": compileBaseline, "baselinedev": compileBaseline,
	"trendstl": unsupported("the decomposition into seasons is not computed; use baselinedev"),
	// Values of items are text or number: they carry no fields of the Windows event log.
	"logeventid":   unsupported("an item keeps the text of a log line only; use find on the text"),
	"logseverity":  unsupported("an item keeps the text of a log line only; use find on the text"),
	"logsource":    unsupported("an item keeps the text of a log line only; use find on the text"),
	"logtimestamp": unsupported("an item keeps the text of a log line only; lastclock is the time of its collection"),
}

// unsupported returns a compile function that always fails, for a Zabbix function without support in Muster.
// Compilation fails with the given problem.
func unsupported(problem string) func(c *compiler, n *node) evaluator {
	return func(c *compiler, n *node) evaluator {
		c.fail(n, "%s: %s", n.name, problem)
		return nil
	}
}

// loadFloat encodes a numeric value as float bits, for storage in a window, and skips texts. A text does not
// count.
func loadFloat(v item.Value) (uint64, effect) {
	if v.Kind() == item.TextValue {
		return 0, skip
	}
	return math.Float64bits(v.Float()), use
}

// loadUnsigned encodes a non-negative number as an unsigned integer, and makes the window skip any other value.
// A negative number or a text does not count.
func loadUnsigned(v item.Value) (uint64, effect) {
	switch v.Kind() {
	case item.UnsignedValue:
		return v.Unsigned(), use
	case item.FloatValue:
		if f := v.Float(); f >= 0 && f < 1<<64 {
			return uint64(f), use
		}
	}
	return 0, skip
}

// loadText makes a window store the text of a value instead of a number. The window stores the value's text in
// place of bits.
func loadText(item.Value) (uint64, effect) { return 0, use }

// loadHash makes a window store the hash of a text instead of the text, for functions comparing texts.
func loadHash(v item.Value) (uint64, effect) { return xxhash.Sum64String(v.String()), use }

// loadOne makes a window store the number 1 for each value, for functions that only count values.
func loadOne(item.Value) (uint64, effect) { return 1, use }

// storeTexts makes the window store whole texts instead of numbers, if the item's values are texts.
func (h *historyCall) storeTexts() {
	if !h.isNumeric() {
		h.spec.texts, h.spec.load = true, loadText
	}
}

// read returns the value of a window's entry as an operand of the expression.
func (s *windowSpec) read(w *window, rank int) operand {
	switch {
	case s.texts:
		return ofText(w.text(rank))
	case s.itemType == item.Float:
		return ofFloat(math.Float64frombits(w.at(rank).bits))
	}
	return ofUnsigned(w.at(rank).bits)
}

// float returns the value of a window's entry as a float.
func (s *windowSpec) float(w *window, rank int) float64 { return s.read(w, rank).Float() }

// compareWithPrevious compares a stored value with the previous stored value, and returns -1, 0 or 1. The
// result is -1, 0 or 1.
func (s *windowSpec) compareWithPrevious(w *window, rank int) int {
	value, previous := s.read(w, rank), s.read(w, rank-1)
	return compare(&value, &previous)
}

// unknownWithoutValues returns an unknown operand, with the item's lack of values in the period as reason.
func (h *historyCall) unknownWithoutValues() operand {
	if h.period == "" {
		return unknownBecause("no value of " + h.key + " yet")
	}
	return unknownBecause("no value of " + h.key + " in " + h.period)
}

// storeNewest makes the window store only the newest values, as many as the function needs. The number is
// count, or N for a period #N.
func (h *historyCall) storeNewest(count int32) *historyCall {
	p := &h.spec.period
	if p.count == 0 {
		p.count = count
	}
	p.span, p.month = 0, 0
	if p.count == 1 {
		h.spec.grain = slotLength(p)
	}
	if h.storeTexts(); h.spec.texts && p.count > maxTexts {
		h.fail(h.node, "%s keeps at most #%d texts", h.node.name, maxTexts)
	}
	return h
}

// compileLast compiles calls of last and lastclock, the most recent value of an item and its time. They may
// also read the n-th most recent value.
func compileLast(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 2).storeNewest(1)
	count := int(h.spec.period.count)
	few := h.unknownWithoutValues()
	if count > 1 {
		few = unknownBecause(fmt.Sprintf("fewer than %d values of %s", count, h.key))
	}
	i := h.addWindow(values, keepLast, "")
	s, clock := h.program.spec(i), n.name == "lastclock"
	return func(w *Windows) operand {
		v := &w.list[i]
		switch {
		case v.frontLen < count:
			return few
		case clock:
			return ofUnsigned(uint64(v.at(v.frontLen-count).at / int64(time.Second)))
		}
		return s.read(v, v.frontLen-count)
	}
}

// spec returns a copy of the description of a window (stored values of one function call), by index. A pointer to the
// original would become invalid when further windows are added.
func (p *Program) spec(i int) *windowSpec {
	s := p.specs[i]
	return &s
}

// compileFirst compiles calls of first and firstclock, the oldest value in the period and its time.
func compileFirst(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 2)
	if h.spec.period.span == 0 {
		c.fail(n, "%s needs a time as its period: %s(//key,5m)", n.name, n.name)
	}
	h.storeTexts()
	i, empty := h.storeAll(keepFirst, ""), h.unknownWithoutValues()
	s, clock := h.program.spec(i), n.name == "firstclock"
	return func(w *Windows) operand {
		v := &w.list[i]
		switch {
		case v.frontLen == 0:
			return empty
		case clock:
			return ofUnsigned(uint64(v.at(0).at / int64(time.Second)))
		}
		return s.read(v, 0)
	}
}

// storeAll makes the window store each value of the call's period, and returns the window's index. A first
// value is found again in entries of the period's grain.
func (h *historyCall) storeAll(o operation, extra string) int {
	if o == keepFirst {
		h.spec.grain = slotLength(&h.spec.period)
	}
	return h.addWindow(values, o, extra)
}

// compileChange compiles calls of the function change, the difference between the last two values of an item.
func compileChange(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 1).storeNewest(2)
	i, few := h.addWindow(values, keepLast, ""), unknownBecause("fewer than 2 values of "+h.key)
	s := h.program.spec(i)
	return func(w *Windows) operand {
		v := &w.list[i]
		if v.frontLen < 2 {
			return few
		}
		previous, last := s.read(v, 0), s.read(v, 1)
		switch {
		case s.texts:
			return ofBool(previous.String() != last.String())
		case s.itemType == item.Float:
			return ofFloat(last.Float() - previous.Float()).number()
		case last.Unsigned() < previous.Unsigned():
			return ofFloat(-float64(previous.Unsigned() - last.Unsigned()))
		}
		return ofUnsigned(last.Unsigned() - previous.Unsigned())
	}
}

// compileBitand compiles calls of bitand over an item, the last value masked with a number.
func compileBitand(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 3, item.Unsigned, item.Boolean).storeNewest(1)
	mask, err := strconv.ParseUint(h.argument(n, 2), 10, 64)
	if err != nil {
		c.fail(n, "bitand needs a whole number as the third argument: bitand(//key,,12)")
	}
	count, empty := int(h.spec.period.count), h.unknownWithoutValues()
	i := h.addWindow(values, keepLast, "")
	return func(w *Windows) operand {
		v := &w.list[i]
		if v.frontLen < count {
			return empty
		}
		return ofUnsigned(v.at(v.frontLen-count).bits & mask)
	}
}

// compileFuzzytime compiles calls of fuzzytime, which compares a Unix time in an item's last value with now.
// The difference may be at most a time span.
func compileFuzzytime(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 2, numeric...)
	span := h.spec.period.span
	if span == 0 || len(h.spec.period.shift) > 0 {
		c.fail(n, "fuzzytime needs a time: fuzzytime(//key,60s)")
	}
	h.storeNewest(1)
	i, empty := h.addWindow(values, keepLast, ""), h.unknownWithoutValues()
	s := h.program.spec(i)
	return func(w *Windows) operand {
		v := &w.list[i]
		if v.frontLen == 0 {
			return empty
		}
		difference := s.float(v, v.frontLen-1) - float64(w.now/int64(time.Second))
		return ofBool(math.Abs(difference) <= span.Seconds())
	}
}

var aggregates = map[string]struct {
	shape           structure
	float, unsigned operation
}{
	"min": {deque, minFloat, minUnsigned}, "max": {deque, maxFloat, maxUnsigned},
	"sum": {stacks, sumFloat, sumUnsigned}, "avg": {stacks, sumFloat, sumFloat},
}

// compileAggregate compiles calls of min, max, sum and avg over an item's values in a period.
func compileAggregate(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 2, numeric...).requirePeriod()
	h.spec.grain = slotLength(&h.spec.period)
	if h.spec.period.count > 0 {
		h.spec.grain = 0
	}
	return h.aggregate(n.name)
}

// aggregate compiles the minimum, maximum, sum or average of an item's values in the period.
func (h *historyCall) aggregate(name string) evaluator {
	a := aggregates[name]
	o := a.unsigned
	if h.isFloat() {
		o = a.float
	}
	if name == "avg" {
		h.spec.load = loadFloat
	}
	i, empty := h.addWindow(a.shape, o, name[:1]), h.unknownWithoutValues()
	s := h.program.spec(i)
	float, zero := h.isFloat() || o == sumFloat, h.node.name == "sum" // the sum of no values is 0, as in Zabbix
	return func(w *Windows) operand {
		v := &w.list[i]
		if v.frontLen == 0 && !zero {
			return empty
		}
		var bits uint64
		var count int
		if s.shape == deque {
			bits = v.at(0).bits
		} else {
			bits, count = v.total(o)
		}
		switch {
		case name == "avg":
			return ofFloat(math.Float64frombits(bits) / float64(count)).number()
		case float:
			return ofFloat(math.Float64frombits(bits)).number()
		}
		return ofUnsigned(bits)
	}
}

// compileCount compiles calls of count, find and countunique over the values that match a pattern. An operator
// and a pattern decide which values match.
func compileCount(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 4)
	if p := &h.spec.period; n.name != "find" {
		h.requirePeriod()
	} else if p.count == 0 && p.span == 0 {
		p.count = 1
	}
	operator, pattern := h.argument(n, 2), h.argument(n, 3)
	match := func(item.Value) effect { return use }
	if operator != "" || pattern != "" || n.name == "find" {
		var problem string
		if match, problem = compileMatch(h.spec.itemType, operator, pattern); problem != "" {
			c.fail(n, "%s", problem)
		}
	}
	counted := h.spec.period.count > 0
	extra := fmt.Sprintf("match %q %q", operator, pattern)
	if n.name == "countunique" {
		load := loadHash
		if h.isNumeric() {
			load = loadNumber(h.spec.itemType)
		}
		if counted && (operator != "" || pattern != "") {
			c.fail(n, "countunique with a pattern needs a time as its period: countunique(//key,5m,...)")
		}
		h.spec.load = func(v item.Value) (uint64, effect) {
			bits, u := load(v)
			if u == use {
				u = match(v)
			}
			return bits, u
		}
		i, truncated := h.storeAll(keepLast, extra), h.truncated()
		return func(w *Windows) operand {
			v := &w.list[i]
			switch {
			case truncated(v) && v.size < maxValues:
				return tooSlow
			case truncated(v):
				return tooMany
			}
			seen := make(map[uint64]struct{}, v.frontLen)
			for rank := range v.frontLen {
				seen[v.at(rank).bits] = struct{}{}
			}
			return ofUnsigned(uint64(len(seen)))
		}
	}
	// A period of time keeps the values that match; #5 keeps whether each of the last values does.
	h.spec.load = func(v item.Value) (uint64, effect) {
		switch u := match(v); {
		case u == use:
			return 1, use
		case u == skip && counted:
			return 0, use
		default:
			return 0, u
		}
	}
	if !counted {
		h.spec.grain = slotLength(&h.spec.period)
	}
	i, find := h.addWindow(stacks, sumUnsigned, extra), n.name == "find"
	begin := h.program.spec(i).startOfEntries
	return func(w *Windows) operand {
		v := &w.list[i]
		count, _ := v.total(sumUnsigned)
		switch {
		case v.lostUntil != 0 && v.lostUntil > begin(v):
			return tooSlow
		case !find:
			return ofUnsigned(count)
		}
		return ofBool(count > 0)
	}
}

var tooMany = unknownBecause(fmt.Sprintf("the period has more than %d values", maxValues))

var tooSlow = unknownBecause("a value in the period takes the regular expression longer than " + matchLimit.String())

// startOfEntries returns the time after which stored values belong to the period of the function call.
func (s *windowSpec) startOfEntries(v *window) int64 {
	switch count := int(s.period.count); {
	case count == 0:
		return s.period.startOf(v.end)
	case v.frontLen < count:
		return math.MinInt64
	}
	return v.at(0).at - 1
}

// truncated returns a function that reports whether a full window dropped values from within its period.
func (h *historyCall) truncated() func(v *window) bool {
	s := h.spec
	return func(v *window) bool { return v.lostUntil != 0 && v.lostUntil > s.startOfEntries(v) }
}

// compileChangecount compiles calls of changecount, the number of changes between an item's values in the
// period. It counts all changes, rises or falls.
func compileChangecount(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 3).requirePeriod()
	mode := h.argument(n, 2)
	if mode != "" && mode != "all" && (mode != "inc" && mode != "dec" || !h.isNumeric()) {
		c.fail(n, "the third argument of changecount is all, inc or dec; inc and dec need numbers")
	}
	if !h.isNumeric() {
		h.spec.load = loadHash
	}
	i, truncated := h.storeAll(keepLast, "hash"), h.truncated()
	s, few := h.program.spec(i), unknownBecause("fewer than 2 values of "+h.key+" in "+h.period)
	return func(w *Windows) operand {
		v := &w.list[i]
		switch {
		case v.frontLen < 2:
			return few
		case truncated(v):
			return tooMany
		}
		var changes uint64
		for rank := 1; rank < v.frontLen; rank++ {
			order := s.compareWithPrevious(v, rank)
			if order != 0 && (mode != "inc" || order > 0) && (mode != "dec" || order < 0) {
				changes++
			}
		}
		return ofUnsigned(changes)
	}
}

// compileMonotone compiles calls of monoinc and monodec, which test whether all values of a period rise or
// fall.
func compileMonotone(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 3, numeric...).requirePeriod()
	mode := h.argument(n, 2)
	if mode != "" && mode != "weak" && mode != "strict" {
		c.fail(n, "the third argument of %s is weak or strict", n.name)
	}
	i, truncated := h.storeAll(keepLast, ""), h.truncated()
	s, empty, falling := h.program.spec(i), h.unknownWithoutValues(), n.name == "monodec"
	return func(w *Windows) operand {
		v := &w.list[i]
		switch {
		case v.frontLen == 0:
			return empty
		case truncated(v):
			return tooMany
		}
		for rank := 1; rank < v.frontLen; rank++ {
			order := s.compareWithPrevious(v, rank)
			if falling {
				order = -order
			}
			if order < 0 || order == 0 && mode == "strict" {
				return ofBool(false)
			}
		}
		return ofBool(true)
	}
}

// compileNodata compiles calls of nodata, which reports whether no value of an item has arrived for a time. It
// is true if no value has arrived for a time. Time counts from Windows.since at the earliest, so that a start
// raises no alarm.
func compileNodata(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 3)
	span := h.spec.period.span
	if span == 0 || len(h.spec.period.shift) > 0 {
		c.fail(n, "nodata needs a period: nodata(//key,5m)")
	}
	if mode := h.argument(n, 2); mode != "" && mode != "strict" {
		c.fail(n, "the third argument of nodata is strict")
	}
	h.spec.period = period{count: 1, zone: c.scope.Zone}
	h.spec.load = func(item.Value) (uint64, effect) { return 0, skip } // the window notes the time of the newest value by itself
	i := h.addWindow(values, keepLast, "nodata")
	young := unknownBecause("no value of " + h.key + " yet, and its period of " + h.period + " has not passed")
	h.program.timers = append(h.program.timers, func(w *Windows) int64 {
		if at := w.list[i].newest + int64(span); at > w.now {
			return at
		}
		return w.since + int64(span)
	})
	return func(w *Windows) operand {
		begin := w.now - int64(span)
		switch {
		case w.list[i].newest > begin:
			return ofBool(false)
		case w.since > begin:
			return young
		}
		return ofBool(true)
	}
}
