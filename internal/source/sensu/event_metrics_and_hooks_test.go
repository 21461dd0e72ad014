package sensu

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/wire"
)

// waitSignal waits for the nth result or keepalive in the journal. It returns the signal with values and hooks.
func (w *testServer) waitSignal(n int) (decodedSignal, wire.Extra) {
	w.t.Helper()
	w.wait(fmt.Sprint(n, " signals"), func() bool { return len(w.signals) >= n })
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.signals[n-1]
	extra, err := wire.DecodeExtra(s.Extra)
	if err != nil {
		w.t.Error(err)
	}
	return s, extra
}

// TestThresholdsRaiseTheStatus sends metric values above a threshold, and expects the status of the check to
// become worse. The values are from the output or from an event's points. Thresholds raise the status as with
// muster-agent.
func TestThresholdsRaiseTheStatus(t *testing.T) {
	inBothCodecs(t, func(t *testing.T, json bool) {
		w := newTestServer(t, nil)
		most := 90.0
		w.definitions = []*model.CheckDefinition{newCheck(1, "disk", "x", func(c *model.CheckDefinition) {
			c.Interval = time.Hour
			c.Metrics = &model.Metrics{Format: "nagios", Tags: map[string]string{"team": "web"}}
			c.Thresholds = []model.Threshold{{Metric: "used", Critical: &model.Bounds{Max: &most}}}
		})}
		a := w.connectAgent("web", json)
		r := a.nextRequest()
		value := func(v float64, more ...string) model.Value {
			tags := map[string]string{"team": "web"}
			for i := 0; i < len(more); i += 2 {
				tags[more[i]] = more[i+1]
			}
			return model.Value{Name: "used", Tags: tags, Value: v}
		}
		measured := value(96, "mount", "/")
		measured.At = time.Unix(1795236430, 0).UTC()
		for i, c := range []struct {
			change func(*sensuwire.Event)
			status model.Status
			output string
			values []model.Value
		}{
			{func(e *sensuwire.Event) { e.Output = "fine | used=80%\n" }, model.OK, "fine | used=80%", []model.Value{value(80, "unit", "%")}},
			{func(e *sensuwire.Event) { e.Output = "fine | used=95" }, model.Critical, "CRITICAL: used{team=web} is 95, more than 90\nfine | used=95", []model.Value{value(95)}},
			{func(e *sensuwire.Event) { e.Status, e.Output = 2, "bad | used=95" }, model.Critical, "bad | used=95\nCRITICAL: used{team=web} is 95, more than 90", []model.Value{value(95)}},
			{func(e *sensuwire.Event) { e.Status, e.Output = 3, "what | used=95" }, model.Unknown, "what | used=95", []model.Value{value(95)}},
			{func(e *sensuwire.Event) {
				e.Output = "fine"
				e.Points = []sensuwire.Point{{Name: "used", Value: 96, Time: 1795236430, Tags: map[string]string{"mount": "/"}}, {Name: "", Value: 1}}
			}, model.Critical, "CRITICAL: used{mount=/,team=web} is 96, more than 90\nfine", []model.Value{measured}},
		} {
			a.sendAnswer(r, c.change)
			s, extra := w.waitSignal(i + 2)
			if s.Definition != 1 || s.Status != c.status || string(s.Output) != c.output || !reflect.DeepEqual(extra.Values, c.values) {
				t.Errorf("%d: %s %q %+v\nwant %s %q %+v", i, s.Status, s.Output, extra.Values, c.status, c.output, c.values)
			}
		}
		if lost := testutil.ToFloat64(w.server.metrics.valuesLost); lost != 1 {
			t.Errorf("%v values lost", lost)
		}
	})
}

