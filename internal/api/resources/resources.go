// Package resources answers about declared resources of every kind: list, get, put, delete, apply of many, their
// state, recorded changes, and archives of Assets. The operations of a kind follow from the kind registry.
//
// A limiter bounds the number of concurrent applies, because the body of one may have 32 MiB.
//
// Start reading at Register.
package resources

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"github.com/danielgtaylor/huma/v2"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/notification"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
)

// resourceSchema returns the OpenAPI schema of a resource of one kind.
func resourceSchema(r huma.Registry, k kind.Kind) *huma.Schema {
	return &huma.Schema{
		Type:     "object",
		Required: []string{"kind", "metadata"},
		Properties: map[string]*huma.Schema{
			"apiVersion": {Type: "string", Enum: []any{model.APIVersion}},
			"kind":       {Type: "string", Enum: []any{k.Name}},
			"metadata":   r.Schema(reflect.TypeFor[model.Metadata](), true, "Metadata"),
			"spec":       r.Schema(reflect.TypeOf(k.New()).Elem(), true, k.Name+"Spec"),
			"status":     r.Schema(reflect.TypeFor[model.ResourceStatus](), true, "Stored"),
		},
	}
}

// jsonContent describes a JSON body of a given schema for the OpenAPI document.
func jsonContent(schema *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/json": {Schema: schema}}
}

// maxApplyBodyBytes bounds the body of an apply, in bytes.
const maxApplyBodyBytes = 32 << 20

// registerResources registers the operations apply, delete, list of kinds, and audit log.
func registerResources(at resourceOperations, limiters applyLimiters) {
	apply := op.Post("apply", "/api/v1/apply", "resources", "Create or change many resources in one transaction")
	apply.MaxBodyBytes = maxApplyBodyBytes
	apply.RequestBody, apply.SkipValidateBody = applyRequestBody(at.Huma.OpenAPI().Components.Schemas), true
	apply.Middlewares = huma.Middlewares{limiters.awaitBody}
	op.Handle(at, op.AddChangeErrors(apply), access.NeedOn(access.Read, "resource"), (*resourceRequest).applyResources)
	remove := op.Post("delete", "/api/v1/delete", "resources", "Delete many resources in one transaction", model.NotFound)
	remove.MaxBodyBytes = 4 << 20 // 10,000 names
	op.Handle(at, op.AddChangeErrors(remove), access.NeedOn(access.Change, "resource"), (*resourceRequest).deleteResources)
	op.Handle(at, op.Get("listChanges", "/api/v1/changes", "resources", "List recorded changes, newest first"), access.NeedOn(access.Read, "change"), (*resourceRequest).listChanges)
	op.Handle(at, op.Get("listKinds", "/api/v1/kinds", "resources", "List the kinds of resources"), access.NeedAnybody("server"), (*resourceRequest).listKinds)
	for _, k := range at.View().Kinds.Kinds() {
		registerKind(at, k)
	}
}

