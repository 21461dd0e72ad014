package items

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
	"github.com/muster-fleet/muster/internal/store/series"
)

const (
	// checkItemAge is the longest age of the last value of a number in check results that is listed.
	checkItemAge = 24 * time.Hour
	// maxCheckItems bounds the numbers of checks that are listed of one node.
	maxCheckItems = 10_000
)

// itemFilter selects items of a list by exact values of fields. An empty value selects all.
type itemFilter struct{ template, key, state string }

// matches reports whether the filter selects an item.
func (f *itemFilter) matches(i *v1.ItemState) bool {
	return (f.template == "" || i.Template == f.template) && (f.key == "" || i.Key == f.key) && (f.state == "" || i.State == f.state)
}

// checkItemsOf returns an API item for each metric value (number) in the results of a node's checks. Each item
// has the bounds of its number. Numbers and bounds come from the series store. The filter may allow the
// function not to read the store.
func (s *itemRequest) checkItemsOf(ctx context.Context, id model.NodeID, namespace, node string, filter *itemFilter) ([]v1.ItemState, error) {
	if filter.template != "" {
		return nil, nil
	}
	rows := s.refusedNumberItems(id, namespace, node)
	if s.View.Series == nil || filter.state != "" && filter.state != "ok" {
		return rows, nil
	}
	q, err := s.View.Series.Querier(s.Now().Add(-checkItemAge).UnixMilli(), s.Now().UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("read the series of node %s: %w", node, err)
	}
	defer q.Close()
	of := labels.MustNewMatcher(labels.MatchNotEqual, series.LabelItem, "")
	if filter.key != "" {
		of = labels.MustNewMatcher(labels.MatchEqual, series.LabelItem, filter.key)
	}
	set := q.Select(ctx, false, nil, labels.MustNewMatcher(labels.MatchEqual, series.LabelNode, node), labels.MustNewMatcher(labels.MatchEqual, series.LabelNamespace, namespace),
		labels.MustNewMatcher(labels.MatchNotEqual, series.LabelCheck, ""), of)
	found := map[string]*v1.ItemState{}
	var it chunkenc.Iterator
	for set.Next() && len(found) < maxCheckItems {
		l := set.At().Labels()
		kind, ok := series.PerformanceDataKind(l)
		if !ok {
			continue
		}
		it = set.At().Iterator(it)
		ms, value, ok := lastValue(it)
		if !ok {
			continue
		}
		without := labels.NewBuilder(l)
		without.Del(series.LabelMetric, metric.LabelBound)
		key := without.Labels().String()
		one := found[key]
		if one == nil {
			one = &v1.ItemState{Namespace: namespace, Node: node, Key: l.Get(series.LabelItem), Check: l.Get(series.LabelCheck), Labels: ownLabels(l), Type: "float", Unit: l.Get(metric.LabelUnit)}
			found[key] = one
		}
		if kind != "" {
			one.Bounds = append(one.Bounds, v1.ItemBound{Kind: kind, End: l.Get(metric.LabelBound), Value: value, At: time.UnixMilli(ms).UTC()})
			continue
		}
		number := item.FromFloat(value)
		one.State, one.Value, one.Text, one.At = "ok", number.String(), metric.FormatValue(number, one.Unit), time.UnixMilli(ms).UTC()
	}
	if err := set.Err(); err != nil {
		return nil, fmt.Errorf("read the series of node %s: %w", node, err)
	}
	for _, one := range found {
		if one.State == "" {
			continue // bounds of a number that came before checkItemAge
		}
		one.Bounds = slices.DeleteFunc(one.Bounds, func(b v1.ItemBound) bool { return b.At.Before(one.At) }) // of an earlier result
		slices.SortFunc(one.Bounds, func(a, b v1.ItemBound) int {
			return cmp.Or(cmp.Compare(slices.Index(series.BoundKinds[:], a.Kind), slices.Index(series.BoundKinds[:], b.Kind)), cmp.Compare(b.End, a.End))
		})
		rows = append(rows, *one)
	}
	return rows, nil
}

// lastValue returns the newest value of a metric series.
func lastValue(it chunkenc.Iterator) (ms int64, value float64, ok bool) {
	for it.Next() == chunkenc.ValFloat {
		ms, value = it.At()
		ok = true
	}
	return ms, value, ok && it.Err() == nil
}

// ownLabels returns the labels that a check itself gave to a metric value, except the unit of measurement.
func ownLabels(l labels.Labels) (own map[string]string) {
	l.Range(func(one labels.Label) {
		switch one.Name {
		case series.LabelMetric, series.LabelItem, series.LabelCheck, series.LabelNode, series.LabelNamespace, metric.LabelBound, metric.LabelUnit:
			return
		}
		if own == nil {
			own = map[string]string{}
		}
		own[one.Name] = one.Value
	})
	return own
}

// refusedNumberItems returns an item in state unsupported for each check whose metric values the time-series
// store refused. These are numbers of the last result that are beyond a limit of the series store.
func (s *itemRequest) refusedNumberItems(id model.NodeID, namespace, node string) (rows []v1.ItemState) {
	if s.Refusals == nil {
		return nil
	}
	for check, r := range s.Refusals(id) {
		_, name, ok := s.Directory.SourceName(model.CheckSource(check))
		if !ok || r.Numbers == 0 {
			continue
		}
		rows = append(rows, v1.ItemState{Namespace: namespace, Node: node, Key: r.Label, Check: name, Type: "float", State: "unsupported", Reason: r.Reason(), At: time.Unix(0, r.At).UTC()})
	}
	return rows
}
