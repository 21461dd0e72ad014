package kind

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Registry is the kinds that a program knows, in the order in which resources build on each
// other. It never changes, so any number of goroutines may use it.
type Registry struct{ kinds []Kind }

// All returns a registry of every kind of Muster.
func All() *Registry {
	return &Registry{[]Kind{
		Namespace(), Property(), Node(), Group(), Handler(), Secret(), Window(), Route(), Silence(),
		Filter(), Mutator(), Hook(), Pipeline(), Asset(), Check(),
	}}
}

// With returns a registry with more kinds, behind the others.
func (r *Registry) With(more ...Kind) *Registry {
	return &Registry{append(slices.Clone(r.kinds), more...)}
}

// Kinds returns all kinds, in the order in which resources build on each other.
func (r *Registry) Kinds() []Kind { return slices.Clone(r.kinds) }

// Of finds a kind by its name, plural or short name, in any case.
func (r *Registry) Of(word string) (Kind, bool) {
	if k := r.find(word); k != nil {
		return *k, true
	}
	return Kind{}, false
}

func (r *Registry) find(word string) *Kind {
	for i := range r.kinds {
		if k := &r.kinds[i]; strings.EqualFold(word, k.Name) || strings.EqualFold(word, k.Plural) || strings.EqualFold(word, k.Short) {
			return k
		}
	}
	return nil
}

// Unknown returns the error for a word that is no kind.
func (r *Registry) Unknown(word string) *model.Error {
	err := model.Errorf(model.Invalid, "unknown kind %q", word)
	if near := model.Nearest(word, r.names()); near != "" {
		return err.WithHint("did you mean %s?", near)
	}
	return err.WithHint("kinds: %s", strings.Join(r.names(), ", "))
}

func (r *Registry) names() []string {
	names := make([]string, len(r.kinds))
	for i := range r.kinds {
		names[i] = r.kinds[i].Name
	}
	return names
}

// DecodeSpec decodes a spec that Muster itself stored or sent. It ignores unknown fields, so that
// data of a newer release can be read; Read decodes files of people.
func (r *Registry) DecodeSpec(kind string, data []byte) (model.Spec, error) {
	k := r.find(kind)
	if k == nil {
		return nil, r.Unknown(kind)
	}
	spec := k.New()
	if len(data) == 0 {
		return spec, nil
	}
	if err := json.Unmarshal(data, spec); err != nil {
		return nil, model.Errorf(model.Invalid, "decode the spec of a %s: %w", k.Name, err)
	}
	return spec, nil
}

// DecodeResource decodes a resource that Muster itself stored or sent, as DecodeSpec does.
func (r *Registry) DecodeResource(data []byte) (*model.Resource, error) {
	var raw struct {
		APIVersion string                `json:"apiVersion"`
		Kind       string                `json:"kind"`
		Metadata   model.Metadata        `json:"metadata"`
		Spec       json.RawMessage       `json:"spec"`
		Status     *model.ResourceStatus `json:"status"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, model.Errorf(model.Invalid, "decode a resource: %w", err)
	}
	spec, err := r.DecodeSpec(raw.Kind, raw.Spec)
	if err != nil {
		return nil, err
	}
	return &model.Resource{APIVersion: raw.APIVersion, Kind: raw.Kind, Metadata: raw.Metadata, Spec: spec, Status: raw.Status}, nil
}

// Defaults fills in version and namespace where the envelope has none. The planner applies the
// defaults of a spec, so that the stored resource equals the declared one.
func (r *Registry) Defaults(res *model.Resource) {
	if res.APIVersion == "" {
		res.APIVersion = model.APIVersion
	}
	if k := r.find(res.Kind); k != nil && k.Namespaced && res.Metadata.Namespace == "" {
		res.Metadata.Namespace = model.DefaultNamespaceName
	}
}

// Redact returns the resource for readers without the right to change it: model.RedactedText replaces
// secrets. res is not changed.
func (r *Registry) Redact(res *model.Resource) *model.Resource {
	out := *res
	if k := r.find(res.Kind); k != nil && k.redact != nil && res.Spec != nil {
		out.Spec = k.redact(res.Spec)
	}
	return &out
}

// hide replaces all values of a mapping.
func hide(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for name := range m {
		out[name] = model.RedactedText
	}
	return out
}
