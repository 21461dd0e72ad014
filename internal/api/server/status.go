package server

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/resources"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

func registerStatus(at subject) {
	op.Handle(at, op.Get("status", "/api/v1/status", "server", "Is all well? Worst first", model.NotFound), access.On(access.Read, "server"), (*request).status)
	op.Handle(at, op.Get("version", "/api/v1/version", "server", "Which build this is"), access.ByAnybody("server"), (*request).version)
	op.Handle(at, op.Get("listQueues", "/api/v1/queues", "server", "The bounded queues of the server"), access.OnCluster(access.Read, "queue"), (*request).queues)
}

func (s *request) version(context.Context, *op.Empty) (*op.Body[version.Info], error) {
	return op.Answer(version.Get()), nil
}

func (s *request) queues(_ context.Context, in *list.Where) (*op.Body[v1.QueueList], error) {
	queues := s.Queues.List()
	out := v1.QueueList{Items: make([]v1.Queue, len(queues))}
	for i, q := range queues {
		out.Items[i] = v1.Queue{
			Name: q.Name, Capacity: q.Capacity, Depth: q.Depth, Unit: q.Unit, Policy: string(q.Policy),
			Passed: q.Passed, Overflow: q.Overflow,
		}
	}
	var err error
	out.Items, err = list.Matching(s.View, *in, out.Items)
	return op.Answer(out), err
}

const (
	wrongShown    = 10
	silentShown   = 5
	faultsShown   = 5
	spoolingShown = 3
	changesShown  = 5
)

func (s *request) status(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Empty: all."`
}) (*op.Body[v1.Status], error) {
	out := s.Describe()
	out.Now, out.NotReady = s.Now(), s.NotReady()
	if s.Bound() { // warnings name things of all namespaces
		out.Warnings, out.Connected = nil, 0
		for _, id := range s.Directory.Nodes(in.Namespace) {
			if s.Connected(id) {
				out.Connected++
			}
		}
	}
	counts, err := s.Counts(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	out.Events, out.Problems, out.ByStatus = counts.States, counts.Problems, v1.ByStatusOf(counts.ByStatus)
	if rooms := events.CountNamespaces(s.View, ""); in.Namespace == "" && len(rooms) > 1 {
		out.Namespaces = rooms
	}
	out.Nodes = len(s.Directory.Nodes(in.Namespace))
	out.Incarnation = fmt.Sprintf("%016x", s.Incarnation)
	if s.Pending != nil && !s.Bound() {
		out.Pending = s.Pending()
	}
	if err := s.worstChecks(ctx, in.Namespace, &out); err != nil {
		return nil, err
	}
	s.stoppedNodes(in.Namespace, &out)
	s.faults(in.Namespace, &out)
	s.spooling(in.Namespace, &out)
	// State of the stores is left out while they do not answer, so that the rest of the status
	// arrives.
	ctx, cancel := context.WithTimeout(ctx, storesTimeout)
	defer cancel()
	if err := s.lastHour(ctx, in.Namespace, &out); err != nil && len(out.Warnings) == 0 {
		out.Warnings = append(out.Warnings, "the last hour cannot be read: "+err.Error())
	}
	out.Warnings = append(out.Warnings, s.unroutedWarnings(in.Namespace)...)
	return op.Answer(out), nil
}

// storesTimeout is the time that the status waits for the stores.
const storesTimeout = 2 * time.Second

// lastHour counts the problems and changes of the last hour.
func (s *request) lastHour(ctx context.Context, namespace string, out *v1.Status) error {
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
		out.NoResults = !out.NoChecks && out.Nodes > 0 && out.Events == s.builtinEvents()
	}
	unsent, err := s.History.Unsent(ctx)
	if err != nil {
		return err
	}
	for _, u := range unsent {
		out.Unsent = append(out.Unsent, v1.Unsent{
			Namespace: u.Handler.Namespace, Handler: u.Handler.Name, Waiting: u.Waiting, Failing: u.Failing, Since: u.Since, LastError: u.LastError,
		})
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

// builtinEvents counts the events of built-in checks.
func (s *request) builtinEvents() (sum uint64) {
	for check := model.KeepaliveCheck; model.BuiltinCheckName(check) != ""; check++ {
		sum += s.Events.CountsOf(check).States
	}
	return sum
}

// maxRecentChanges bounds the changes of the last hour that are counted.
const maxRecentChanges = 200
