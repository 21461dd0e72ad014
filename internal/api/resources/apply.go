package resources

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/notification"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// applyLimiters limits concurrent applies, with a separate limit for dry runs, so that dry runs delay no change
type applyLimiters struct{ applies, previews *op.RequestLimiter }

// limiterOfCaller returns the limiter for the caller's applies, separate for callers with only the right to dry
// runs. Callers who may only make dry runs have a separate limiter.
func (t applyLimiters) limiterOfCaller(ctx context.Context) *op.RequestLimiter {
	if c := access.CallerOf(ctx); c.Allow(access.NeedOn(access.Change, "resource")) != nil {
		return t.previews
	}
	return t.applies
}

// awaitBody is middleware that waits before the body of an apply is read. Such a body may have 32 MiB.
func (t applyLimiters) awaitBody(ctx huma.Context, next func(huma.Context)) {
	leave, refusal := t.limiterOfCaller(ctx.Context()).AwaitBody(ctx.Context())
	if refusal != nil {
		r, w := humago.Unwrap(ctx)
		op.RefuseUnread(w, r, refusal)
		return
	}
	defer leave()
	next(ctx)
}

// applyResources declares many resources in one transaction.
func (s *resourceRequest) applyResources(ctx context.Context, in *struct{ RawBody []byte }) (*op.Body[v1.Applied], error) {
	ended, refusal := s.applyLimiters.limiterOfCaller(ctx).AwaitRun(ctx)
	if refusal != nil {
		return nil, refusal
	}
	defer ended()
	var resources []model.Resource
	var flaws model.Flaws
	errEnough := errors.New("enough errors")
	r, err := s.readApplyBody(in.RawBody, func(i int, raw json.RawMessage) error {
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
	if c, change := access.CallerOf(ctx), access.NeedOn(access.Change, "resource"); !r.DryRun {
		if err := c.Allow(change); err != nil {
			s.CountRefusal("role")
			return nil, err
		}
		changing := *s
		changing.View = s.For(ctx, change)
		s = &changing
	}
	if err := flaws.Err(); err != nil {
		return nil, err.(*model.Error).WithHint("muster lint FILE prints the lines, muster explain KIND the fields")
	}
	for i := range resources {
		resources[i] = s.setDefaultNamespace(resources[i], r.Namespace)
	}
	if len(resources) == 0 && !r.Prune {
		return nil, model.Errorf(model.Invalid, "field resources: the list is empty, expected at least one resource").WithHint("expected at least one")
	}
	expect, err := s.expectedRevisions(r.Expect, resources)
	if err != nil {
		return nil, err
	}
	out, err := s.changeResources(ctx, r.OnlyNew, r.DryRun, resources, func() (intent.ApplyResult, error) {
		o := ApplyOptions(r.ChangeOptions)
		o.Expect, o.Owner, o.TakeOver, o.Prune, o.AllowEmpty, o.Redact = expect, r.Owner, r.TakeOver, r.Prune, r.AllowEmpty, mustRedact(ctx, resources, r.Prune && r.DryRun)
		return s.Intent.Apply(ctx, access.AuthorOf(ctx, r.Message), resources, o)
	})
	return op.Answer(out), err
}

// changeResources applies or previews a change of resources, and returns the result. It also returns the open problems
// that get other routes or handlers.
func (s *resourceRequest) changeResources(
	ctx context.Context, onlyNew, dryRun bool, resources []model.Resource, change func() (intent.ApplyResult, error),
) (v1.Applied, error) {
	var applied intent.ApplyResult
	var err error
	var routed v1.RoutingEffect
	if s.ChangeRouting == nil || dryRun {
		applied, err = change()
	} else {
		by := dispatch.RoutingChange{OnlyNew: onlyNew, By: access.CallerOf(ctx).User}
		var taken []dispatch.AffectedProblems
		taken, routed.TakenLate, err = s.ChangeRouting(ctx, by, func() (_ *dispatch.ReceiverEdits, err error) {
			applied, err = change()
			return s.routingEdits(applied, resources), err
		})
		routed.AffectedProblems = notification.ShowAffectedProblems(s.View, taken)
	}
	if err != nil {
		return v1.Applied{}, err
	}
	if edits := s.routingEdits(applied, resources); dryRun && edits != nil && s.PreviewRouting != nil {
		taken, late := s.PreviewRouting(ctx, dispatch.RoutingChange{OnlyNew: onlyNew}, edits)
		routed = v1.RoutingEffect{AffectedProblems: notification.ShowAffectedProblems(s.View, taken), TakenLate: late}
	}
	out := Applied(s.View, applied, dryRun, resources)
	out.RoutingEffect = routed
	return out, nil
}

// routingEdits returns the routes and lists of handlers that a change of resources edited, or nil if none.
// Checks, nodes and namespaces have handler lists.
func (s *resourceRequest) routingEdits(applied intent.ApplyResult, resources []model.Resource) *dispatch.ReceiverEdits {
	byKey := map[intent.Key]model.Spec{}
	for i := range resources {
		byKey[intent.KeyOf(&resources[i])] = resources[i].Spec
	}
	p := &dispatch.ReceiverEdits{Checks: map[route.Name]*model.CheckSpec{}, Nodes: map[route.Name]*model.NodeSpec{}, Namespaces: map[string]*model.NamespaceSpec{},
		Sees: func(namespace string) bool { _, ok := s.Directory.NamespaceByName(namespace); return ok }}
	found := false
	for _, o := range applied.Outcomes {
		if o.Op == intent.OpUnchanged {
			continue
		}
		name := route.Name{Namespace: o.Key.Namespace, Name: o.Key.Name}
		changed := true
		switch spec := byKey[o.Key].(type) {
		case *model.CheckSpec:
			p.Checks[name] = spec
		case *model.NodeSpec:
			p.Nodes[name] = spec
		case *model.NamespaceSpec:
			p.Namespaces[o.Key.Name] = spec
		default:
			if changed = o.Key.Kind == "Route"; changed { // a deleted one has no spec
				p.Routes = append(p.Routes, route.Declaration{Kind: o.Key.Kind, Name: name, Spec: spec})
			}
		}
		found = found || changed
	}
	if !found {
		return nil
	}
	return p
}

// expectedRevisions returns the revisions that an apply requires its resources to have.
func (s *resourceRequest) expectedRevisions(list []v1.Expected, resources []model.Resource) (map[intent.Key]int64, error) {
	if len(list) == 0 {
		return nil, nil
	}
	applied := make(map[intent.Key]bool, len(resources))
	for i := range resources {
		applied[intent.KeyOf(&resources[i])] = true
	}
	out := make(map[intent.Key]int64, len(list))
	for _, e := range list {
		key, err := s.resolveRef(e.Ref)
		if err != nil {
			return nil, err
		}
		if !applied[key] {
			return nil, model.Errorf(model.Invalid, "field expect: %s is not one of the resources in this request", key)
		}
		out[key] = e.Revision
	}
	return out, nil
}

// resolveRef converts a reference to a resource (kind, namespace, name) in a request to a database key. Without
// a namespace, it uses the namespace "default".
func (s *resourceRequest) resolveRef(ref v1.Ref) (intent.Key, error) {
	k, ok := s.Kinds.Lookup(ref.Kind)
	if !ok {
		return intent.Key{}, s.Kinds.UnknownKindError(ref.Kind)
	}
	key := intent.Key{Kind: k.Name, Name: ref.Name}
	if k.Namespaced {
		key.Namespace = cmp.Or(ref.Namespace, model.DefaultNamespaceName)
	}
	return key, nil
}

// setDefaultNamespace fills in the request's namespace for a resource without a namespace. The kind's default values
// follow.
func (s *resourceRequest) setDefaultNamespace(r model.Resource, namespace string) model.Resource {
	if k, ok := s.Kinds.Lookup(r.Kind); ok && k.Namespaced && r.Metadata.Namespace == "" && namespace != "" {
		r.Metadata.Namespace = namespace
	}
	s.Kinds.Defaults(&r)
	return r
}

// putOutput is the answer to a PUT of a resource. It has the result of the change and the new ETag.
type putOutput struct {
	ETag string `header:"ETag" doc:"Value for If-Match of the next change; absent after a dry run."`
	Body v1.Applied
}

// putResource creates or replaces one resource.
func (s *resourceRequest) putResource(ctx context.Context, key intent.Key, in ChangeInput, raw []byte) (*putOutput, error) {
	located, err := s.Kinds.Decode("body", raw)
	if err != nil {
		return nil, err
	}
	if len(located) != 1 {
		return nil, model.Errorf(model.Invalid, "the body has %d resources, expected one", len(located)).WithHint("apply several resources with POST /api/v1/apply")
	}
	r := s.setDefaultNamespace(located[0].Resource, key.Namespace)
	if got := intent.KeyOf(&r); got != key {
		return nil, model.Errorf(model.Invalid, "the body declares %s, but the path names %s", got, key)
	}
	o, err := s.changeOptions(ctx, key, in)
	if err != nil {
		return nil, err
	}
	resources := []model.Resource{r}
	applied, err := s.changeResources(ctx, false, in.DryRun, resources, func() (intent.ApplyResult, error) {
		return s.Intent.Apply(ctx, access.AuthorOf(ctx, in.Message), resources, o)
	})
	if err != nil {
		return nil, err
	}
	out := &putOutput{Body: applied}
	if !in.DryRun {
		out.ETag = s.resourceETag(applied.Outcomes[0].Revision)
	}
	return out, nil
}

// deleteResource deletes one resource.
func (s *resourceRequest) deleteResource(ctx context.Context, key intent.Key, in ChangeInput) (*op.Body[v1.Applied], error) {
	if _, err := s.Intent.Get(ctx, key); err != nil {
		return nil, s.ExplainNotFound(ctx, err, key)
	}
	o, err := s.changeOptions(ctx, key, in)
	if err != nil {
		return nil, err
	}
	applied, err := s.changeResources(ctx, false, in.DryRun, nil, func() (intent.ApplyResult, error) {
		return s.Intent.Delete(ctx, access.AuthorOf(ctx, in.Message), []intent.Key{key}, o)
	})
	if err != nil {
		return nil, s.ExplainNotFound(ctx, err, key)
	}
	return op.Answer(applied), nil
}

// deleteResources deletes many resources in one transaction.
func (s *resourceRequest) deleteResources(ctx context.Context, in *struct{ Body v1.DeleteRequest }) (*op.Body[v1.Applied], error) {
	keys, seen := make([]intent.Key, len(in.Body.Resources)), map[intent.Key]bool{}
	for i, ref := range in.Body.Resources {
		key, err := s.resolveRef(ref)
		if err != nil {
			return nil, err
		}
		keys[i] = key
		if seen[keys[i]] {
			return nil, model.Errorf(model.Invalid, "the list of resources contains %s twice", keys[i])
		}
		seen[keys[i]] = true
		if _, err := s.Intent.Get(ctx, keys[i]); err != nil {
			return nil, s.ExplainNotFound(ctx, err, keys[i])
		}
	}
	applied, err := s.changeResources(ctx, false, in.Body.DryRun, nil, func() (intent.ApplyResult, error) {
		return s.Intent.Delete(ctx, access.AuthorOf(ctx, in.Body.Message), keys, ApplyOptions(in.Body.ChangeOptions))
	})
	return op.Answer(applied), err
}

// Applied converts the result of an apply to the API type Applied. Each resource gets its number of affected nodes.
func Applied(v *view.View, a intent.ApplyResult, dryRun bool, resources []model.Resource) v1.Applied {
	byKey := map[intent.Key]*model.Resource{}
	for i := range resources {
		byKey[intent.KeyOf(&resources[i])] = &resources[i]
	}
	out := v1.Applied{Revision: a.Revision, DryRun: dryRun, Affected: a.Affected, Outcomes: make([]v1.Outcome, len(a.Outcomes))}
	var refused *model.Error
	if errors.As(a.Refused, &refused) {
		out.Refused = &v1.Refused{Class: refused.Class.Label(), Detail: refused.Message, Hint: refused.Hint}
	}
	for _, u := range a.Units {
		out.Units = append(out.Units, v1.UnitImpact{Kind: u.Key.Kind, Namespace: u.Key.Namespace, Name: u.Key.Name, Gets: u.Gets, Loses: u.Loses, Changes: u.Changes,
			Nodes: u.Nodes, Differences: u.Differences, Steps: u.Steps})
	}
	for _, step := range a.Timings {
		out.Timings = append(out.Timings, v1.StepTime{Step: step.Step, Microseconds: step.Duration.Microseconds()})
	}
	for i, o := range a.Outcomes {
		one := v1.Outcome{
			Kind: o.Key.Kind, Namespace: o.Key.Namespace, Name: o.Key.Name, Op: string(o.Op), Was: o.Was, Revision: o.Revision,
			Nodes: o.Placement.Nodes, Checks: o.Placement.Checks, Warnings: o.Warnings, Diff: o.Diff,
		}
		switch {
		case o.Pruned && o.Op == intent.OpDeleted:
			one.Note = "no longer declared; " + v.Kinds.DeletionEffect(o.Key.Kind, o.Placement)
		case o.Op != intent.OpDeleted && byKey[o.Key] != nil:
			var warning string
			one.Note, warning = effectOf(v, byKey[o.Key], o.Placement, o.Op != intent.OpUnchanged)
			if warning != "" && len(v.Directory.Nodes("")) == 0 {
				one.Note, warning = one.Note+" yet: no machine has joined", "" // on a new server this is normal, and no warning
			}
			if warning != "" {
				one.Warnings = append(one.Warnings, warning)
			}
		}
		out.Outcomes[i] = one
	}
	return out
}

// effectOf describes the effect of a resource on nodes, and warns about a resource without any effect.
func effectOf(v *view.View, r *model.Resource, l intent.Placement, changed bool) (note, warning string) {
	if w, ok := r.Spec.(*model.WindowSpec); ok && w.Maintenance != nil {
		l.Maintained, _, _, _ = notification.CountMatchingNodes(v, r.Metadata.Namespace, w.Maintenance) // valid: it was validated before
	}
	return v.Kinds.Effect(r, l, changed)
}

// mustRedact reports whether the answer must hide secrets because the caller may not change all resources. The preview
// of a prune shows resources of all namespaces that the caller may read.
func mustRedact(ctx context.Context, resources []model.Resource, previewsPrune bool) bool {
	if c := access.CallerOf(ctx); previewsPrune && !c.MayEverywhere(access.Change) &&
		(c.MayEverywhere(access.Read) || len(c.NamespacesFor(access.Read)) > len(c.NamespacesFor(access.Change))) {
		return true
	}
	return slices.ContainsFunc(resources, func(r model.Resource) bool { return !access.MayChange(ctx, intent.KeyOf(&r).Namespace) })
}

// These constants bound the body of an apply. The package reads the body itself, because huma would decode it whole
// before its size is checked.
const (
	maxResources     = 10_000
	maxResourceBytes = 512 << 10 // bytes of one resource
	maxApplyFields   = 20        // of the request, without the resources
)

// readApplyBody decodes the request body of an apply. It calls take with each resource; the result holds all
// other fields. An error of take ends the decoding.
func (s *resourceRequest) readApplyBody(data []byte, take func(i int, raw json.RawMessage) error) (v1.ApplyRequest, error) {
	var r v1.ApplyRequest
	dec := json.NewDecoder(bytes.NewReader(data))
	rest := map[string]any{} // without the resources, for huma's validation
	if token, err := dec.Token(); err != nil {
		return r, invalidJSONError(err)
	} else if token != json.Delim('{') {
		return r, model.Errorf(model.Invalid, "the body is not a JSON object").WithHint("see /api/v1/openapi.json")
	}
	var list []json.RawMessage
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return r, invalidJSONError(err)
		}
		name, _ := key.(string)
		if _, twice := rest[name]; twice {
			return r, model.Errorf(model.Invalid, "the body has the field %q twice", name)
		}
		if name != "resources" {
			if len(rest) > maxApplyFields {
				return r, model.Errorf(model.Invalid, "the body has more than %d fields", maxApplyFields).WithHint("see /api/v1/openapi.json")
			}
			var value any
			if err := dec.Decode(&value); err != nil {
				return r, invalidJSONError(err)
			}
			rest[name] = value
			continue
		}
		if list, err = readResourceList(dec); err != nil {
			return r, err
		}
		rest[name] = make([]any, min(len(list), 1))
	}
	if _, err := dec.Token(); err != nil {
		return r, invalidJSONError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return r, model.Errorf(model.Invalid, "unexpected text after the JSON object in the request body")
	}
	if err := s.validateApplyFields(rest, &r); err != nil {
		return r, err
	}
	for i, raw := range list {
		if err := take(i+1, raw); err != nil {
			return r, err
		}
	}
	return r, nil
}