// registerKind registers the API operations list, get, put and delete for one kind of resource
func registerKind(at resourceOperations, k kind.Kind) {
	read, change := access.NeedOn(access.Read, k.Name), access.NeedOn(access.Change, k.Name)
	schema := resourceSchema(at.Huma.OpenAPI().Components.Schemas, k)
	collection := "/api/v1/" + k.Plural
	one := collection + "/{namespace}/{name}"
	if !k.Namespaced {
		one = collection + "/{name}"
	}
	list := op.Get("list"+k.Name, collection, k.Plural, "List "+k.Plural)
	op.Handle(at, list, read, func(s *resourceRequest, ctx context.Context, in *listInput) (*op.Body[v1.ResourceList], error) {
		return s.listResources(ctx, k, in)
	})

	get := op.Get("get"+k.Name, one, k.Plural, "Get one")
	get.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: jsonContent(schema)}, "304": {Description: "The resource still has an ETag of If-None-Match"}}
	state := op.Get("state"+k.Name, one+"/state", k.Plural, "Get a resource's nodes, events and use")
	put := op.AddChangeErrors(op.Put("put"+k.Name, one, k.Plural, "Create or replace a resource"))
	put.RequestBody = &huma.RequestBody{Required: true, Content: jsonContent(schema)}
	put.MaxBodyBytes = maxResourceBytes
	put.SkipValidateBody = true // the kind's decoder is strict, and its errors name line and field
	remove := op.AddChangeErrors(op.Delete("delete"+k.Name, one, k.Plural, "Delete a resource"))
	if !k.Namespaced {
		op.Handle(at, get, read, func(s *resourceRequest, ctx context.Context, in *NameGet) (*resourceOutput, error) {
			return s.getResource(ctx, intent.Key{Kind: k.Name, Name: in.Name}, in.IfNoneMatch)
		})
		op.Handle(at, state, read, func(s *resourceRequest, ctx context.Context, in *NamePath) (*op.Body[v1.State], error) {
			return s.getResourceState(ctx, intent.Key{Kind: k.Name, Name: in.Name})
		})
		op.Handle(at, put, change, func(s *resourceRequest, ctx context.Context, in *struct {
			NamePath
			ChangeInput
			RawBody []byte
		}) (*putOutput, error) {
			return s.putResource(ctx, intent.Key{Kind: k.Name, Name: in.Name}, in.ChangeInput, in.RawBody)
		})
		op.Handle(at, remove, change, func(s *resourceRequest, ctx context.Context, in *struct {
			NamePath
			ChangeInput
		}) (*op.Body[v1.Applied], error) {
			return s.deleteResource(ctx, intent.Key{Kind: k.Name, Name: in.Name}, in.ChangeInput)
		})
		return
	}
	op.Handle(at, get, read, func(s *resourceRequest, ctx context.Context, in *struct {
		Namespace string `path:"namespace" maxLength:"253"`
		NameGet
	}) (*resourceOutput, error) {
		return s.getResource(ctx, intent.Key{Kind: k.Name, Namespace: in.Namespace, Name: in.Name}, in.IfNoneMatch)
	})
	op.Handle(at, state, read, func(s *resourceRequest, ctx context.Context, in *struct {
		Namespace string `path:"namespace" maxLength:"253"`
		NamePath
	}) (*op.Body[v1.State], error) {
		return s.getResourceState(ctx, intent.Key{Kind: k.Name, Namespace: in.Namespace, Name: in.Name})
	})
	op.Handle(at, put, change, func(s *resourceRequest, ctx context.Context, in *struct {
		Namespace string `path:"namespace" maxLength:"253"`
		NamePath
		ChangeInput
		RawBody []byte
	}) (*putOutput, error) {
		return s.putResource(ctx, intent.Key{Kind: k.Name, Namespace: in.Namespace, Name: in.Name}, in.ChangeInput, in.RawBody)
	})
	op.Handle(at, remove, change, func(s *resourceRequest, ctx context.Context, in *struct {
		Namespace string `path:"namespace" maxLength:"253"`
		NamePath
		ChangeInput
	}) (*op.Body[v1.Applied], error) {
		return s.deleteResource(ctx, intent.Key{Kind: k.Name, Namespace: in.Namespace, Name: in.Name}, in.ChangeInput)
	})
}

// NamePath has the URL path parameter name of a cluster-wide resource, a resource without a namespace.
type NamePath struct {
	Name string `path:"name" maxLength:"253"`
}

// NameGet has the parameters of a request to read one cluster-wide resource, a resource without a namespace.
type NameGet struct {
	Name        string `path:"name" maxLength:"253"`
	IfNoneMatch string `header:"If-None-Match"`
}

// ChangeInput has the parameters that every change of one resource accepts.
type ChangeInput struct {
	v1.ChangeOptions
	IfMatch     string `header:"If-Match" doc:"ETags, one of which the resource must have; *: the resource must exist."`
	IfNoneMatch string `header:"If-None-Match" doc:"*: the resource must not exist; ETags: the resource must have none of them."`
}

// ApplyOptions converts the options of a change request to the options of intent, the database of declared
// resources.
func ApplyOptions(in v1.ChangeOptions) intent.ApplyOptions {
	return intent.ApplyOptions{DryRun: in.DryRun, Yes: in.Yes, MaxAffected: in.MaxAffected}
}

