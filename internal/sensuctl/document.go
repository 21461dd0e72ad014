package sensuctl

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// document is a resource in Sensu's form.
type document struct {
	kind, namespace, name string // kind is Sensu's type
	spec, meta            object
}

// readDocument reads the body of a request. same reports that the body equals the form that the server shows of the
// resource. Such a request changes nothing, even if Sensu has no form for all fields, so a dump can be applied again.
func (r *request) readDocument() (doc *document, same bool, err error) {
	data, err := io.ReadAll(r.Body)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, false, model.Errorf(model.TooLarge, "the resource has more than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, false, model.Errorf(model.Invalid, "read the request: %v", err)
	}
	if doc, err = parseDocument(data, r); err != nil || r.Method != http.MethodPut {
		return doc, false, err
	}
	is, err := r.operation(http.MethodGet)()
	switch {
	case errors.As(err, new(*sensuError)), err != nil && model.ClassOf(err) == model.NotFound:
		return doc, false, nil
	case err != nil:
		return nil, false, err
	}
	if data, err = json.Marshal(is.body); err != nil {
		return nil, false, err
	}
	shown, err := parseDocument(data, r)
	return doc, err == nil && reflect.DeepEqual(doc.content(), shown.content()), err
}

// parseDocument reads a resource with or without a wrapper {type, api_version, metadata, spec}. The name in the path
// replaces the name in the body.
func parseDocument(data []byte, r *request) (*document, error) {
	var body object
	if err := json.Unmarshal(data, &body); err != nil || body == nil {
		return nil, model.Errorf(model.Invalid, "the body is not a JSON object")
	}
	d := newDocument(r.kind, r.namespace, body)
	if len(r.names) > 0 {
		d.name = r.names[0]
	}
	if d.name == "" && d.kind == "Silenced" {
		d.name = textOrStar(d.spec["subscription"]) + ":" + textOrStar(d.spec["check"])
	}
	d.meta["name"] = d.name
	return d, nil
}

// newDocument returns the document of a body that was sent to the path of a type.
func newDocument(path, namespace string, body object) *document {
	d := &document{kind: types[path].sensu, namespace: namespace, spec: body}
	if spec, ok := body["spec"].(object); ok && body["type"] != nil {
		d.spec = spec
		d.meta, _ = body["metadata"].(object)
	}
	if inner, ok := d.spec["metadata"].(object); ok && len(d.meta) == 0 {
		d.meta = inner
	}
	delete(d.spec, "metadata")
	if d.meta == nil {
		d.meta = object{}
	}
	if d.name, _ = d.meta["name"].(string); d.name == "" && d.kind == "Namespace" {
		d.name, _ = d.spec["name"].(string)
	}
	if annotations, ok := d.meta["annotations"].(object); ok {
		delete(annotations, lossAnnotation)
		delete(annotations, missingAnnotation)
	}
	d.meta["name"], d.meta["namespace"] = d.name, namespace
	return d
}

// textOrStar returns a text; "*" for an empty one.
func textOrStar(v any) string {
	if text, _ := v.(string); text != "" {
		return text
	}
	return "*"
}

// file returns the document as a file for sensuimport.
func (d *document) file() sensuimport.File {
	data, _ := json.Marshal(object{"type": d.kind, "api_version": "core/v2", "metadata": d.meta, "spec": d.spec}) // parsed from JSON
	return sensuimport.File{Name: "sensuctl", Data: data}
}

// managedBy is the label that sensuctl create writes on all that it sends.
const managedBy = "sensu.io/managed_by"

// measuredFields are fields of entities that agents report.
var measuredFields = []string{"last_seen", "system", "sensu_agent_version", "redact", "user"}

// content returns the declared fields of a document, for comparison. Empty fields are left out: sensuctl and the server
// write them differently.
func (d *document) content() any {
	if d.kind == "Entity" || d.kind == "EntityConfig" {
		for _, field := range measuredFields {
			delete(d.spec, field)
		}
	}
	if labels, ok := d.meta["labels"].(object); ok {
		delete(labels, managedBy)
	}
	delete(d.meta, "created_by")
	return withoutEmpty(object{"spec": d.spec, "metadata": d.meta})
}

// withoutEmpty returns a JSON value without empty texts, numbers, lists and objects; nil: it is empty itself.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for name, field := range v {
			if field = withoutEmpty(field); field != nil {
				out[name] = field
			}
		}
		if len(out) > 0 {
			return out
		}
	case []any:
		var out []any
		for _, item := range v {
			out = append(out, withoutEmpty(item))
		}
		if len(out) > 0 {
			return out
		}
	default:
		if v != nil && !reflect.ValueOf(v).IsZero() {
			return v
		}
	}
	return nil
}

// texts returns the texts of a JSON list.
func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, item := range list {
		if text, ok := item.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// toJSON returns a value as the types of encoding/json.
func toJSON(v any) (out object, err error) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
}

// replaceable refuses to replace a resource that belongs to another owner than sensu, or that uses a field for which
// Sensu has no form: replacing it whole would lose that field.
func (r *request) replaceable(is *model.Resource) error {
	if o := is.Metadata.Owner; o != "" && o != owner {
		return refusal(is, "it belongs to "+o, "edit")
	}
	field, err := r.inexpressible(is)
	if err == nil && field != "" {
		err = refusal(is, "Sensu has no form for its "+field, "edit")
	}
	return err
}

// inexpressible returns the first field of a resource that is lost when its form in Sensu is imported; empty: no field is
// lost. A handler that an import replaced by one of Muster's own has no form, but sensuctl may replace it.
func (r *request) inexpressible(is *model.Resource) (string, error) {
	doc, err := r.formOf(r.kind, is)
	if err != nil {
		return "", err
	}
	if doc == nil {
		if is.Metadata.Owner == owner {
			return "", nil
		}
		return "kind of " + strings.ToLower(is.Kind), nil
	}
	made, err := r.convert(doc)
	if err != nil {
		return "spec", nil //nolint:nilerr // a form that cannot be imported
	}
	has, err := toJSON(declaredSpec(is.Spec))
	if err != nil {
		return "", err
	}
	back, err := toJSON(made.main.Spec)
	field := firstLoss("", has, back)
	if field == "" && is.Metadata.DisplayName != made.main.Metadata.DisplayName {
		field = "displayName"
	}
	return field, err
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

// formOf returns the form of a resource of a type without the effective labels and groups of entities; nil: Sensu has
// none.
func (r *request) formOf(path string, m *model.Resource) (*document, error) {
	if m.Kind != types[path].kind {
		if m.Kind == "Pipeline" { // of a set, sent as a handler
			return setForm(m), nil
		}
		return nil, nil
	}
	declared := *r
	declared.declared = true
	o, err := types[path].form(&declared, m)
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
	text := "not by sensuctl: " + strings.ToLower(m.Kind) + " " + m.Metadata.Name + ": " + reason + "; type " + musterCommand(verb, refOf(m))
	return &sensuError{http.StatusNotImplemented, text, codeNotFound}
}
