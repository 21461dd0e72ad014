package sensuctl

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

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
		return nil, model.Errorf(model.NotFound, "there is no silence %s", model.Shorten(r.names[0])).WithHint("muster get silences -n %s", r.namespace)
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
			return answer{}, model.Errorf(model.Conflict, "silence %s exists already", name)
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
