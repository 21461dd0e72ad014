package sensuctl

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// silences answers /silenced, /silenced/subscriptions/S and /silenced/checks/C in one page: sensuctl asks for one.
func (s *Server) silences(ctx context.Context, r *request) (answer, error) {
	all, err := r.all(ctx, "Silence")
	if err != nil {
		return answer{}, err
	}
	v, forms := newView(ctx, r), make([]object, len(all))
	for i, m := range all {
		o, _ := v.silence(m)
		if len(r.names) == 2 {
			if value, _ := o[strings.TrimSuffix(r.names[0], "s")].(string); !sameName(value, r.names[1]) {
				o = nil
			}
		}
		forms[i] = o
	}
	return selectForms(ctx, r, forms, "")
}

func (s *Server) oneSilence(ctx context.Context, r *request) (answer, error) {
	found, err := silencesOf(ctx, r)
	if err != nil {
		return answer{}, err
	}
	o, err := newView(ctx, r).silence(found[0])
	return answer{http.StatusOK, o, ""}, err
}

// silencesOf returns the silences with the name in the path, Sensu's SUBSCRIPTION:CHECK or Muster's. Several may have
// the same of Sensu's.
func silencesOf(ctx context.Context, r *request) (found []*model.Resource, err error) {
	all, err := r.all(ctx, "Silence")
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.Metadata.Name == r.names[0] || sameSilence(silenceName(m), r.names[0]) {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return nil, model.Errorf(model.NotFound, "silence %s does not exist", model.Shorten(r.names[0])).WithHint("muster get silences -n %s", r.namespace)
	}
	return found, nil
}

func nameOf(o object) string {
	m, _ := o["metadata"].(object)
	name, _ := m["name"].(string)
	return name
}

func silenceName(m *model.Resource) string {
	o, _ := (&view{}).silence(m)
	return nameOf(o)
}

// sameName compares two names in Muster's form.
func sameName(a, b string) bool { return a == b || model.CleanName(a) == model.CleanName(b) }

// sameSilence compares SUBSCRIPTION:CHECK part by part; the last colon divides.
func sameSilence(a, b string) bool {
	i, j := strings.LastIndexByte(a, ':'), strings.LastIndexByte(b, ':')
	return i >= 0 && j >= 0 && sameName(a[:i], b[:j]) && sameName(a[i+1:], b[j+1:])
}

// silence writes a silence as Silenced. One with another scope than a subscription and a check has Muster's name, and
// its reason has the command that shows the scope.
func (v *view) silence(m *model.Resource) (object, error) {
	spec := m.Spec.(*model.SilenceSpec)
	subscription, check := "*", "*"
	expressible := len(spec.Statuses) == 0 && len(spec.Labels) == 0 && spec.Severity == "" && len(spec.Checks) < 2
	if t := spec.Targets; t != nil {
		if expressible = expressible && t.Where == "" && t.Except == nil && len(t.Groups)+len(t.Nodes) == 1; expressible {
			subscription = subscriptions(t)[0]
		}
	}
	if len(spec.Checks) == 1 {
		check = spec.Checks[0]
	}
	reason, creator := spec.Reason, spec.Creator
	if before, by, ok := strings.Cut(reason, " (by "); ok && strings.HasSuffix(by, ")") { // written by an import
		reason, creator = before, strings.TrimSuffix(by, ")")
	}
	begin := unixTime(spec.Begin.Time)
	if begin == 0 && m.Status != nil {
		begin = unixTime(m.Status.Created)
	}
	o := object{
		"metadata": metadata(m, subscription+":"+check), "expire": int64(-1), "expire_on_resolve": spec.UntilResolved,
		"creator": creator, "reason": reason, "begin": begin, "expire_at": unixTime(spec.Until.Time),
	}
	if !spec.Until.IsZero() {
		o["expire"] = unixTime(spec.Until.Time) - begin
	}
	if !expressible {
		o["metadata"] = metadata(m, m.Metadata.Name)
		o["reason"] = spec.Reason + " (scope: muster describe silence " + m.Metadata.Name + ")"
		return o, nil
	}
	if subscription != "*" {
		o["subscription"] = subscription
	}
	if check != "*" {
		o["check"] = check
	}
	return o, nil
}

