package trigger

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// foreachSuffix ends the names of functions over items of several nodes, such as last_foreach.
const foreachSuffix = "_foreach"

// Selection selects items of several nodes by a pattern, as avg_foreach(/*/cpu.load,5m) does. It has a pattern for the
// items, and a function that reduces the values of each item to one.
type Selection struct {
	Function string // last, avg, count, max, min, sum or exists
	Host     string // *: all; empty: the node of the formula
	Key      string // with macros replaced; a parameter * stands for any
	filter   *node
	period   period
}

// foreachFunctions has the names of the functions that reduce an item's values to one. true means that the function
// needs a period.
var foreachFunctions = map[string]bool{"last": false, "exists": false, "avg": true, "count": true, "max": true, "min": true, "sum": true}

// groupAggregates has the functions over the values of several items, by name.
var groupAggregates = map[string]func([]point) float64{
	"avg": mean, "count": func(p []point) float64 { return float64(len(p)) }, "item_count": func(p []point) float64 { return float64(len(p)) },
	"sum": func(p []point) float64 { return moment(p, 0, 1) },
	"min": func(p []point) float64 { return slices.MinFunc(p, comparePoints).value },
	"max": func(p []point) float64 { return slices.MaxFunc(p, comparePoints).value },
}

// comparePoints compares two points (values with times) by their values, for sorting. A point has a time and a
// value.
func comparePoints(a, b point) int {
	switch {
	case a.value < b.value:
		return -1
	case a.value > b.value:
		return 1
	}
	return 0
}

// aggregate compiles a function over items of several nodes, such as avg(last_foreach(/*/key)).
func (c *compiler) aggregate(n *node) evaluator {
	compute, ok := groupAggregates[n.name]
	if !ok {
		compute, ok = statistics[n.name]
	}
	each := &n.args[0]
	function := strings.TrimSuffix(each.name, foreachSuffix)
	needs, known := foreachFunctions[function]
	switch {
	case !c.scope.Aggregates:
		c.fail(n, "a trigger reads the items of one node: put the aggregate into the formula of an item, or write a RuleGroup")
	case !ok:
		c.fail(n, "no function over values of several nodes has the name %s", n.name)
	case !known:
		c.fail(each, "no function over items of several nodes has the name %s", each.name)
	case len(each.args) == 0 || each.args[0].kind != itemNode || len(each.args) > 2:
		c.fail(each, "expected an item and a period: %s(/*/key,5m)", each.name)
	case len(n.args) != 1 && (n.name != "count" || len(n.args) > 3):
		c.fail(n, "too many arguments of %s", n.name)
	}
	of := &each.args[0]
	s := Selection{Function: function, Host: of.host, Key: c.expand(of, of.name), filter: c.expandFilter(of.filter)}
	if text := c.argument(each, 1); text != "" {
		var problem string
		if s.period, problem = parsePeriod(text, c.scope.Zone); problem != "" {
			c.fail(&each.args[1], "%s", problem)
		}
	}
	switch {
	case s.period.count > 0:
		c.fail(&each.args[1], "expected a period of time such as 5m")
	case needs && s.period.span == 0:
		c.fail(each, "%s needs a period: %s(/*/key,5m)", each.name, each.name)
	case s.period.span > maxForeach:
		c.fail(&each.args[1], "the period is longer than 31d")
	}
	match := func(item.Value) effect { return use }
	if operator, pattern := c.argument(n, 1), c.argument(n, 2); operator != "" || pattern != "" {
		var problem string
		if match, problem = compileMatch(item.Float, operator, pattern); problem != "" {
			c.fail(n, "%s", problem)
		}
	}
	i := len(c.program.groups)
	c.program.groups = append(c.program.groups, s)
	counts, empty := n.name == "count" || n.name == "item_count", unknownBecause("no item "+s.Key+" of the nodes has values")
	if s.Host == "" {
		empty = unknownBecause("no item " + s.Key + " of the node has values")
	}
	return func(w *Windows) operand {
		points := make([]point, 0, len(w.groups[i]))
		for _, v := range w.groups[i] {
			if match(item.FromFloat(v)) == use {
				points = append(points, point{value: v})
			}
		}
		if len(points) == 0 && !counts {
			return empty
		}
		return ofFloat(compute(points)).number()
	}
}

