package play

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// answering returns a client of a server that answers each request with the same value.
func answering(t *testing.T, value any) *client.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}))
	t.Cleanup(server.Close)
	api, err := client.New(client.Context{Server: server.URL, Token: "T"})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// TestReaderNamesSeriesLimit expects the reason of the server's limit of series in the state of values, and no reason
// without a refusal.
func TestReaderNamesSeriesLimit(t *testing.T) {
	for _, reason := range []string{"the namespace has its limit of 2 series", ""} {
		state := v1.State{Limits: []v1.LimitUse{{Name: "states", Reason: "the namespace has 9 states"}, {Name: "series", Limit: 2, Reason: reason}}}
		r, s := &ValueReader{API: answering(t, state), Namespace: "load"}, &observe.State{}
		if err := r.readSeriesLimit(t.Context(), s); err != nil || s.SeriesLimit != reason {
			t.Errorf("%v, reason %q, want %q", err, s.SeriesLimit, reason)
		}
	}
}

// TestReadersFindEarlierRuns expects that problems from before the start are not compared, and that a server with an open
// problem, or with directive runs, of an earlier run is refused.
func TestReadersFindEarlierRuns(t *testing.T) {
	sc, err := scenario.Parse("x.yaml", []byte(`scenario: muster.load/v1
agents:
  - {name: a, count: 2, values: [{name: item, count: 4, interval: 1s, triggerEvery: 1}]}
  - {name: b, count: 2, policies: [{name: p, components: 4, interval: 10s}]}
phases: [{steady: 3s}]
`))
	if err != nil {
		t.Fatal(err)
	}
	sc.Defaults()
	values := plan.New(sc)
	name := func(node int) string { return "node-" + string(rune('a'+node)) }
	started := time.Now()
	problem := func(opened, closed time.Time) v1.Problem {
		x := v1.Problem{Node: name(0)}
		x.Source.Kind, x.Source.Instance = model.SourceTrigger.String(), values.Class(0).Items[0].TriggerName()
		x.Opened, x.Closed = opened, closed
		return x
	}
	list := v1.ProblemList{Items: []v1.Problem{problem(started.Add(time.Second), time.Time{}), problem(started.Add(-time.Hour), started.Add(-time.Minute))}}
	r := &ValueReader{API: answering(t, list), Plan: values, Namespace: "load", Name: name, Started: started}
	r.index()
	s := &observe.State{}
	if err := r.readProblems(t.Context(), s); err != nil || s.Problems[observe.Trigger{}] != (observe.Problems{Opened: 1, Open: true}) {
		t.Errorf("%v, %+v", err, s.Problems)
	}
	runs := func(entries ...v1.EvidenceEntry) *RunReader {
		return &RunReader{API: answering(t, v1.Evidence{Entries: entries}), Plan: plan.NewDirectives(sc), Namespace: "load", Name: name}
	}
	for what, c := range map[string]struct {
		unused func(context.Context) error
		want   string
	}{
		"open problem":   {r.Unused, "has an open problem"},
		"directive runs": {runs(v1.EvidenceEntry{Start: &v1.EvidenceBegin{}}).Unused, "has directive runs"},
		"none":           {runs().Unused, ""},
	} {
		if err := c.unused(t.Context()); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
