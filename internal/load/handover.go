package load

import (
	"encoding/json"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/observe"
)

// What a loader hands to the one that leads. Histograms go bucket by bucket: sums of them
// are what one loader would have counted.

// Stretch is what was due in one part of the plan, and what the loader used in it.
type Stretch struct {
	Part  int           `json:"part"`
	Tally *tally        `json:"tally"`
	CPU   time.Duration `json:"cpu"`
	RSS   int64         `json:"rss"` // at its end
}

// packedTally is a tally on its way.
type packedTally struct {
	Results uint64       `json:"results"`
	Acked   uint64       `json:"acked"`
	InTime  uint64       `json:"inTime"`
	Current uint64       `json:"current"`
	Refused uint64       `json:"refused"`
	Frames  uint64       `json:"frames"`
	Dropped uint64       `json:"dropped"`
	Whole   []byte       `json:"whole"`
	Beyond  []byte       `json:"beyond"`
	Lag     []byte       `json:"lag"`
	Batches []byte       `json:"batches"`
	Classes []classShare `json:"classes"`
}

// MarshalJSON packs it.
func (t *tally) MarshalJSON() ([]byte, error) {
	return json.Marshal(packedTally{t.results, t.acked, t.inTime, t.current, t.refused, t.frames, t.dropped,
		observe.Pack(t.whole), observe.Pack(t.beyond), observe.Pack(t.lag), observe.Pack(t.batches), t.classes})
}

// UnmarshalJSON unpacks it.
func (t *tally) UnmarshalJSON(data []byte) error {
	var p packedTally
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	*t = *newTally()
	t.results, t.acked, t.inTime, t.current, t.refused, t.frames, t.dropped, t.classes = p.Results, p.Acked, p.InTime, p.Current, p.Refused, p.Frames, p.Dropped, p.Classes
	for _, h := range []struct {
		into **hdrhistogram.Histogram
		data []byte
	}{{&t.whole, p.Whole}, {&t.beyond, p.Beyond}, {&t.lag, p.Lag}, {&t.batches, p.Batches}} {
		got, err := observe.Unpack(*h.into, h.data)
		if err != nil {
			return err
		}
		*h.into = got
	}
	return nil
}

// Measured is all that a loader counted, once its agents are at rest.
type Measured struct {
	Stretches []Stretch         `json:"stretches"`      // of all parts of the plan
	Offered   []uint32          `json:"offered"`        // by second of the timetable
	Late      int64             `json:"late,omitempty"` // how late it heard that the timetable ends, ns
	Resent    uint64            `json:"resent"`
	Wrong     uint64            `json:"wrong"`     // results that had to be refused …
	WrongKept uint64            `json:"wrongKept"` // … and were taken
	Slowed    int64             `json:"slowed"`
	Refusals  map[string]uint64 `json:"refusals"`
	Failures  map[string]uint64 `json:"failures"`
	Losses    map[string]uint64 `json:"losses"`
	Back      map[int]int64     `json:"back"` // of faults that struck its agents, when all were as before, ns since the beginning; zero: not yet
	Ledgers   observe.Ledgers   `json:"-"`    // of its agents: many, and sent apart
}
