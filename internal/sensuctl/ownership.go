package sensuctl

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// replaceable refuses to replace a resource that belongs to another owner than sensu, or that uses a field for which
// Sensu has no form: replacing it whole would lose that field.
func (s *Server) replaceable(ctx context.Context, r *request, is *model.Resource) error {
	if o := is.Metadata.Owner; o != "" && o != owner {
		return refusal(is, "it belongs to "+o, "edit")
	}
	field, err := s.inexpressible(ctx, r, is)
	if err == nil && field != "" {
		err = refusal(is, "Sensu has no form for its "+field, "edit")
	}
	return err
}

// inexpressible returns the first field of a resource that an import of its form in Sensu does not make; empty: there is
// none. A handler that the import turned into one of Muster's own has no form; it is sensu's to replace.
func (s *Server) inexpressible(ctx context.Context, r *request, is *model.Resource) (string, error) {
	doc, err := formOf(ctx, r, is)
	if err != nil {
		return "", err
	}
	if doc == nil {
		if is.Metadata.Owner == owner {
			return "", nil
		}
		return "kind of " + strings.ToLower(is.Kind), nil
	}
	made, err := s.convert(ctx, r, doc)
	if err != nil {
		return "spec", nil //nolint:nilerr // a form that cannot be imported
	}
	has, err := toJSON(declaredSpec(is.Spec))
	if err != nil {
		return "", err
	}
	back, err := toJSON(made.main.Spec)
	if field := firstLoss("", has, back); field != "" || err != nil {
		return field, err
	}
	if is.Metadata.DisplayName != made.main.Metadata.DisplayName {
		return "displayName", nil
	}
	return "", nil
}

// declaredSpec leaves out the fields of a node that the server writes.
func declaredSpec(spec model.Spec) model.Spec {
	n, ok := spec.(*model.NodeSpec)
	if !ok {
		return spec
	}
	return &model.NodeSpec{Proxy: n.Proxy, Groups: n.Groups, MayJoin: n.MayJoin, Properties: n.Properties, Upstream: n.Upstream, Keepalive: n.Keepalive, Lifecycle: n.Lifecycle}
}

// firstLoss returns the path of the first field, by name, that back lacks or has otherwise; empty: none.
func firstLoss(path string, has, back object) string {
	for _, name := range sortedKeys(has) {
		inner, ok := has[name].(object)
		innerBack, ok2 := back[name].(object)
		at := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case ok && ok2:
			if lost := firstLoss(at, inner, innerBack); lost != "" {
				return lost
			}
		case !reflect.DeepEqual(withoutEmpty(has[name]), withoutEmpty(back[name])):
			return at
		}
	}
	return ""
}

// formOf returns the form of a resource without the effective labels and groups of entities; nil: Sensu has none.
func formOf(ctx context.Context, r *request, m *model.Resource) (*document, error) {
	path, form := r.kind, types[r.kind].form
	if m.Kind != types[r.kind].kind {
		if m.Kind == "Pipeline" { // of a set, sent as a handler
			return setForm(m), nil
		}
		return nil, nil
	}
	v := newView(ctx, r)
	v.declared = true
	o, err := form(v, m)
	if err != nil || o == nil {
		return nil, err
	}
	body, err := toJSON(o)
	if err != nil {
		return nil, err
	}
	return newDocument(path, m.Metadata.Namespace, body), nil
}

// refusal is the error for a resource that sensuctl must not change, with the command of Muster that does.
func refusal(m *model.Resource, reason, verb string) error {
	kind := strings.ToLower(m.Kind)
	words := append([]string{"muster", verb, kind, shellWord(m.Metadata.Name)}, namespaceFlags(m.Metadata.Namespace)...)
	return &sensuError{http.StatusNotImplemented, "not by sensuctl: " + kind + " " + m.Metadata.Name + ": " + reason + "; type " + strings.Join(words, " "), codeNotFound}
}