// changeOptions returns the options of a change of one resource, with the revision that the request expects.
func (s *resourceRequest) changeOptions(ctx context.Context, key intent.Key, in ChangeInput) (intent.ApplyOptions, error) {
	o := ApplyOptions(in.ChangeOptions)
	revision, conditional, err := s.expectedRevision(ctx, key, in)
	if conditional {
		o.Expect = map[intent.Key]int64{key: revision}
	}
	return o, err
}

// resourceOutput is the answer to a GET of one resource, with its ETag.
type resourceOutput struct {
	ETag string `header:"ETag"`
	Body json.RawMessage
}

// getResource returns one resource with its ETag. If the caller already has the revision, the answer is 304.
func (s *resourceRequest) getResource(ctx context.Context, key intent.Key, ifNoneMatch string) (*resourceOutput, error) {
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.ExplainNotFound(ctx, err, key)
	}
	tag := s.resourceETag(r.Status.Revision)
	if !ifNoneMatchHolds(ifNoneMatch, tag) {
		return nil, huma.ErrorWithHeaders(huma.Status304NotModified(), http.Header{"Etag": {tag}})
	}
	data, err := json.Marshal(s.RedactForCaller(ctx, r))
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", key, err)
	}
	return &resourceOutput{tag, data}, nil
}

// getResourceState returns the nodes, events and limits that belong to a resource
func (s *resourceRequest) getResourceState(ctx context.Context, key intent.Key) (*op.Body[v1.State], error) {
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.ExplainNotFound(ctx, err, key)
	}
	out := s.resourceState(r, notification.NewHoldCounter(s.View))
	if key.Kind == "Handler" {
		list, err := s.UnsentMessages(ctx)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(list, func(u v1.Unsent) bool { return u.Namespace == key.Namespace && u.Handler == key.Name }); i >= 0 {
			out.Unsent = &list[i]
		}
	}
	return op.Answer(out), nil
}

// listInput has the query parameters of a list of resources.
type listInput struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Namespace of the resources; empty: all."`
	State     bool   `query:"state" doc:"Add to each resource its nodes, events and use."`
	Selector  string `query:"selector" maxLength:"4096" doc:"Labels: env=prod,tier!=db,owner,!old"`
	Where     string `query:"where" maxLength:"4096" doc:"CEL over metadata and spec, for nodes over node.name, .labels, .facts and .groups: spec.interval == \"10s\""`
	Limit     int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After     string `query:"after" maxLength:"1024" doc:"The field next of the page before."`
}

// listResources returns a page of resources of one kind.
func (s *resourceRequest) listResources(ctx context.Context, k kind.Kind, in *listInput) (*op.Body[v1.ResourceList], error) {
	q := intent.ListQuery{Kind: k.Name, Limit: in.Limit}
	if k.Namespaced {
		q.Namespace = in.Namespace
	}
	if in.After != "" {
		text, err := s.ParsePageToken(in.After)
		if err != nil {
			return nil, err
		}
		namespace, name, ok := strings.Cut(text, "/")
		if !ok {
			return nil, view.BadPageTokenError()
		}
		q.After = intent.Key{Kind: k.Name, Namespace: namespace, Name: name}
	}
	selector, err := directory.ParseSelector(in.Selector)
	if err != nil {
		return nil, err
	}
	var match func(*model.Resource) bool
	if in.Selector != "" {
		match = func(r *model.Resource) bool { return selector.Matches(s.selectableLabels(r)) }
	}
	reading := ctx
	if in.Where != "" {
		limited, cancel := list.LimitConditionTime(ctx)
		defer cancel()
		matches, err := s.conditionMatcher(limited, k, in.Where)
		if err != nil {
			return nil, err
		}
		labelled := match
		match = func(r *model.Resource) bool { return (labelled == nil || labelled(r)) && matches(r) }
		reading = limited
	}
	items, more, err := s.Intent.Page(reading, q, match)
	if reading.Err() != nil {
		return nil, context.Cause(reading)
	}
	if err != nil {
		return nil, err
	}
	var out v1.ResourceList
	if more {
		last := intent.KeyOf(&items[len(items)-1])
		out.Next = s.NewPageToken(last.Namespace + "/" + last.Name)
	}
	out.Items = make([]json.RawMessage, len(items))
	held := notification.NewHoldCounter(s.View)
	for i := range items {
		if out.Items[i], err = json.Marshal(s.RedactForCaller(ctx, &items[i])); err != nil {
			return nil, fmt.Errorf("encode %s: %w", intent.KeyOf(&items[i]), err)
		}
		if in.State {
			out.States = append(out.States, s.resourceState(&items[i], held))
		}
	}
	return op.Answer(out), nil
}

