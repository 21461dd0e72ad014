package v1

import (
	"encoding/json"
	"time"
)

// SeriesResult is the result of a PromQL query, in Prometheus' form.
type SeriesResult struct {
	ResultType string          `json:"resultType"`
	Result     json.RawMessage `json:"result"`
	Warnings   []string        `json:"warnings,omitempty"`
}

// SeriesRow is one series (labels with values) of a query's result.
type SeriesRow struct {
	Metric map[string]string `json:"metric"`
	Value  SeriesPoint       `json:"value,omitzero"`   // at one time
	Values []SeriesPoint     `json:"values,omitempty"` // over a period
}

// SeriesPoint is one value of a series with its time.
type SeriesPoint struct {
	Seconds float64
	Value   string
}

// UnmarshalJSON reads a point of a series in Prometheus' form, such as [1435781451.781,"1"].
func (p *SeriesPoint) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[2]any{&p.Seconds, &p.Value})
}

// MarshalJSON encodes the point of a series in Prometheus' form, such as [1435781451.781,"1"].
func (p SeriesPoint) MarshalJSON() ([]byte, error) { return json.Marshal([2]any{p.Seconds, p.Value}) }

// Rows returns all time series in the result of a PromQL query. A scalar or a string becomes one series without
// labels.
func (r *SeriesResult) Rows() (rows []SeriesRow, err error) {
	if r.ResultType == "scalar" || r.ResultType == "string" {
		rows = make([]SeriesRow, 1)
		return rows, json.Unmarshal(r.Result, &rows[0].Value)
	}
	return rows, json.Unmarshal(r.Result, &rows)
}

// RuleState is the state of one recording or alerting rule after its last evaluation.
type RuleState struct {
	Namespace string    `json:"namespace"`
	Group     string    `json:"group"` // name of the RuleGroup
	Rule      string    `json:"rule"`  // name of the series or of the alerts
	Type      string    `json:"type"`  // recording or alerting
	Health    string    `json:"health"`
	Error     string    `json:"error,omitempty"`
	Firing    int       `json:"firing,omitempty"`
	Pending   int       `json:"pending,omitempty"`
	Seconds   float64   `json:"seconds"` // that the evaluation took
	At        time.Time `json:"at"`      // of the evaluation
	Missed    int64     `json:"missed"`  // evaluations of the group since the start of the server, because one took longer than the interval
}
