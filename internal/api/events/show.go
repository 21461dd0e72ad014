package events

import (
	"fmt"
	"strconv"

	"github.com/muster-fleet/muster/internal/api/notification"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// ShowAll converts states of the view to events of the API.
func ShowAll(v *view.View, states []event.State) []v1.Event {
	out := make([]v1.Event, len(states))
	for i := range states {
		out[i] = Show(v, &states[i])
	}
	return out
}

// Show converts a state of the view to an event of the API, with names for its ids.
func Show(v *view.View, st *event.State) v1.Event {
	e := v1.Event{History: statusHistory(st), Names: v1.NamesOf(st.Status, st.Severity), Event: model.Event{
		NodeID: st.Node, CheckID: st.Check, Status: st.Status, Severity: st.Severity, Output: st.Output,
		Executed: view.Time(st.Executed), Received: view.Time(st.Received), Duration: model.Duration(st.Duration),
		Occurrences: st.Occurrences, Watermark: st.Watermark, State: stateWord(st), Change: st.Change, LastOK: view.Time(st.LastOK), Changed: view.Time(st.Changed),
		StateChanges: st.StateChanges, Results: st.Results, Lost: st.Lost, Stream: model.StreamID(st.Stream), Number: st.Number, Order: st.Order,
		Expired: st.Expired, Hooks: st.Beside.Hooks, Values: st.Beside.Values,
	}}
	name := Name(v, st)
	e.Namespace, e.Node, e.Check = name.Namespace, name.Node, name.Check
	if st.RanBy != 0 {
		e.RanBy = v.RelativeName(e.Namespace, st.RanBy)
	}
	if st.Problem != nil {
		e.Problem = ShowProblem(v, *st.Problem, e.Check)
	}
	return e
}

// Name names an event: an event of the API with namespace, node and check alone.
func Name(v *view.View, st *event.State) (e v1.Event) {
	var ok bool
	if e.Namespace, e.Node, ok = v.Directory.NodeName(st.Node); !ok { // being deleted
		e.Node = "#" + strconv.FormatUint(uint64(st.Node), 10)
		e.Namespace, _ = v.Directory.NamespaceName(st.Namespace)
	}
	if _, e.Check, ok = v.Directory.CheckName(st.Check); !ok {
		e.Check = "#" + strconv.FormatUint(uint64(st.Check), 10)
	}
	return e
}

// stateWord is Sensu's word for the state of an event.
func stateWord(st *event.State) string {
	switch {
	case st.Flapping:
		return "flapping"
	case st.Status != model.OK:
		return "failing"
	}
	return "passing"
}

// ShowProblem converts an open problem. source is the name of its source.
func ShowProblem(v *view.View, p model.Problem, source string) *v1.OpenProblem {
	return &v1.OpenProblem{Problem: p, Names: v1.NamesOf(p.Status, p.Severity), Source: ShowSource(p.Source, source), Holds: notification.ActiveHolds(v, &p)}
}

// statusHistory unpacks the last statuses, oldest first.
func statusHistory(st *event.State) []int {
	n := min(int(st.HistoryLen), model.HistoryDepth)
	out := make([]int, n)
	for i := range n {
		out[n-1-i] = int(st.History >> (2 * i) & 3)
	}
	return out
}

// pipelineNotes lists the expressions that failed when pipelines evaluated the event last.
func pipelineNotes(v *view.View, node model.NodeID, check model.CheckID) (notes []string) {
	verdicts, _ := v.Verdicts(node, check)
	for i := range verdicts.List {
		one := &verdicts.List[i]
		for _, failed := range one.Failed {
			notes = append(notes, fmt.Sprintf("pipeline %s, %s", one.Name(), failed))
		}
	}
	return notes
}

// ShowSource converts the source of a problem.
func ShowSource(s model.Source, name string) v1.Source {
	return v1.Source{Kind: s.Kind.String(), Name: name, ID: s.ID, Instance: s.Instance}
}

// CheckName returns the name of a source that is a check; empty: the source is no check.
func CheckName(s model.Source, name string) string {
	if s.Kind != model.SourceCheck {
		return ""
	}
	return name
}
