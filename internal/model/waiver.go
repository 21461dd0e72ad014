package model

import (
	"slices"
	"time"
)

// WaiverSpec excuses nodes from a directive, or from all directives of a technique, until a time. Meanwhile a component that is
// not compliant there counts as waived: it opens no problem, no percentage counts it, and no agent repairs it.
type WaiverSpec struct {
	// The Directive, of the same namespace or shared/NAME.
	Directive string `json:"directive,omitempty" ref:"Directive"`
	// The Technique, of the same namespace or shared/NAME, in place of a directive.
	Technique string `json:"technique,omitempty" ref:"Technique"`
	// The components; default all. The name of a block or loop covers all its components.
	Components []string `json:"components,omitempty"`
	// The nodes, of the namespace of the waiver.
	Targets *Targets `json:"targets"`
	// The reason, for auditors.
	Reason string `json:"reason"`
	// The person or team who answers for it.
	Owner string `json:"owner"`
	// Its end, at most 366 days after it is applied: from then on the components count again.
	Expires Time `json:"expires"`
}

// Kind returns the name of the resource kind, Waiver.
func (*WaiverSpec) Kind() string { return "Waiver" }

// MaxWaiver is the longest time from the apply of a Waiver to its end.
const MaxWaiver = 366 * 24 * time.Hour

// DefinitionWaiver is the kind of definitions that tell an agent which components of its directives a Waiver excuses.
const DefinitionWaiver DefinitionKind = 4

// WaiverDefinition is a compiled Waiver.
type WaiverDefinition struct {
	Definition
	Technique          string // NAMESPACE/NAME; empty: Directive is set
	Directive          string
	DirectiveNamespace NamespaceID
	Components         []string // empty: all
	ExpiresUnixMs      int64
}

// ToDefinition wraps the compiled Waiver as a Definition, the common form of all compiled resources. The
// compiled Waiver must not be changed after this call.
func (c *WaiverDefinition) ToDefinition() *Definition {
	return c.Definition.SetBody(DefinitionWaiver, c)
}

// AsWaiver returns the definition's body as a compiled Waiver, or nil for another kind of definition. It
// returns nil if the definition is nil or of another kind.
func (c *Definition) AsWaiver() *WaiverDefinition {
	if c == nil {
		return nil
	}
	waiver, _ := c.body.(*WaiverDefinition)
	return waiver
}

// Expires returns the time at which the waiver ends.
func (c *WaiverDefinition) Expires() time.Time { return time.UnixMilli(c.ExpiresUnixMs).UTC() }

// CoversDirective reports whether the waiver excuses any component of a directive.
func (c *WaiverDefinition) CoversDirective(d *DirectiveDefinition) bool {
	if c.Technique != "" {
		return c.Technique == d.Technique
	}
	return c.Directive == d.Name && c.DirectiveNamespace == d.Namespace
}

// CoversComponent reports whether the waiver excuses a given component (checked part) of a directive.
func (c *WaiverDefinition) CoversComponent(name string) bool {
	return len(c.Components) == 0 || slices.ContainsFunc(c.Components, func(of string) bool { return ComponentWithin(name, of) })
}
