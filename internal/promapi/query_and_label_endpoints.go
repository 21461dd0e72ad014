package promapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/muster-fleet/muster/internal/store/series"
)

// prometheusVersion is the version of the Prometheus whose engine this is. Grafana chooses its requests by it.
const prometheusVersion = "3.16.0"

// errTruncated is the warning about an answer that the limit cut.
var errTruncated = errors.New("results truncated due to limit")

// query evaluates a PromQL expression at one time (instant query).
func (q *promRequest) query(ctx context.Context, _ *http.Request, x *parameters) ([]byte, annotations.Annotations, error) {
	store, err := q.permittedStore(ctx, x)
	if err != nil {
		return nil, nil, err
	}
	return q.evaluate(ctx, x, func(o promql.QueryOpts) (promql.Query, error) {
		return q.Engine.NewInstantQuery(ctx, store, o, x.query, x.at)
	})
}

// queryRange evaluates a PromQL expression at each step of a period (range query).
func (q *promRequest) queryRange(ctx context.Context, r *http.Request, x *parameters) ([]byte, annotations.Annotations, error) {
	if err := x.checkRange(r.Form); err != nil {
		return nil, nil, badData(err)
	}
	store, err := q.permittedStore(ctx, x)
	if err != nil {
		return nil, nil, err
	}
	return q.evaluate(ctx, x, func(o promql.QueryOpts) (promql.Query, error) {
		return q.Engine.NewRangeQuery(ctx, store, o, x.query, x.start, x.end, x.step)
	})
}

// evaluate runs a PromQL query and encodes its result as JSON.
func (q *promRequest) evaluate(ctx context.Context, x *parameters, build func(promql.QueryOpts) (promql.Query, error)) ([]byte, annotations.Annotations, error) {
	query, err := build(promql.NewPrometheusQueryOpts(false, x.lookback, nil))
	if err != nil {
		return nil, nil, badData(fmt.Errorf(`invalid parameter "query": %w`, err))
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return nil, nil, result.Err
	}
	value, warnings := result.Value, result.Warnings
	if most := x.limit; most > 0 {
		switch v := value.(type) {
		case promql.Vector:
			if len(v) > most {
				value, warnings = v[:most], warnings.Add(errTruncated)
			}
		case promql.Matrix:
			if len(v) > most {
				value, warnings = v[:most], warnings.Add(errTruncated)
			}
		}
	}
	data, err := appendResult(nil, value)
	return data, warnings, err
}

// series lists the label sets of the series that match the selectors of the request.
func (q *promRequest) series(ctx context.Context, _ *http.Request, x *parameters) ([]byte, annotations.Annotations, error) {
	if len(x.matchers) == 0 {
		return nil, nil, badData(errors.New("no match[] parameter provided"))
	}
	querier, err := q.querier(ctx, x)
	if err != nil {
		return nil, nil, err
	}
	defer querier.Close()
	most := x.limitTo(maxRows)
	hints := &storage.SelectHints{Start: x.start.UnixMilli(), End: x.end.UnixMilli(), Func: "series", Limit: most + 1}
	var sets []storage.SeriesSet
	for _, matchers := range x.matchers {
		sets = append(sets, querier.Select(ctx, len(x.matchers) > 1, hints, matchers...))
	}
	set := sets[0]
	if len(sets) > 1 {
		set = storage.NewMergeSeriesSet(sets, 0, storage.ChainedSeriesMerge)
	}
	data, n := []byte{'['}, 0
	warnings := annotations.New()
	for ; set.Next(); n++ {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if n == most {
			warnings.Add(errTruncated)
			break
		}
		data = appendLabels(appendComma(data, n), set.At().Labels())
	}
	warnings.Merge(set.Warnings())
	return append(data, ']'), *warnings, set.Err()
}

// querier returns a querier of the series store for the period of the request.
func (q *promRequest) querier(ctx context.Context, x *parameters) (storage.Querier, error) {
	store, err := q.permittedStore(ctx, x)
	if err != nil {
		return nil, err
	}
	return store.Querier(x.start.UnixMilli(), x.end.UnixMilli())
}

