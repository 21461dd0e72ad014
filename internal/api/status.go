package api

import (
	"context"
	"net/http"
	"slices"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/version"
)

func (s *server) serverRoutes() {
	handle(s, operation("status", http.MethodGet, "/api/v1/status", "server", "Is all well? Worst first"), s.status)
	handle(s, operation("version", http.MethodGet, "/api/v1/version", "server", "Which build this is"), s.version)
	handle(s, operation("listQueues", http.MethodGet, "/api/v1/queues", "server", "The bounded queues of the server"), s.queues)
}

func (s *server) version(context.Context, *none) (*body[version.Info], error) {
	return &body[version.Info]{version.Get()}, nil
}

func (s *server) queues(context.Context, *none) (*body[v1.QueueList], error) {
	list := s.Queues.List()
	out := v1.QueueList{Items: make([]v1.Queue, len(list))}
	for i, q := range list {
		out.Items[i] = v1.Queue{
			Name: q.Name, Capacity: q.Capacity, Depth: q.Depth, Unit: q.Unit, Policy: string(q.Policy),
			Passed: q.Passed, Overflow: q.Overflow,
		}
	}
	return &body[v1.QueueList]{out}, nil
}

const (
	worstShown   = 10
	changesShown = 3
)

func (s *server) status(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Empty: all."`
}) (*body[v1.Status], error) {
	out := s.Describe()
	out.Now, out.NotReady = s.Now(), s.NotReady()
	counts, err := s.counts(in.Namespace)
	if err != nil {
		return nil, err
	}
	out.Events, out.Problems = counts.States, counts.Problems
	out.ByStatus = v1.ByStatus{
		OK: counts.ByStatus[model.OK], Warning: counts.ByStatus[model.Warning],
		Critical: counts.ByStatus[model.Critical], Unknown: counts.ByStatus[model.Unknown],
	}
	out.Nodes = len(s.Directory.Nodes(in.Namespace))
	q := event.Query{Statuses: []model.Status{model.Warning, model.Critical, model.Unknown}, Limit: worstShown}
	if in.Namespace != "" {
		id, _ := s.Directory.NamespaceByName(in.Namespace)
		q.Namespaces = []model.NamespaceID{id}
	}
	page, err := s.Events.List(ctx, q)
	if err != nil {
		return nil, err
	}
	out.Worst = s.events(page.States)
	if out.Revision, err = s.Intent.Store().Revision(ctx); err != nil {
		return nil, err
	}
	changes, err := s.changesBefore(ctx, 0, changesShown, func(e *intent.AuditEntry) bool {
		return e.Key.Kind != "" && e.Key.Kind[0] >= 'A' && e.Key.Kind[0] <= 'Z' && e.Who.User != "server"
	})
	if err != nil {
		return nil, err
	}
	out.LastChange = slices.Clone(changes.Items[:min(changesShown, len(changes.Items))])
	for i := range out.LastChange {
		out.LastChange[i].Diff = ""
	}
	return &body[v1.Status]{out}, nil
}