// maxForeach bounds the period of functions over several nodes. The server keeps numbers for this time by default.
const maxForeach = 31 * 24 * time.Hour

// expandFilter replaces the macros in an item filter, such as ?[tag="x"], by their values.
func (c *compiler) expandFilter(n *node) *node {
	if n == nil {
		return nil
	}
	out := *n
	out.args = slices.Clone(n.args)
	for i := range out.args {
		if out.args[i].kind == textNode {
			out.args[i].name = c.expand(&out.args[i], out.args[i].name)
		} else {
			out.args[i] = *c.expandFilter(&out.args[i])
		}
	}
	return &out
}

// Matches reports whether an item's groups and tags pass the filter of the selection, such as group="web". hasGroup
// and hasTag report whether the item has a group or tag; with any true, the value of the tag does not matter.
func (s *Selection) Matches(hasGroup func(name string) bool, hasTag func(name, value string, any bool) bool) bool {
	return s.filter == nil || s.filter.matches(hasGroup, hasTag)
}

// matches reports whether an item satisfies a condition of an item filter, such as tag="x".
func (n *node) matches(hasGroup func(string) bool, hasTag func(name, value string, any bool) bool) bool {
	switch {
	case n.kind == unaryNode:
		return !n.args[0].matches(hasGroup, hasTag)
	case n.kind == binaryNode && n.name == "and":
		return n.args[0].matches(hasGroup, hasTag) && n.args[1].matches(hasGroup, hasTag)
	case n.kind == binaryNode:
		return n.args[0].matches(hasGroup, hasTag) || n.args[1].matches(hasGroup, hasTag)
	case n.name == "group":
		return hasGroup(n.args[0].name)
	}
	name, value, one := strings.Cut(n.args[0].name, ":")
	return hasTag(name, value, !one)
}

// Period returns the time range of the values that the selection reads. The times are in ns; the range begins after
// from and includes to. now is the time of the evaluation. Without a period it is a day.
func (s *Selection) Period(now int64) (from, to int64) {
	to = s.period.end(now)
	if s.period.span == 0 {
		return to - int64(24*time.Hour), to
	}
	return s.period.startOf(to), to
}

// Reduce computes one value from an item's values in the period, such as the last or the average. The values are ordered
// by time. It returns false if the item has no value.
func (s *Selection) Reduce(values []float64) (float64, bool) {
	switch {
	case s.Function == "exists":
		return 1, true
	case s.Function == "count":
		return float64(len(values)), true
	case len(values) == 0:
		return 0, false
	case s.Function == "last":
		return values[len(values)-1], true
	}
	points := make([]point, len(values))
	for i, v := range values {
		points[i].value = v
	}
	f := groupAggregates[s.Function](points)
	return f, !math.IsNaN(f)
}

// Selections returns the item patterns over several nodes that the program reads. A selection names items of several
// nodes. The list is empty if it reads only items of one node.
func (p *Program) Selections() []Selection { return p.groups }

// Aggregate evaluates a formula over several nodes once, from lists of values for each of its selections.
// values has a list for each selection, with a value for each item.
func (p *Program) Aggregate(values [][]float64, now int64) (item.Value, error) {
	w := p.NewWindows(now)
	w.groups = values
	return p.Value(w, now)
}

// MatchesKey reports whether the selection's key pattern accepts a given item key. A parameter * in the
// selection matches any parameter of the key.
func (s *Selection) MatchesKey(key string) bool {
	before, after, found := strings.Cut(s.Key, "*")
	if !found {
		return key == s.Key
	}
	for {
		if !strings.HasPrefix(key, before) {
			return false
		}
		key = key[len(before):]
		end := parameterEnd(key)
		if end < 0 {
			return false
		}
		key = key[end:]
		if before, after, found = strings.Cut(after, "*"); !found {
			return key == before
		}
	}
}

// parameterEnd returns the index at which the first parameter of a partial item key ends. It returns -1 if the
// key ends with the parameter.
func parameterEnd(rest string) int {
	quoted := 0
	if strings.HasPrefix(rest, `"`) {
		for quoted = 1; quoted < len(rest) && rest[quoted] != '"'; quoted++ {
			if rest[quoted] == '\\' {
				quoted++
			}
		}
		quoted = min(quoted, len(rest))
	}
	if end := strings.IndexAny(rest[quoted:], ",]"); end >= 0 {
		return quoted + end
	}
	return -1
}
