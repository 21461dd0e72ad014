package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

func (s *server) apply(ctx context.Context, in *struct{ RawBody []byte }) (*body[v1.Applied], error) {
	var resources []model.Resource
	var flaws model.Flaws
	errEnough := errors.New("enough flaws")
	r, err := s.applyBody(in.RawBody, func(i int, raw json.RawMessage) error {
		located, err := model.DecodeResources(fmt.Sprintf("resource %d", i), raw)
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
		resources[i] = inNamespace(resources[i], r.Namespace)
	}
	if len(resources) == 0 && !r.Prune {
		return nil, model.Errorf(model.Invalid, "resources: nothing is declared").WithHint("want at least one")
	}
	expect, err := expectedOf(r.Expect, resources)
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
func expectedOf(list []v1.Expected, resources []model.Resource) (map[intent.Key]int64, error) {
	if len(list) == 0 {
		return nil, nil
	}
	applied := make(map[intent.Key]bool, len(resources))
	for i := range resources {
		applied[intent.KeyOf(&resources[i])] = true
	}
	out := make(map[intent.Key]int64, len(list))
	for _, e := range list {
		key, err := refKey(e.Ref)
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
func refKey(ref v1.Ref) (intent.Key, error) {
	k, ok := model.KindOf(ref.Kind)
	if !ok {
		return intent.Key{}, model.UnknownKind(ref.Kind)
	}
	key := intent.Key{Kind: k.Name, Name: ref.Name}
	if k.Namespaced {
		key.Namespace = cmp.Or(ref.Namespace, model.DefaultNamespaceName)
	}
	return key, nil
}

// inNamespace puts a resource that names no namespace into the caller's.
func inNamespace(r model.Resource, namespace string) model.Resource {
	if k, ok := model.KindOf(r.Kind); ok && k.Namespaced && r.Metadata.Namespace == "" && namespace != "" {
		r.Metadata.Namespace = namespace
	}
	model.Defaults(&r)
	return r
}

// putOutput is what came of a PUT, with the ETag that the resource has now.
type putOutput struct {
	ETag string `header:"ETag" doc:"For the If-Match of the next change; none after a dry run."`
	Body v1.Applied
}

func (s *server) put(ctx context.Context, key intent.Key, in ChangeInput, raw []byte) (*putOutput, error) {
	located, err := model.DecodeResources("body", raw)
	if err != nil {
		return nil, err
	}
	if len(located) != 1 {
		return nil, model.Errorf(model.Invalid, "the body holds %d resources, not one", len(located)).WithHint("many at once: POST /api/v1/apply")
	}
	r := inNamespace(located[0].Resource, key.Namespace)
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
		key, err := refKey(ref)
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
func (s *server) applied(a intent.Applied, dryRun bool, resources []model.Resource) v1.Applied {
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
		case o.Pruned && o.Op == intent.Deleted:
			one.Note = "not declared any more; " + leaves(o)
		case o.Op != intent.Deleted && byKey[o.Key] != nil:
			var warning string
			one.Note, warning = landingNote(byKey[o.Key], o)
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

// leaves says where something landed that goes.
func leaves(o intent.Outcome) string {
	nodes := model.Counted(o.Landing.Nodes, "node")
	switch o.Key.Kind {
	case "Check":
		return "runs on " + nodes
	case "Group":
		return "has " + nodes
	case "Property":
		return "read on " + nodes
	case "Handler":
		return "named by nobody that stays"
	}
	return "nobody misses it"
}

// landingNote says where a resource lands, and warns where it lands nowhere.
func landingNote(r *model.Resource, o intent.Outcome) (note, warning string) {
	nodes := model.Counted(o.Landing.Nodes, "node")
	if o.Landing.About > 0 {
		nodes += ", about " + model.Counted(o.Landing.About, "proxy node")
	}
	switch o.Key.Kind {
	case "Check":
		spec, ok := r.Spec.(*model.CheckSpec)
		switch {
		case ok && spec.Disabled:
			return "disabled: runs nowhere", ""
		case ok && spec.Passive:
			return "passive: its results come in from outside", ""
		case o.Landing.Nodes > 0 && ok && spec.Proxy != nil && o.Landing.About == 0:
			return "runs on " + nodes + ", about no proxy node", "no proxy node matches its proxy: declare some (kind: Node, proxy: true), or see muster get nodes"
		case o.Landing.Nodes == 0:
			return "runs on no node", "no node matches its targets: which there are says muster get nodes, why one does not muster why NODE/" + o.Key.Name
		case ok && spec.Cron != "":
			return "runs on " + nodes + "; first results at the next time of " + spec.Cron, ""
		case ok && o.Op != intent.Unchanged:
			return "runs on " + nodes + "; first results within " + intervalText(spec), ""
		}
		return "runs on " + nodes, ""
	case "Group":
		if o.Landing.Nodes == 0 {
			return "has no member", "no node belongs to it: which there are says muster get nodes, where one belongs muster why NODE"
		}
		return "has " + nodes, ""
	case "Property":
		if o.Landing.Nodes == 0 {
			return "read by no check yet", ""
		}
		return "read on " + nodes, ""
	case "Handler":
		if spec, ok := r.Spec.(*model.HandlerSpec); ok && spec.Stream != nil && spec.Stream.Results == model.AllResults {
			return strings.TrimSuffix("told of every result; used by "+usedBy(o.Landing, ""), "; used by "), ""
		}
		return "used by " + cmp.Or(usedBy(o.Landing, ""), "nobody yet"), ""
	case "Pipeline", "Hook":
		return "used by " + cmp.Or(usedBy(o.Landing, ""), "nobody yet") + "; kept from Sensu", ""
	case "Secret", "Asset":
		return "used by " + cmp.Or(usedBy(o.Landing, " on "+nodes), "nobody yet"), ""
	case "Filter", "Mutator":
		return "kept from Sensu", ""
	case "Route":
		spec, ok := r.Spec.(*model.RouteSpec)
		switch checks := model.Counted(o.Landing.Checks, "check"); {
		case o.Landing.Checks > 0:
			return "used by " + checks, ""
		case ok && spec.Match != nil:
			return "takes what it matches", ""
		case o.Key.Name == route.DefaultName:
			return "takes what no other route does", ""
		}
		return "used by no check yet", "no check names it (alert.route), and it matches nothing: give it match, or call it default"
	case "Namespace":
		return "holds " + nodes, ""
	}
	return "", ""
}

// usedBy says who names a handler, pipeline, hook, secret or asset, and where its checks are; empty: nobody.
func usedBy(l intent.Landing, where string) string {
	var by []string
	for _, users := range []struct {
		n    int
		what string
	}{{l.Checks, "check"}, {l.Routes, "route"}, {l.Flows, "pipeline"}, {l.Spaces, "namespace"}, {l.Hear, "node"},
		{l.Handlers, "handler"}, {l.Mutators, "mutator"}, {l.Filters, "filter"}} {
		if users.n > 0 {
			by = append(by, model.Counted(users.n, users.what))
		}
	}
	if l.Checks > 0 {
		by[0] += where
	}
	if last := len(by) - 1; last > 0 {
		return strings.Join(by[:last], ", ") + " and " + by[last]
	}
	return strings.Join(by, "")
}

// intervalText is the longest until the first result: one interval.
func intervalText(spec *model.CheckSpec) string { return seconds(spec.Interval) }

// seconds is a duration as people say it: 60 s, 5 min.
func seconds(d model.Duration) string {
	s := int64(d) / 1e9
	switch {
	case s > 120 && s%60 == 0:
		return fmt.Sprintf("%d min", s/60)
	case s == 0:
		return d.String()
	}
	return fmt.Sprintf("%d s", s)
}
