package sensuimport

import (
	"cmp"

	"github.com/muster-fleet/muster/internal/model"
)

// targetNamespace returns the namespace of an object's resources.
func (o *object) targetNamespace() string {
	if o.kind == "Namespace" {
		return ""
	}
	return cmp.Or(model.CleanName(o.namespace), "default")
}

// uniqueName returns Muster's name for one of Sensu's, which may hold capitals and colons. It notes two names that become
// one.
func (o *object) uniqueName(kind, name string) string {
	clean := cmp.Or(model.CleanName(name), "unnamed")
	at := resourceKey{kind, cmp.Or(o.targetNamespace(), "default"), clean}
	switch first, ok := o.importer.names[at]; {
	case !ok:
		o.importer.names[at] = name
		if clean != name {
			o.noteChange("%s is called %s: names are lower-case letters, digits, and . _ -", name, clean)
		}
	case first != name:
		o.noteLoss("%s and %s have the same name here, %s", first, name, clean)
	}
	return clean
}

// name returns Muster's name for one that an object refers to.
func name(sensu string) string { return cmp.Or(model.CleanName(sensu), "unnamed") }

// group returns the group of a subscription. It adds the group at its first use: agents may join it, as agents of Sensu
// choose their subscriptions.
func (o *object) group(subscription string) string {
	clean := o.uniqueName("Group", subscription)
	o.add(clean, &model.GroupSpec{SelfJoin: true})
	return clean
}