// readResourceList reads the raw JSON of each listed resource without decoding. A list that is too long is so refused
// early.
func readResourceList(dec *json.Decoder) (list []json.RawMessage, err error) {
	if token, err := dec.Token(); err != nil || token != json.Delim('[') {
		return nil, model.Errorf(model.Invalid, "field resources: expected a list")
	}
	for dec.More() {
		if len(list) == maxResources {
			return nil, model.Errorf(model.TooLarge, "more than %d resources in one apply", maxResources).WithHint("apply the resources in several parts")
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, invalidJSONError(err)
		}
		list = append(list, raw)
		if len(raw) > maxResourceBytes {
			return nil, model.Errorf(model.TooLarge, "resource %d has %d bytes; the limit is %d", len(list), len(raw), maxResourceBytes).
				WithHint("move long texts to files on the nodes")
		}
	}
	if _, err = dec.Token(); err != nil {
		return nil, invalidJSONError(err)
	}
	return list, nil
}

// invalidJSONError returns the error 400 of a body that is not JSON.
func invalidJSONError(err error) error {
	return huma.Error400BadRequest("the body is not JSON: " + err.Error())
}

// validateApplyFields validates all fields of an apply except its resources against the OpenAPI schema.
func (s *resourceRequest) validateApplyFields(rest map[string]any, r *v1.ApplyRequest) error {
	registry := s.Huma.OpenAPI().Components.Schemas
	schema := registry.Schema(reflect.TypeFor[v1.ApplyRequest](), true, "ApplyRequest")
	var result huma.ValidateResult
	huma.Validate(registry, schema, huma.NewPathBuffer([]byte("body"), 4), huma.ModeWriteToServer, rest, &result)
	if len(result.Errors) > 0 {
		return huma.Error422UnprocessableEntity("validation failed", result.Errors...)
	}
	delete(rest, "resources")
	data, err := json.Marshal(rest)
	if err == nil {
		err = json.Unmarshal(data, r)
	}
	if err != nil {
		return model.Errorf(model.Invalid, "invalid fields in the apply request: %w", err).WithHint("see /api/v1/openapi.json")
	}
	return nil
}

