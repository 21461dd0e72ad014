package people

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// alone is a run without a server.
type alone struct {
	gone, back int64  // the server, on purpose; zero: it was not
	called     string // every node …
	moved      bool   // … and will not be for long
	waits      map[string]*hdrhistogram.Histogram
	changes    []observe.Intent
}

// lasting returns the time of a run that began some time ago, and lasts for the phases.
func lasting(ago time.Duration, phases ...scenario.Phase) clock.Pipeline {
	c := &clock.Clock{Epoch: time.Now().Add(-ago)}
	c.Follow(plan.NewTimetable(phases, 0))
	return clock.Pipeline{Clock: c, Name: scenario.People, Phases: phases}
}

// steady returns a phase of this length.
func steady(length time.Duration) scenario.Phase {
	return scenario.Phase{Steady: model.Duration(length), Rate: 1}
}

func (a *alone) Append(x *observe.Intent) { a.changes = append(a.changes, *x) }

func (a *alone) Away(from, to int64) bool { return a.gone > 0 && from < a.back && to > a.gone }

func (a *alone) Called(int) string { return a.called }

func (a *alone) Renamed(int, string) bool { return a.moved }

func (a *alone) Waited(figure string, _, took int64) {
	if a.waits == nil {
		a.waits = map[string]*hdrhistogram.Histogram{}
	}
	if a.waits[figure] == nil {
		a.waits[figure] = hdrhistogram.New(1, report.MaxLatency, 3)
	}
	report.Record(a.waits[figure], took, 1)
}

// beside returns users of a run.
func beside(r Run, time clock.Pipeline) *People {
	return &People{Run: r, Time: time, Scenario: &scenario.Scenario{Seed: 7}, works: map[string]*work{}}
}

// asked lets a user list events on a server that answers within 10 ms, except during a stall, and returns the counts.
func asked(t *testing.T, rate float64, whole, stallFrom, stall time.Duration) (w *work, begun []time.Duration, figure *hdrhistogram.Histogram) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), whole)
		defer end()
		r, began := &alone{}, time.Now()
		p := beside(r, lasting(0, steady(whole)))
		p.atRate(ctx, "list", p.random("list", 0), rate, func(context.Context) error {
			at := time.Since(began)
			begun = append(begun, at)
			if at >= stallFrom && at < stallFrom+stall {
				pause.For(ctx, stallFrom+stall-at)
			}
			pause.For(ctx, 10*time.Millisecond)
			return ctx.Err()
		})
		w, figure = p.works["list"], r.waits["list-p99"]
	})
	return w, begun, figure
}

// TestAStallIsInTheLatencyOfAllThatWereMeantInIt stalls the server for a minute of ten, and expects that all requests
// planned in it count as late, from their planned times.
func TestAStallIsInTheLatencyOfAllThatWereMeantInIt(t *testing.T) {
	const whole = 10 * time.Minute
	calm, times, _ := asked(t, 1, whole, whole, 0)
	if l := report.LatencyOf(calm.took); calm.Requests != 600 || calm.Unanswered != 0 || l.Max > 10.1 || l.P50 < 9.9 {
		t.Errorf("without a stall: %d answers, %d given up, %+v", calm.Requests, calm.Unanswered, l)
	}
	w, again, figure := asked(t, 1, whole, 3*time.Minute, time.Minute)
	l := report.LatencyOf(w.took)
	if w.Requests != 600 || w.Unanswered != 0 || w.Failed != 0 {
		t.Errorf("%d answers, %d given up, %d failed", w.Requests, w.Unanswered, w.Failed)
	}
	// One request in ten was meant in the stall: the p99 of all is the p90 of those.
	if l.P99 < 53_000 || l.P99 > 56_000 || l.Max < 59_000 || l.P50 > 10.1 {
		t.Errorf("with a stall: %+v", l)
	}
	if f := report.LatencyOf(figure); figure.TotalCount() != 600 || f.P99 != l.P99 {
		t.Errorf("the run was told %+v, of what was %+v", f, l)
	}
	// The times are the seed's, and not the server's.
	if n := len(times); n != len(again) || !slices.Equal(times[:100], again[:100]) || !slices.Equal(times[n-100:], again[n-100:]) {
		t.Errorf("%d requests, then %d, or at other times", n, len(again))
	}
}

// TestWhatIsGivenUpCounts expects that unanswered requests at the end, and those given up because too many wait, count
// with the time that they waited.
func TestWhatIsGivenUpCounts(t *testing.T) {
	w, _, _ := asked(t, 1, 10*time.Minute, 8*time.Minute, time.Hour)
	if l := report.LatencyOf(w.took); w.Requests != 480 || w.Unanswered < 118 || w.Unanswered > 120 || l.P99 < 112_000 || l.Max < 119_000 {
		t.Errorf("%d answers, %d given up, %+v", w.Requests, w.Unanswered, l)
	}
	w, begun, _ := asked(t, 50, 10*time.Minute, time.Minute, time.Minute)
	if l := report.LatencyOf(w.took); w.Requests+w.Unanswered != 30_000 || w.Unanswered < 1900 || w.Unanswered > 2000 || l.P99 < 50_000 || len(begun) != int(w.Requests) {
		t.Errorf("%d answers, %d given up, %+v", w.Requests, w.Unanswered, l)
	}
	if w, _, _ = asked(t, 1, 10*time.Minute, 599*time.Second, time.Hour); w.Unanswered > 1 {
		t.Errorf("what the end broke off: %d given up", w.Unanswered)
	}
}

