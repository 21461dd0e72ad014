package series

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// hidden is a querier that does not show the series of positions.
type hidden struct{ storage.Querier }

// noPositions returns the matchers with one more that leaves the series of positions out.
func noPositions(matchers []*labels.Matcher) []*labels.Matcher {
	return append(slices.Clip(matchers), labels.MustNewMatcher(labels.MatchNotEqual, labels.MetricName, positionName))
}

// Select implements storage.Querier.
func (h hidden) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return h.Querier.Select(ctx, sorted, hints, noPositions(matchers)...)
}

// LabelValues implements storage.Querier.
func (h hidden) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return h.Querier.LabelValues(ctx, name, hints, noPositions(matchers)...)
}

// LabelNames implements storage.Querier.
func (h hidden) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return h.Querier.LabelNames(ctx, hints, noPositions(matchers)...)
}
