package kind

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// Definition is the typed definition of a resource kind, by functions for the spec type S. All functions are
// optional.
type Definition[S model.Spec] struct {
	model.KindInfo
	Sensu   bool        // imports from Sensu create it; Muster teaches Route instead
	Example string      // YAML that lint accepts
	Related RelatedList // rows below the details
	LandsAs string      // words before the number of nodes: "runs on"; empty: it lands on none
	// Unit is the kind of the definition that the planner compiles of a resource, for agents or an engine of the server;
	// zero: none. Resources of all kinds of units share one sequence of ids.
	Unit  model.DefinitionKind
	Users bool         // tables and details name its users: checks, routes, handlers
	Cycle CycleMessage // refusal of references that lead back; zero: the kind has none
	// Source is Go code that declares the spec; its comments are the explanation of the fields.
	// Empty: package model declares it.
	Source string

	Validate func(v *Validator, spec S)
	// References adds the names in the spec that no field with the struct tag ref has.
	References func(refs *References, spec S)
	// Redact returns a copy in which model.RedactedText replaces secrets. Nil: the spec has none.
	Redact func(spec S) S
	// Declared returns the spec without the fields that the server sets.
	Declared func(spec S) S
	// FromSensu names the parts of a spec that only run because Sensu had them; empty: none.
	FromSensu func(spec S) string
	Columns   []Column[S] // of a table of resources, without name and age
	Details   func(view ResourceView, spec S) []Detail
	// Effect describes the nodes and users that a resource reaches; the warning gives the reason why it
	// reaches none. changed: the apply has changed it.
	Effect func(r *model.Resource, spec S, l ResourceUsage, changed bool) (note, warning string)
}

// Kind defines one kind of resource, with its validation, references, redaction, columns and example. Define makes
// one. Its functions take specs of this kind only. Validate, References and Effect may be nil.
type Kind struct {
	Definition[model.Spec]
	New func() model.Spec // returns an empty spec
}

// RelatedList says whether `muster describe` lists events, nodes or nothing below a resource of a kind.
type RelatedList uint8

// The rows that describe shows for a kind.
const (
	NoRows RelatedList = iota
	NodeEvents
	CheckEvents
	GroupMembers
)

// CycleMessage has the error text and hint for a cycle of references between resources of one kind. The others
// are resources of the same kind.
type CycleMessage struct {
	Problem string // "contains itself"
	Hint    string
}

// Column describes one table column of a kind.
type Column[S model.Spec] struct {
	Name string
	Max  int // columns of the terminal, except with -o wide; 0: never cut
	Cell func(view ResourceView, spec S) string
}

// Detail is one line in the output of muster describe, a name with its text.
type Detail struct{ Name, Text string }

// ResourceView has a declared resource and its state on the server, for tables and `muster describe`.
type ResourceView struct {
	Resource *model.Resource
	State    v1.State
	Now      time.Time
	Zone     *time.Location // of times that people read
}

// Define converts a typed Definition to a Kind, which accepts a spec of any type.
func Define[T any, S interface {
	*T
	model.Spec
}](d Definition[S]) Kind {
	unchanged := func(spec S) S { return spec }
	if d.Redact == nil {
		d.Redact = unchanged
	}
	if d.Declared == nil {
		d.Declared = unchanged
	}
	if d.Details == nil {
		d.Details = func(ResourceView, S) []Detail { return nil }
	}
	if d.FromSensu == nil {
		d.FromSensu = func(S) string { return "" }
	}
	k := Kind{New: func() model.Spec { return S(new(T)) }, Definition: Definition[model.Spec]{
		KindInfo: d.KindInfo, Sensu: d.Sensu, Example: d.Example, Related: d.Related, LandsAs: d.LandsAs, Unit: d.Unit, Users: d.Users, Cycle: d.Cycle, Source: d.Source,
		Validate: adaptEditorToAnySpec(d.Validate), References: adaptEditorToAnySpec(d.References), Details: adaptViewToAnySpec(d.Details),
		Redact:    func(spec model.Spec) model.Spec { return d.Redact(spec.(S)) },
		Declared:  func(spec model.Spec) model.Spec { return d.Declared(spec.(S)) },
		FromSensu: adaptToAnySpec(d.FromSensu),
	}}
	if d.Sensu {
		k.FromSensu = func(model.Spec) string { return d.Name }
	}
	if d.Effect != nil {
		k.Effect = func(r *model.Resource, spec model.Spec, l ResourceUsage, changed bool) (string, string) {
			return d.Effect(r, spec.(S), l, changed)
		}
	}
	for _, c := range d.Columns {
		k.Columns = append(k.Columns, Column[model.Spec]{c.Name, c.Max, adaptViewToAnySpec(c.Cell)})
	}
	return k
}

// adaptToAnySpec converts a function of one spec type to a function that accepts any Spec.
func adaptToAnySpec[S model.Spec, R any](of func(S) R) func(model.Spec) R {
	if of == nil {
		return nil
	}
	return func(spec model.Spec) R { return of(spec.(S)) }
}

