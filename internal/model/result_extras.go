package model

import "time"

// HookResult is what a hook of a check brought, run after the check's own result.
type HookResult struct {
	Name     string   `json:"name"`
	Status   Status   `json:"status"`
	Output   string   `json:"output"`
	Cut      uint64   `json:"cut,omitempty"` // bytes of output that are not here
	Duration Duration `json:"duration,omitempty"`
}

// Value is one number that a check measured, found in its output.
type Value struct {
	Name  string            `json:"name"`
	Tags  map[string]string `json:"tags,omitempty"`
	Value float64           `json:"value"`       // finite
	At    time.Time         `json:"at,omitzero"` // as the output has it, to the millisecond; zero: when the check ran
}

// MetricFormats are the forms of output that values are found in.
var MetricFormats = [...]string{"nagios", "graphite", "influxdb", "opentsdb", "prometheus"}

// How much a result may carry beside its output.
const (
	MaxHooks      = 16       // of one check, and results of them
	MaxHookOutput = 32 << 10 // bytes of one hook's output
	MaxValues     = 1000     // of one result
	MaxValueTags  = 32       // of one value
)
