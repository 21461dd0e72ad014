package problems

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// timeline collects everything that happened to one problem (status changes, messages, silences), in order of time.
type timeline struct {
	*problemRequest
	problem history.Problem
	items   []v1.Moment
}

// add adds an entry with a time, a kind and a text to a problem's timeline
func (t *timeline) add(at time.Time, kind, format string, args ...any) {
	t.items = append(t.items, v1.Moment{At: at.UTC(), Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// getTimeline returns everything that happened to a problem, oldest first.
func (s *problemRequest) getTimeline(ctx context.Context, in *op.IDPath) (*op.Body[v1.Timeline], error) {
	p, err := s.History.Problem(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	t := timeline{problemRequest: s, problem: p}
	t.add(p.Opened, "opened", "%s, severity %s: %s", p.Status, p.Severity, firstLine(p.Output))
	if err := t.addEntries(ctx); err != nil {
		return nil, err
	}
	if err := t.addDeliveries(ctx); err != nil {
		return nil, err
	}
	if err := t.addSilences(ctx); err != nil {
		return nil, err
	}
	if !p.Closed.IsZero() {
		t.add(p.Closed, "closed", "after %s", model.TimeSpan(p.Closed.Sub(p.Opened)))
	}
	slices.SortStableFunc(t.items, func(a, b v1.Moment) int { return a.At.Compare(b.At) })
	return op.Answer(v1.Timeline{Problem: s.showProblem(p), Items: t.items, Definition: s.View.Definition(p.Source)}), nil
}

// maxMoments is the most entries of history that a timeline has.
const maxMoments = 1000

// addEntries adds status changes and acknowledgements to the timeline.
func (t *timeline) addEntries(ctx context.Context) error {
	q := history.EntryQuery{NodeID: t.problem.NodeID, Since: t.problem.Opened, Limit: maxMoments}
	if !t.problem.Closed.IsZero() {
		q.Before = t.problem.Closed.Add(1)
	}
	entries, err := t.History.Entries(ctx, q)
	if err != nil {
		return err
	}
	for _, e := range entries {
		text := firstLine(e.Output)
		switch {
		case e.Source != t.problem.Source:
		case e.Kind == history.StatusChanged && !e.First && e.At.After(t.problem.Opened):
			t.add(e.At, "status", "%s, was %s: %s", e.Status, e.Previous, text)
		case e.Kind == history.Acknowledged:
			t.add(e.At, "acknowledged", "by %s", text)
		case e.Kind == history.Unacknowledged:
			t.add(e.At, "acknowledgement removed", "by %s", text)
		case e.Kind == history.FlappingStarted, e.Kind == history.FlappingEnded, e.Kind == history.TextChanged:
			t.add(e.At, map[history.EntryKind]string{history.FlappingStarted: "flapping", history.FlappingEnded: "no longer flapping", history.TextChanged: "new output"}[e.Kind], "%s", text)
		}
	}
	return nil
}

// addDeliveries adds notifications and the answers of their handlers to a problem's timeline. A first message that
// another one of the same route preceded is an escalation.
func (t *timeline) addDeliveries(ctx context.Context) error {
	list, err := t.History.Deliveries(ctx, t.problem.ID)
	if err != nil {
		return err
	}
	first := map[string]time.Time{} // creation of the first message by route
	for _, d := range list {
		who := d.Handler.Name
		if d.Handler.Namespace != t.problem.Namespace {
			who = d.Handler.Namespace + "/" + who
		}
		subject := map[string]string{"closed": " of the recovery", "acknowledged": " of the acknowledgement"}[cmp.Or(d.Event, d.Kind)]
		route := ""
		if d.Route != "" {
			route = " by route " + strings.TrimPrefix(d.Route, t.problem.Namespace+"/")
		}
		kind := map[string]string{"opened": "notified", "reminder": "reminded", "closed": "notified", "acknowledged": "notified"}[cmp.Or(d.Event, d.Kind)]
		if begun, again := first[d.Route]; kind == "notified" && subject == "" && again && d.Created.After(begun) {
			kind = "escalated"
		} else if !again {
			first[d.Route] = d.Created
		}
		text := who + subject + route + otherProblemsText(d.Count)
		switch d.State {
		case history.Delivered:
			text += ": " + cmp.Or(d.Answer, "accepted")
			if d.LastError != "" {
				text += "; " + d.LastError
			}
		case history.Withheld:
			kind = "not notified"
			text += ": " + d.LastError
		case history.Shadow:
			kind = "not notified"
			text += ": the namespace is a shadow (notifications: shadow)"
		case history.Dead:
			kind = "not notified"
			text += fmt.Sprintf(": gave up after %s: %s", model.CountNoun(d.Attempts, "attempt"), d.LastError)
		default:
			kind = "waits"
			text = "message" + subject + " to " + who + route + otherProblemsText(d.Count) + ": not accepted by the handler"
			if d.LastError != "" {
				text += fmt.Sprintf(" (%s): %s", model.CountNoun(d.Attempts, "attempt"), d.LastError)
			}
		}
		at := d.Ended
		if at.IsZero() {
			at = d.Created
		}
		t.add(at, cmp.Or(kind, d.Kind), "%s", firstLine(text))
	}
	return nil
}

// otherProblemsText returns the text " (with N others)" for a message about several problems in a timeline.
func otherProblemsText(count int) string {
	if count > 1 {
		return fmt.Sprintf(" (with %d others)", count-1)
	}
	return ""
}

// addSilences adds each silence that matched the problem to the problem's timeline. Deleted silences are
// included.
func (t *timeline) addSilences(ctx context.Context) error {
	rows, err := t.Rows.List(ctx, intent.ListQuery{Kind: "Silence"})
	if err != nil {
		return err
	}
	for _, row := range rows {
		t.addSilence(row.Key, row.Body, row.Created, time.Time{})
	}
	deleted, err := t.Rows.ChangesBefore(ctx, intent.ChangeQuery{Kind: "Silence", OnlyDeletions: true, Bodies: true, Since: t.problem.Opened, Limit: maxMoments})
	if err != nil {
		return err
	}
	for _, c := range deleted {
		before, err := t.Rows.ChangesBefore(ctx, intent.ChangeQuery{Kind: c.Key.Kind, Namespace: c.Key.Namespace, Name: c.Key.Name, Revision: c.Revision, Part: c.Part, Limit: maxMoments})
		if err != nil {
			return err
		}
		created := time.Time{}
		if i := slices.IndexFunc(before, func(b intent.Change) bool { return b.ID == c.ID && b.Op == "create" }); i >= 0 {
			created = before[i].At
		}
		t.addSilence(c.Key, c.Before, created, c.At)
	}
	return nil
}

// addSilence adds the start and end of a silence to the timeline of a problem. A silence that did not match the
// problem is left out. created may be zero, where the time is unknown; ended is the time of the deletion, or zero.
func (t *timeline) addSilence(key intent.Key, body []byte, created, ended time.Time) {
	r, err := t.Kinds.DecodeResource(body)
	if err != nil {
		return // of a newer version
	}
	spec, ok := r.Spec.(*model.SilenceSpec)
	if !ok {
		return
	}
	matches, err := route.MatchFunc(key.Namespace, &spec.Selector)
	if err != nil || !matches(route.NewProblem(t.Directory, t.problem.NodeID, t.problem.Source, t.problem.Status, t.problem.Severity, t.problem.Labels)) {
		return
	}
	begin, end := spec.Begin.Time, spec.Until.Time
	for _, at := range []time.Time{created, t.problem.Opened} {
		if begin.Before(at) {
			begin = at
		}
	}
	if end.IsZero() || !ended.IsZero() && ended.Before(end) {
		end = ended
	}
	closed := t.problem.Closed
	if !closed.IsZero() && begin.After(closed) || !end.IsZero() && end.Before(begin) || begin.After(t.Now()) {
		return
	}
	t.add(begin, "silenced", "by %s/%s (%s: %s)", key.Namespace, key.Name, spec.Creator, spec.Reason)
	if !end.IsZero() && !end.After(t.Now()) && (closed.IsZero() || end.Before(closed)) {
		t.add(end, "silence ended", "%s/%s", key.Namespace, key.Name)
	}
}

// firstLine returns the first line of a check's output, without performance data.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	line, _, _ = strings.Cut(line, "|")
	return strings.TrimSpace(line)
}