// TestMetricsWithoutACheckBecomeValues sends metrics without a check, and expects values of the event
// sensu-metrics. Invalid points are counted.
func TestMetricsWithoutACheckBecomeValues(t *testing.T) {
	w := newTestServer(t, nil)
	a := w.connectAgent("web", false)
	points := make([]sensuwire.Point, 2500)
	for i := range points {
		points[i] = sensuwire.Point{Name: fmt.Sprint("counter", i), Value: float64(i), Time: 1795236430}
	}
	points[7].Value = math.NaN()
	points[8].Name = strings.Repeat("x", 300)
	a.send(sensuwire.TypeEvent, &sensuwire.Event{Entity: &a.entity, MetricsOnly: true, Points: points})
	w.waitSignal(4)
	found := map[string]float64{}
	for n := 2; n <= 4; n++ {
		s, extra := w.waitSignal(n)
		if s.Definition != model.BuiltinDefinitionID(model.MetricsCheck) || s.Status != model.OK || string(s.Output) != "the event has 2498 metric values but no check" {
			t.Errorf("%+v %q", s, s.Output)
		}
		for _, v := range extra.Values {
			found[v.Name] = v.Value
		}
	}
	w.wait("its outcome", func() bool { return w.count(resultKept) == 1 })
	if lost := testutil.ToFloat64(w.server.metrics.valuesLost); len(found) != 2498 || found["counter2499"] != 2499 || lost != 2 {
		t.Errorf("%d found, %v lost", len(found), lost)
	}
}

// Metrics without a check go to the pipelines of the event and of its metric handlers.
func TestMetricsWithoutACheckReachTheirPipelines(t *testing.T) {
	for _, json := range []bool{false, true} {
		w := newTestServer(t, nil)
		a := w.connectAgent("web", json)
		points := []sensuwire.Point{{Name: "load", Value: 1, Time: 1795236430}}
		a.send(sensuwire.TypeEvent, &sensuwire.Event{Entity: &a.entity, MetricsOnly: true, Points: points})
		a.send(sensuwire.TypeEvent, &sensuwire.Event{Entity: &a.entity, MetricsOnly: true, Points: points, Handlers: []string{"Influx", "graphite", "influx", ""}, Pipelines: []string{"Flow"}})
		for n, want := range map[int][]string{2: nil, 3: {"flow", "sensu-influx", "sensu-graphite"}} {
			if _, extra := w.waitSignal(n); !slices.Equal(extra.Pipelines, want) || len(extra.Values) != 1 {
				t.Errorf("json %v, %d: %+v, want %v", json, n, extra, want)
			}
		}
	}
}

// TestOutputsOfSensuAgentsAreDiscarded sends results of a check with discardOutput, and expects no output in the
// journal. The journal gets values and threshold lines.
func TestOutputsOfSensuAgentsAreDiscarded(t *testing.T) {
	for _, json := range []bool{false, true} {
		w := newTestServer(t, nil)
		most := 90.0
		w.definitions = []*model.CheckDefinition{newCheck(1, "disk", "x", func(c *model.CheckDefinition) {
			c.Interval, c.DiscardOutput = time.Hour, true
			c.Metrics = &model.Metrics{Format: "nagios"}
			c.Thresholds = []model.Threshold{{Metric: "used", Critical: &model.Bounds{Max: &most}}}
		})}
		a := w.connectAgent("web", json)
		r := a.nextRequest()
		for i, c := range []struct {
			said   uint32
			output string
			want   string
			values int
		}{
			{0, "dropped | used=80", model.OutputDiscarded, 1},
			{0, "dropped | used=95", "CRITICAL: used is 95, more than 90", 1},
			{2, "dropped | used=95", "CRITICAL: used is 95, more than 90", 1},
			{42, "dropped", "exit code 42: plug-ins end with 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN)", 0},
		} {
			a.sendAnswer(r, func(e *sensuwire.Event) { e.Status, e.Output = c.said, c.output })
			if s, x := w.waitSignal(2 + i); string(s.Output) != c.want || len(x.Values) != c.values || s.Cut != 0 {
				t.Errorf("json %v, %d: %q, %+v", json, i, s.Output, x)
			}
		}
	}
}

