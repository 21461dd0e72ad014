package sensuctl

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// silences answers /silenced, /silenced/subscriptions/S and /silenced/checks/C. sensuctl does
// not ask for further pages of these: all are in one answer.
func (s *Server) silences(ctx context.Context, r *request) (answer, error) {
	chosen, err := parseSelectors(r.URL.Query(), "silenced")
	if err != nil {
		return answer{}, err
	}
	all, err := silencesOf(ctx, r)
	if err != nil {
		return answer{}, err
	}
	out := []object{}
	for _, m := range all {
		o := silenced(m)
		if o == nil || !chosen.take("silenced", o) {
			continue
		}
		if len(r.names) == 2 {
			field := strings.TrimSuffix(r.names[0], "s")
			if got, _ := o[field].(string); !same(got, r.names[1]) {
				continue
			}
		}
		out = append(out, o)
	}
	if err := s.namespaceIsThere(ctx, r, len(all)); err != nil {
		return answer{}, err
	}
	return answer{http.StatusOK, out, ""}, nil
}

// silencesMost is how many are read for one answer.
const silencesMost = 100_000

func silencesOf(ctx context.Context, r *request) (all []*model.Resource, err error) {
	for after := ""; len(all) < silencesMost; {
		list, next, err := resources(ctx, r, "Silence", pageSize, after)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
		if next == "" {
			return all, nil
		}
		after = next
	}
	return all, nil
}

// same compares names as they are here.
func same(a, b string) bool {
	return a == b || model.CleanName(a) == model.CleanName(b)
}

// oneSilence is that of a name of Sensu's, SUBSCRIPTION:CHECK, or of its name here.
func (s *Server) oneSilence(ctx context.Context, r *request) (answer, error) {
	found, err := named(ctx, r)
	if err != nil {
		return answer{}, err
	}
	return answer{http.StatusOK, silenced(found[0]), ""}, nil
}

// named are the silences that go by the name of a request: several may cover the same.
func named(ctx context.Context, r *request) (found []*model.Resource, err error) {
	all, err := silencesOf(ctx, r)
	if err != nil {
		return nil, err
	}
	asked := r.names[0]
	for _, m := range all {
		if name := nameOf(silenced(m)); m.Metadata.Name == asked || sameCover(name, asked) {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return nil, model.Errorf(model.NotFound, "there is no silence %s", model.Brief(asked)).WithHint("muster get silences -n %s", r.namespace)
	}
	return found, nil
}

func nameOf(o object) string {
	m, _ := o["metadata"].(object)
	name, _ := m["name"].(string)
	return name
}

// sameCover compares SUBSCRIPTION:CHECK part by part.
func sameCover(a, b string) bool {
	subA, checkA := cover(a)
	subB, checkB := cover(b)
	return same(subA, subB) && same(checkA, checkB) && strings.Contains(b, ":")
}

func cover(name string) (subscription, check string) {
	i := strings.LastIndexByte(name, ':')
	if i < 0 {
		return name, ""
	}
	return name[:i], name[i+1:]
}

// silenced is a silence in Sensu's shape. One that covers what no subscription says has its own
// name, and says so in its reason.
func silenced(m *model.Resource) object {
	spec, ok := m.Spec.(*model.SilenceSpec)
	if !ok {
		return nil
	}
	subscription, check, whole := "*", "*", len(spec.Statuses) == 0 && len(spec.Labels) == 0 && spec.Severity == ""
	if t := spec.Targets; t != nil {
		whole = whole && t.Where == "" && t.Except == nil && len(t.Groups)+len(t.Nodes) == 1
		if whole {
			subscription = subscriptions(t)[0]
		}
	}
	switch len(spec.Checks) {
	case 0:
	case 1:
		check = spec.Checks[0]
	default:
		whole = false
	}
	reason, creator := spec.Reason, spec.Creator
	if before, by, ok := strings.Cut(reason, " (by "); ok && strings.HasSuffix(by, ")") { // as an import wrote it
		reason, creator = before, strings.TrimSuffix(by, ")")
	}
	o := object{
		"metadata": meta(subscription+":"+check, m.Metadata.Namespace, m.Metadata), "expire": int64(-1), "expire_on_resolve": spec.UntilResolved,
		"creator": creator, "reason": reason, "begin": unix(spec.Begin.Time), "expire_at": unix(spec.Until.Time),
	}
	if o["begin"] == int64(0) && m.Status != nil {
		o["begin"] = unix(m.Status.Created)
	}
	if !spec.Until.IsZero() {
		o["expire"] = unix(spec.Until.Time) - o["begin"].(int64)
	}
	if !whole {
		o["metadata"] = meta(m.Metadata.Name, m.Metadata.Namespace, m.Metadata)
		o["reason"] = spec.Reason + " (what it covers: muster describe silence " + m.Metadata.Name + ")"
		return o
	}
	if subscription != "*" {
		o["subscription"] = subscription
	}
	if check != "*" {
		o["check"] = check
	}
	return o
}

// makeSilence is sensuctl silenced create: operators may, as with muster silence.
func (s *Server) makeSilence(ctx context.Context, r *request) (answer, error) {
	made, was, err := s.silenceAsked(ctx, r)
	if err != nil {
		return answer{}, err
	}
	if was != nil {
		return answer{}, model.Errorf(model.Conflict, "there is a silence %s already", nameOf(silenced(made.main)))
	}
	return s.newSilence(ctx, r, made)
}

// silenceAsked is the silence that a request describes, and the one that covers the same already, if
// there is one.
func (s *Server) silenceAsked(ctx context.Context, r *request) (made *converted, was *model.Resource, err error) {
	doc, err := s.sent(r)
	if err != nil {
		return nil, nil, err
	}
	if made, err = s.convert(ctx, r, doc); err != nil {
		return nil, nil, err
	}
	all, err := silencesOf(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	name := nameOf(silenced(made.main))
	for _, one := range all {
		if sameCover(nameOf(silenced(one)), name) {
			return made, one, nil
		}
	}
	return made, nil, nil
}

func (s *Server) newSilence(ctx context.Context, r *request, made *converted) (answer, error) {
	spec, err := json.Marshal(made.main.Spec)
	if err != nil {
		return answer{}, err
	}
	if _, err := r.muster.Silence(ctx, v1.SilenceRequest{Namespace: r.namespace, Spec: spec}); err != nil {
		return answer{}, byHand(err, silenceByHand(r.namespace, made.main.Spec.(*model.SilenceSpec)))
	}
	return answer{http.StatusCreated, nil, ""}, nil
}

// endSilence ends all that cover what the name says.
func (s *Server) endSilence(ctx context.Context, r *request) (answer, error) {
	found, err := named(ctx, r)
	if err != nil {
		return answer{}, err
	}
	for _, m := range found {
		if _, err := r.muster.EndSilence(ctx, m.Metadata.Namespace, m.Metadata.Name, "sensuctl silenced delete"); err != nil {
			return answer{}, err
		}
	}
	return answer{http.StatusNoContent, nil, ""}, nil
}
