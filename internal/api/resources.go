package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

func (s *server) resourceRoutes() {
	apply := operation("apply", http.MethodPost, "/api/v1/apply", "resources", "Make many resources so, in one transaction")
	apply.MaxBodyBytes = maxBody
	apply.RequestBody, apply.SkipValidateBody = applyRequestBody(s.api.OpenAPI().Components.Schemas), true
	apply.Middlewares = huma.Middlewares{s.applyTurn}
	handle(s, withChangeErrors(apply), access.On(access.Read, "resource"), (*server).apply)
	remove := operation("delete", http.MethodPost, "/api/v1/delete", "resources", "Take many resources away, in one transaction")
	remove.MaxBodyBytes = 8 << 20 // 10,000 names
	handle(s, withChangeErrors(withErrors(remove, model.NotFound)), access.On(access.Change, "resource"), (*server).removeMany)
	handle(s, operation("listChanges", http.MethodGet, "/api/v1/changes", "resources", "Recorded changes, newest first"), access.On(access.Read, "change"), (*server).changes)
	handle(s, operation("listKinds", http.MethodGet, "/api/v1/kinds", "resources", "The kinds of resources"), access.ByAnybody("server"), (*server).kinds)
	for _, k := range s.Kinds.Kinds() {
		s.kindRoutes(k)
	}
}

// withChangeErrors adds the errors of everything that changes resources: it meets another change,
// needs more than a limit allows, or lands on more nodes than its maker said.
func withChangeErrors(op huma.Operation) huma.Operation {
	return withErrors(op, model.Conflict, model.Limited, model.Guarded)
}

// kindRoutes registers list, get, put and delete of one kind.
func (s *server) kindRoutes(k kind.Kind) {
	read, change := access.On(access.Read, k.Name), access.On(access.Change, k.Name)
	schema := resourceSchema(s.api.OpenAPI().Components.Schemas, k)
	collection := "/api/v1/" + k.Plural
	one := collection + "/{namespace}/{name}"
	if !k.Namespaced {
		one = collection + "/{name}"
	}
	list := operation("list"+k.Name, http.MethodGet, collection, k.Plural, "List "+k.Plural)
	handle(s, list, read, func(s *server, ctx context.Context, in *listInput) (*body[v1.ResourceList], error) {
		return s.list(ctx, k, in)
	})

	get := operation("get"+k.Name, http.MethodGet, one, k.Plural, "Get one")
	get.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: jsonContent(schema)}, "304": {Description: "It still has an ETag of If-None-Match"}}
	state := operation("state"+k.Name, http.MethodGet, one+"/state", k.Plural, "Where it lands, and how its events are")
	put := withChangeErrors(operation("put"+k.Name, http.MethodPut, one, k.Plural, "Make one so"))
	put.RequestBody = &huma.RequestBody{Required: true, Content: jsonContent(schema)}
	put.MaxBodyBytes = maxResource
	put.SkipValidateBody = true // read strictly by the model, which names line and field
	remove := withChangeErrors(operation("delete"+k.Name, http.MethodDelete, one, k.Plural, "Take one away"))
	if !k.Namespaced {
		handle(s, get, read, func(s *server, ctx context.Context, in *NameGet) (*resourceOutput, error) {
			return s.get(ctx, intent.Key{Kind: k.Name, Name: in.Name}, in.IfNoneMatch)
		})
		handle(s, state, read, func(s *server, ctx context.Context, in *NamePath) (*body[v1.State], error) {
			return s.state(ctx, intent.Key{Kind: k.Name, Name: in.Name})
		})
		handle(s, put, change, func(s *server, ctx context.Context, in *struct {
			NamePath
			ChangeInput
			RawBody []byte
		}) (*putOutput, error) {
			return s.put(ctx, intent.Key{Kind: k.Name, Name: in.Name}, in.ChangeInput, in.RawBody)
		})
		handle(s, remove, change, func(s *server, ctx context.Context, in *struct {
			NamePath
			ChangeInput
		}) (*body[v1.Applied], error) {
			return s.remove(ctx, intent.Key{Kind: k.Name, Name: in.Name}, in.ChangeInput)
		})
		return
	}
	handle(s, get, read, func(s *server, ctx context.Context, in *struct {
		Namespace string `path:"namespace" maxLength:"253"`
		NameGet
	}) (*resourceOutput, error) {
		return s.get(ctx, intent.Key{Kind: k.Name, Namespace: in.Namespace, Name: in.Name}, in.IfNoneMatch)
	})
	handle(s, state, read, func(s *server, ctx context.Context, in *struct {
		Namespace string `path:"namespace" maxLength:"253"`
		NamePath
	}) (*body[v1.State], error) {
		return s.state(ctx, intent.Key{Kind: k.Name, Namespace: in.Namespace, Name: in.Name})
	})
	handle(s, put, change, func(s *server, ctx context.Context, in *struct {
		Namespace string `path:"namespace" maxLength:"253"`
		NamePath
		ChangeInput
		RawBody []byte
	}) (*putOutput, error) {
		return s.put(ctx, intent.Key{Kind: k.Name, Namespace: in.Namespace, Name: in.Name}, in.ChangeInput, in.RawBody)
	})
	handle(s, remove, change, func(s *server, ctx context.Context, in *struct {
		Namespace string `path:"namespace" maxLength:"253"`
		NamePath
		ChangeInput
	}) (*body[v1.Applied], error) {
		return s.remove(ctx, intent.Key{Kind: k.Name, Namespace: in.Namespace, Name: in.Name}, in.ChangeInput)
	})
}

