package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

func (s *server) apply(ctx context.Context, in *struct{ RawBody []byte }) (*body[v1.Applied], error) {
	var resources []model.Resource
	var flaws model.Flaws
	errEnough := errors.New("enough flaws")
	r, err := s.applyBody(in.RawBody, func(i int, raw json.RawMessage) error {
		located, err := s.Kinds.Decode(fmt.Sprintf("resource %d", i), raw)
		var found model.Flaws
		if err != nil && !errors.As(err, &found) {
			return err
		}
		if flaws = append(flaws, found...); len(flaws) >= model.MaxFlaws {
			return errEnough
		}
		for j := range located {
			resources = append(resources, located[j].Resource)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if c, change := callerOf(ctx), access.On(access.Change, "resource"); !r.DryRun {
		if err := c.Allow(change); err != nil {
			s.metrics.refused.WithLabelValues("role").Inc()
			return nil, err
		}
		s = s.forSubject(ctx, change)
	}
	if err := flaws.Err(); err != nil {
		return nil, err.(*model.Error).WithHint("muster lint FILE names the lines; muster explain KIND the fields")
	}
	for i := range resources {
		resources[i] = s.inNamespace(resources[i], r.Namespace)
	}
	if len(resources) == 0 && !r.Prune {
		return nil, model.Errorf(model.Invalid, "resources: nothing is declared").WithHint("want at least one")
	}
	expect, err := s.expectedOf(r.Expect, resources)
	if err != nil {
		return nil, err
	}
	applied, err := s.Intent.Apply(ctx, author(ctx, r.Message), resources, intent.ApplyOptions{
		Expect: expect, DryRun: r.DryRun, Yes: r.Yes, MaxAffected: r.MaxAffected,
		Owner: r.Owner, TakeOver: r.TakeOver, Prune: r.Prune, AllowEmpty: r.AllowEmpty, Redact: redacts(ctx, resources),
	})
	if err != nil {
		return nil, err
	}
	return &body[v1.Applied]{s.applied(applied, r.DryRun, resources)}, nil
}

// expectedOf are the revisions that resources of an apply must have.
func (s *server) expectedOf(list []v1.Expected, resources []model.Resource) (map[intent.Key]int64, error) {
	if len(list) == 0 {
		return nil, nil
	}
	applied := make(map[intent.Key]bool, len(resources))
	for i := range resources {
		applied[intent.KeyOf(&resources[i])] = true
	}
	out := make(map[intent.Key]int64, len(list))
	for _, e := range list {
		key, err := s.refKey(e.Ref)
		if err != nil {
			return nil, err
		}
		if !applied[key] {
			return nil, model.Errorf(model.Invalid, "expect: %s is not among the resources", key)
		}
		out[key] = e.Revision
	}
	return out, nil
}

// refKey is what a reference names; one without a namespace is of the default one.
func (s *server) refKey(ref v1.Ref) (intent.Key, error) {
	k, ok := s.Kinds.Of(ref.Kind)
	if !ok {
		return intent.Key{}, s.Kinds.Unknown(ref.Kind)
	}
	key := intent.Key{Kind: k.Name, Name: ref.Name}
	if k.Namespaced {
		key.Namespace = cmp.Or(ref.Namespace, model.DefaultNamespaceName)
	}
	return key, nil
}

// inNamespace puts a resource that names no namespace into the caller's.
func (s *server) inNamespace(r model.Resource, namespace string) model.Resource {
	if k, ok := s.Kinds.Of(r.Kind); ok && k.Namespaced && r.Metadata.Namespace == "" && namespace != "" {
		r.Metadata.Namespace = namespace
	}
	s.Kinds.Defaults(&r)
	return r
}

// putOutput is what came of a PUT, with the ETag that the resource has now.
type putOutput struct {
	ETag string `header:"ETag" doc:"For the If-Match of the next change; none after a dry run."`
	Body v1.Applied
}

func (s *server) put(ctx context.Context, key intent.Key, in ChangeInput, raw []byte) (*putOutput, error) {
	located, err := s.Kinds.Decode("body", raw)
	if err != nil {
		return nil, err
	}
	if len(located) != 1 {
		return nil, model.Errorf(model.Invalid, "the body holds %d resources, not one", len(located)).WithHint("many at once: POST /api/v1/apply")
	}
	r := s.inNamespace(located[0].Resource, key.Namespace)
	if got := intent.KeyOf(&r); got != key {
		return nil, model.Errorf(model.Invalid, "the body is %s, the path says %s", got, key)
	}
	o, err := s.options(ctx, key, in)
	if err != nil {
		return nil, err
	}
	resources := []model.Resource{r}
	applied, err := s.Intent.Apply(ctx, author(ctx, in.Message), resources, o)
	if err != nil {
		return nil, err
	}
	out := &putOutput{Body: s.applied(applied, in.DryRun, resources)}
	if !in.DryRun {
		out.ETag = s.etag(applied.Outcomes[0].Revision)
	}
	return out, nil
}

func (s *server) remove(ctx context.Context, key intent.Key, in ChangeInput) (*body[v1.Applied], error) {
	if _, err := s.Intent.Get(ctx, key); err != nil {
		return nil, s.notThere(ctx, err, key)
	}
	o, err := s.options(ctx, key, in)
	if err != nil {
		return nil, err
	}
	applied, err := s.Intent.Delete(ctx, author(ctx, in.Message), []intent.Key{key}, o)
	if err != nil {
		return nil, s.notThere(ctx, err, key)
	}
	return &body[v1.Applied]{s.applied(applied, in.DryRun, nil)}, nil
}

func (s *server) removeMany(ctx context.Context, in *struct{ Body v1.DeleteRequest }) (*body[v1.Applied], error) {
	keys, seen := make([]intent.Key, len(in.Body.Resources)), map[intent.Key]bool{}
	for i, ref := range in.Body.Resources {
		key, err := s.refKey(ref)
		if err != nil {
			return nil, err
		}
		keys[i] = key
		if seen[keys[i]] {
			return nil, model.Errorf(model.Invalid, "%s stands twice in the list", keys[i])
		}
		seen[keys[i]] = true
		if _, err := s.Intent.Get(ctx, keys[i]); err != nil {
			return nil, s.notThere(ctx, err, keys[i])
		}
	}
	o := intent.ApplyOptions{DryRun: in.Body.DryRun, Yes: in.Body.Yes, MaxAffected: in.Body.MaxAffected}
	applied, err := s.Intent.Delete(ctx, author(ctx, in.Body.Message), keys, o)
	if err != nil {
		return nil, err
	}
	return &body[v1.Applied]{s.applied(applied, in.Body.DryRun, nil)}, nil
}

// applied says in words where each resource lands.
func (s *server) applied(a intent.ApplyResult, dryRun bool, resources []model.Resource) v1.Applied {
	byKey := map[intent.Key]*model.Resource{}
	for i := range resources {
		byKey[intent.KeyOf(&resources[i])] = &resources[i]
	}
	out := v1.Applied{Revision: a.Revision, DryRun: dryRun, Affected: a.Affected, Outcomes: make([]v1.Outcome, len(a.Outcomes))}
	var refused *model.Error
	if errors.As(a.Refused, &refused) {
		out.Refused = &v1.Refused{Class: refused.Class.Label(), Detail: refused.Message, Hint: refused.Hint}
	}
	for i, o := range a.Outcomes {
		one := v1.Outcome{
			Kind: o.Key.Kind, Namespace: o.Key.Namespace, Name: o.Key.Name, Op: string(o.Op), Was: o.Was, Revision: o.Revision,
			Nodes: o.Landing.Nodes, Checks: o.Landing.Checks, Warnings: o.Warnings, Diff: o.Diff,
		}
		switch {
		case o.Pruned && o.Op == intent.OpDeleted:
			one.Note = "not declared any more; " + s.Kinds.Removal(o.Key.Kind, o.Landing)
		case o.Op != intent.OpDeleted && byKey[o.Key] != nil:
			var warning string
			one.Note, warning = s.Kinds.Effect(byKey[o.Key], o.Landing, o.Op != intent.OpUnchanged)
			if warning != "" && len(s.Directory.Nodes("")) == 0 {
				one.Note, warning = one.Note+" yet: no machine has joined", "" // nothing is wrong with it
			}
			if warning != "" {
				one.Warnings = append(one.Warnings, warning)
			}
		}
		out.Outcomes[i] = one
	}
	return out
}
