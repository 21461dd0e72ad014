package model

import (
	"encoding/json"
	"strings"
)

// KindInfo is what there is to know of a kind besides its fields.
type KindInfo struct {
	Name       string // as written in a file
	Plural     string // as in the API's paths
	Short      string // as typed, if there is a shorter word
	Namespaced bool
	New        func() Spec // an empty one
	Kept       bool        // what an import from Sensu leaves: it runs, and is not what Muster teaches
}

// kinds is in the order in which resources build on each other.
var kinds = [...]KindInfo{
	{"Namespace", "namespaces", "ns", false, func() Spec { return &NamespaceSpec{} }, false},
	{"Property", "properties", "prop", true, func() Spec { return &PropertySpec{} }, false},
	{"Node", "nodes", "no", true, func() Spec { return &NodeSpec{} }, false},
	{"Group", "groups", "gr", true, func() Spec { return &GroupSpec{} }, false},
	{"Handler", "handlers", "ha", true, func() Spec { return &HandlerSpec{} }, false},
	{"Secret", "secrets", "se", true, func() Spec { return &SecretSpec{} }, false},
	{"Window", "windows", "wi", true, func() Spec { return &WindowSpec{} }, false},
	{"Route", "routes", "ro", true, func() Spec { return &RouteSpec{} }, false},
	{"Silence", "silences", "si", true, func() Spec { return &SilenceSpec{} }, false},
	{"Filter", "filters", "fi", true, func() Spec { return &FilterSpec{} }, true},
	{"Mutator", "mutators", "mu", true, func() Spec { return &MutatorSpec{} }, true},
	{"Hook", "hooks", "hk", true, func() Spec { return &HookSpec{} }, true},
	{"Pipeline", "pipelines", "pi", true, func() Spec { return &PipelineSpec{} }, true},
	{"Asset", "assets", "as", true, func() Spec { return &AssetSpec{} }, false},
	{"Check", "checks", "ch", true, func() Spec { return &CheckSpec{} }, false},
}

// Kinds lists all kinds, in the order in which resources build on each other.
func Kinds() []KindInfo { return append([]KindInfo(nil), kinds[:]...) }

// KindOf finds a kind by its name, plural or short name, in any case.
func KindOf(word string) (KindInfo, bool) {
	for _, k := range kinds {
		if strings.EqualFold(word, k.Name) || strings.EqualFold(word, k.Plural) || strings.EqualFold(word, k.Short) {
			return k, true
		}
	}
	return KindInfo{}, false
}

// UnknownKind is the error for a word that KindOf does not know.
func UnknownKind(word string) *Error {
	names := kindNames()
	err := Errorf(Invalid, "there is no kind %q", word)
	if near := Nearest(word, names); near != "" {
		return err.WithHint("did you mean %s?", near)
	}
	return err.WithHint("kinds: %s", strings.Join(names, ", "))
}

func kindNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	return names
}

// DecodeSpec reads a spec that was stored or sent by Muster itself. It ignores
// fields that it does not know, so that a newer release can be read; what people
// wrote is read by DecodeResources.
func DecodeSpec(kind string, data []byte) (Spec, error) {
	k, ok := KindOf(kind)
	if !ok {
		return nil, UnknownKind(kind)
	}
	spec := k.New()
	if len(data) == 0 {
		return spec, nil
	}
	if err := json.Unmarshal(data, spec); err != nil {
		return nil, Errorf(Invalid, "decode the spec of a %s: %w", k.Name, err)
	}
	return spec, nil
}

// UnmarshalJSON reads the kind first, then its spec. Like DecodeSpec, it ignores
// fields that it does not know.
func (r *Resource) UnmarshalJSON(data []byte) error {
	var raw struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Metadata   Metadata        `json:"metadata"`
		Spec       json.RawMessage `json:"spec"`
		Status     *Stored         `json:"status"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	spec, err := DecodeSpec(raw.Kind, raw.Spec)
	if err != nil {
		return err
	}
	*r = Resource{raw.APIVersion, raw.Kind, raw.Metadata, spec, raw.Status}
	return nil
}

// Defaults fills in what the envelope leaves out: the version and, for kinds that
// live in one, the namespace. Defaults of a spec are not written into it, so that
// what is stored is what was declared; they stand where a spec is compiled.
func Defaults(r *Resource) {
	if r.APIVersion == "" {
		r.APIVersion = APIVersion
	}
	if k, ok := KindOf(r.Kind); ok && k.Namespaced && r.Metadata.Namespace == "" {
		r.Metadata.Namespace = DefaultNamespaceName
	}
}
