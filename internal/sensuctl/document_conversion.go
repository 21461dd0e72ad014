package sensuctl

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/model"
)

// document is a resource in Sensu's format, as sensuctl sends resources.
type document struct {
	kind, namespace, name string // kind is Sensu's type
	muster                string // kind of Muster
	spec, meta            object
}

// readDocument reads and parses the Sensu resource in the body of a request. same reports that the body equals the form
// in which the server shows the resource. Such a request changes nothing, even if Sensu has no equivalent for all
// fields, so a dump can be applied again.
func (r *request) readDocument() (doc *document, same bool, err error) {
	data, err := io.ReadAll(r.Body)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, false, model.Errorf(model.TooLarge, "the resource in the request is larger than %d bytes", tooLarge.Limit)
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
	same, err = r.equalsStored(doc, is.body)
	return doc, same, err
}

// equalsStored reports whether a document from sensuctl equals the stored resource, converted to Sensu's
// format.
func (r *request) equalsStored(doc *document, form any) (bool, error) {
	data, err := json.Marshal(form)
	if err != nil {
		return false, err
	}
	shown, err := parseDocument(data, r)
	return err == nil && reflect.DeepEqual(doc.declaredContent(), shown.declaredContent()), err
}

// parseDocument parses a Sensu resource, with or without the wrapper {type, api_version, metadata, spec}. The wrapper
// is {type, api_version, metadata, spec}. The name in the path replaces the name in the body.
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

