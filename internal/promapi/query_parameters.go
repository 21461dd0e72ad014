package promapi

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	maxQueryBytes = 16 << 10 // the time for deeply nested expressions grows with the square of the length
	maxPoints     = 11_000   // per series
	// maxSeconds bounds times, in Unix seconds, so that they can be counted in milliseconds.
	maxSeconds = math.MaxInt64/1000 - 62135596801
)

// maxTime and minTime are the longest period.
var (
	minTime = time.Unix(-maxSeconds, 0).UTC()
	maxTime = time.Unix(maxSeconds, 999999999).UTC()
)

// parameters contains the decoded parameters of a request, such as expression, times and limit. Further parameters are
// step and selectors. An operation uses those that it needs.
type parameters struct {
	query     string
	namespace string // besides Prometheus' parameters: only series of this namespace
	metric    string
	at        time.Time
	start     time.Time
	end       time.Time
	step      time.Duration
	timeout   time.Duration
	lookback  time.Duration
	limit     int // 0: none
	matchers  [][]*labels.Matcher
}

// decodeParameters decodes the parameters of a request, such as expression, times and limit. The argument now is the
// default of the parameter time.
func decodeParameters(form url.Values, p parser.Parser, now time.Time) (x parameters, err error) {
	x = parameters{query: form.Get("query"), namespace: form.Get("namespace"), metric: form.Get("metric")}
	if len(x.query) > maxQueryBytes {
		return x, fmt.Errorf(`invalid parameter "query": the expression is longer than %d bytes`, maxQueryBytes)
	}
	for _, t := range []struct {
		name  string
		to    *time.Time
		empty time.Time
	}{{"time", &x.at, now}, {"start", &x.start, minTime}, {"end", &x.end, maxTime}} {
		*t.to = t.empty
		if text := form.Get(t.name); text != "" {
			if *t.to, err = parseTime(text); err != nil {
				return x, fmt.Errorf("invalid parameter %q: %w", t.name, err)
			}
		}
	}
	if x.end.Before(x.start) {
		return x, errors.New(`invalid parameter "end": end timestamp must not be before start time`)
	}
	for _, d := range []struct {
		name string
		to   *time.Duration
	}{{"step", &x.step}, {"timeout", &x.timeout}, {"lookback_delta", &x.lookback}} {
		if text := form.Get(d.name); text != "" {
			if *d.to, err = parseDuration(text); err != nil {
				return x, fmt.Errorf("invalid parameter %q: %w", d.name, err)
			}
		}
	}
	if text := form.Get("limit"); text != "" {
		if x.limit, err = strconv.Atoi(text); err != nil || x.limit < 0 {
			return x, fmt.Errorf(`invalid parameter "limit": %q is not a number from 0 on`, text)
		}
	}
	if x.matchers, err = parseSelectors(form["match[]"], p); err != nil {
		return x, fmt.Errorf(`invalid parameter "match[]": %w`, err)
	}
	return x, nil
}

// checkRange returns an error if a range query's period is invalid or has too many points. The number of points of
// each series in the period is limited.
func (x *parameters) checkRange(form url.Values) error {
	for _, name := range []string{"start", "end", "step"} {
		if form.Get(name) == "" {
			return fmt.Errorf("invalid parameter %q: it is missing", name)
		}
	}
	// In float64: a difference of far times would overflow a duration.
	if points := float64(x.end.UnixMilli()-x.start.UnixMilli()) / float64(x.step.Milliseconds()); points > maxPoints || points < 0 {
		return errors.New("exceeded maximum resolution of 11,000 points per timeseries: choose a larger step or a shorter period")
	}
	return nil
}

// parseTime parses a time as Unix seconds or as RFC 3339.
func parseTime(text string) (time.Time, error) {
	if t, err := strconv.ParseFloat(text, 64); err == nil {
		if !(math.Abs(t) <= maxSeconds) {
			return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp: out of range", text)
		}
		s, rest := math.Modf(t)
		return time.Unix(int64(s), int64(math.Round(rest*1000)/1000*float64(time.Second))).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	// Clients send the limits of Prometheus as text, with years that package time does not parse.
	switch text {
	case minTime.Format(time.RFC3339Nano):
		return minTime, nil
	case maxTime.Format(time.RFC3339Nano):
		return maxTime, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", text)
}

// parseDuration parses a duration in seconds or in Prometheus' form, such as 5m. The minimum is one millisecond.
func parseDuration(text string) (d time.Duration, err error) {
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		ns := s * float64(time.Second)
		if !(ns < math.MaxInt64) {
			return 0, fmt.Errorf("cannot parse %q to a valid duration: out of range", text)
		}
		d = time.Duration(max(ns, 0))
	} else if parsed, err := model.ParseDuration(text); err == nil {
		d = time.Duration(parsed)
	} else {
		return 0, fmt.Errorf("cannot parse %q to a valid duration", text)
	}
	if d < time.Millisecond {
		return 0, fmt.Errorf("%q is less than a millisecond", text)
	}
	return d, nil
}

// parseSelectors parses the series selectors (parameter match[]) of a request. It refuses a selector of all series.
func parseSelectors(texts []string, p parser.Parser) ([][]*labels.Matcher, error) {
	var size int
	for _, text := range texts {
		size += len(text)
	}
	if size > maxQueryBytes {
		return nil, fmt.Errorf("the selector is longer than %d bytes", maxQueryBytes)
	}
	sets, err := p.ParseMetricSelectors(texts)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		chooses := false
		for _, m := range set {
			chooses = chooses || !m.Matches("")
		}
		if !chooses {
			return nil, errors.New("match[] must contain at least one non-empty matcher")
		}
	}
	return sets, nil
}

// limitTo returns the limit in the request, or the given maximum if that is smaller.
func (x *parameters) limitTo(most int) int { return min(cmp.Or(x.limit, most), most) }