// selectableLabels returns the labels of a resource for label selectors, for nodes with the labels from agents.
func (s *resourceRequest) selectableLabels(r *model.Resource) map[string]string {
	if r.Kind == "Node" && r.Status != nil {
		return s.Directory.NodeLabels(model.NodeID(r.Status.ID))
	}
	return r.Metadata.Labels
}

// listKinds returns all kinds of resources.
func (s *resourceRequest) listKinds(context.Context, *op.NoParameters) (*op.Body[[]v1.Kind], error) {
	var out []v1.Kind
	for _, k := range s.Kinds.Kinds() {
		out = append(out, v1.Kind{Kind: k.Name, Plural: k.Plural, Short: k.Short, Namespaced: k.Namespaced})
	}
	return op.Answer(out), nil
}

// Archives stores the archives of Assets (programs that checks and handlers use) on the server.
type Archives interface {
	// Put stores the bytes of r if sum is their SHA-512. They are durable when it returns.
	Put(sum [64]byte, r io.Reader) (size int64, err error)
	State(sum [64]byte) v1.Archive
}

// Options has the parts of the server that the operations on declared resources use.
type Options struct {
	Archives Archives // nil: none
	// ChangeRouting runs a change that may change routes, and returns the open problems that it concerns; nil: no dispatcher
	// runs. See dispatch.Dispatcher.ChangeRouting.
	ChangeRouting func(ctx context.Context, c dispatch.RoutingChange, change func() (*dispatch.ReceiverEdits, error)) (taken []dispatch.AffectedProblems, late bool, err error)
	// PreviewRouting is dispatch.Dispatcher.PreviewRouting; nil where ChangeRouting is.
	PreviewRouting func(ctx context.Context, c dispatch.RoutingChange, edits *dispatch.ReceiverEdits) (taken []dispatch.AffectedProblems, late bool)
}

// resourceRequest handles an HTTP request about declared resources. Its methods are the operations of the API.
type resourceRequest struct {
	op.Request
	Options
	applyLimiters
	uploads *queue.Slots
}

// resourceOperations is the set of operations about resources.
type resourceOperations = op.OperationSet[*resourceRequest]

// Register adds the API operations about declared resources and archives to the server.
func Register(r *op.Routes, o Options) {
	tooMany := model.Errorf(model.Unavailable, "too many requests to change resources wait on the server").WithHint("try again in a moment")
	uploads, limiters := queue.NewSlots(r.Queues, "uploads"), applyLimiters{op.NewRequestLimiter(r, "applies", "apply_queue", tooMany), op.NewRequestLimiter(r, "previews", "preview_queue", tooMany)}
	at := op.NewOperationSet(r, func(q op.Request) *resourceRequest { return &resourceRequest{q, o, limiters, uploads} })
	registerResources(at, limiters)
	if o.Archives != nil {
		registerArchives(at)
	}
}

// resourceConditions is the language of conditions over declared resources: metadata and spec as they
// are shown. Durations are texts, and 60s is 1m: duration(spec.interval) > duration("60s").
var resourceConditions = where.Language{
	Of: "resource", MaxCost: 1_000_000, WithoutNode: true,
	Reads:   "metadata and spec, as muster get -o yaml shows them",
	Example: `spec.interval == "10s" && metadata.labels.team == "web"`,
	Options: func() []cel.EnvOption {
		fields := cel.MapType(cel.StringType, cel.DynType)
		return []cel.EnvOption{cel.Variable("metadata", fields), cel.Variable("spec", fields)}
	},
}

