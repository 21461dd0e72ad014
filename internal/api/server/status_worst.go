package server

import (
	"cmp"
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/nodes"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// worstChecks lists failing events by check, so that one cause on many nodes is one line. Silent
// nodes are counted apart, so that a dead machine does not hide the failures of others.
func (s *request) worstChecks(ctx context.Context, namespace string, out *v1.Status) error {
	var id model.NamespaceID
	if namespace != "" {
		id, _ = s.Directory.NamespaceByName(namespace)
	}
	for _, w := range s.Events.Wrong(id) {
		switch {
		case w.Check == model.KeepaliveCheck:
			out.Silent += w.Nodes
		case len(out.Wrong) < wrongShown:
			out.Wrong = append(out.Wrong, s.worstCheck(&w, namespace))
		default:
			out.WrongMore++
		}
	}
	if out.Silent == 0 {
		return nil
	}
	q := event.Query{
		Statuses: []model.Status{model.Warning, model.Critical, model.Unknown}, Checks: []model.CheckID{model.KeepaliveCheck}, Limit: silentShown,
	}
	if namespace != "" {
		q.Namespaces = []model.NamespaceID{id}
	}
	page, err := s.Events.List(ctx, q)
	out.SilentNow = events.ShowAll(s.View, page.States)
	return err
}

func (s *request) worstCheck(w *event.Wrong, namespace string) v1.Wrong {
	out := v1.Wrong{
		Status: w.Status, Severity: w.Severity, Names: v1.NamesOf(w.Status, w.Severity), Nodes: w.Nodes, Problems: w.Problems,
		Since: view.Time(w.First), Last: view.Time(w.Last), Examples: s.nodeNames(w.Examples, namespace),
	}
	_, out.Check, _ = s.Directory.CheckName(w.Check)
	out.Namespace, _ = s.Directory.NamespaceName(w.Namespace)
	if st, ok := s.Events.Get(w.Examples[0], w.Check); ok {
		out.Output = st.Output
	}
	return out
}

// nodeNames returns the names of nodes, with their namespace unless it is the requested one or
// default.
func (s *request) nodeNames(ids []model.NodeID, asked string) []string {
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		namespace, name, _ := s.Directory.NodeName(id)
		if namespace != cmp.Or(asked, model.DefaultNamespaceName) {
			name = namespace + "/" + name
		}
		names = append(names, name)
	}
	return names
}

// stoppedNodes lists nodes without a session whose agent was stopped in order, such as a machine
// that did not return from a reboot.
func (s *request) stoppedNodes(namespace string, out *v1.Status) {
	away := slices.DeleteFunc(s.Directory.Nodes(namespace), s.Connected)
	mayGo := map[model.NodeID]bool{}
	for _, n := range s.Intent.EphemeralNodes() {
		mayGo[n.ID] = true
	}
	var some []model.NodeID
	for i, sum := range s.Events.Summaries(away) {
		if !sum.Stopped || mayGo[away[i]] {
			continue
		}
		if out.Stopped++; len(some) < silentShown {
			some = append(some, away[i])
		}
	}
	out.StoppedNow = s.nodeNames(some, namespace)
}

// faults lists the errors of nodes' assignments.
func (s *request) faults(namespace string, out *v1.Status) {
	list, nodes := s.Directory.Faults(namespace)
	out.Faulty = nodes
	for _, f := range list[:min(faultsShown, len(list))] {
		out.Faults = append(out.Faults, v1.NodeFault{Text: f.Text, Nodes: f.Nodes, Examples: s.nodeNames(f.Examples, namespace)})
	}
}

// spooling lists connected agents whose results have waited for long.
func (s *request) spooling(namespace string, out *v1.Status) {
	var behind []v1.Agent
	for _, id := range s.Directory.Nodes(namespace) {
		if session, ok := s.Agent(id); ok && session.Stats != nil && nodes.Spooling(session.Stats) {
			a := v1.Agent{ID: id, Connected: true, Version: session.Version, Session: &session}
			a.Namespace, a.Name, _ = s.Directory.NodeName(id)
			behind = append(behind, a)
		}
	}
	slices.SortFunc(behind, func(a, b v1.Agent) int {
		return cmp.Or(cmp.Compare(b.Session.Stats.OldestSeconds, a.Session.Stats.OldestSeconds), cmp.Compare(a.ID, b.ID))
	})
	out.Spooling = len(behind)
	out.SpoolingNow = behind[:min(spoolingShown, len(behind))]
}
