package sensuctl

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// Sensu accepts documents that name resources which do not exist yet, and sensuctl create sends checks before their
// handlers and hooks. Muster has no dangling references. So a resource keeps the missing names in an annotation
// (missingAnnotation), a pipeline its workflows in another (workflowsAnnotation), and a set its members
// (sensuimport.SetOf). When such a resource is written, the forms of those that miss it are imported again. A missing
// filter or mutator is made in place, and passes no event until it is sent.

// importDependents imports again the stored resources that refer to a newly written resource, to complete their
// references. Handler sets are among them.
func (r *request) importDependents(name string) error {
	word := strings.TrimSuffix(r.kind, "s") // in missingAnnotation
	waits := func(entry string) bool { return strings.HasPrefix(entry+" ", word+" "+name+" ") }
	isSet := func(m *model.Resource) bool { return m.Metadata.Annotations[sensuimport.SetOf] != "" }
	misses := func(m *model.Resource) bool {
		return !isSet(m) && slices.ContainsFunc(splitList(m.Metadata.Annotations[missingAnnotation]), waits)
	}
	var list []*importedDocument
	for _, dependent := range []struct {
		kind, path, on string // on: words of the types that it can miss
		depends        func(*model.Resource) bool
	}{
		{"Check", "checks", "handler hook pipeline asset filter mutator", misses},
		{"Pipeline", "pipelines", "handler filter mutator", misses},
		{"Pipeline", "handlers", "handler", isSet},
		{"Handler", "handlers", "asset filter mutator", misses},
		{"Filter", "filters", "asset", misses},
		{"Mutator", "mutators", "asset", misses},
		{"Hook", "hooks", "asset", misses},
	} {
		if !slices.Contains(strings.Fields(dependent.on), word) {
			continue
		}
		all, err := r.readAll(dependent.kind)
		if err != nil {
			return err
		}
		for _, m := range all {
			if !dependent.depends(m) {
				continue
			}
			made, err := r.reimportResource(dependent.path, m)
			if err != nil {
				return err
			}
			if made != nil {
				list = append(list, made)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	return r.applyDocuments(list...)
}

// reimportResource converts a stored resource to Sensu's format and imports the result again. It works as if sensuctl
// had sent the resource, and returns nil if nothing changes.
func (r *request) reimportResource(path string, m *model.Resource) (*importedDocument, error) {
	doc, err := r.formOf(path, m)
	if err != nil || doc == nil {
		return nil, err
	}
	made, err := r.convertDocument(doc)
	if err != nil {
		return nil, err
	}
	if equalSpecs(made.main, m) && slices.Equal(made.missingReferences, splitList(m.Metadata.Annotations[missingAnnotation])) {
		return nil, nil
	}
	made.main.Status = m.Status
	return made, nil
}

// equalSpecs reports whether two resources have equal specs.
func equalSpecs(a, b *model.Resource) bool {
	x, err1 := json.Marshal(a.Spec)
	y, err2 := json.Marshal(b.Spec)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// handlerSetForm converts the pipeline of an imported handler set back to Sensu's JSON format of the set. A
// pipeline of another origin gives nil.
func handlerSetForm(_ *request, m *model.Resource) (object, error) {
	members := splitList(m.Metadata.Annotations[sensuimport.SetOf])
	if len(members) == 0 {
		return nil, nil
	}
	shown := *m
	shown.Metadata.Annotations = maps.Clone(m.Metadata.Annotations)
	delete(shown.Metadata.Annotations, sensuimport.SetOf)
	name := originalName(strings.TrimPrefix(m.Metadata.Name, model.SensuPipeline("")), m.Metadata.DisplayName)
	return object{"metadata": metadataForm(&shown, name), "type": "set", "handlers": members, "filters": []string{}, "env_vars": []string{}, "runtime_assets": []string{}, "timeout": 0}, nil
}

// handlerSets returns the handler sets of the request's namespace in Sensu's JSON format.
func handlerSets(r *request) ([]object, error) {
	all, err := r.readAll("Pipeline")
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m *model.Resource) bool { return m.Metadata.Annotations[sensuimport.SetOf] == "" })
	return formsOf(r, all, handlerSetForm)
}

// isHookChange reports whether a request comes from the command sensuctl check set-hooks or remove-hook. Such
// requests are PUT checks/NAME/hooks/TYPE and DELETE checks/NAME/hooks/TYPE/hook/NAME.
func isHookChange(method string, r *request) bool {
	if r.kind != "checks" || len(r.names) < 3 || r.names[1] != "hooks" {
		return false
	}
	return method == http.MethodPut && len(r.names) == 3 || method == http.MethodDelete && len(r.names) == 5 && r.names[3] == "hook"
}

// changeHooks adds hooks to a check for one result type, such as critical, or removes one hook. A result type
// is, for example, critical or non-zero.
func (r *request) changeHooks() (answer, error) {
	var body object
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil && r.Method == http.MethodPut {
		return answer{}, model.Errorf(model.Invalid, "the body is not a JSON object: %v", err)
	}
	if spec, ok := body["spec"].(object); ok {
		body = spec
	}
	added := textsOf(body[r.names[2]])
	if r.Method == http.MethodPut && (len(added) == 0 || len(added) > maxLookups) {
		return answer{}, model.Errorf(model.Invalid, "expected {%q: [NAME, …]} with 1 to %d names of hooks", r.names[2], maxLookups)
	}
	for _, hook := range added {
		if m, err := r.findResource("Hook", r.namespace, model.CleanName(hook)); err != nil || m == nil {
			return answer{}, model.Errorf(model.Invalid, "hook %s does not exist", model.Shorten(hook)).WithHint("sensuctl hook create %s", model.Shorten(hook))
		}
	}
	return answer{status: http.StatusNoContent}, r.retryOnConflict(func() error { return r.replaceHooks(added) })
}

// replaceHooks imports a Sensu check again, with hooks added or with one hook removed.
func (r *request) replaceHooks(added []string) error {
	m, err := r.readResource("Check", r.namespace, r.name(0))
	if err != nil {
		return err
	}
	doc, err := r.formOf(r.kind, m)
	if err != nil {
		return err
	}
	lists, _ := doc.spec["check_hooks"].([]any)
	for _, hook := range added {
		lists = append(lists, object{r.names[2]: []any{hook}})
	}
	if r.Method == http.MethodDelete && !removeHook(lists, r.names[2], r.name(4)) {
		return model.Errorf(model.NotFound, "check %s has no hook %s of type %s", r.name(0), r.names[4], r.names[2])
	}
	doc.spec["check_hooks"] = lists
	made, err := r.convertDocument(doc)
	if err != nil {
		return err
	}
	return r.replaceResource(m, made)
}

// removeHook removes a hook from a check's lists of hooks for one result type.
func removeHook(lists []any, when, hook string) (found bool) {
	for _, item := range lists {
		list, _ := item.(object)
		names, _ := list[when].([]any)
		if i := slices.Index(names, any(hook)); i >= 0 {
			list[when], found = slices.Delete(names, i, i+1), true
		}
	}
	return found
}