// conditionMatcher compiles a CEL condition to a function that reports whether a resource matches. A condition over
// nodes reads labels, facts and groups. Any other reads the resource as the caller may see it, or it would reveal
// hidden secrets bit by bit. A missing field makes the condition false; has(spec.ttl) asks whether a field exists.
// The function serves one request and is not safe for concurrent use. It reports false after the end of ctx.
func (s *resourceRequest) conditionMatcher(ctx context.Context, k kind.Kind, expr string) (func(*model.Resource) bool, error) {
	if k.Name == "Node" {
		c, err := where.CompileSearch(expr)
		if err != nil {
			return nil, err
		}
		match := list.NodeMatcher(ctx, s.View, c)
		return func(r *model.Resource) bool {
			if r.Status == nil {
				return false
			}
			matches, _ := match(model.NodeID(r.Status.ID))
			return matches
		}, nil
	}
	c, err := resourceConditions.Compile(expr)
	if err != nil {
		return nil, err
	}
	return func(r *model.Resource) bool {
		if ctx.Err() != nil {
			return false
		}
		text, err := json.Marshal(s.RedactForCaller(ctx, r))
		if err != nil {
			return false
		}
		var shown struct {
			Metadata map[string]any `json:"metadata"`
			Spec     map[string]any `json:"spec"`
		}
		if json.Unmarshal(text, &shown) != nil {
			return false
		}
		out, _, err := c.Program.ContextEval(ctx, map[string]any{"metadata": shown.Metadata, "spec": shown.Spec})
		return err == nil && out == types.True
	}, nil
}

// addRoutingState records, in the state of a silence or maintenance window, whether the resource is active now.
// It also adds the number of problems whose notifications are stopped.
func (s *resourceRequest) addRoutingState(out *v1.State, r *model.Resource, held *notification.HoldCounter) {
	name, now := route.Name{Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}, s.Now()
	switch spec := r.Spec.(type) {
	case *model.SilenceSpec:
		if out.InForce = notification.SilenceActive(spec, now); out.InForce {
			out.Ends, out.Holds = spec.Until.Time, held.Count(name)
		}
	case *model.WindowSpec:
		if at, ok := s.Routing.Window(name, now); ok {
			if out.InForce, out.NextStart, out.Ends = at.InSpan, at.NextStart, at.Ends; at.InSpan && spec.Maintenance != nil {
				out.Holds = held.Count(name)
			}
		}
	}
}

// resourceState returns the state of a declared resource, with its nodes, its events and the use of limits.
func (s *resourceRequest) resourceState(r *model.Resource, held *notification.HoldCounter) v1.State {
	key := intent.KeyOf(r)
	l := s.Directory.Placement(key)
	out := v1.State{Nodes: l.Nodes, Checks: l.Checks}
	out.Note, _ = effectOf(s.View, r, l, false)
	if k, _ := s.Kinds.Lookup(key.Kind); k.Users {
		out.UsedBy = l.UsedBy("")
	}
	if key.Kind == "Check" && r.Status != nil {
		c := s.Events.CountsOf(model.CheckID(r.Status.ID))
		by := v1.ByStatusOf(c.ByStatus)
		out.Events, out.Problems = &by, c.Problems
	}
	s.addRoutingState(&out, r, held)
	if key.Kind == "Namespace" {
		out.Limits = s.Limits(key.Name)
		if i := slices.IndexFunc(out.Limits, func(l v1.LimitUse) bool { return l.Name == "statesPerNode" }); i >= 0 {
			largest := uint64(0)
			for _, node := range s.Events.Summaries(s.Directory.Nodes(key.Name)) {
				largest = max(largest, node.CountedStates())
			}
			out.Limits[i].Used = &largest
		}
	}
	if key.Kind == "Handler" {
		if stream, ok := s.Stream(route.Name{Namespace: key.Namespace, Name: key.Name}); ok {
			out.Stream = &stream
		}
	}
	return out
}

// changesInput has the query parameters of the audit log.
type changesInput struct {
	Kind      string `query:"kind" maxLength:"253"`
	Namespace string `query:"namespace" maxLength:"253"`
	Name      string `query:"name" maxLength:"253"`
	list.Where
	Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	After string `query:"after" maxLength:"64" doc:"The field next of the page before."`
}

