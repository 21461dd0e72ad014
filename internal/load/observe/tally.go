package observe

import (
	"encoding/json"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/report"
)

// Tally counts results that were due in one part of the timetable. A result is due in the part of its intended time.
type Tally struct {
	Results uint64               `json:"results,omitempty"` // sent
	Acked   uint64               `json:"acked,omitempty"`   // of them, at any time
	InTime  uint64               `json:"inTime,omitempty"`  // of them, acknowledged or refused within InTime beyond their linger
	Current uint64               `json:"current,omitempty"` // acknowledged during the part, without their linger, whenever they were due
	Refused uint64               `json:"refused,omitempty"` // of Results
	Frames  uint64               `json:"frames,omitempty"`  // sent
	Dropped uint64               `json:"dropped,omitempty"` // not made: the spool of their agent was full
	Whole   Histogram            `json:"whole,omitzero"`    // from intended to acknowledged
	Beyond  Histogram            `json:"beyond,omitzero"`   // from due to leave (usual linger over, or frame full) to acknowledged
	Lag     Histogram            `json:"lag,omitzero"`      // from due to leave to handed over to the session
	Batches Histogram            `json:"batches,omitzero"`  // signals per frame, counted as µs
	Classes []ClassShare         `json:"classes,omitempty"` // by number
	Waits   map[string]Histogram `json:"waits,omitempty"`   // of people and agents, by figure

	Signals map[report.Unit]*Tally `json:"signals,omitempty"` // of values and components beside results; without results they are counted as these
}

// ClassShare counts the results of one class.
type ClassShare struct {
	Meant    uint64 `json:"meant"`    // with those that no spool took
	Answered uint64 `json:"answered"` // of them, in time
}

// Class returns the share of a class.
func (t *Tally) Class(number int) *ClassShare {
	for len(t.Classes) <= number {
		t.Classes = append(t.Classes, ClassShare{})
	}
	return &t.Classes[number]
}

// Unit returns the tally of values or components.
func (t *Tally) Unit(unit report.Unit) *Tally {
	if t.Signals == nil {
		t.Signals = map[report.Unit]*Tally{}
	}
	if t.Signals[unit] == nil {
		t.Signals[unit] = &Tally{}
	}
	return t.Signals[unit]
}

// Wait counts times for which people or agents waited.
func (t *Tally) Wait(figure string, ns, times int64) {
	if t.Waits == nil {
		t.Waits = map[string]Histogram{}
	}
	h := t.Waits[figure]
	h.Record(ns, times)
	t.Waits[figure] = h
}

// units returns the tally and the tallies of values and components beside its results.
func (t *Tally) units() []*Tally {
	list := []*Tally{t}
	for _, of := range t.Signals {
		if of != nil {
			list = append(list, of)
		}
	}
	return list
}

// InTimeShare returns the share of the results that was answered in time, 0 to 1, or the lower one of the values or components
// beside them. It returns nil if none was due.
func (t *Tally) InTimeShare() (share *float64) {
	for _, of := range t.units() {
		if due := of.Results + of.Dropped; due > 0 {
			if own := min(1, float64(of.InTime)/float64(due)); share == nil || own < *share {
				share = &own
			}
		}
	}
	return share
}

// ShareOf returns the share of a class: of the results, values or components with the lowest share in time.
func (t *Tally) ShareOf(number int) (least ClassShare) {
	for _, of := range t.units() {
		if s := *of.Class(number); s.Meant > 0 && (least.Meant == 0 || s.Answered*least.Meant < least.Answered*s.Meant) {
			least = s
		}
	}
	return least
}

// AllDropped returns the results, values and components that full spools did not take.
func (t *Tally) AllDropped() (n uint64) {
	for _, of := range t.units() {
		n += of.Dropped
	}
	return n
}

// LargestLag returns the lag of the results, or the larger one of the values or components beside them.
func (t *Tally) LargestLag() (largest report.Latency) {
	for _, of := range t.units() {
		if lag := of.Lag.Latency(); lag.P99 >= largest.P99 {
			largest = lag
		}
	}
	return largest
}

// Merge adds the counts of another tally.
func (t *Tally) Merge(o *Tally) {
	t.Results += o.Results
	t.Acked += o.Acked
	t.InTime += o.InTime
	t.Current += o.Current
	t.Refused += o.Refused
	t.Frames += o.Frames
	t.Dropped += o.Dropped
	t.Whole.Merge(o.Whole)
	t.Beyond.Merge(o.Beyond)
	t.Lag.Merge(o.Lag)
	t.Batches.Merge(o.Batches)
	for i, s := range o.Classes {
		t.Class(i).Meant += s.Meant
		t.Class(i).Answered += s.Answered
	}
	for figure, h := range o.Waits {
		t.AddWaits(figure, h)
	}
	for unit, of := range o.Signals {
		if of != nil {
			t.Unit(unit).Merge(of)
		}
	}
}

// AddWaits adds times for which people or agents waited.
func (t *Tally) AddWaits(figure string, h Histogram) {
	if t.Waits == nil {
		t.Waits = map[string]Histogram{}
	}
	own := t.Waits[figure]
	own.Merge(h)
	t.Waits[figure] = own
}

// Histogram counts times, in µs. The zero Histogram is empty.
type Histogram struct{ h *hdrhistogram.Histogram }

// Record counts a time some times.
func (x *Histogram) Record(ns, times int64) {
	x.fill()
	report.Record(x.h, ns, times)
}

func (x *Histogram) fill() {
	if x.h == nil {
		x.h = hdrhistogram.New(1, report.MaxLatency, 3)
	}
}

// Merge adds the counts of another histogram.
func (x *Histogram) Merge(o Histogram) {
	if o.h != nil {
		x.fill()
		x.h.Merge(o.h)
	}
}

// Buckets returns the histogram to read.
func (x Histogram) Buckets() *hdrhistogram.Histogram {
	x.fill()
	return x.h
}

// Count returns the number of times.
func (x Histogram) Count() int64 {
	if x.h == nil {
		return 0
	}
	return x.h.TotalCount()
}

// Latency sums the histogram up.
func (x Histogram) Latency() report.Latency {
	if x.h == nil {
		return report.Latency{}
	}
	return report.LatencyOf(x.h)
}

// IsZero reports whether nothing was counted.
func (x Histogram) IsZero() bool { return x.Count() == 0 }

// MarshalJSON encodes the buckets.
func (x Histogram) MarshalJSON() ([]byte, error) {
	if x.h == nil {
		return []byte("null"), nil
	}
	return json.Marshal(pack(x.h))
}

// UnmarshalJSON decodes the buckets.
func (x *Histogram) UnmarshalJSON(text []byte) error {
	var data []byte
	if err := json.Unmarshal(text, &data); err != nil || len(data) == 0 {
		return err
	}
	x.fill()
	h, err := unpack(x.h, data)
	if err == nil {
		x.h = h
	}
	return err
}