// collectTexts collects texts such as label names from all matching series, sorted and without duplicates. The function
// find returns the texts for each selector of the request.
func (q *promRequest) collectTexts(ctx context.Context, x *parameters, find func(storage.Querier, *storage.LabelHints, []*labels.Matcher) ([]string, annotations.Annotations, error)) (texts []string, _ annotations.Annotations, err error) {
	querier, err := q.querier(ctx, x)
	if err != nil {
		return nil, nil, err
	}
	defer querier.Close()
	sets := x.matchers
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	most := x.limitTo(maxRows)
	warnings := annotations.New()
	texts = []string{}
	for _, matchers := range sets {
		found, more, err := find(querier, &storage.LabelHints{Limit: most + 1}, matchers)
		if err != nil {
			return nil, nil, err
		}
		warnings.Merge(more)
		for _, text := range found {
			texts = append(texts, strings.Clone(text)) // the querier owns the text
		}
	}
	slices.Sort(texts)
	if texts = slices.Compact(texts); len(texts) > most {
		texts = texts[:most]
		warnings.Add(errTruncated)
	}
	return texts, *warnings, nil
}

// labelNames lists the label names of the matching series.
func (q *promRequest) labelNames(ctx context.Context, _ *http.Request, x *parameters) ([]byte, annotations.Annotations, error) {
	names, warnings, err := q.collectTexts(ctx, x, func(s storage.Querier, hints *storage.LabelHints, matchers []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return s.LabelNames(ctx, hints, matchers...)
	})
	if err != nil {
		return nil, nil, err
	}
	data, err := json.Marshal(names)
	return data, warnings, err
}

// labelValues lists the values of one label in the matching series. The path names the label.
func (q *promRequest) labelValues(ctx context.Context, r *http.Request, x *parameters) ([]byte, annotations.Annotations, error) {
	name := r.PathValue("name")
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return nil, nil, badData(fmt.Errorf("invalid label name: %q", name))
	}
	values, warnings, err := q.valuesOf(ctx, name, x)
	if err != nil {
		return nil, nil, err
	}
	data, err := json.Marshal(values)
	return data, warnings, err
}

// valuesOf returns the values of a label in the matching series.
func (q *promRequest) valuesOf(ctx context.Context, name string, x *parameters) ([]string, annotations.Annotations, error) {
	return q.collectTexts(ctx, x, func(s storage.Querier, hints *storage.LabelHints, matchers []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return s.LabelValues(ctx, name, hints, matchers...)
	})
}

// metricMetadata is the metadata of a metric in the JSON form of Prometheus.
type metricMetadata struct {
	Type string `json:"type"`
	Help string `json:"help"`
	Unit string `json:"unit"`
}

// metadata lists the metric names, each with unknown type and empty help, because the store has neither. The
// store does not know their types and units.
func (q *promRequest) metadata(ctx context.Context, _ *http.Request, x *parameters) ([]byte, annotations.Annotations, error) {
	if x.metric != "" {
		x.matchers = [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, series.LabelMetric, x.metric)}}
	}
	names, warnings, err := q.valuesOf(ctx, series.LabelMetric, x)
	if err != nil {
		return nil, nil, err
	}
	all := map[string][]metricMetadata{}
	for _, name := range names {
		all[name] = []metricMetadata{{Type: string(model.MetricTypeUnknown)}}
	}
	data, err := json.Marshal(all)
	return data, warnings, err
}

// buildInfo answers with the version of the Prometheus library in place of a Prometheus server's version.
func (q *promRequest) buildInfo(context.Context, *http.Request, *parameters) ([]byte, annotations.Annotations, error) {
	data, err := json.Marshal(map[string]string{"version": prometheusVersion, "revision": "", "branch": "", "buildUser": "", "buildDate": "", "goVersion": runtime.Version()})
	return data, nil, err
}

// answerEmpty returns an API operation with a constant, empty answer, for features that Muster does not
// support.
func answerEmpty(data string) operation {
	return func(*promRequest, context.Context, *http.Request, *parameters) ([]byte, annotations.Annotations, error) {
		return []byte(data), nil, nil
	}
}