// applyRequestBody returns the description of an apply's body for the OpenAPI document.
func applyRequestBody(registry huma.Registry) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: jsonContent(registry.Schema(reflect.TypeFor[v1.ApplyRequest](), true, "ApplyRequest"))}
}

// resourceETag returns the strong ETag of a resource. It consists of the revision, and of a number that changes when
// the server's data are restored or created anew.
func (s *resourceRequest) resourceETag(revision int64) string {
	return fmt.Sprintf(`"%016x-%d"`, s.Incarnation, revision)
}

// splitETags splits an If-Match or If-None-Match header into its entity tags (RFC 9110). Quotation marks stay, as in
// W/"x", "y". Text that is no tag is kept, and equals no ETag.
func splitETags(header string) (list []string) {
	for header != "" {
		end := 0
		for quoted := false; end < len(header) && (quoted || header[end] != ','); end++ {
			quoted = quoted != (header[end] == '"')
		}
		if tag := strings.Trim(header[:end], " \t"); tag != "" {
			list = append(list, tag)
		}
		header = header[min(end+1, len(header)):]
	}
	return list
}

// ifMatchHolds reports whether the header If-Match permits the request, because the header contains the
// resource's present ETag. A request with If-Match changes only that version. The comparison is strong: a weak
// tag never matches.
func ifMatchHolds(header, tag string) bool {
	list := splitETags(header)
	return slices.Contains(list, "*") || slices.Contains(list, tag)
}