// listChanges returns a page of the audit log, newest first.
func (s *resourceRequest) listChanges(ctx context.Context, in *changesInput) (*op.Body[v1.ChangeList], error) {
	filter, err := list.NewRowFilter(ctx, s.View, in.Where)
	if err != nil {
		return nil, err
	}
	q := intent.ChangeQuery{Kind: in.Kind, Namespace: in.Namespace, Name: in.Name, Bodies: true}
	if k, ok := s.Kinds.Lookup(in.Kind); ok {
		q.Kind = k.Name
	}
	items, next, err := list.ReadPage(s.View, list.PagedRows[intent.AuditEntry]{
		Limit: in.Limit, After: in.After, Filter: filter,
		Read: func(behind list.Cursor, size int) ([]intent.AuditEntry, error) {
			part, err := behind.IntID()
			if err != nil {
				return nil, err
			}
			q.Revision, q.Part, q.Limit = behind.Number, int(part), size
			return s.Intent.Audit(ctx, q, !access.MayChange(ctx, in.Namespace))
		},
		Cursor: func(e *intent.AuditEntry) list.Cursor {
			return list.Cursor{Number: e.Revision, ID: strconv.Itoa(e.Part)}
		},
	}, func(e *intent.AuditEntry) (model.NodeID, v1.Change) { return 0, ShowChange(e) })
	return op.Answer(v1.ChangeList{Items: items, Next: next}), err
}

// ShowChange converts an audit record to the API type Change
func ShowChange(e *intent.AuditEntry) v1.Change {
	return v1.Change{
		Revision: e.Revision, At: e.At, User: e.Actor.User, Address: e.Actor.Address, Message: e.Actor.Message, Owner: e.Actor.Owner,
		Kind: e.Key.Kind, Namespace: e.Key.Namespace, Name: e.Key.Name, Op: e.Op, Was: e.Was, Diff: e.Diff,
	}
}

// uploadTimeout is the time that the upload of an archive may take.
const uploadTimeout = 15 * time.Minute

// registerArchives registers the operations about archives of Assets.
func registerArchives(at resourceOperations) {
	op.Handle(at, op.Get("getArchive", "/api/v1/archives/{sha512}", "resources", "Get the state of an Asset's archive on the server"), access.NeedOn(access.Read, "Asset"), (*resourceRequest).getArchive)
	// The body is streamed to the disk, which huma cannot do. The OpenAPI document describes the operation nevertheless.
	put := op.Put("putArchive", "/api/v1/archives/{sha512}", "resources", "Upload an archive; an Asset must name it within an hour")
	put.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}
	put.Parameters = []*huma.Param{{Name: "sha512", In: "path", Required: true, Schema: &huma.Schema{Type: "string"}}}
	put.Responses = map[string]*huma.Response{"204": {Description: "The archive is stored and on disk."}}
	op.HandleRaw(at, put, access.NeedOn(access.Change, "Asset"), (*resourceRequest).putArchive)
}

// getArchiveInput has the URL path parameter of an Asset's archive, the SHA-512 of the file.
type getArchiveInput struct {
	SHA512 string `path:"sha512" maxLength:"128"`
}

// getArchive returns the state of an Asset's archive on the server.
func (s *resourceRequest) getArchive(_ context.Context, in *getArchiveInput) (*op.Body[v1.Archive], error) {
	sum, err := model.ParseAssetSum(in.SHA512)
	if err != nil {
		return nil, err
	}
	return op.Answer(s.Archives.State(sum)), nil
}

// putArchive stores the uploaded archive of an Asset.
func (s *resourceRequest) putArchive(w http.ResponseWriter, r *http.Request) error {
	sum, err := model.ParseAssetSum(r.PathValue("sha512"))
	if err != nil {
		return err
	}
	if s.uploads.Enter(r.Context()) != nil {
		return op.RequestLimitError()
	}
	defer s.uploads.Leave()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(uploadTimeout)) // the network's clock is the real one
	_ = control.SetWriteDeadline(time.Now().Add(uploadTimeout + time.Minute))
	size, err := s.Archives.Put(sum, r.Body)
	if err != nil {
		return err
	}
	c := access.CallerOf(r.Context())
	s.Logger.Info("archive of an asset uploaded", "user", c.User, "from", c.Address, "sha512", r.PathValue("sha512")[:12], "bytes", size)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
