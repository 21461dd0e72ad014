package kind

import (
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// Kind is everything the program knows of one kind of resource. Define makes one.
type Kind struct {
	model.KindInfo
	Sensu   bool    // imports from Sensu create it; Muster teaches Route instead
	Example string  // YAML that lint accepts
	Related Related // rows below the details
	LandsAs string  // words before the number of nodes: "runs on"; empty: it lands on none
	Users   bool    // tables and details name its users: checks, routes, handlers
	Cycle   Cycle   // refusal of references that lead back; zero: the kind has none
	columns []Column[model.Spec]

	source     string
	newSpec    func() model.Spec
	validate   func(*Validator, *model.Resource)
	references func(*References, model.Spec)
	targets    func(model.Spec) []FieldTargets
	redact     func(model.Spec) model.Spec
	declared   func(model.Spec) model.Spec
	fromSensu  func(model.Spec) string
	details    func(View, model.Spec) []Detail
	effect     func(*model.Resource, Placement, bool) (note, warning string)
}

// Definition declares a kind whose specs are of type S. All functions are optional.
type Definition[S model.Spec] struct {
	model.KindInfo
	Sensu   bool
	Example string
	Related Related
	LandsAs string
	Users   bool
	Cycle   Cycle
	// Source is Go code that declares the spec; its comments are the explanation of the fields.
	// Empty: package model declares it.
	Source string

	Validate func(v *Validator, r *model.Resource, spec S)
	// References adds the names in the spec, without its targets.
	References func(refs *References, spec S)
	// Targets returns all targets of the spec; nil ones are ignored.
	Targets func(spec S) []FieldTargets
	// Redact returns a copy in which model.RedactedText replaces secrets. Nil: the spec has none.
	Redact func(spec S) S
	// Declared returns a copy without the fields that the server sets.
	Declared func(spec S) S
	// FromSensu names the parts of a spec that only run because Sensu had them; empty: none.
	FromSensu func(spec S) string
	Columns   []Column[S]
	Details   func(view View, spec S) []Detail
	// Effect says where a resource lands; the warning says why it lands nowhere. changed: the
	// apply has changed it.
	Effect func(r *model.Resource, spec S, l Placement, changed bool) (note, warning string)
}

// Related says which rows of the server stand below the details of a resource.
type Related uint8

// The rows that describe shows for a kind.
const (
	NoRows Related = iota
	NodeEvents
	CheckEvents
	GroupMembers
)

// Cycle is the refusal of resources that refer to themselves through others of their kind.
type Cycle struct {
	Problem string // "contains itself"
	Hint    string
}

// Column is one column of a table of resources.
type Column[S model.Spec] struct {
	Name string
	Max  int // columns of the terminal, except with -o wide; 0: never cut
	Cell func(view View, spec S) string
}

// Detail is one line of a description.
type Detail struct{ Name, Text string }

// FieldTargets is the targets of one field of a spec.
type FieldTargets struct {
	Field string // spec.targets
	*model.Targets
}

// View is a resource with the server's state of it.
type View struct {
	Resource *model.Resource
	State    v1.State
	Now      time.Time
	Zone     *time.Location // of times that people read
}

// Define makes a kind of its definition; new returns an empty spec.
func Define[S model.Spec](newSpec func() S, d Definition[S]) Kind {
	k := Kind{
		KindInfo: d.KindInfo, Sensu: d.Sensu, Example: d.Example, Related: d.Related, LandsAs: d.LandsAs, Users: d.Users, Cycle: d.Cycle, source: d.Source,
		newSpec: func() model.Spec { return newSpec() },
	}
	if d.Validate != nil {
		k.validate = func(v *Validator, r *model.Resource) { d.Validate(v, r, r.Spec.(S)) }
	}
	if d.References != nil {
		k.references = func(refs *References, spec model.Spec) { d.References(refs, spec.(S)) }
	}
	if d.Targets != nil {
		k.targets = func(spec model.Spec) []FieldTargets { return d.Targets(spec.(S)) }
	}
	if d.Redact != nil {
		k.redact = func(spec model.Spec) model.Spec { return d.Redact(spec.(S)) }
	}
	if d.Declared != nil {
		k.declared = func(spec model.Spec) model.Spec { return d.Declared(spec.(S)) }
	}
	if d.FromSensu != nil {
		k.fromSensu = func(spec model.Spec) string { return d.FromSensu(spec.(S)) }
	}
	if d.Details != nil {
		k.details = func(view View, spec model.Spec) []Detail { return d.Details(view, spec.(S)) }
	}
	if d.Effect != nil {
		k.effect = func(r *model.Resource, l Placement, changed bool) (string, string) {
			return d.Effect(r, r.Spec.(S), l, changed)
		}
	}
	for _, c := range d.Columns {
		k.columns = append(k.columns, Column[model.Spec]{c.Name, c.Max, func(view View, spec model.Spec) string { return c.Cell(view, spec.(S)) }})
	}
	return k
}

// New returns an empty spec.
func (k *Kind) New() model.Spec { return k.newSpec() }

// Columns returns the columns of a table of such resources, without name and age.
func (k *Kind) Columns() []Column[model.Spec] { return k.columns }

// Details returns the lines of a description.
func (k *Kind) Details(view View) []Detail {
	if k.details == nil {
		return nil
	}
	return k.details(view, view.Resource.Spec)
}

// Declared returns the spec without the fields that the server sets.
func (k *Kind) Declared(spec model.Spec) model.Spec {
	if k.declared == nil {
		return spec
	}
	return k.declared(spec)
}

// FromSensu names the parts of a spec that only run because Sensu had them; empty: none.
func (k *Kind) FromSensu(spec model.Spec) string {
	switch {
	case k.Sensu:
		return k.Name
	case k.fromSensu == nil || spec == nil:
		return ""
	}
	return k.fromSensu(spec)
}
