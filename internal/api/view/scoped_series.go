package view

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/muster-fleet/muster/internal/store/series"
)

// SeriesIn returns a reader of the time-series store, limited to the series of the given namespaces.
func SeriesIn(all storage.Queryable, namespaces ...string) storage.Queryable {
	return storage.QueryableFunc(func(from, to int64) (storage.Querier, error) {
		if len(namespaces) == 0 {
			return storage.NoopQuerier(), nil // a matcher without names would find series without a namespace
		}
		q, err := all.Querier(from, to)
		if err != nil {
			return nil, err
		}
		names := make([]string, len(namespaces))
		for i, name := range namespaces {
			names[i] = regexp.QuoteMeta(name)
		}
		return scopedQuerier{q, labels.MustNewMatcher(labels.MatchRegexp, series.LabelNamespace, strings.Join(names, "|"))}, nil
	})
}

// scopedQuerier is a querier of the series store, limited to the namespaces that the caller may see. A field and no
// embedding: optional interfaces of the store stay out of reach.
type scopedQuerier struct {
	all     storage.Querier
	matcher *labels.Matcher
}

// addMatcher adds to a query's label matchers a matcher that selects only visible namespaces.
func (q scopedQuerier) addMatcher(matchers []*labels.Matcher) []*labels.Matcher {
	return append(slices.Clip(matchers), q.matcher)
}

// Select returns the matching time series of namespaces that the caller may see.
func (q scopedQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return q.all.Select(ctx, sorted, hints, q.addMatcher(matchers)...)
}

// LabelValues returns the values of a label in the series of the visible namespaces.
func (q scopedQuerier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.all.LabelValues(ctx, name, hints, q.addMatcher(matchers)...)
}

// LabelNames returns the names of labels in the series of the visible namespaces.
func (q scopedQuerier) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.all.LabelNames(ctx, hints, q.addMatcher(matchers)...)
}

// Close closes the underlying querier of the time-series store.
func (q scopedQuerier) Close() error { return q.all.Close() }
