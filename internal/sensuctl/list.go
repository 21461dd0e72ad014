package sensuctl

import (
	"context"
	"net/http"
	"strconv"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// pageSize is the largest number of items in one answer; sensuctl asks for the next page by itself.
const pageSize = 1000

// readPage returns the limit and the page token of a request.
func readPage(r *request) (limit int, after string) {
	limit, _ = strconv.Atoi(r.URL.Query().Get("limit"))
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	return limit, r.URL.Query().Get("continue")
}

// get reads one resource.
func (r *request) get(ctx context.Context, kind, namespace, name string) (*model.Resource, error) {
	k, _ := r.kinds.Of(kind)
	if name == "" || k.Namespaced && namespace == "" {
		return nil, model.Errorf(model.NotFound, "the path has no valid name of a %s", kind)
	}
	if !k.Namespaced {
		namespace = ""
	}
	data, _, err := r.muster.Resources.Get(ctx, k.KindInfo, namespace, name)
	if err != nil {
		return nil, err
	}
	return r.kinds.DecodeResource(data)
}

// find is get with nil for a resource that does not exist.
func (r *request) find(ctx context.Context, kind, namespace, name string) (*model.Resource, error) {
	m, err := r.get(ctx, kind, namespace, name)
	if err != nil && model.ClassOf(err) == model.NotFound {
		return nil, nil
	}
	return m, err
}

// page reads one page of the resources of a kind.
func (r *request) page(ctx context.Context, kind string, limit int, after string) (list []*model.Resource, next string, err error) {
	k, _ := r.kinds.Of(kind)
	namespace := r.namespace
	if !k.Namespaced {
		namespace = ""
	}
	got, err := r.muster.Resources.List(ctx, k.KindInfo, namespace, v1.ResourceFilter{}, false, limit, after)
	if err != nil {
		return nil, "", err
	}
	for _, item := range got.Items {
		m, err := r.kinds.DecodeResource(item)
		if err != nil {
			return nil, "", err
		}
		list = append(list, m)
	}
	return list, got.Next, nil
}

// all reads all resources of a kind.
func (r *request) all(ctx context.Context, kind string) (list []*model.Resource, err error) {
	for after := ""; ; {
		page, next, err := r.page(ctx, kind, pageSize, after)
		if list = append(list, page...); err != nil || next == "" {
			return list, err
		}
		after = next
	}
}

// list answers with a page of the resources of a type that have a form in Sensu and match the selectors.
func (s *Server) list(ctx context.Context, r *request) (answer, error) {
	limit, after := readPage(r)
	items, next, err := r.page(ctx, types[r.kind].kind, limit, after)
	if err != nil {
		return answer{}, err
	}
	v := newView(ctx, r)
	forms := make([]object, 0, len(items))
	for _, m := range items {
		o, err := types[r.kind].form(v, m)
		if err != nil {
			return answer{}, err
		}
		forms = append(forms, o)
	}
	return selectForms(ctx, r, forms, next)
}

// selectForms answers with those objects that match the selectors of a request; nil objects have no form in Sensu. An
// empty list is an error if the namespace does not exist.
func selectForms(ctx context.Context, r *request, forms []object, next string) (answer, error) {
	chosen, err := parseSelectors(r.URL.Query(), r.kind)
	if err != nil {
		return answer{}, err
	}
	out := []object{}
	for _, o := range forms {
		if o != nil && chosen.match(r.kind, o) {
			out = append(out, o)
		}
	}
	if len(forms) == 0 && r.namespace != "" {
		_, err = r.get(ctx, "Namespace", "", r.namespace)
	}
	return answer{http.StatusOK, out, next}, err
}

// one answers with one resource.
func (s *Server) one(ctx context.Context, r *request) (answer, error) {
	m, err := r.get(ctx, types[r.kind].kind, r.namespace, r.name(0))
	if err != nil {
		return answer{}, err
	}
	o, err := types[r.kind].form(newView(ctx, r), m)
	if err == nil && o == nil {
		err = noOperation(r)
	}
	return answer{http.StatusOK, o, ""}, err
}
