package sensuctl

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/model"
)

// listEvents answers with a page of the events of a namespace or an entity.
func (r *request) listEvents() (answer, error) {
	limit, after := pageLimits(r)
	got, err := r.muster.Events.List(r.Context(), v1.EventFilter{Namespace: r.namespace, Node: r.name(0), Limit: limit, After: after})
	if err != nil {
		return answer{}, err
	}
	forms, err := formsOf(r, got.Items, eventForm)
	if err != nil {
		return answer{}, err
	}
	return r.selectForms(forms, got.Next)
}

// getEvent answers with the event of an entity and a check.
func (r *request) getEvent() (answer, error) {
	node, check, err := eventName(r)
	if err != nil {
		return answer{}, err
	}
	e, err := r.muster.Events.Get(r.Context(), r.namespace, node, check)
	if err != nil {
		return answer{}, err
	}
	o, err := eventForm(r, e)
	return answer{body: o}, err
}

// eventName returns the node name and check name in the URL path of a Sensu event.
func eventName(r *request) (node, check string, err error) {
	if node, check = r.name(0), r.name(1); node == "" || check == "" {
		err = model.Errorf(model.NotFound, "the path does not contain valid names of an entity and a check")
	}
	return node, check, err
}

// eventForm converts an event to Sensu's JSON format, with its entity and check. It writes only the name of an
// undeclared check, such as keepalive.
func eventForm(r *request, e v1.Event) (object, error) {
	entity, err := eventPartForm(r, "Node", e.Namespace, e.Node, entityForm)
	if err != nil {
		return nil, err
	}
	config, err := eventPartForm(r, "Check", e.Namespace, e.Check, checkForm)
	if err != nil {
		return nil, err
	}
	var silencedBy []string
	if e.Problem != nil {
		for _, hold := range e.Problem.Holds {
			if hold.Kind != "silenced" {
				continue
			}
			namespace, name, _ := strings.Cut(hold.By, "/")
			m, err := r.findResource("Silence", namespace, name)
			if err != nil {
				return nil, err
			}
			if m != nil {
				name = silenceName(m)
			}
			silencedBy = append(silencedBy, name)
		}
	}
	history := []object{}
	for i, status := range e.History {
		executed := int64(0) // events have the time of the last execution only
		if i == len(e.History)-1 {
			executed = unixTime(e.Executed)
		}
		history = append(history, object{"status": status, "executed": executed})
	}
	check := maps.Clone(config)
	maps.Copy(check, object{
		"duration": time.Duration(e.Duration).Seconds(), "executed": unixTime(e.Executed), "issued": unixTime(e.Executed), "history": history, "output": e.Output,
		"state": e.State, "status": int(e.Status), "total_state_change": e.Change, "last_ok": unixTime(e.LastOK), "occurrences": e.Occurrences,
		"occurrences_watermark": e.Watermark, "is_silenced": len(silencedBy) > 0, "scheduler": "",
	})
	if len(silencedBy) > 0 {
		check["silenced"] = silencedBy
	}
	out := object{
		"timestamp": unixTime(e.Received), "entity": entity, "check": check, "metadata": object{"namespace": e.Namespace},
		"sequence": e.Results, "pipelines": []object{},
	}
	if len(e.Hooks) > 0 { // of one event; lists have none
		definition := &model.CheckDefinition{}
		if m, err := r.findResource("Check", e.Namespace, e.Check); err != nil {
			return nil, err
		} else if m != nil {
			definition.Hooks = m.Spec.(*model.CheckSpec).Hooks
		}
		check["hooks"] = filter.SensuHooks(&e.Event, definition)
	}
	if len(e.Values) > 0 {
		out["metrics"] = object{"handlers": nil, "points": filter.SensuPoints(&e.Event)}
	}
	return out, nil
}

// eventPartForm converts the entity or the check inside an event to Sensu's JSON format. A resource that does not
// exist has a name only.
func eventPartForm(r *request, kind, namespace, name string, write formWriter) (o object, err error) {
	m, err := r.findResource(kind, namespace, name)
	if err == nil && m != nil {
		o, err = write(r, m)
	}
	if o == nil {
		o = object{"metadata": object{"name": name, "namespace": namespace}}
	}
	return o, err
}

// resolvedOutput is the output of the event that sensuctl event resolve sends. No other command sends this text.
const resolvedOutput = "Resolved manually by sensuctl"

// putEvent resolves an event for sensuctl event resolve, and refuses other changes of events. It serves sensuctl event
// resolve, which sends no other change. It refuses other events, which only agents may send. It accepts an event that
// the server already has, such as an event of a dump, and changes nothing.
func (r *request) putEvent() (answer, error) {
	var sent struct {
		Check struct {
			Status   *int   `json:"status"`
			Output   string `json:"output"`
			Executed int64  `json:"executed"`
		} `json:"check"`
	}
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		return answer{}, model.Errorf(model.Invalid, "the body is not an event: %v", err)
	}
	node, check, err := eventName(r)
	if err != nil {
		return answer{}, err
	}
	c := sent.Check
	if c.Status != nil && *c.Status == 0 && c.Output == resolvedOutput {
		return answer{}, r.muster.Events.Resolve(r.Context(), r.namespace, node, check, "by sensuctl")
	}
	e, err := r.muster.Events.Get(r.Context(), r.namespace, node, check)
	switch {
	case err != nil && model.ClassOf(err) != model.NotFound:
		return answer{}, err
	case err == nil && c.Executed > 0 && c.Executed <= unixTime(e.Executed):
		return answer{status: http.StatusOK}, nil
	}
	return answer{}, unsupportedRequestError(r)
}

// deleteEvent deletes the event of an entity and a check.
func (r *request) deleteEvent() (answer, error) {
	node, check, err := eventName(r)
	if err != nil {
		return answer{}, err
	}
	return answer{}, r.muster.Events.Delete(r.Context(), r.namespace, node, check, "by sensuctl")
}
