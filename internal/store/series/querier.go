package series

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// valueQuerier queries the series of items, and hides the series of positions.
type valueQuerier struct{ storage.Querier }

// noPositions returns the matchers with one more that leaves the series of positions out.
func noPositions(matchers []*labels.Matcher) []*labels.Matcher {
	return append(slices.Clip(matchers), labels.MustNewMatcher(labels.MatchNotEqual, LabelMetric, positionName))
}

// Select implements storage.Querier.
func (q valueQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return q.Querier.Select(ctx, sorted, hints, noPositions(matchers)...)
}

// LabelValues implements storage.Querier.
func (q valueQuerier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.Querier.LabelValues(ctx, name, hints, noPositions(matchers)...)
}

// LabelNames implements storage.Querier.
func (q valueQuerier) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.Querier.LabelNames(ctx, hints, noPositions(matchers)...)
}
