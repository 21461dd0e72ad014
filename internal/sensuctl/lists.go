package sensuctl

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// pageSize is how many items an answer has at most; sensuctl asks for what follows by itself.
const pageSize = 1000

// page reads limit and continue.
func page(r *request) (limit int, after string) {
	limit, _ = strconv.Atoi(r.URL.Query().Get("limit"))
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	return limit, r.URL.Query().Get("continue")
}

// resource reads one.
func resource(ctx context.Context, r *request, kind, namespace, name string) (*model.Resource, error) {
	k, _ := model.KindOf(kind)
	if name == "" || k.Namespaced && namespace == "" {
		return nil, model.Errorf(model.NotFound, "this names no %s", kind)
	}
	data, _, err := r.muster.Get(ctx, k, namespace, name)
	if err != nil {
		return nil, err
	}
	return parseResource(data)
}

func parseResource(data json.RawMessage) (*model.Resource, error) {
	var m model.Resource
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("read a resource: %w", err)
	}
	return &m, nil
}

// resources reads one page.
func resources(ctx context.Context, r *request, kind string, limit int, after string) (list []*model.Resource, next string, err error) {
	k, _ := model.KindOf(kind)
	namespace := r.namespace
	if !k.Namespaced {
		namespace = ""
	}
	got, err := r.muster.List(ctx, k, namespace, v1.ResourceFilter{}, false, limit, after)
	if err != nil {
		return nil, "", err
	}
	for _, item := range got.Items {
		m, err := parseResource(item)
		if err != nil {
			return nil, "", err
		}
		list = append(list, m)
	}
	return list, got.Next, nil
}

// list answers with a page of one kind, each written by form; nil leaves one out.
func (s *Server) list(ctx context.Context, r *request, kind string, form func(*model.Resource) object) (answer, error) {
	chosen, err := parseSelectors(r.URL.Query(), r.kind)
	if err != nil {
		return answer{}, err
	}
	limit, after := page(r)
	items, next, err := resources(ctx, r, kind, limit, after)
	if err != nil {
		return answer{}, err
	}
	out := []object{}
	for _, m := range items {
		if o := form(m); o != nil && chosen.take(r.kind, o) {
			out = append(out, o)
		}
	}
	if err := s.namespaceIsThere(ctx, r, len(items)); err != nil {
		return answer{}, err
	}
	return answer{http.StatusOK, out, next}, nil
}

// namespaceIsThere tells a namespace that is empty from one that is not there.
func (s *Server) namespaceIsThere(ctx context.Context, r *request, items int) error {
	if items > 0 || r.namespace == "" {
		return nil
	}
	_, err := resource(ctx, r, "Namespace", "", r.namespace)
	return err
}
