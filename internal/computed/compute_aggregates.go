package computed

import (
	"context"
	"fmt"
	"slices"
	"time"

	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/trigger"
)

// Bounds of an aggregate.
const (
	maxSeries        = 100_000          // whose values a selection reads
	aggregateTimeout = 10 * time.Second // for all selections of a formula
)

// calculation computes the values of all due computed items (metrics derived from other items) at one moment.
// Nodes of a namespace share the values of formulas over named nodes or all nodes, and the counts of items.
type calculation struct {
	engine     *Engine
	now        time.Time
	aggregates map[aggregateKey]computedValue
	surveys    map[string]*itemStatistics // by namespace
}

// aggregateKey identifies an aggregate by formula, namespace and node, so that equal aggregates are computed once.
type aggregateKey struct {
	program   *trigger.Program
	namespace string
	node      model.NodeID // zero: the aggregate is the same on all nodes
}

// computedValue is a computed value, or the error of its computation.
type computedValue struct {
	item.Value
	err error
}

// computeItem computes the value of one computed item on a node.
func (c *calculation) computeItem(ctx context.Context, one *computedItem, namespace string, node model.NodeID) (item.Value, error) {
	switch {
	case one.fault != nil:
		return item.Value{}, one.fault
	case one.program == nil:
		return c.computeInternalItem(&one.internal, namespace, node)
	}
	key := aggregateKey{program: one.program, namespace: namespace}
	if slices.ContainsFunc(one.program.Selections(), func(s trigger.Selection) bool { return s.Host == "" }) {
		key.node = node
	}
	of, known := c.aggregates[key]
	if !known {
		of.Value, of.err = c.computeAggregate(ctx, key)
		c.aggregates[key] = of
	}
	return of.Value, of.err
}

// computeAggregate evaluates an aggregate formula over the item values of the selected nodes in a namespace.
func (c *calculation) computeAggregate(ctx context.Context, of aggregateKey) (item.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, aggregateTimeout)
	defer cancel()
	values := make([][]float64, len(of.program.Selections()))
	for i := range values {
		var err error
		if values[i], err = c.selectedValues(ctx, &of.program.Selections()[i], of); err != nil {
			return item.Value{}, err
		}
	}
	return of.program.Aggregate(values, c.now.UnixNano())
}

// selectedValues returns one value for each item that one selection in an aggregate formula matches.
func (c *calculation) selectedValues(ctx context.Context, s *trigger.Selection, aggregate aggregateKey) (list []float64, err error) {
	from, to := s.Period(c.now.UnixNano())
	from, to = from/1e6+1, to/1e6
	q, err := c.engine.opts.Series(aggregate.namespace).Querier(from, to)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	matchers := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, prommodel.MetricNameLabel, series.MetricName(s.Key))}
	host := s.Host
	if host == "" {
		host = c.engine.opts.Directory.Node(aggregate.node).Name.Name
	}
	if host != "*" {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, series.LabelNode, host))
	}
	filter := c.newSelectionFilter(aggregate.namespace)
	set := q.Select(ctx, false, nil, matchers...)
	var it chunkenc.Iterator
	for count := 0; set.Next(); {
		of := set.At().Labels()
		key := of.Get(series.LabelItem)
		if key == "" || !s.MatchesKey(key) || !filter.selects(s, of, key) {
			continue
		}
		if count++; count > maxSeries {
			return nil, fmt.Errorf("more than %d items have the key %s: choose fewer by a group or a tag", maxSeries, s.Key)
		}
		var values []float64
		for it = set.At().Iterator(it); it.Next() == chunkenc.ValFloat; {
			if at, v := it.At(); at >= from && at <= to && !value.IsStaleNaN(v) {
				values = append(values, v)
			}
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
		if f, ok := s.Reduce(values); ok {
			list = append(list, f)
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the formula takes longer than %s: choose fewer items or a shorter period", aggregateTimeout)
	}
	return list, set.Err()
}

// selectionFilter decides which items an aggregate includes, by the node's groups and the item's tags.
type selectionFilter struct {
	directory Directory
	namespace string
	groups    map[string]map[model.NodeID]bool
	templates map[string]*model.TemplateDefinition
}

// newSelectionFilter returns a selectionFilter for one namespace.
func (c *calculation) newSelectionFilter(namespace string) *selectionFilter {
	return &selectionFilter{c.engine.opts.Directory, namespace, map[string]map[model.NodeID]bool{}, map[string]*model.TemplateDefinition{}}
}

// selects reports whether an aggregate includes the time series with the given labels and item key.
func (m *selectionFilter) selects(s *trigger.Selection, of labels.Labels, key string) bool {
	return s.Matches(func(group string) bool {
		members := m.groups[group]
		if members == nil {
			members = map[model.NodeID]bool{}
			for _, id := range m.directory.GroupMembers(m.namespace, model.CleanName(group)) {
				members[id] = true
			}
			m.groups[group] = members
		}
		node, ok := m.directory.NodeByName(m.namespace, of.Get(series.LabelNode))
		return ok && members[node]
	}, func(name, value string, any bool) bool {
		tag, ok := m.tags(of.Get(series.LabelTemplate), key)[name]
		return ok && (any || tag == value)
	})
}

// tags returns the tags that a Template gives to the item with a given key. Discovered items have none.
func (m *selectionFilter) tags(template, key string) map[string]string {
	c, known := m.templates[template]
	if !known {
		for _, namespace := range []string{m.namespace, model.SharedNamespaceName} {
			if id, ok := m.directory.UnitByName("Template", namespace, template); ok && c == nil {
				if unit := m.directory.SourceUnit(model.TriggerSource(id, "")); unit != nil { // nil: deleted meanwhile
					c = unit.Definition.AsTemplate()
				}
			}
		}
		m.templates[template] = c
	}
	if c == nil {
		return nil
	}
	i := slices.IndexFunc(c.Items, func(one model.Item) bool { return one.Key == key })
	if i < 0 {
		return nil
	}
	return c.Items[i].Tags
}
