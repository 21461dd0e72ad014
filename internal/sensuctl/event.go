package sensuctl

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

func (s *Server) events(ctx context.Context, r *request) (answer, error) {
	chosen, err := parseSelectors(r.URL.Query(), "events")
	if err != nil {
		return answer{}, err
	}
	limit, after := page(r)
	got, err := r.muster.Events(ctx, v1.EventFilter{Namespace: r.namespace, Node: r.name(0), Limit: limit, After: after})
	if err != nil {
		return answer{}, err
	}
	known := parts{r: r}
	if known.heard, err = machines(ctx, r, r.name(0)); err != nil {
		return answer{}, err
	}
	out := []object{}
	for i := range got.Items {
		o, err := known.event(ctx, &got.Items[i])
		if err != nil {
			return answer{}, err
		}
		if chosen.take("events", o) {
			out = append(out, o)
		}
	}
	if err := s.namespaceIsThere(ctx, r, len(got.Items)); err != nil {
		return answer{}, err
	}
	return answer{http.StatusOK, out, got.Next}, nil
}

func (s *Server) event(ctx context.Context, r *request) (answer, error) {
	if r.name(0) == "" || r.name(1) == "" {
		return answer{}, model.Errorf(model.NotFound, "this names no event")
	}
	e, err := r.muster.Event(ctx, r.namespace, r.name(0), r.name(1))
	if err != nil {
		return answer{}, err
	}
	known := parts{r: r}
	if known.heard, err = machines(ctx, r, r.name(0)); err != nil {
		return answer{}, err
	}
	o, err := known.event(ctx, &e)
	if err != nil {
		return answer{}, err
	}
	return answer{http.StatusOK, o, ""}, nil
}

// parts are the entities, checks and silences of events, each read once.
type parts struct {
	r        *request
	heard    map[key]*v1.NodeState
	entities map[key]object
	checks   map[key]object
	silences map[key]object
}

// part is one of them; what is not declared, such as the check keepalive, is its name alone.
func (p *parts) part(ctx context.Context, of *map[key]object, kind, namespace, name string, form func(*model.Resource) object) (object, error) {
	if *of == nil {
		*of = map[key]object{}
	}
	at := key{namespace, name}
	o, ok := (*of)[at]
	if ok {
		return o, nil
	}
	m, err := resource(ctx, p.r, kind, namespace, name)
	switch {
	case err == nil:
		o = form(m)
	case model.ClassOf(err) != model.NotFound:
		return nil, err
	}
	if o == nil {
		o = object{"metadata": object{"name": name, "namespace": namespace}}
	}
	(*of)[at] = o
	return o, nil
}

// event is an event in Sensu's shape.
func (p *parts) event(ctx context.Context, e *v1.Event) (object, error) {
	who, err := p.part(ctx, &p.entities, "Node", e.Namespace, e.Node, func(m *model.Resource) object { return entity(m, p.heard[key{e.Namespace, e.Node}]) })
	if err != nil {
		return nil, err
	}
	def, err := p.part(ctx, &p.checks, "Check", e.Namespace, e.Check, checkConfig)
	if err != nil {
		return nil, err
	}
	check := object{}
	maps.Copy(check, def)
	var silencedBy []string
	if e.Problem != nil {
		for _, hold := range e.Problem.Holds {
			if hold.Kind != "silenced" {
				continue
			}
			namespace, name, _ := strings.Cut(hold.By, "/")
			by, err := p.part(ctx, &p.silences, "Silence", namespace, name, silenced)
			if err != nil {
				return nil, err
			}
			silencedBy = append(silencedBy, nameOf(by))
		}
	}
	history := []object{}
	for i, status := range e.History {
		executed := int64(0) // when the earlier ones ran is not kept with an event
		if i == len(e.History)-1 {
			executed = unix(e.Executed)
		}
		history = append(history, object{"status": status, "executed": executed})
	}
	seen := object{
		"duration": time.Duration(e.Duration).Seconds(), "executed": unix(e.Executed), "issued": unix(e.Executed), "history": history, "output": e.Output,
		"state": e.State, "status": int(e.Status), "total_state_change": e.Change, "last_ok": unix(e.LastOK), "occurrences": e.Occurrences,
		"occurrences_watermark": e.Watermark, "is_silenced": len(silencedBy) > 0, "scheduler": "",
	}
	maps.Copy(check, seen)
	if len(silencedBy) > 0 {
		check["silenced"] = silencedBy
	}
	return object{
		"timestamp": unix(e.Received), "entity": who, "check": check, "metadata": object{"namespace": e.Namespace},
		"sequence": e.Results, "pipelines": []object{},
	}, nil
}