// TestFailuresOfPeopleAreCounted expects that a failed request counts as failed, not as answered.
func TestFailuresOfPeopleAreCounted(t *testing.T) {
	p := beside(&alone{}, lasting(0, steady(time.Minute)))
	p.note("apply", 5, 7, errors.New("no room"))
	p.note("apply", 6, 7, errors.New("later"))
	p.note("apply", 7, 7, nil)
	if w := p.works["apply"]; w.Requests != 3 || w.Failed != 2 || w.Why != "no room" || w.took.TotalCount() != 1 {
		t.Errorf("%+v", w)
	}
}

// TestFailuresWhileTheServerIsAway expects that requests that failed or were given up while a fault kept the server
// away are excused, and no others.
func TestFailuresWhileTheServerIsAway(t *testing.T) {
	second := int64(time.Second)
	p := beside(&alone{gone: 10 * second, back: 20 * second}, lasting(time.Minute, steady(time.Hour)))
	failed := func(meant int64) work {
		p.note("apply", meant*second, 7, errors.New("refused"))
		return *p.works["apply"]
	}
	if w := failed(15); w.Failed != 1 || w.FailedAway != 1 || w.Why != "" {
		t.Errorf("while it was away: %+v", w)
	}
	if w := failed(21); w.Failed != 2 || w.FailedAway != 1 || w.Why != "refused" {
		t.Errorf("after it had come back: %+v", w)
	}
	if p.giveUp("apply", 18*second, second, 4); p.works["apply"].Unanswered != 4 || p.works["apply"].UnansweredAway != 2 { // of 18, 19, 20 and 21 s
		t.Errorf("given up: %+v", p.works["apply"])
	}
}

// gone is a machine without a session.
type gone struct{ Machine }

func (gone) Here() (string, bool) { return "web-00000", false }

// TestWhoIsNotThereHasNotAnswered expects no answer time for machines without a session.
func TestWhoIsNotThereHasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
		defer end()
		p := beside(&alone{}, lasting(0, steady(10*time.Second)))
		p.Machines = []Machine{gone{}}
		random := p.random("run", 0)
		p.atRate(ctx, "run", random, 2, p.runCommand(random))
		if w := p.works["run"]; w != nil && (w.Requests > 0 || w.took.TotalCount() > 0) {
			t.Errorf("%+v", w)
		}
	})
}

// TestPagesOfNodesThatAreRenamed expects that a missing page of a node renamed meanwhile is no failure.
func TestPagesOfNodesThatAreRenamed(t *testing.T) {
	for _, moved := range []bool{true, false} {
		ctx, end := context.WithCancel(t.Context())
		var pages atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if pages.Add(1) > 50 {
				end()
			}
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Query().Get("node") == "web-00000" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write([]byte("{}"))
		}))
		api, err := client.New(client.Context{Server: server.URL, Token: "T"})
		if err != nil {
			t.Fatal(err)
		}
		p := beside(&alone{called: "web-00000", moved: moved}, lasting(time.Second, steady(time.Hour)))
		p.API, p.Members, p.Scenario.Agents = api, make([]simulated.Member, 1), []scenario.Class{{Name: "web"}}
		random := p.random("list", 0)
		p.atRate(ctx, "list", random, 200, p.list(random))
		server.Close()
		if w := p.works["list"]; w.Requests == 0 || (w.Failed == 0) != moved {
			t.Errorf("moved %t: %+v", moved, w)
		}
	}
}

// TestPeopleFourTimesAsFast plays a phase that speeds users up, and expects four times as many requests, at times drawn
// by the seed.
func TestPeopleFourTimesAsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), 61*time.Second)
		defer end()
		fast := steady(20 * time.Second)
		fast.Faster = map[string]float64{scenario.People: 4}
		p, began := beside(&alone{}, lasting(0, steady(20*time.Second), fast, steady(20*time.Second))), time.Now()
		var phase [3]int
		p.atRate(ctx, "list", p.random("list", 0), 2, func(context.Context) error {
			phase[min(2, int(time.Since(began)/(20*time.Second)))]++
			return nil
		})
		w := p.works["list"]
		if phase != [3]int{40, 160, 40} || w.Requests != 240 || w.Unanswered != 0 || report.LatencyOf(w.took).Max > 0.01 {
			t.Errorf("%v, %+v", phase, w)
		}
	})
}