// adaptViewToAnySpec converts a function of a ResourceView and one spec type to a function that accepts any
// Spec.
func adaptViewToAnySpec[S model.Spec, R any](of func(ResourceView, S) R) func(ResourceView, model.Spec) R {
	return func(view ResourceView, spec model.Spec) R { return of(view, spec.(S)) }
}

// adaptEditorToAnySpec converts an editing function for one spec type to a function that accepts any Spec. The
// function reads the spec and writes to a target. Nil stays nil.
func adaptEditorToAnySpec[Target any, S model.Spec](of func(Target, S)) func(Target, model.Spec) {
	if of == nil {
		return nil
	}
	return func(target Target, spec model.Spec) { of(target, spec.(S)) }
}

// Registry has all kinds, in the order in which resources depend on each other. It never changes, so any number of
// goroutines may use it.
type Registry struct{ kinds []Kind }

// All returns a registry of all kinds of resources.
func All() *Registry {
	return &Registry{[]Kind{
		Namespace(), Property(), Node(), Group(), Handler(), Secret(), Window(), Route(), Silence(),
		Filter(), Mutator(), Hook(), Pipeline(), Asset(), Check(), Template(), Technique(), Directive(), Policy(), Waiver(), RuleGroup(),
	}}
}

// With returns a copy of the registry with the given kinds added.
func (r *Registry) With(more ...Kind) *Registry {
	return &Registry{append(slices.Clone(r.kinds), more...)}
}

// Kinds returns all kinds, in the order in which resources depend on each other.
func (r *Registry) Kinds() []Kind { return slices.Clone(r.kinds) }

// Lookup returns the kind for a word, which may be its name, plural or short name.
func (r *Registry) Lookup(word string) (Kind, bool) {
	if k := r.findKind(word); k != nil {
		return *k, true
	}
	return Kind{}, false
}

// findKind returns a kind by its name, plural or short name, ignoring upper and lower case, or nil.
func (r *Registry) findKind(word string) *Kind {
	for i := range r.kinds {
		if k := &r.kinds[i]; strings.EqualFold(word, k.Name) || strings.EqualFold(word, k.Plural) || strings.EqualFold(word, k.Short) {
			return k
		}
	}
	return nil
}

// UnknownKindError returns the error about an unknown kind
func (r *Registry) UnknownKindError(word string) *model.Error {
	err := model.Errorf(model.Invalid, "unknown kind %q", word)
	if near := model.Nearest(word, r.kindNames()); near != "" {
		return err.WithHint("did you mean %s?", near)
	}
	return err.WithHint("kinds: %s", strings.Join(r.kindNames(), ", "))
}

// kindNames returns the names of all kinds.
func (r *Registry) kindNames() []string {
	names := make([]string, len(r.kinds))
	for i := range r.kinds {
		names[i] = r.kinds[i].Name
	}
	return names
}

// DecodeSpec decodes a spec that Muster itself stored or sent, and ignores unknown fields. It ignores unknown fields,
// so that data of a newer release can be read; Read decodes files of people.
func (r *Registry) DecodeSpec(kind string, data []byte) (model.Spec, error) {
	k := r.findKind(kind)
	if k == nil {
		return nil, r.UnknownKindError(kind)
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

// DecodeResource decodes a resource that Muster itself stored or sent, and accepts unknown fields.
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

// Defaults sets the API version and namespace of a resource, if unset, to default values. The planner applies
// the defaults of a spec, so that the stored resource equals the declared one.
func (r *Registry) Defaults(res *model.Resource) {
	res.APIVersion = cmp.Or(res.APIVersion, model.APIVersion)
	if k := r.findKind(res.Kind); k != nil && k.Namespaced && res.Metadata.Namespace == "" {
		res.Metadata.Namespace = model.DefaultNamespaceName
	}
}

// Redact returns a copy of the resource with model.RedactedText in place of secrets. res is not changed.
func (r *Registry) Redact(res *model.Resource) *model.Resource {
	out := *res
	if k := r.findKind(res.Kind); k != nil && res.Spec != nil {
		out.Spec = k.Redact(res.Spec)
	}
	return &out
}

// redactValues returns a copy of a map in which a placeholder hides each value
func redactValues(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for name := range m {
		out[name] = model.RedactedText
	}
	return out
}

// Bounds of a spec. The protocol (internal/wire/definition_codec.go) and the assignment of one node bound specs of agents, too.
const (
	maxNote          = 1024     // of a reason
	maxAnnotation    = 64 << 10 // bytes
	maxPropertyValue = 64 << 10 // bytes of JSON
	maxLine          = 64 << 10 // bytes of one command or argument
	maxVariable      = 32 << 10 // bytes of one variable, or argument of a probe
	maxEntries       = 1000     // of one list or mapping
	maxCount         = 1000     // failAfter, recoverAfter
	maxInterval      = model.Duration(model.MaxInterval)
	maxTimeout       = model.Duration(24 * time.Hour)
	minTimeout       = model.Duration(10 * time.Millisecond) // of a check or hook
	maxHookTimeout   = model.Duration(time.Minute)
	// Bounds of the timeout of handlers and mutators.
	minHandlerTimeout = model.Duration(100 * time.Millisecond)
	maxHandlerTimeout = model.Duration(10 * time.Minute)
	maxOutput         = model.Size(model.MaxOutputBytes)
)
