package sensuctl

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// keep lets what is there keep what Sensu has no words for: it changes in what sensuctl was shown of
// it, and in nothing else. A change of what was shown in part is refused, with the command that shows all.
func (s *Server) keep(ctx context.Context, r *request, made *converted, sent, shown *document) error {
	was, err := s.convert(ctx, r, shown)
	if err != nil {
		return byEdit(made.main, "it is more than Sensu has words for")
	}
	if len(texts(shown.spec["subscriptions"])) == 0 { // an import disables it, but it has targets
		published(was.main, shown)
		published(made.main, sent)
	}
	for i, m := range made.beside {
		for _, before := range was.beside {
			if before.Kind == m.Kind && before.Metadata.Name == m.Metadata.Name {
				if made.beside[i], err = s.merged(ctx, r, before, m); err != nil {
					return err
				}
			}
		}
	}
	made.main, err = s.merged(ctx, r, was.main, made.main)
	return err
}

// published disables a check only if it says so itself.
func published(m *model.Resource, as *document) {
	if c, ok := m.Spec.(*model.CheckSpec); ok && !c.Passive {
		c.Disabled = as.spec["publish"] != true
	}
}

// merged is what is there, with what differs between two forms of it.
func (s *Server) merged(ctx context.Context, r *request, was, now *model.Resource) (*model.Resource, error) {
	is, err := resource(ctx, r, now.Kind, now.Metadata.Namespace, now.Metadata.Name)
	if model.ClassOf(err) == model.NotFound {
		return now, nil
	}
	if err != nil {
		return nil, err
	}
	for _, m := range []*model.Resource{is, was} { // they are of the file that is sent
		delete(m.Metadata.Annotations, notCarried)
		delete(m.Metadata.Annotations, waitsFor)
	}
	var forms [3]object
	for i, m := range []*model.Resource{is, was, now} {
		data, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(data, &forms[i])
		}
		if err != nil {
			return nil, err
		}
	}
	out := forms[0]
	meta, _ := out["metadata"].(object)
	for _, at := range []struct {
		name string
		in   object
	}{{"labels", meta}, {"annotations", meta}, {"spec", out}} {
		of := func(form object) any {
			if at.name != "spec" {
				form, _ = form["metadata"].(object)
			}
			return form[at.name]
		}
		v, field := merge(at.name, of(forms[0]), of(forms[1]), of(forms[2]))
		if field != "" {
			return nil, byEdit(now, "sensuctl shows a part of its "+strings.TrimPrefix(field, "spec.")+" only")
		}
		set(at.in, at.name, v)
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return parseResource(data)
}

// units are fields that say one thing together: of a part of them nothing can be changed.
var units = map[string]bool{"spec.targets": true, "spec.proxy": true}

// merge changes in is what differs between was and now. It returns the field that cannot be changed
// because was is but a part of it, if there is one.
func merge(path string, is, was, now any) (out any, field string) {
	if reflect.DeepEqual(was, now) {
		return is, ""
	}
	if is == nil || reflect.DeepEqual(is, was) {
		return now, ""
	}
	has, ok := is.(object)
	before, ok1 := was.(object)
	after, ok2 := now.(object)
	_, list := is.([]any)
	if list || units[path] {
		return nil, path
	}
	if !ok || !ok1 && was != nil || !ok2 && now != nil {
		return now, ""
	}
	has = maps.Clone(has)
	names := maps.Clone(before)
	if names == nil {
		names = object{}
	}
	maps.Copy(names, after)
	for _, name := range sorted(names) {
		v, field := merge(path+"."+name, has[name], before[name], after[name])
		if field != "" {
			return nil, field
		}
		set(has, name, v)
	}
	if len(has) == 0 {
		return nil, ""
	}
	return has, ""
}

func set(o object, name string, v any) {
	if v == nil {
		delete(o, name)
		return
	}
	o[name] = v
}

func byEdit(m *model.Resource, why string) error {
	kind := strings.ToLower(m.Kind)
	words := append([]string{"muster edit", kind, word(m.Metadata.Name)}, inNamespace(m.Metadata.Namespace)...)
	return &refusal{http.StatusNotImplemented, "not by sensuctl: " + why + "; type " + strings.Join(words, " "), codeNotFound}
}
