package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// nearAmong is among how many names the nearest is looked for.
const nearAmong = 5000

// unknownPath answers what no route does: 405 where the path has other methods, else 404.
func (s *server) unknownPath(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		asked := *r
		asked.Method = method
		if _, route := s.mux.Handler(&asked); route != "" && route != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		writeError(w, model.Errorf(model.NotFound, "there is nothing at %s", model.Shorten(r.URL.Path)).WithHint("all paths: /api/v1/openapi.json"))
		return
	}
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	p := problem(model.Invalid, fmt.Sprintf("%s takes no %s", model.Shorten(r.URL.Path), model.Shorten(r.Method)), "what it takes: "+list+"; more: /api/v1/openapi.json")
	p.Title, p.Status = "No such method here", http.StatusMethodNotAllowed
	writeProblem(w, p)
}

// notThere gives a missing resource its hint: the name that was probably meant, or the
// namespace in which it is.
func (s *server) notThere(ctx context.Context, err error, key intent.Key) error {
	var said *model.Error
	if !errors.As(err, &said) || said.Class != model.NotFound {
		return err
	}
	e := model.Errorf(model.NotFound, "there is no %s", key)
	if key.Namespace != "" {
		if _, ok := s.Directory.NamespaceByName(key.Namespace); !ok {
			return s.noNamespace(ctx, key.Namespace)
		}
	}
	return e.WithHint("%s", s.suggestion(ctx, key))
}

// suggestion says what somebody may have meant by a name that is not there.
func (s *server) suggestion(ctx context.Context, key intent.Key) string {
	list := "muster get " + s.pluralOf(key.Kind)
	if key.Namespace != "" && key.Namespace != model.DefaultNamespaceName {
		list += " -n " + key.Namespace
	}
	rows, err := s.Rows.List(ctx, intent.ListQuery{Kind: key.Kind, Namespace: key.Namespace, Limit: nearAmong})
	if err != nil {
		return "what there is: " + list
	}
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Name
	}
	if key.Kind == "Check" {
		names = append(names, model.KeepaliveCheckName)
	}
	if near := model.Nearest(key.Name, names); near != "" {
		return fmt.Sprintf("did you mean %s? what there is: %s", near, list)
	}
	if key.Namespace == "" {
		return "what there is: " + list
	}
	if namespaces, err := s.namespaces(ctx); err == nil {
		for _, ns := range namespaces {
			other := key
			other.Namespace = ns
			if _, err := s.Intent.Get(ctx, other); ns != key.Namespace && err == nil {
				return fmt.Sprintf("it is in namespace %s: add -n %s", ns, ns)
			}
		}
	}
	return "what there is: " + list
}

func (s *server) pluralOf(kind string) string {
	if k, ok := s.Kinds.Of(kind); ok {
		return k.Plural
	}
	return strings.ToLower(kind)
}

// namespaceIsThere also knows a namespace that was applied a moment ago.
func (s *server) namespaceIsThere(ctx context.Context, name string) error {
	if _, ok := s.Directory.NamespaceByName(name); ok {
		return nil
	}
	names, err := s.namespaces(ctx)
	if err != nil || slices.Contains(names, name) {
		return err
	}
	return s.noNamespace(ctx, name)
}

func (s *server) noNamespace(ctx context.Context, name string) error {
	if !s.sees(name) {
		return s.scope.refuse(name)
	}
	e := model.Errorf(model.NotFound, "there is no namespace %q", name)
	if names, err := s.namespaces(ctx); err == nil {
		if near := model.Nearest(name, names); near != "" {
			return e.WithHint("did you mean %s? what there is: muster get namespaces", near)
		}
	}
	return e.WithHint("what there is: muster get namespaces")
}

func (s *server) noNode(ctx context.Context, namespace, name string) error {
	e := model.Errorf(model.NotFound, "there is no node %q", name)
	if namespace == "" {
		return e.WithHint("what there is: muster get nodes -A")
	}
	if t, ok := s.Intent.TombstoneByName(namespace, name); ok {
		return model.Errorf(model.NotFound, "there is no node %q any more: %s", name, t.Sentence()).
			WithHint("who did what: muster audit node %s; what there is: muster get nodes -n %s", name, namespace)
	}
	if last, ok := s.renamed(ctx, namespace, name); ok {
		return model.Errorf(model.NotFound, "there is no node %q any more: %s renamed it %s at %s", name, last.Who.User, last.Key.Name, last.At.UTC().Format(time.RFC3339)).
			WithHint("who did what: muster audit node %s -n %s", last.Key.Name, namespace)
	}
	return e.WithHint("%s", s.suggestion(ctx, intent.Key{Kind: "Node", Namespace: namespace, Name: name}))
}

// renamed is the change that gave the node of a name another one.
func (s *server) renamed(ctx context.Context, namespace, name string) (intent.AuditEntry, bool) {
	last, err := s.Intent.Audit(ctx, intent.ChangeQuery{Kind: "Node", Namespace: namespace, Name: name, Limit: 1}, true)
	if err != nil || len(last) == 0 || last[0].Was != name {
		return intent.AuditEntry{}, false
	}
	return last[0], true
}

func (s *server) noCheck(ctx context.Context, namespace, name string) error {
	e := model.Errorf(model.NotFound, "there is no check %q", name)
	if namespace == "" {
		return e.WithHint("what there is: muster get checks -A")
	}
	return e.WithHint("%s", s.suggestion(ctx, intent.Key{Kind: "Check", Namespace: namespace, Name: name}))
}

// namespaces are the names of all.
func (s *server) namespaces(ctx context.Context) ([]string, error) {
	rows, err := s.Intent.List(ctx, intent.ListQuery{Kind: "Namespace"}, nil)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Metadata.Name
	}
	slices.Sort(names)
	return names, nil
}
