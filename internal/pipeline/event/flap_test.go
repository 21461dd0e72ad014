package event

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// sensu counts as Sensu's documentation says, result by result, on plain lists.
type sensu struct {
	history                []model.Status
	occurrences, watermark int
	flapping               bool
}

func (x *sensu) next(status model.Status, low, high float64) {
	first, previous := len(x.history) == 0, model.OK
	if !first {
		previous = x.history[len(x.history)-1]
	}
	if x.history = append(x.history, status); len(x.history) > 21 {
		x.history = x.history[1:]
	}
	if !first && status == previous {
		x.occurrences++
	} else {
		x.occurrences = 1
	}
	switch {
	case first, status != model.OK && previous == model.OK:
		x.watermark = 1
	case x.occurrences <= x.watermark:
	default:
		x.watermark++
	}
	if change := x.change(); x.flapping {
		x.flapping = change > low
	} else {
		x.flapping = change >= high
	}
}

func (x *sensu) change() float64 {
	if len(x.history) < 21 {
		return 0
	}
	sum := 0
	for i := range 20 {
		if x.history[i] != x.history[i+1] {
			sum += 80 + 2*i
		}
	}
	return float64(sum / 20)
}

// What is counted is what Sensu's documentation says, with the hysteresis that it means.
func TestCountsAsDocumented(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		high := rapid.IntRange(2, 100).Draw(t, "start")
		low := rapid.IntRange(0, high-1).Draw(t, "end")
		r := replay(outer, map[model.ChunkID]*model.CheckChunk{10: {Chunk: model.Chunk{ID: 10, Unit: 1000}, FlapStart: uint32(high), FlapEnd: uint32(low)}}, 1, journal.Position{}, nil, nil)
		var want sensu
		status := model.OK
		for i := range rapid.IntRange(1, 80).Draw(t, "results") {
			if rapid.IntRange(0, 2).Draw(t, "another") == 0 {
				status = model.Status(rapid.IntRange(0, 3).Draw(t, "status"))
			}
			c := newCommit(uint64(i+1), 0, 0)
			c.batch(outer, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: uint64(i + 1), NowMs: 1 << 40,
				Signals: []wire.Signal{wire.ResultSignal(wire.Signal{Chunk: 10, AtMs: 1 << 40}, wire.Result{Status: status, Output: []byte(fmt.Sprint(i))})}})
			r.continueWith(outer, []*commit{c})
			want.next(status, float64(low), float64(high))
			got, _ := r.View.Get(1, 1000)
			if int(got.Occurrences) != want.occurrences || int(got.Watermark) != want.watermark ||
				float64(got.Change) != want.change() || got.Flapping != want.flapping {
				t.Fatalf("after %d results: occurrences %d, watermark %d, change %d, flapping %v; documented: %+v with a change of %v",
					i+1, got.Occurrences, got.Watermark, got.Change, got.Flapping, want, want.change())
			}
			if want.flapping && status != model.OK && got.Problem == nil {
				t.Fatalf("it flaps and has no problem")
			}
		}
	})
}

func TestSameWords(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"", "", true}, {"5", "", true}, {"load 1.25, 0.98", "load 11.2, 7", true}, {"a 5", "b 5", false},
		{"5 days", "5 day", false}, {"12:30", "7:05", true}, {"/dev/sda1", "/dev/sdb1", false}, {"x", "", false},
	} {
		if got := sameWords([]byte(test.a), []byte(test.b)); got != test.same || got != sameWords([]byte(test.b), []byte(test.a)) {
			t.Errorf("%q and %q: %v", test.a, test.b, got)
		}
	}
}
