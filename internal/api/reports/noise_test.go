package reports

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// endlessHistory is a test double of the history store that returns a full page for every query.
type endlessHistory struct {
	view.History
	rows map[string]int
	t    *testing.T
}

// nextPageStart checks that a query continues after the last returned row, and returns the next row's number.
func (a *endlessHistory) nextPageStart(what string, limit int, before time.Time, id string) (from int) {
	from = a.rows[what]
	if a.rows[what] += limit; limit != noisePage {
		a.t.Fatalf("%s: a page of %d", what, limit)
	}
	if from > 0 && (id != fmt.Sprint(from) || !before.Equal(historyRowTime(from-1))) {
		a.t.Fatalf("%s: the page behind %s at %v, want %d at %v", what, id, before, from, historyRowTime(from-1))
	}
	return from
}

// historyRowTime returns the time of the generated history row with a given number. Each row is a millisecond
// older than the row before.
func historyRowTime(row int) time.Time {
	return time.Unix(1e9, 0).Add(-time.Duration(row) * time.Millisecond)
}

// Messages returns a full page of generated notifications.
func (a *endlessHistory) Messages(_ context.Context, q history.MessageQuery) ([]history.Message, error) {
	out := make([]history.Message, q.Limit)
	for i, from := 0, a.nextPageStart("messages", q.Limit, q.Until, fmt.Sprint(q.BeforeID)); i < len(out); i++ {
		out[i].ID, out[i].Ended, out[i].Namespace, out[i].SourceName, out[i].Event = int64(from+i+1), historyRowTime(from+i), "default", "disk", "opened"
	}
	return out, nil
}

// FlappingAndAcknowledgements returns a full page of generated history entries about flapping and acknowledgements.
func (a *endlessHistory) FlappingAndAcknowledgements(_ context.Context, q history.EntryQuery) ([]history.Entry, error) {
	out := make([]history.Entry, q.Limit)
	for i, from := 0, a.nextPageStart("marks", q.Limit, q.Before, fmt.Sprint(q.BeforeID)); i < len(out); i++ {
		out[i].ID, out[i].At, out[i].NodeID = int64(from+i+1), historyRowTime(from+i), model.NodeID(from+i)
	}
	return out, nil
}

// Problems returns a full page of generated problems.
func (a *endlessHistory) Problems(_ context.Context, q history.ProblemQuery) ([]history.Problem, error) {
	out := make([]history.Problem, q.Limit)
	for i, from := 0, a.nextPageStart("problems", q.Limit, q.Before, q.BeforeID); i < len(out); i++ {
		out[i].ID, out[i].Opened, out[i].Closed, out[i].Namespace, out[i].SourceName, out[i].NodeID = fmt.Sprint(from+i+1), historyRowTime(from+i), historyRowTime(from+i), "default", "disk", model.NodeID(from+i)
	}
	return out, nil
}

// TestNoiseReportIsBounded makes a noise report of an endless history, and expects an end after maxNoiseRows
// rows. A note must tell about it.
func TestNoiseReportIsBounded(t *testing.T) {
	a := &endlessHistory{rows: map[string]int{}, t: t}
	until := time.Unix(1e9, 0)
	n := &noiseReport{reportRequest: &reportRequest{Request: op.Request{View: view.New(view.Stores{History: a}, view.Live{})}}, ctx: t.Context(), in: &ReportInput{Period: list.Period{Until: until}}, checks: map[[2]string]*checkNoise{}, routes: map[[2]string]*v1.NoisyRoute{},
		acks: map[acknowledgedSource][]time.Time{}, problemSources: map[model.Source]bool{}, out: v1.Noise{Until: until, Weeks: []time.Time{until.Add(-week)}}}
	for _, step := range []func() error{n.countMessages, n.countFlapsAndAcknowledgements, n.countProblems} {
		testenv.NoError(t, step())
	}
	for what, rows := range a.rows {
		if rows != maxNoiseRows {
			t.Errorf("%d %s were read, want %d", rows, what, maxNoiseRows)
		}
	}
	if len(a.rows) != 3 || len(n.acks) != maxNoiseRows || n.out.Pages != maxNoiseRows || len(n.checks) != 1 {
		t.Errorf("%v, %d acknowledgements, %d pages, %d checks", a.rows, len(n.acks), n.out.Pages, len(n.checks))
	}
	for i, what := range []string{"messages", "acknowledgements and starts of flapping", "problems"} {
		if len(n.out.Notes) != 3 || !strings.Contains(n.out.Notes[i], "more than 200000 "+what+": the report counts only those since "+historyRowTime(maxNoiseRows-1).UTC().Format(time.RFC3339)) {
			t.Fatalf("%q", n.out.Notes)
		}
	}
}
