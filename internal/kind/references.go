package kind

import (
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// Reference is the name of another resource in a spec.
type Reference struct {
	Kind, Namespace, Name string
	Field                 string // spec.alert.handlers[0]
	Text                  string // as written: NAME or NAMESPACE/NAME
	Required              bool   // apply refuses the resource if it does not exist, and warns otherwise
	Chain                 bool   // of the same kind: apply refuses a chain that leads back
}

// References collects the references of one resource.
type References struct {
	namespace string
	list      []Reference
}

// Require adds names that must exist.
func (c *References) Require(kind, field string, names ...string) {
	c.add(Reference{Kind: kind, Required: true}, field, names)
}

// Mention adds names that may exist later.
func (c *References) Mention(kind, field string, names ...string) {
	c.add(Reference{Kind: kind}, field, names)
}

// add indexes the field where it holds a list.
func (c *References) add(ref Reference, field string, names []string) {
	for i, name := range names {
		ref.Namespace, ref.Name = model.SplitRef(c.namespace, name)
		ref.Text, ref.Field = name, field
		if len(names) > 1 {
			ref.Field = fmt.Sprintf("%s[%d]", field, i)
		}
		c.list = append(c.list, ref)
	}
}

// chain marks the references that were added last.
func (c *References) chain(from int) {
	for i := range c.list[from:] {
		c.list[from+i].Chain = true
	}
}

// Targets returns the targets of a resource, those under except after those around them.
func (r *Registry) Targets(res *model.Resource) (list []FieldTargets) {
	k := r.find(res.Kind)
	if k == nil || k.targets == nil || res.Spec == nil {
		return nil
	}
	for _, t := range k.targets(res.Spec) {
		for ; t.Targets != nil; t = (FieldTargets{t.Field + ".except", t.Except}) {
			list = append(list, t)
		}
	}
	return list
}

// References returns all names that a resource uses. A plain name is of the resource's own
// namespace; a namespace's is of itself.
func (r *Registry) References(res *model.Resource) []Reference {
	k := r.find(res.Kind)
	if k == nil || res.Spec == nil {
		return nil
	}
	refs := References{namespace: res.Metadata.Namespace}
	switch {
	case !k.Namespaced:
		refs.namespace = res.Metadata.Name
	case refs.namespace == "":
		refs.namespace = model.DefaultNamespaceName
	}
	for _, t := range r.Targets(res) {
		refs.Mention("Group", t.Field+".groups", t.Groups...)
		refs.Mention("Node", t.Field+".nodes", t.Nodes...)
	}
	if k.references != nil {
		k.references(&refs, res.Spec)
	}
	return refs.list
}

// Referring returns the kinds whose resources refer to others.
func (r *Registry) Referring() (list []Kind) {
	for _, k := range r.kinds {
		if k.references != nil || k.targets != nil {
			list = append(list, k)
		}
	}
	return list
}
