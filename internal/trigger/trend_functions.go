package trigger

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// trendArguments reads the item and period arguments of a trend function, which uses hourly aggregates. The period consists of
// whole hours.
func (c *compiler) trendArguments(n *node, most int) *historyCall {
	h := c.historyArguments(n, most, numeric...)
	p := &h.spec.period
	if p.count > 0 || p.span < time.Hour || p.span%time.Hour != 0 || len(p.shift) == 0 || p.shift[0].Operator != '/' {
		c.fail(n, "%s needs whole hours and a time shift with a unit: %s(//key,1h:now/h)", n.name, n.name)
	}
	for _, step := range p.shift {
		if step.Operator == '/' && strings.IndexByte("hdwMy", step.Unit) < 0 || step.Operator != '/' && strings.IndexByte("sm", step.Unit) >= 0 {
			c.fail(n, "the time shift of %s is in whole hours, days, weeks, months or years", n.name)
		}
	}
	p.exclusive = true
	h.spec.grain = int64(time.Hour)
	h.program.timers = append(h.program.timers, func(w *Windows) int64 {
		return item.ShiftStep{Operator: '/', Unit: 'h'}.Apply(time.Unix(0, w.now).In(c.scope.Zone)).Add(time.Hour).UnixNano()
	})
	return h
}

// compileTrend compiles trend functions, such as trendavg and trendmax, over hourly aggregates.
func compileTrend(c *compiler, n *node) evaluator {
	h := c.trendArguments(n, 2)
	name := strings.TrimPrefix(n.name, "trend")
	if name == "count" {
		h.spec.load = loadOne
		i, empty := h.addWindow(stacks, sumUnsigned, "count"), h.unknownWithoutValues()
		return func(w *Windows) operand {
			if w.list[i].frontLen == 0 {
				return empty
			}
			count, _ := w.list[i].total(sumUnsigned)
			return ofUnsigned(count)
		}
	}
	return h.aggregate(name)
}

// maxSeasons bounds the earlier seasons, such as days, that a baseline reads.
const maxSeasons = 100

// compileBaseline compiles calls of baselinewma and baselinedev, which read the same period of earlier days or
// other seasons. In baselinewma(//key,1h:now/h,"d",7) the seasons are days.
func compileBaseline(c *compiler, n *node) evaluator {
	h := c.trendArguments(n, 4)
	unit := h.argument(n, 2)
	if len(unit) != 1 || strings.IndexByte("hdwMy", unit[0]) < 0 || item.UnitSpans[unit[0]] < h.spec.period.span {
		c.fail(n, `the season of %s is a unit "h", "d", "w", "M" or "y" that is not shorter than the period`, n.name)
	}
	seasons, err := strconv.Atoi(h.argument(n, 3))
	if err != nil || seasons < 1 || seasons > maxSeasons {
		c.fail(n, "%s needs a number of seasons from 1 to %d", n.name, maxSeasons)
	}
	data := h.spec.period
	h.spec.period.span += time.Duration(seasons) * item.UnitSpans[unit[0]]
	h.spec.period.month = 0
	h.spec.load = loadFloat
	if reach := h.spec.period.span + h.spec.period.shift.Delay(); reach/time.Hour > maxAggregates {
		c.fail(n, "%s reads %d hours, at most %d are kept", n.name, int(reach/time.Hour), maxAggregates)
	}
	i, empty := h.addWindow(values, sumFloat, "baseline"), h.unknownWithoutValues()
	// average returns the mean of the period that lies a number of seasons back.
	average := func(v *window, back int) (float64, bool) {
		end := item.ShiftStep{Operator: '-', Unit: unit[0], Amount: -back}.Apply(time.Unix(0, v.end+1).In(c.scope.Zone)).UnixNano() - 1
		begin := data.startOf(end)
		sum, count := 0.0, 0.0
		for rank := range v.frontLen {
			if at := v.at(rank).at; at > begin && at <= end {
				sum += math.Float64frombits(v.at(rank).bits)
				count += float64(v.weight(rank))
			}
		}
		return sum / count, count > 0
	}
	if n.name == "baselinewma" {
		return func(w *Windows) operand {
			sum, weights := 0.0, 0.0
			for back := 1; back <= seasons; back++ {
				if mean, ok := average(&w.list[i], back); ok {
					weight := float64(seasons + 1 - back)
					sum, weights = sum+weight*mean, weights+weight
				}
			}
			if weights == 0 {
				return empty
			}
			return ofFloat(sum / weights).number()
		}
	}
	few := unknownBecause("baselinedev needs values of " + h.key + " in the period and in an earlier season")
	return func(w *Windows) operand {
		points := make([]point, 0, maxSeasons)
		for back := range seasons + 1 {
			mean, ok := average(&w.list[i], back)
			if back == 0 && !ok {
				return few
			}
			if ok {
				points = append(points, point{value: mean})
			}
		}
		deviation := statistics["stddevpop"](points)
		switch {
		case len(points) < 2:
			return few
		case deviation <= epsilon:
			return ofFloat(0)
		}
		return ofFloat(math.Abs(points[0].value-mean(points)) / deviation).number()
	}
}