// putSilence creates a silence (POST, PUT), or replaces the one with the same scope (PUT).
func (s *Server) putSilence(ctx context.Context, r *request) (answer, error) {
	doc, same, err := s.readDocument(ctx, r)
	if err != nil || same {
		return answer{http.StatusOK, nil, ""}, err
	}
	made, err := s.convert(ctx, r, doc)
	if err != nil {
		return answer{}, err
	}
	all, err := r.all(ctx, "Silence")
	if err != nil {
		return answer{}, err
	}
	name := silenceName(made.main)
	for _, is := range all {
		switch {
		case !sameSilence(silenceName(is), name):
		case r.Method == http.MethodPost:
			return answer{}, model.Errorf(model.Conflict, "silence %s already exists", name)
		default:
			made.main.Metadata.Name, made.others = is.Metadata.Name, nil
			return answer{http.StatusCreated, nil, ""}, s.apply(ctx, r, made)
		}
	}
	spec, err := json.Marshal(made.main.Spec)
	if err != nil {
		return answer{}, err
	}
	_, err = r.muster.Notifications.Silence(ctx, v1.SilenceRequest{Namespace: r.namespace, Spec: spec})
	return answer{http.StatusCreated, nil, ""}, withCommand(err, silenceCommand(r.namespace, made.main.Spec.(*model.SilenceSpec)))
}

// deleteSilence ends all silences with the name in the path.
func (s *Server) deleteSilence(ctx context.Context, r *request) (answer, error) {
	found, err := silencesOf(ctx, r)
	if err != nil {
		return answer{}, err
	}
	for _, m := range found {
		if _, err := r.muster.Notifications.EndSilence(ctx, m.Metadata.Namespace, m.Metadata.Name, "sensuctl silenced delete"); err != nil {
			return answer{}, err
		}
	}
	return answer{http.StatusNoContent, nil, ""}, nil
}

func (s *Server) events(ctx context.Context, r *request) (answer, error) {
	limit, after := readPage(r)
	got, err := r.muster.Events.List(ctx, v1.EventFilter{Namespace: r.namespace, Node: r.name(0), Limit: limit, After: after})
	if err != nil {
		return answer{}, err
	}
	v, forms := newView(ctx, r), []object{}
	for i := range got.Items {
		o, err := v.event(&got.Items[i])
		if err != nil {
			return answer{}, err
		}
		forms = append(forms, o)
	}
	return selectForms(ctx, r, forms, got.Next)
}

func (s *Server) event(ctx context.Context, r *request) (answer, error) {
	node, check, err := eventName(r)
	if err != nil {
		return answer{}, err
	}
	e, err := r.muster.Events.Get(ctx, r.namespace, node, check)
	if err != nil {
		return answer{}, err
	}
	o, err := newView(ctx, r).event(&e)
	return answer{http.StatusOK, o, ""}, err
}

func eventName(r *request) (node, check string, err error) {
	if node, check = r.name(0), r.name(1); node == "" || check == "" {
		err = model.Errorf(model.NotFound, "the path has no valid names of an entity and a check")
	}
	return node, check, err
}

// event writes an event with its entity and its check. An undeclared check, such as keepalive, has a name only.
func (v *view) event(e *v1.Event) (object, error) {
	entity, err := v.part("Node", e.Namespace, e.Node, v.entity)
	if err != nil {
		return nil, err
	}
	config, err := v.part("Check", e.Namespace, e.Check, v.check)
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
			silence, err := v.part("Silence", namespace, name, v.silence)
			if err != nil {
				return nil, err
			}
			silencedBy = append(silencedBy, nameOf(silence))
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
	return object{
		"timestamp": unixTime(e.Received), "entity": entity, "check": check, "metadata": object{"namespace": e.Namespace},
		"sequence": e.Results, "pipelines": []object{},
	}, nil
}

// part writes a resource of an event. One that does not exist has a name only.
func (v *view) part(kind, namespace, name string, form func(*model.Resource) (object, error)) (o object, err error) {
	m, err := v.find(kind, namespace, name)
	if err == nil && m != nil {
		o, err = form(m)
	}
	if o == nil {
		o = object{"metadata": object{"name": name, "namespace": namespace}}
	}
	return o, err
}

// resolvedOutput is the output of the event that sensuctl event resolve sends; no other command sends it.
const resolvedOutput = "Resolved manually by sensuctl"

// putEvent resolves an event. Other events come from agents: here one is refused, unless the server has it already, such
// as an event of a dump.
func (s *Server) putEvent(ctx context.Context, r *request) (answer, error) {
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
		return answer{http.StatusCreated, nil, ""}, r.muster.Events.Resolve(ctx, r.namespace, node, check, "by sensuctl")
	}
	e, err := r.muster.Events.Get(ctx, r.namespace, node, check)
	switch {
	case err != nil && model.ClassOf(err) != model.NotFound:
		return answer{}, err
	case err == nil && c.Executed > 0 && c.Executed <= unixTime(e.Executed):
		return answer{http.StatusOK, nil, ""}, nil
	}
	return answer{}, noOperation(r)
}

func (s *Server) deleteEvent(ctx context.Context, r *request) (answer, error) {
	node, check, err := eventName(r)
	if err != nil {
		return answer{}, err
	}
	return answer{http.StatusNoContent, nil, ""}, r.muster.Events.Delete(ctx, r.namespace, node, check, "by sensuctl")
}
