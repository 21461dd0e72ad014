package intent

import (
	"reflect"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// FuzzDecodeRollout decodes random rows of roll-outs, and expects equality after encoding and decoding again.
func FuzzDecodeRollout(f *testing.F) {
	f.Add([]byte(`{"unit": 1000, "accepted": "a-1000", "candidate": "b-1000", "state": "running", "spec": {"steps": ["canary", "10%"]}, "bound": 18446744073709551615, "startedAt": "2026-11-29T12:00:00Z"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeRollout(Row{Body: body})
		if err != nil {
			return
		}
		r.AllSteps()
		r.Groups()
		write, err := rolloutWrite(StoredRollout{Rollout: r})
		if err != nil || write.Key != RolloutKey(r.Unit) {
			return // such as a time in the year 10000
		}
		again, err := DecodeRollout(Row{Body: write.Body})
		if err != nil || !reflect.DeepEqual(comparableRollout(again), comparableRollout(r)) {
			t.Errorf("%+v, then %+v, %v", r, again, err)
		}
	})
}

// comparableRollout returns a roll-out in a uniform form, so that tests can compare two. Empty lists are nil, and
// times are in UTC.
func comparableRollout(r model.Rollout) model.Rollout {
	r.StartedAt = r.StartedAt.UTC()
	if len(r.Steps) == 0 {
		r.Steps = nil
	}
	for i := range r.Steps {
		r.Steps[i].StartedAt = r.Steps[i].StartedAt.UTC()
	}
	if len(r.Excused) == 0 {
		r.Excused = nil
	}
	return r
}
