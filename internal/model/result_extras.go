package model

import "time"

// HookResult is the outcome of a check's hook, which ran after the check itself.
type HookResult struct {
	Name     string   `json:"name"`
	Status   Status   `json:"status"`
	Output   string   `json:"output"`
	Cut      uint64   `json:"cut,omitempty"` // bytes of output that are not here
	Duration Duration `json:"duration,omitempty"`
}

// Value is one number that a check measured, parsed from its output.
type Value struct {
	Name  string            `json:"name"`
	Tags  map[string]string `json:"tags,omitempty"`
	Value float64           `json:"value"`       // finite
	At    time.Time         `json:"at,omitzero"` // as the output has it, to the millisecond; zero: when the check ran
}

// MetricFormats are the output formats with values.
var MetricFormats = [...]string{"nagios", "graphite", "influxdb", "opentsdb", "prometheus"}

// Bounds of the parts of a result beside its output.
const (
	MaxHooks      = 16       // of one check, and results of them
	MaxHookOutput = 32 << 10 // bytes of one hook's output
	MaxValues     = 1000     // of one result
	MaxValueTags  = 32       // of one value
)
