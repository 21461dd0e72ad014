package sensuctl

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// keep lets what is there keep what Sensu has no words for: it changes in what sensuctl was shown of
// it, and in nothing else. A change of what was shown otherwise than it is, is refused, with the command
// that shows all.
func (s *Server) keep(ctx context.Context, r *request, made *converted, sent, shown *document) error {
	was, err := s.convert(ctx, r, shown)
	if err != nil {
		return byEdit(made.main, "it is more than Sensu has words for")
	}
	if was.main.Kind != made.main.Kind { // a handler that was a set, or became one
		return byEdit(was.main, "what is there is a "+was.main.Kind+", and this would be a "+made.main.Kind)
	}
	if c, ok := made.main.Spec.(*model.CheckSpec); ok && !c.Passive && len(texts(sent.spec["subscriptions"])) == 0 {
		if err := s.unsubscribed(ctx, r, made.main, was.main, sent, shown); err != nil {
			return err
		}
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

// unsubscribed lets a check that has no subscriptions, which an import disables, run by its targets as it did.
// It refuses where the check ran on those that it had or would run on all machines: in Sensu it runs nowhere.
func (s *Server) unsubscribed(ctx context.Context, r *request, made, was *model.Resource, sent, shown *document) error {
	is, err := resource(ctx, r, "Check", made.Metadata.Namespace, made.Metadata.Name)
	if err != nil {
		return err
	}
	c, ok := is.Spec.(*model.CheckSpec)
	if reflect.DeepEqual(is.Spec, made.Spec) || !ok { // it was sent before
		return nil
	}
	had := len(texts(shown.spec["subscriptions"])) > 0
	everywhere := c.Disabled && reflect.DeepEqual(c.Targets, made.Spec.(*model.CheckSpec).Targets)
	if sent.spec["publish"] == true && (had || everywhere) {
		return byEdit(made, "a check without subscriptions runs nowhere in Sensu: publish it with some, or give it targets")
	}
	if !had {
		published(was, shown)
		published(made, sent)
	}
	return nil
}

// published disables a check only if it says so itself.
func published(m *model.Resource, as *document) {
	if c, ok := m.Spec.(*model.CheckSpec); ok && !c.Passive {
		c.Disabled = as.spec["publish"] != true
	}
}

// merged is what is there, with what differs between two forms of it. Without was, where Sensu has
// no words for what is there: with what now says, if it is the same kind of thing.
func (s *Server) merged(ctx context.Context, r *request, was, now *model.Resource) (*model.Resource, error) {
	is, err := resource(ctx, r, now.Kind, now.Metadata.Namespace, now.Metadata.Name)
	if model.ClassOf(err) == model.NotFound {
		if was == nil { // a set of the name of such a handler
			return nil, byEdit(now, "there is one that Sensu has no words for")
		}
		return now, nil
	}
	if err != nil {
		return nil, err
	}
	var forms [3]object
	for i, m := range []*model.Resource{is, was, now} {
		if m == nil {
			continue
		}
		if m != now { // they are of the file that is sent
			delete(m.Metadata.Annotations, notCarried)
			delete(m.Metadata.Annotations, waitsFor)
		}
		data, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(data, &forms[i])
		}
		if err != nil {
			return nil, err
		}
	}
	if was == nil {
		spec, _ := forms[0]["spec"].(object)
		after, _ := forms[2]["spec"].(object)
		for field := range after {
			if spec[field] == nil {
				return nil, byEdit(now, "there is one that Sensu has no words for")
			}
		}
		forms[1], _ = common(forms[0], forms[2]).(object)
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
			return nil, byEdit(now, "sensuctl does not show its "+strings.TrimPrefix(field, "spec.")+" as they are")
		}
		set(at.in, at.name, v)
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return parseResource(data)
}

// common is of what is there what another form has too.
func common(is, now any) any {
	has, ok := is.(object)
	after, ok2 := now.(object)
	if !ok || !ok2 {
		return is
	}
	out := object{}
	for name, v := range after {
		if has[name] != nil {
			out[name] = common(has[name], v)
		}
	}
	return out
}

// units are fields that say one thing together: of a part of them nothing can be changed.
var units = map[string]bool{"spec.targets": true, "spec.proxy": true}

// merge changes in is what differs between was and now. It returns the field that cannot be changed
// because was says otherwise what is there, if there is one.
func merge(path string, is, was, now any) (out any, field string) {
	if reflect.DeepEqual(was, now) || reflect.DeepEqual(is, now) {
		return is, ""
	}
	if is == nil || reflect.DeepEqual(is, was) {
		return now, ""
	}
	if units[path] {
		return nil, path
	}
	if list, ok := is.([]any); ok {
		return mergeList(path, list, was, now)
	}
	has, ok := is.(object)
	before, ok1 := was.(object)
	after, ok2 := now.(object)
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

// mergeList takes out of a list what was and is no more, and adds what is new. Of groups a node has
// some by their conditions: these are shown with those that it was put into.
func mergeList(path string, is []any, was, now any) (any, string) {
	before, _ := was.([]any)
	after, _ := now.([]any)
	in := func(list []any, one any) bool {
		return slices.ContainsFunc(list, func(of any) bool { return reflect.DeepEqual(of, one) })
	}
	out := []any{}
	for _, one := range is {
		if in(after, one) || !in(before, one) {
			out = append(out, one)
		}
	}
	for _, one := range before {
		if !in(after, one) && !in(is, one) && path != "spec.groups" {
			return nil, path
		}
	}
	for _, one := range after {
		if !in(before, one) && !in(out, one) {
			out = append(out, one)
		}
	}
	if len(out) == 0 {
		return nil, ""
	}
	return out, ""
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
