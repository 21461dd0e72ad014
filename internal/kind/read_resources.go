package kind

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

// LocatedResource is a resource from a file, with the line and column of each field.
type LocatedResource struct {
	model.Resource
	document.FieldPlaces
}

// Decode decodes a resource file, refuses unknown fields, and returns all errors (model.Flaws). Each error has the
// file, the line and a hint. It returns the resources without flaws, too. It ignores a status, so that the output of
// get can be applied; an absent namespace stays empty (see Defaults).
func (r *Registry) Decode(file string, data []byte) ([]LocatedResource, error) {
	list, flaws := r.decodeFile(file, data)
	list = slices.DeleteFunc(list, func(l LocatedResource) bool { return !l.Complete() })
	return list, flaws.Err()
}

// Read decodes and validates a file of resources for lint and apply, and returns all errors. The error holds all flaws
// of form and content, in the order of the file.
func (r *Registry) Read(file string, data []byte) ([]LocatedResource, error) {
	list, flaws := r.decodeFile(file, data)
	for i := range list {
		if len(flaws) >= model.MaxFlaws {
			break
		}
		flaws = append(flaws, list[i].Place(r.Check(&list[i].Resource))...)
	}
	document.SortFlaws(flaws)
	return list, flaws.Err()
}

// decodeFile decodes all resources of a file. From a resource with errors it keeps the fields that it can decode.
func (r *Registry) decodeFile(file string, data []byte) ([]LocatedResource, model.Flaws) {
	reader := document.NewReader(file)
	var out []LocatedResource
	for _, doc := range reader.Documents(data) {
		for _, item := range doc.Items() {
			if reader.Full() {
				break
			}
			out = r.decodeTree(reader, out, item)
		}
	}
	return out, reader.Flaws
}

// decodeTree decodes one parsed YAML document as a resource, and appends the resource to a list.
func (r *Registry) decodeTree(reader *document.Reader, out []LocatedResource, t *document.Tree) []LocatedResource {
	before := len(reader.Flaws)
	if !t.IsMapping() {
		reader.AddFlaw(t, "", "", "expected a resource (apiVersion, kind, metadata, spec), got %s", t.Kind())
		return out
	}
	d := reader.Decoder(t)
	d.UnknownFieldHint = r.unknownFieldHint
	var envelope struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   model.Metadata `json:"metadata"`
	}
	k := r.kindOfDocument(reader, t)
	d.Fields(t, &envelope, "spec", "status")
	if envelope.APIVersion != "" && envelope.APIVersion != model.APIVersion {
		d.AddFlawAt("apiVersion", "write "+model.APIVersion, "unknown version %q", envelope.APIVersion)
	}
	if t.Get("metadata") == nil {
		reader.AddFlaw(t, "metadata", "write metadata: {name: …}", "missing")
	}
	if k == nil {
		return out
	}
	spec := k.New()
	d.Field(t, "spec", spec)
	return append(out, LocatedResource{
		model.Resource{APIVersion: model.APIVersion, Kind: k.Name, Metadata: envelope.Metadata, Spec: spec}, d.FieldPlaces(before),
	})
}

// kindOfDocument returns the kind named in a YAML document, or the most similar kind for a misspelt name. It
// returns nil if no kind is similar.
func (r *Registry) kindOfDocument(reader *document.Reader, t *document.Tree) *Kind {
	word := t.Get("kind")
	if word == nil || word.IsNull() {
		reader.AddFlaw(t, "kind", "one of "+strings.Join(r.kindNames(), ", "), "missing")
		return nil
	}
	k := r.findKind(word.Text())
	if k != nil && k.Name == word.Text() {
		return k
	}
	hint := "one of " + strings.Join(r.kindNames(), ", ")
	switch near := model.Nearest(word.Text(), r.kindNames()); {
	case k != nil:
		hint = "write " + k.Name
	case near != "":
		hint, k = "did you mean "+near+"?", r.findKind(near)
	}
	reader.AddFlaw(word, "kind", hint, "unknown kind %q", word.Text())
	return k
}

// otherWords maps words of Sensu, Nagios and YAML 1.1 to the fields of Muster.
var otherWords = map[string]string{
	"on":               "targets",
	"subscriptions":    "targets: {groups: […]}",
	"round_robin":      "targets",
	"check_hooks":      "command",
	"proxy_entity":     "targets: {nodes: […]}",
	"max_output_size":  "maxOutput",
	"low_flap":         "alert.failAfter",
	"entity_class":     "metadata.labels",
	"keepalive_window": "keepalive: {timeout: …}",
	"attempts":         "alert: {failAfter: …}",
	"value":            "agentFile: NAME, or another source of the value: a Secret does not contain the value itself",
}

// unknownFieldHint returns a hint for an unknown field of a spec or of the resource, or "". spec is true for a field
// of the spec. fields lists the fields of the spec.
func (r *Registry) unknownFieldHint(word string, spec bool, fields []string) string {
	if spec {
		other := otherWords[word]
		if first, _, _ := strings.Cut(other, ":"); other != "" {
			if first, _, _ = strings.Cut(first, "."); slices.Contains(fields, first) {
				return "write " + other
			}
		}
		return ""
	}
	if document.HasField(&model.Metadata{}, word) {
		return "it belongs to metadata"
	}
	for i := range r.kinds {
		if document.HasField(r.kinds[i].New(), word) {
			return "it belongs to spec"
		}
	}
	return ""
}