// sendAnswer sends an event that answers a check request. A function changes its fields before.
func (a *testAgent) sendAnswer(r *sensuwire.ReceivedRequest, change func(*sensuwire.Event)) {
	e := &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Check: r.Check, Issued: r.Issued, Executed: r.Issued}
	change(e)
	a.send(sensuwire.TypeEvent, e)
}

// A check request names the check's hooks, and their results are stored together with the check's result.
func TestHookResultsAreKeptWithTheResult(t *testing.T) {
	inBothCodecs(t, func(t *testing.T, json bool) {
		w := newTestServer(t, nil)
		w.definitions = []*model.CheckDefinition{newCheck(1, "disk", "x", func(c *model.CheckDefinition) {
			c.Env = map[string]string{"A": "it's"}
			c.Hooks = []model.Hook{
				{Name: "ps", When: []string{"critical", "non-ok", "127"}, Command: &model.Command{Shell: "ps {{ .props.word }}"}, Timeout: model.Duration(1500 * time.Millisecond)},
				{Name: "two words", When: []string{"non-ok"}, Command: &model.Command{Argv: []string{"a b"}}, Stdin: true},
			}
		})}
		a := w.connectAgent("web", json)
		r := a.nextRequest()
		x := w.session("web")
		x.Mu.Lock()
		asked := x.list[0].prepared.request.Hooks
		x.Mu.Unlock()
		want := []sensuwire.Hook{
			{Name: "ps", When: []string{"critical", "non-zero", "127"}, Command: "export A='it'\\''s'\nps 'it'\\''s'", Timeout: 2},
			{Name: "hook-1", When: []string{"non-zero"}, Command: "export A='it'\\''s'\n'a b'", Timeout: 10, Stdin: true},
		}
		if !reflect.DeepEqual(asked, want) {
			t.Errorf("asked for %+v\nwant %+v", asked, want)
		}
		a.sendAnswer(r, func(e *sensuwire.Event) {
			e.Status, e.Hooks = 2, []sensuwire.HookResult{{Name: "hook-1", Status: 1, Output: "b\n"}, {Name: "nobody's"}, {Name: "ps", Status: -1, Output: "PID", Duration: 0.5}}
		})
		w.wait("the result", func() bool { return len(w.signals) >= 2 })
		w.mu.Lock()
		defer w.mu.Unlock()
		extra, err := wire.DecodeExtra(w.signals[1].Extra)
		got := []model.HookResult{{Name: "ps", Status: model.Unknown, Output: "PID", Duration: model.Duration(500 * time.Millisecond), ExitCode: 1<<32 - 1},
			{Name: "two words", Status: model.Warning, Output: "b", ExitCode: 1}}
		if err != nil || !reflect.DeepEqual(extra.Hooks, got) {
			t.Errorf("%v %+v", err, extra.Hooks)
		}
	})
}

// TestRequestsHaveTheFieldsThatCommandsReadOnStandardInput requests a check with the event on stdin, and expects
// labels and handlers in the request. Requests of other checks lack them.
func TestRequestsHaveTheFieldsThatCommandsReadOnStandardInput(t *testing.T) {
	inBothCodecs(t, func(t *testing.T, json bool) {
		w := newTestServer(t, nil)
		w.definitions = []*model.CheckDefinition{newCheck(1, "disk", "cat", func(c *model.CheckDefinition) {
			c.StdinEvent, c.TTL, c.Pipelines = true, time.Minute, []string{"sensu-slack", "alerts"}
		}), newCheck(2, "load", "uptime", nil)}
		a := w.connectAgent("web", json)
		for range 2 {
			r := a.nextRequest()
			for _, text := range []string{"sensu.io/plugins/x", "owner", "ann", "slack", "alerts"} {
				if strings.Contains(string(r.Check), text) != (r.Name == "disk") {
					t.Errorf("%s: %q in the request: %q", r.Name, text, r.Check)
				}
			}
			if json && strings.Contains(string(r.Check), `"stdin":true`) != (r.Name == "disk") {
				t.Errorf("%s: %s", r.Name, r.Check)
			}
		}
	})
}