// ifNoneMatchHolds reports whether the header If-None-Match permits the request, because the resource's ETag is
// absent from the header. A request with the header asks only for another version. The comparison is weak: W/
// is ignored.
func ifNoneMatchHolds(header, tag string) bool {
	return !slices.ContainsFunc(splitETags(header), func(t string) bool { return t == "*" || strings.TrimPrefix(t, "W/") == tag })
}

// expectedRevision returns the revision of a resource that the headers If-Match and If-None-Match demand. Revision 0
// means that the resource must not exist. conditional is false where the request has no condition.
func (s *resourceRequest) expectedRevision(ctx context.Context, key intent.Key, in ChangeInput) (revision int64, conditional bool, err error) {
	if in.IfMatch == "" && in.IfNoneMatch == "" {
		return 0, false, nil
	}
	r, err := s.Intent.Get(ctx, key)
	switch {
	case model.ClassOf(err) == model.NotFound && in.IfMatch != "":
		return 0, false, model.Errorf(model.Stale, "%s does not exist, If-Match requires %s", key, model.Shorten(in.IfMatch)).
			WithHint("omit If-Match to create the resource, or find its deletion: muster audit")
	case model.ClassOf(err) == model.NotFound:
		return 0, true, nil
	case err != nil:
		return 0, false, err
	}
	tag := s.resourceETag(r.Status.Revision)
	switch {
	case in.IfMatch != "" && !ifMatchHolds(in.IfMatch, tag):
		return 0, false, model.Errorf(model.Stale, "%s has changed: its ETag is %s, If-Match requires %s", key, tag, model.Shorten(in.IfMatch)).
			WithHint("read the resource again with GET, compare, and send the ETag of that answer")
	case in.IfMatch == "" && !ifNoneMatchHolds(in.IfNoneMatch, tag):
		return 0, false, model.Errorf(model.Stale, "%s exists: its ETag is %s, which the header If-None-Match forbids", key, tag).
			WithHint("read the resource with GET, then change it with If-Match")
	}
	return r.Status.Revision, true, nil
}
