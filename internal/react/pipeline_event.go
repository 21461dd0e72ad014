package react

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipes"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/wire"
)

// pipelineEvent is an event as pipelines see it, at the moment of one result.
type pipelineEvent struct {
	pipes.Event
	event  model.Event
	id     string // of this moment: the same after any replay
	labels map[string]string
	shadow bool
}

// newEvent returns a transition's event as pipelines see it, with the names of now.
func (s *eventPipeline) newEvent(t *event.Transition, chunk *model.CheckChunk, now time.Time) *pipelineEvent {
	st := &t.Observation.State
	namespace, node, check := namesOf(s.opts.Names, t)
	x, _ := wire.DecodeExtra(t.Observation.Extra) // the session validated it; malformed bytes count as none
	out := &pipelineEvent{
		id:     uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "muster:%d/%d/%d/%d", t.At.Log, t.At.Number, t.Partition, t.Index)).String(),
		labels: s.opts.Names.NodeLabels(t.Node), shadow: s.opts.Routing.Shadow != nil && s.opts.Routing.Shadow(namespace),
	}
	out.event = model.Event{
		Namespace: namespace, Node: node, NodeID: t.Node, Check: check, CheckID: t.Source.Check(), Status: st.Status, Severity: st.Severity, Output: st.Output,
		Executed: time.Unix(0, st.Executed).UTC(), Received: time.Unix(0, st.Received).UTC(), Duration: model.Duration(st.Duration), History: statuses(st),
		Occurrences: st.Occurrences, Watermark: st.Watermark, State: "passing", Change: st.Change, Expired: st.Expired, Problem: st.Problem,
		Hooks: x.Hooks, Values: x.Values,
	}
	switch {
	case st.Flapping:
		out.event.State = "flapping"
	case st.Status != model.OK:
		out.event.State = "failing"
	}
	if st.LastOK != 0 {
		out.event.LastOK = time.Unix(0, st.LastOK).UTC()
	}
	if st.Changed != 0 {
		out.event.Changed = time.Unix(0, st.Changed).UTC()
	}
	h := out.event.History
	out.Incident = st.Status != model.OK
	out.Resolution = len(h) > 1 && h[len(h)-2] != model.OK && !out.Incident
	out.Metrics = len(x.Values) > 0
	silenced := sync.OnceValue(func() []string { return s.silenced(t, now) })
	out.Silenced = func() bool { return len(silenced()) > 0 }
	out.Shape = sync.OnceValue(func() map[string]any {
		var kept directory.FilterContext
		if s.opts.Pipelines.Kept != nil {
			kept = s.opts.Pipelines.Kept(t.Node, t.Source.Check())
		}
		of := filter.Subject{
			Event: &out.event, ID: out.id, NodeLabels: out.labels, NodeNotes: kept.NodeAnnotations, Groups: s.opts.Names.NodeGroups(t.Node),
			CheckLabels: kept.CheckLabels, CheckNotes: kept.CheckAnnotations, CheckGroups: kept.Groups,
			Interval: chunk.Interval, TTL: chunk.TTL, Timeout: chunk.Timeout, Handlers: chunk.Handlers, Silenced: silenced(),
			FlappingBegan: t.Observation.FlappingBegan, FlappingEnded: t.Observation.FlappingEnded,
		}
		if kept.Proxy {
			of.NodeClass = "proxy"
		}
		if chunk.Command != nil {
			if of.Command = chunk.Command.Shell; chunk.Command.Argv != nil {
				of.Command = strings.Join(chunk.Command.Argv, " ")
			}
		}
		return filter.Shape(of)
	})
	return out
}

// silenced lists the silences and maintenance windows that hold the event now.
func (s *eventPipeline) silenced(t *event.Transition, now time.Time) (names []string) {
	m := route.Describe(s.opts.Names, t.Node, t.Source, t.Status, t.Severity)
	for _, h := range s.opts.Routing.Table.Holds(m, nil, now) {
		names = append(names, h.By.Name)
	}
	return names
}

// statuses unpacks the history, oldest first.
func statuses(st *event.State) []model.Status {
	n := min(int(st.HistoryLen), model.HistoryDepth)
	out := make([]model.Status, n)
	for i := range n {
		out[n-1-i] = model.Status(st.History >> (2 * i) & 3)
	}
	return out
}

// note returns the notification for handlers that write to people.
func (s *pipelineEvent) note() *handler.Notification {
	e := &s.event
	n := &handler.Notification{
		Kind: handler.Opened, Problem: eventKey(e.NodeID, e.CheckID), Node: e.Node, Labels: s.labels, Space: e.Namespace,
		Status: e.Status.String(), Worst: e.Status.String(), Severity: e.Severity.String(), Output: e.Output, Opened: e.Changed, Executed: e.Executed,
		Expired: e.Expired, Hooks: e.Hooks,
	}
	n.SetSource(model.CheckSource(e.CheckID), e.Check)
	if e.Problem != nil {
		n.Opened, n.Worst, n.Severity = e.Problem.Opened.UTC(), e.Problem.Status.String(), e.Problem.Severity.String()
	}
	if e.Status == model.OK {
		n.Kind, n.Closed = handler.Closed, e.Received
	}
	return n
}

// eventKey replaces a problem's id in messages of pipelines: they stay in order per event, and services see
// one alert.
func eventKey(node model.NodeID, check model.CheckID) string {
	return fmt.Sprintf("event-%d-%d", node, check)
}

// nodeOf reads the node back from an eventKey.
func nodeOf(key string) (node model.NodeID, ok bool) {
	var check uint32
	_, err := fmt.Sscanf(key, "event-%d-%d", &node, &check)
	return node, err == nil
}
