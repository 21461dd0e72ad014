package intent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

// String returns a key as messages show it: check/disk, or check/shared/disk outside the default namespace.
func (k Key) String() string {
	text := strings.ToLower(k.Kind) + "/"
	if k.Namespace != "" && k.Namespace != "default" {
		text += k.Namespace + "/"
	}
	return text + k.Name
}

// KeyOf returns the key of the row that holds a resource.
func KeyOf(r *model.Resource) Key {
	key := Key{Kind: r.Kind, Namespace: r.Metadata.Namespace, Name: r.Metadata.Name}
	if key.Kind == "Namespace" {
		key.Namespace = ""
	} else if key.Namespace == "" {
		key.Namespace = model.DefaultNamespaceName
	}
	return key
}

// encode returns the body of a resource's row: the resource without the fields that the server adds.
func encode(r *model.Resource) ([]byte, error) {
	body, err := json.Marshal(struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   model.Metadata `json:"metadata"`
		Spec       model.Spec     `json:"spec"`
	}{model.APIVersion, r.Kind, r.Metadata, r.Spec})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", KeyOf(r), err)
	}
	return body, nil
}

// decode returns the resource of a row, with its id, revision and times.
func (r *repository) decode(row Row) (*model.Resource, error) {
	var body struct {
		Metadata model.Metadata  `json:"metadata"`
		Spec     json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(row.Body, &body); err != nil {
		return nil, fmt.Errorf("decode %s: %w", row.Key, err)
	}
	spec, err := r.opts.Kinds.DecodeSpec(row.Kind, body.Spec)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", row.Key, err)
	}
	return &model.Resource{
		APIVersion: model.APIVersion, Kind: row.Kind, Metadata: body.Metadata, Spec: spec,
		Status: &model.ResourceStatus{ID: row.ID, Revision: row.Revision, Created: row.Created, Updated: row.Updated},
	}, nil
}

// decodeNode decodes the row of a node, without the kind registry.
func decodeNode(row Row) (*model.Resource, *model.NodeSpec, error) {
	spec := &model.NodeSpec{}
	r := &model.Resource{Spec: spec}
	if err := json.Unmarshal(row.Body, r); err != nil {
		return nil, nil, fmt.Errorf("decode %s: %w", row.Key, err)
	}
	return r, spec, nil
}

// sameJSON reports whether two bodies hold equal values.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	ax, _ := json.Marshal(x)
	by, _ := json.Marshal(y)
	return bytes.Equal(ax, by)
}

// redacted returns a body without secrets; nil where it cannot be read.
func (r *repository) redacted(key Key, body []byte) []byte {
	if len(body) == 0 {
		return nil
	}
	resource, err := r.decode(Row{Key: key, Body: body})
	if err != nil {
		return nil
	}
	out, err := encode(r.opts.Kinds.Redact(resource))
	if err != nil {
		return nil
	}
	return out
}

// difference returns the unified difference of two bodies, in YAML.
func difference(before, after []byte) string {
	if before == nil && after == nil {
		return ""
	}
	return udiff.Unified("before", "after", asYAML(before), asYAML(after))
}

func asYAML(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	text, err := document.YAML(body)
	if err != nil {
		return string(body) + "\n"
	}
	return string(text)
}
