package alertmanager

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// says posts, and expects what is written.
func (w *world) check(line, what string, want ...string) {
	w.t.Helper()
	if err := w.post(line); err != nil {
		w.t.Errorf("%s: %v", what, err)
	}
	w.expect(what, want...)
}

// A Prometheus whose clock is six minutes behind: the ends of alerts that fire, four minutes ahead of it, are over
// here. They move on, and so it is found out; an end that stays is one.
func TestASenderWhoseClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run(t)
		const (
			fires    = "Down instance=new1 severity=critical until=-2m"
			resolved = "Down instance=new1 severity=critical until=-6m"
			down     = "2 down CRITICAL Down (instance=new1 severity=critical)\nthe clock of prometheus at 10.0.0.7 is at least 2m behind this server's: its alerts arrive late"
		)
		for _, again := range []string{"first", "second"} {
			w.check(fires, again)
			time.Sleep(time.Minute)
		}
		if len(w.nodes) != 1 {
			t.Errorf("made of what may have ended: %v", w.nodes)
		}
		w.check(fires, "it moved on twice", down)
		w.check(fires, "twice in a moment")
		for range 5 {
			time.Sleep(time.Minute)
			w.check(fires, "it goes on", down)
		}
		time.Sleep(30 * time.Second)
		w.check(resolved, "it ends", "2 down OK resolved: Down (instance=new1 severity=critical)")
		for _, end := range []string{"-7m", "-8m", "-9m"} { // the same moment
			time.Sleep(time.Minute)
			w.check("Down instance=new1 severity=critical until="+end, "it has ended")
		}
		time.Sleep(time.Minute)
		w.check(fires, "again")
		time.Sleep(time.Minute)
		w.check(fires, "it moved on twice again", down)
		if n := testutil.ToFloat64(w.s.metrics.behind); n != 8 {
			t.Errorf("%v were found out", n)
		}
		time.Sleep(pastEndLifetime + tick)
		synctest.Wait()
		w.s.mu.Lock()
		defer w.s.mu.Unlock()
		if len(w.s.pastEnds) != 0 {
			t.Errorf("%d ends are known", len(w.s.pastEnds))
		}
	})
}

// Of two that say the same, one has a clock that is behind: when that is found out, the alert goes on.
func TestOneOfTwoSendersIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run(t)
		changes := 0
		for range 10 {
			w.sender = "a"
			if err := w.post("Down instance=web1 until=4m"); err != nil {
				t.Error(err)
			}
			w.sender = "b"
			if err := w.post("Down instance=web1 until=-6m"); err != nil {
				t.Error(err)
			}
			w.mu.Lock()
			changes, w.said = len(w.said), nil
			w.mu.Unlock()
			time.Sleep(time.Minute)
		}
		w.s.mu.Lock()
		firing := w.s.firing
		w.s.mu.Unlock()
		if changes > 1 || firing != 1 {
			t.Errorf("%d changes in the last minute, %d fire", changes, firing)
		}
	})
}

// An alert that comes and goes ends each time, though its ends move on.
func TestWhatComesAndGoesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run(t)
		for range 5 {
			w.check("Down instance=web1 until=4m", "it fires", "1 down WARNING Down (instance=web1)")
			time.Sleep(time.Minute)
			w.check("Down instance=web1 until=-1s", "it ends", "1 down OK resolved: Down (instance=web1)")
			time.Sleep(time.Minute)
		}
	})
}

// A clock that is behind by nearly as much as an alert may be late: it fires until it may be said again.
func TestAnAlertLastsUntilItMayBeSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run(t)
		for range 4 {
			w.check("Down instance=web1 until=20s", "it fires", "1 down WARNING Down (instance=web1)")
			time.Sleep(time.Minute)
		}
		time.Sleep(repeatWindow - time.Minute + tick)
		w.expect("nobody says it", "1 down OK resolved: Down (instance=web1) (no longer repeated)")
	})
}

// A contact point of Grafana says an alert without an end, and again after hours: until then it fires, also
// after a start.
func TestGrafanaSaysAnAlertSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *Config) {
			w.checks["open"] = directory.PassiveCheck{Chunk: &model.CheckChunk{Chunk: model.Chunk{Unit: 7, Name: "open"}, MaxOutput: 4096}}
			w.open = []event.State{{Node: 1, Check: 7, Status: model.Warning, Output: "Open (grafana_folder=Shop instance=web1)"}}
		})
		w.run(t)
		w.check("Slow grafana_folder=Shop instance=web1", "it fires", "1 slow WARNING Slow (grafana_folder=Shop instance=web1)")
		time.Sleep(4*time.Hour + time.Minute)
		w.check("Slow grafana_folder=Shop instance=web1", "it goes on", "1 slow WARNING Slow (grafana_folder=Shop instance=web1)")
		w.check("Slow grafana_folder=Shop instance=web1 until=-1s", "it ends",
			"1 slow OK resolved: Slow (grafana_folder=Shop instance=web1)")
		time.Sleep(15 * time.Minute)
		w.expect("nobody said the other", "1 open OK resolved: not repeated since this server started")
	})
}