// newDocument parses a request's body as a resource of the type in the path.
func newDocument(path, namespace string, body object) *document {
	t := sensuTypes[path]
	d := &document{kind: t.sensu, muster: t.kind, namespace: namespace, spec: body}
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

// textOrStar returns a text, or * if the text is empty. It returns "*" if the value is empty or no string.
func textOrStar(v any) string {
	if text, _ := v.(string); text != "" {
		return text
	}
	return "*"
}

// importFile returns the document as an input file for an import by package sensuimport.
func (d *document) importFile() conversion.File {
	data, _ := json.Marshal(object{"type": d.kind, "api_version": "core/v2", "metadata": d.meta, "spec": d.spec}) // parsed from JSON
	return conversion.File{Name: "sensuctl", Data: data}
}

// managedByLabel is the label that sensuctl create writes on each resource that it sends.
const managedByLabel = "sensu.io/managed_by"

// measuredFields are fields of entities that agents report.
var measuredFields = []string{"last_seen", "system", "sensu_agent_version", "redact", "user"}

// declaredContent returns the declared fields of a Sensu document, without measured and empty fields, for a
// comparison. Two documents can be compared by these fields. Empty fields are left out: sensuctl and the server
// write them differently.
func (d *document) declaredContent() any {
	if d.kind == "Entity" || d.kind == "EntityConfig" {
		for _, field := range measuredFields {
			delete(d.spec, field)
		}
	}
	if labels, ok := d.meta["labels"].(object); ok {
		delete(labels, managedByLabel)
	}
	delete(d.meta, "created_by")
	return dropEmptyValues(object{"spec": d.spec, "metadata": d.meta})
}

// dropEmptyValues removes empty fields and elements from a JSON value, and returns nil if nothing remains.
// Empty parts are empty strings, zero numbers, empty lists and empty objects.
func dropEmptyValues(v any) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for name, field := range v {
			if field = dropEmptyValues(field); field != nil {
				out[name] = field
			}
		}
		if len(out) > 0 {
			return out
		}
	case []any:
		var out []any
		for _, item := range v {
			out = append(out, dropEmptyValues(item))
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

// textsOf returns the texts in a JSON list.
func textsOf(v any) (out []string) {
	list, _ := v.([]any)
	for _, item := range list {
		if text, ok := item.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// toJSON converts a Go value to plain JSON values such as maps and lists. Plain values are the maps, lists and
// texts that encoding/json decodes.
func toJSON(v any) (out object, err error) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
}

// checkReplaceable returns an error if a resource has another owner or fields that Sensu's format lacks. Either
// another owner manages the resource, or Sensu's format cannot hold all its fields.
func (r *request) checkReplaceable(is *model.Resource) error {
	if o := is.Metadata.Owner; o != "" && o != owner {
		return refuseChange(is, "it belongs to "+o, "edit")
	}
	field, err := r.firstUnsupportedField(is)
	if err == nil && field != "" {
		err = refuseChange(is, "Sensu cannot express its "+field, "edit")
	}
	return err
}

// firstUnsupportedField returns the first field of a resource that Sensu's format cannot hold, or an empty text. It
// converts the resource to Sensu's format and back.
func (r *request) firstUnsupportedField(is *model.Resource) (string, error) {
	doc, err := r.formOf(r.kind, is)
	if err != nil {
		return "", err
	}
	if doc == nil {
		return "kind of " + strings.ToLower(is.Kind), nil
	}
	if c, ok := is.Spec.(*model.CheckSpec); ok && !c.Sensu { // an import reads Sensu's tokens in the texts
		if t, err := c.TemplateTexts().Parse(); err == nil && len(t.Names()) > 0 {
			return "properties ({{ .props." + t.Names()[0] + " }})", nil
		}
	}
	made, err := r.convertDocument(doc)
	if err != nil {
		return "spec", nil // a form that cannot be imported
	}
	has, err := toJSON(declaredSpec(is.Spec))
	if err != nil {
		return "", err
	}
	back, err := toJSON(made.main.Spec)
	field := firstLostField("", has, back)
	if field == "" && is.Metadata.DisplayName != made.main.Metadata.DisplayName {
		field = "displayName"
	}
	return field, err
}

// declaredSpec returns a node's specification with only the fields that users declare.
func declaredSpec(spec model.Spec) model.Spec {
	n, ok := spec.(*model.NodeSpec)
	if !ok {
		return spec
	}
	return &model.NodeSpec{Proxy: n.Proxy, Groups: n.Groups, MayJoin: n.MayJoin, Properties: n.Properties, Upstream: n.Upstream, Keepalive: n.Keepalive, Lifecycle: n.Lifecycle}
}

// firstLostField returns the path of the first field that a conversion to Sensu and back loses or changes. It returns
// an empty text if all fields are equal.
func firstLostField(path string, has, back object) string {
	for _, name := range slices.Sorted(maps.Keys(has)) {
		inner, ok := has[name].(object)
		innerBack, ok2 := back[name].(object)
		at := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case ok && ok2:
			if lost := firstLostField(at, inner, innerBack); lost != "" {
				return lost
			}
		case !reflect.DeepEqual(dropEmptyValues(has[name]), dropEmptyValues(back[name])):
			return at
		}
	}
	return ""
}

// formOf converts a resource to Sensu's JSON format, with only declared labels and groups. It returns nil if Sensu has
// no type for the resource.
func (r *request) formOf(path string, m *model.Resource) (*document, error) {
	form := sensuTypes[path].form
	if m.Kind != sensuTypes[path].kind {
		form = handlerSetForm // the pipeline of a handler set
	}
	declared := *r
	declared.declaredOnly = true
	o, err := form(&declared, m)
	if err != nil || o == nil {
		return nil, err
	}
	body, err := toJSON(o)
	if err != nil {
		return nil, err
	}
	return newDocument(path, m.Metadata.Namespace, body), nil
}

// refuseChange returns an error if sensuctl must not change a resource, for example a resource of another tool.
// The error names the Muster command that can change the resource.
func refuseChange(m *model.Resource, reason, verb string) error {
	text := "not by sensuctl: " + strings.ToLower(m.Kind) + " " + m.Metadata.Name + ": " + reason + "; type " + musterCommand(verb, refOf(m))
	return &sensuError{http.StatusNotImplemented, text, codeNotFound}
}
