package sensuctl

import (
	"strconv"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// maxStates bounds the nodes in a list for which the last contact and the effective groups are read. Further nodes show
// declared values.
const maxStates = 1000

// nodeState returns the measured state of a node, such as its last heartbeat, or nil if unknown. It returns nil
// if the node is unknown, or the request reads declared values only.
func (r *request) nodeState(namespace, name string) (*v1.NodeState, error) {
	if r.declaredOnly {
		return nil, nil
	}
	if r.nodeStates == nil {
		filter := v1.NodeFilter{Namespace: r.namespace, Limit: maxStates}
		if r.kind == "events" || len(r.names) > 0 {
			filter.Name = r.name(0)
		}
		list, err := r.muster.Nodes.States(r.Context(), filter)
		if err != nil && model.ClassOf(err) != model.NotFound {
			return nil, err
		}
		r.nodeStates = map[v1.Ref]*v1.NodeState{}
		for i := range list.Items {
			n := &list.Items[i]
			r.nodeStates[v1.Ref{Kind: "Node", Namespace: n.Namespace, Name: n.Name}] = n
		}
	}
	return r.nodeStates[v1.Ref{Kind: "Node", Namespace: namespace, Name: name}], nil
}

// metadataForm converts the metadata of a resource to Sensu's JSON format. name is the resource's name in Sensu;
// empty: the same name.
func metadataForm(m *model.Resource, name string) object {
	out := object{"name": name, "namespace": m.Metadata.Namespace}
	if len(m.Metadata.Labels) > 0 {
		out["labels"] = m.Metadata.Labels
	}
	if len(m.Metadata.Annotations) > 0 {
		out["annotations"] = m.Metadata.Annotations
	}
	return out
}

// sensuName returns the name that a Muster resource has in Sensu. It is the display name if the import derived the
// Muster name from it, else the Muster name.
func sensuName(m *model.Resource) string {
	return originalName(m.Metadata.Name, m.Metadata.DisplayName)
}

// originalName returns the name in Sensu from which the import made the resource's Muster name. Otherwise it returns
// the Muster name.
func originalName(name, original string) string {
	if model.CleanName(original) == name {
		return original
	}
	return name
}

// pageSize is the largest number of items in one answer; sensuctl asks for the next page by itself.
const pageSize = 1000

// pageLimits returns the page size of a list request, and the token where the requested page starts.
func pageLimits(r *request) (limit int, after string) {
	limit, _ = strconv.Atoi(r.URL.Query().Get("limit"))
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	return limit, r.URL.Query().Get("continue")
}

// readResource reads one resource from Muster's API. A missing resource is an error.
func (r *request) readResource(kind, namespace, name string) (*model.Resource, error) {
	k, _ := r.server.kinds.Lookup(kind)
	if name == "" || k.Namespaced && namespace == "" {
		return nil, model.Errorf(model.NotFound, "the path does not contain a valid name of a %s", kind)
	}
	if !k.Namespaced {
		namespace = ""
	}
	data, _, err := r.muster.Resources.Get(r.Context(), k.KindInfo, namespace, name)
	if err != nil {
		return nil, err
	}
	return r.server.kinds.DecodeResource(data)
}

// findResource returns a resource, or nil if the resource does not exist. The request keeps each answer until
// clearCache.
func (r *request) findResource(kind, namespace, name string) (*model.Resource, error) {
	k := v1.Ref{Kind: kind, Namespace: namespace, Name: name}
	if m, ok := r.resources[k]; ok {
		return m, nil
	}
	m, err := r.readResource(kind, namespace, name)
	if err != nil && model.ClassOf(err) != model.NotFound {
		return nil, err
	}
	r.resources[k] = m
	return m, nil
}

// clearCache drops the resources and node states in the request's cache, so that later reads are fresh. A write
// may have changed the stored values.
func (r *request) clearCache() {
	clear(r.resources)
	r.nodeStates = nil
}

// readPage reads one page of the declared resources of a kind through Muster's API.
func (r *request) readPage(kind string, limit int, after string) (list []*model.Resource, next string, err error) {
	k, _ := r.server.kinds.Lookup(kind)
	namespace := r.namespace
	if !k.Namespaced {
		namespace = ""
	}
	got, err := r.muster.Resources.List(r.Context(), k.KindInfo, namespace, v1.ResourceFilter{}, false, limit, after)
	if err != nil {
		return nil, "", err
	}
	for _, item := range got.Items {
		m, err := r.server.kinds.DecodeResource(item)
		if err != nil {
			return nil, "", err
		}
		list = append(list, m)
	}
	return list, got.Next, nil
}

// readAll reads all declared resources of a kind through Muster's API.
func (r *request) readAll(kind string) (list []*model.Resource, err error) {
	for after := ""; ; {
		page, next, err := r.readPage(kind, pageSize, after)
		if list = append(list, page...); err != nil || next == "" {
			return list, err
		}
		after = next
	}
}

// listResources answers sensuctl's list request with one page of resources in Sensu's format. It leaves out
// resources that Sensu cannot show or that the selectors do not match.
func (r *request) listResources() (answer, error) {
	limit, after := pageLimits(r)
	items, next, err := r.readPage(sensuTypes[r.kind].kind, limit, after)
	if err != nil {
		return answer{}, err
	}
	forms, err := formsOf(r, items, sensuTypes[r.kind].form)
	if err == nil && r.kind == "handlers" && next == "" {
		var sets []object
		sets, err = handlerSets(r)
		forms = append(forms, sets...)
	}
	if err != nil {
		return answer{}, err
	}
	return r.selectForms(forms, next)
}

// formsOf converts a list of Muster resources to objects in Sensu's format.
func formsOf[T any](r *request, items []T, form func(*request, T) (object, error)) (forms []object, err error) {
	for _, item := range items {
		o, err := form(r, item)
		if err != nil {
			return nil, err
		}
		forms = append(forms, o)
	}
	return forms, nil
}

// selectForms answers sensuctl's list request with the objects that match its field and label selectors. A nil
// object stands for a resource without a form in Sensu. It returns an error for an empty list of a namespace
// that does not exist.
func (r *request) selectForms(forms []object, next string) (answer, error) {
	chosen, err := parseSelectors(r.URL.Query(), r.kind)
	if err != nil {
		return answer{}, err
	}
	out := []object{}
	for _, o := range forms {
		if o != nil && chosen.matches(r.kind, o) {
			out = append(out, o)
		}
	}
	if len(forms) == 0 && r.namespace != "" {
		_, err = r.readResource("Namespace", "", r.namespace)
	}
	return answer{body: out, next: next}, err
}

// getResource answers sensuctl with one resource in Sensu's format.
func (r *request) getResource() (answer, error) {
	form := sensuTypes[r.kind].form
	m, err := r.readResource(sensuTypes[r.kind].kind, r.namespace, r.name(0))
	if r.kind == "handlers" && model.ClassOf(err) == model.NotFound {
		set, err2 := r.findResource("Pipeline", r.namespace, sensuimport.PipelineOf(r.name(0)))
		if err2 != nil {
			return answer{}, err2
		}
		if set != nil && set.Metadata.Annotations[sensuimport.SetOf] != "" {
			m, form, err = set, handlerSetForm, nil
		}
	}
	if err != nil {
		return answer{}, err
	}
	o, err := form(r, m)
	if err == nil && o == nil {
		err = unsupportedRequestError(r)
	}
	return answer{body: o}, err
}
