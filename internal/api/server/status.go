// Package server answers about the server itself: status, version, queues, health.
//
// Start reading at request.status.
package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/nodes"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/resources"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// getVersion returns the version of the server.
func (s *serverRequest) getVersion(context.Context, *op.NoParameters) (*op.Body[version.Info], error) {
	return op.Answer(version.Get()), nil
}

// listQueues returns the state of all bounded queues inside the server, such as fill and capacity.
func (s *serverRequest) listQueues(ctx context.Context, in *list.Where) (*op.Body[v1.QueueList], error) {
	queues := s.Queues.List()
	out := v1.QueueList{Items: make([]v1.Queue, len(queues))}
	for i, q := range queues {
		out.Items[i] = v1.Queue{
			Name: q.Name, Capacity: q.Capacity, Depth: q.Depth, Unit: q.Unit, Policy: string(q.Policy),
			Passed: q.Passed, Overflow: q.Overflow,
		}
	}
	var err error
	out.Items, err = list.FilterRows(ctx, s.View, *in, out.Items)
	return op.Answer(out), err
}

const (
	wrongShown    = 10
	silentShown   = 5
	faultsShown   = 5
	spoolingShown = 3
	changesShown  = 5
)

// getStatus returns the status of the whole server, or of one namespace.
func (s *serverRequest) getStatus(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Empty: all."`
}) (*op.Body[v1.Status], error) {
	out := s.Describe()
	out.Now, out.NotReady = s.Now(), s.NotReady()
	if s.IsBound() { // warnings name things of all namespaces
		out.Warnings, out.Connected = nil, 0
		for _, id := range s.Directory.Nodes(in.Namespace) {
			if s.Connected(id) {
				out.Connected++
			}
		}
	}
	counts, err := s.CountEvents(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	out.Events, out.ByStatus = counts.States, v1.ByStatusOf(counts.ByStatus)
	if rooms := events.CountEventsByNamespace(s.View, ""); in.Namespace == "" && len(rooms) > 1 {
		out.Namespaces = rooms
	}
	out.Nodes = len(s.Directory.Nodes(in.Namespace))
	out.Incarnation = fmt.Sprintf("%016x", s.Incarnation)
	if s.Pending != nil && !s.IsBound() {
		out.Pending = s.Pending()
	}
	if err := s.addProblems(ctx, in.Namespace, &out); err != nil {
		return nil, err
	}
	s.addStoppedNodes(in.Namespace, &out)
	s.addAssignmentFaults(in.Namespace, &out)
	s.addSpoolingAgents(in.Namespace, &out)
	// While the stores do not answer, their state is left out, so that the rest of the status arrives.
	ctx, cancel := context.WithTimeout(ctx, storesTimeout)
	defer cancel()
	if err := s.addLastHour(ctx, in.Namespace, &out); err != nil && len(out.Warnings) == 0 {
		out.Warnings = append(out.Warnings, "cannot read the last hour: "+err.Error())
	}
	return op.Answer(out), nil
}

// storesTimeout is the time that the status waits for the stores.
const storesTimeout = 2 * time.Second

// addLastHour adds to the status the numbers of problems and resource changes in the last hour
func (s *serverRequest) addLastHour(ctx context.Context, namespace string, out *v1.Status) error {
	var err error
	if out.Revision, err = s.Rows.Revision(ctx); err != nil {
		return err
	}
	if namespace == "" {
		checks, err := s.Rows.List(ctx, intent.ListQuery{Kind: "Check", Limit: 1})
		if err != nil {
			return err
		}
		out.NoChecks = len(checks) == 0
		out.NoResults = !out.NoChecks && out.Nodes > 0 && out.Events == s.countBuiltinEvents()
	}
	if out.Unsent, err = s.UnsentMessages(ctx); err != nil {
		return err
	}
	hour := s.Now().Add(-time.Hour)
	if out.LastHour.Opened, out.LastHour.Closed, err = s.History.CountProblems(ctx, namespace, hour); err != nil {
		return err
	}
	changes, err := s.Intent.Audit(ctx, intent.ChangeQuery{Namespace: namespace, Resources: true, People: true, Limit: maxRecentChanges}, true)
	if err != nil {
		return err
	}
	for i := range changes {
		if changes[i].At.After(hour) {
			out.LastHour.Changes++
		}
		switch last := len(out.LastChange) - 1; {
		case last >= 0 && changes[i].Revision == out.LastChange[last].Revision && changes[i].Op == out.LastChange[last].Op:
			out.LastChange[last].More++
		case last+1 < changesShown:
			out.LastChange = append(out.LastChange, resources.ShowChange(&changes[i]))
		}
	}
	return nil
}

// countBuiltinEvents counts the events of built-in checks, such as the server's checks of itself
func (s *serverRequest) countBuiltinEvents() (sum uint64) {
	for check := model.KeepaliveCheck; model.BuiltinCheckName(check) != ""; check++ {
		sum += s.Events.CountsOf(check).States
	}
	return sum
}

// maxRecentChanges is the greatest number of changes that the status counts for the last hour.
const maxRecentChanges = 200

// Options has the parts of the server whose state muster status shows.
type Options struct {
	// Describe fills in the state of the server itself: Server, Started, Connected, Journal, Reactions and Warnings.
	Describe func() v1.Status
	// NotReady returns the reasons why the server is not ready; an empty list means that the server is ready.
	NotReady func() []string
	// Pending returns the number of machines that wait to be accepted; nil: unknown.
	Pending func() int
}

// serverRequest handles an HTTP request about the server itself. Its methods are the operations of the API.
type serverRequest struct {
	op.Request
	Options
}

// Register adds the API operations about the server, and the health checks.
func Register(r *op.Routes, o Options) {
	at := op.NewOperationSet(r, func(q op.Request) *serverRequest { return &serverRequest{q, o} })
	op.Handle(at, op.Get("status", "/api/v1/status", "server", "Get the state of fleet and server, worst first", model.NotFound), access.NeedOn(access.Read, "server"), (*serverRequest).getStatus)
	op.Handle(at, op.Get("version", "/api/v1/version", "server", "Get the version of the server"), access.NeedAnybody("server"), (*serverRequest).getVersion)
	op.Handle(at, op.Get("listQueues", "/api/v1/queues", "server", "List the queues of the server"), access.NeedOnCluster(access.Read, "queue"), (*serverRequest).listQueues)
	op.HandleHealth(r.Mux, o.NotReady)
}

// nodeNames returns the names of nodes, with their namespace unless that namespace is the requested one or default.
func (s *serverRequest) nodeNames(ids []model.NodeID, asked string) []string {
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

// addStoppedNodes adds to the status the nodes whose agent was stopped on purpose and has not connected again.
func (s *serverRequest) addStoppedNodes(namespace string, out *v1.Status) {
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

// addAssignmentFaults adds to the status why assigned checks cannot run on nodes, such as a missing property.
func (s *serverRequest) addAssignmentFaults(namespace string, out *v1.Status) {
	list, nodes := s.Directory.Faults(namespace)
	out.Faulty = nodes
	for _, f := range list[:min(faultsShown, len(list))] {
		out.Faults = append(out.Faults, v1.NodeFault{Text: f.Text, Nodes: f.Nodes, Examples: s.nodeNames(f.Examples, namespace)})
	}
}

// addSpoolingAgents adds to the status the connected agents with old, unsent results in their spool (queue on
// disk). The spool is the agent's queue of unsent results.
func (s *serverRequest) addSpoolingAgents(namespace string, out *v1.Status) {
	var behind []v1.Agent
	for _, id := range s.Directory.Nodes(namespace) {
		if session, ok := s.Agent(id); ok && session.Stats != nil && nodes.IsSpooling(session.Stats) {
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