// NamePath names one resource.
type NamePath struct {
	Name string `path:"name" maxLength:"253"`
}

// NameGet is NamePath with what a GET may ask besides.
type NameGet struct {
	Name        string `path:"name" maxLength:"253"`
	IfNoneMatch string `header:"If-None-Match"`
}

// ChangeInput is what goes with every change of one resource.
type ChangeInput struct {
	Message     string `query:"message" maxLength:"1000" doc:"Why; recorded with the change."`
	DryRun      bool   `query:"dryRun" doc:"Say what would happen and keep nothing."`
	MaxAffected int    `query:"maxAffected" minimum:"0" doc:"Refuse a change that lands on more nodes; 0: a fifth of all, at least 50."`
	Yes         bool   `query:"yes" doc:"Go ahead however many nodes are affected."`
	IfMatch     string `header:"If-Match" doc:"ETags, of which the resource must still have one; *: it must be there."`
	IfNoneMatch string `header:"If-None-Match" doc:"*: only if it does not exist yet; ETags: only if it has none of them."`
}

// options turns what goes with a change into those of the intent service.
func (s *server) options(ctx context.Context, key intent.Key, in ChangeInput) (intent.ApplyOptions, error) {
	o := intent.ApplyOptions{DryRun: in.DryRun, Yes: in.Yes, MaxAffected: in.MaxAffected}
	revision, conditional, err := s.expected(ctx, key, in)
	if conditional {
		o.Expect = map[intent.Key]int64{key: revision}
	}
	return o, err
}

// resourceOutput is one resource with its ETag.
type resourceOutput struct {
	ETag string `header:"ETag"`
	Body json.RawMessage
}

func (s *server) get(ctx context.Context, key intent.Key, ifNoneMatch string) (*resourceOutput, error) {
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.notThere(ctx, err, key)
	}
	tag := s.etag(r.Status.Revision)
	if !noneMatches(ifNoneMatch, tag) {
		return nil, huma.ErrorWithHeaders(huma.Status304NotModified(), http.Header{"Etag": {tag}})
	}
	data, err := json.Marshal(s.redactFor(ctx, r))
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", key, err)
	}
	return &resourceOutput{tag, data}, nil
}

func (s *server) state(ctx context.Context, key intent.Key) (*body[v1.State], error) {
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.notThere(ctx, err, key)
	}
	return &body[v1.State]{s.stateOf(r, &holdCounter{server: s})}, nil
}

type listInput struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Empty: of all."`
	State     bool   `query:"state" doc:"Say of each where it lands and how its events are, too."`
	Selector  string `query:"selector" maxLength:"4096" doc:"Labels: env=prod,tier!=db,owner,!old"`
	Where     string `query:"where" maxLength:"4096" doc:"CEL over metadata and spec; of nodes over node.name, .labels, .facts and .groups: spec.interval == \"10s\""`
	Limit     int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After     string `query:"after" maxLength:"1024" doc:"The next of the page before."`
}

func (s *server) list(ctx context.Context, k kind.Kind, in *listInput) (*body[v1.ResourceList], error) {
	q := intent.ListQuery{Kind: k.Name, Limit: in.Limit}
	if k.Namespaced {
		q.Namespace = in.Namespace
	}
	if in.After != "" {
		text, err := s.after(in.After)
		if err != nil {
			return nil, err
		}
		namespace, name, ok := strings.Cut(text, "/")
		if !ok {
			return nil, noToken()
		}
		q.After = intent.Key{Kind: k.Name, Namespace: namespace, Name: name}
	}
	selector, err := directory.ParseSelector(in.Selector)
	if err != nil {
		return nil, err
	}
	var match func(*model.Resource) bool
	if in.Selector != "" {
		match = func(r *model.Resource) bool { return selector.Matches(s.labelsOf(r)) }
	}
	if in.Where != "" {
		picks, err := s.picks(ctx, k, in.Where)
		if err != nil {
			return nil, err
		}
		labelled := match
		match = func(r *model.Resource) bool { return (labelled == nil || labelled(r)) && picks(r) }
	}
	items, more, err := s.Intent.Page(ctx, q, match)
	if err != nil {
		return nil, err
	}
	var out v1.ResourceList
	if more {
		last := intent.KeyOf(&items[len(items)-1])
		out.Next = s.next(last.Namespace + "/" + last.Name)
	}
	out.Items = make([]json.RawMessage, len(items))
	held := &holdCounter{server: s}
	for i := range items {
		if out.Items[i], err = json.Marshal(s.redactFor(ctx, &items[i])); err != nil {
			return nil, fmt.Errorf("encode %s: %w", intent.KeyOf(&items[i]), err)
		}
		if in.State {
			out.States = append(out.States, s.stateOf(&items[i], held))
		}
	}
	return &body[v1.ResourceList]{out}, nil
}

// labelsOf are the labels a selector sees: of a node, those of all its owners.
func (s *server) labelsOf(r *model.Resource) map[string]string {
	if r.Kind == "Node" && r.Status != nil {
		return s.Directory.NodeLabels(model.NodeID(r.Status.ID))
	}
	return r.Metadata.Labels
}

func (s *server) kinds(context.Context, *none) (*body[[]v1.Kind], error) {
	var out []v1.Kind
	for _, k := range s.Kinds.Kinds() {
		out = append(out, v1.Kind{Kind: k.Name, Plural: k.Plural, Short: k.Short, Namespaced: k.Namespaced})
	}
	return &body[[]v1.Kind]{out}, nil
}
