package sensuimport

import (
	"cmp"

	"github.com/muster-fleet/muster/internal/model"
)

// ns returns the namespace of an object's resources.
func (im *importer) ns(o *object) string {
	if o.kind == "Namespace" {
		return ""
	}
	return im.namespaceName(o.namespace)
}

func (im *importer) namespaceName(namespace string) string {
	return cmp.Or(model.CleanName(namespace), "default")
}

// uniqueName returns our name for one of Sensu's, which may hold capitals and colons. Two that become
// one are reported.
func (im *importer) uniqueName(o *object, kind, namespace, name string) string {
	clean := cmp.Or(model.CleanName(name), "unnamed")
	m := resourceKey{kind, im.namespaceName(namespace), clean}
	switch was, ok := im.names[m]; {
	case !ok:
		im.names[m] = name
		if clean != name {
			im.noteChanged(o, "%s is called %s: names are lower-case letters, digits, and . _ -", name, clean)
		}
	case was != name:
		im.noteLost(o, "%s and %s have the same name here, %s", was, name, clean)
	}
	return clean
}

// name is our name for one that an object refers to.
func name(of string) string { return cmp.Or(model.CleanName(of), "unnamed") }

// group is the group of a subscription, made when it is first named: agents may put themselves
// into it, as agents of Sensu choose their subscriptions.
func (im *importer) group(o *object, namespace, subscription string) string {
	clean := im.uniqueName(o, "Group", namespace, subscription)
	im.add(im.namespaceName(namespace), clean, &model.GroupSpec{SelfJoin: true})
	return clean
}
