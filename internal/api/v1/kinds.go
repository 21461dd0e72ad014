package v1

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Kinds lists the kinds of resources, in the order in which they depend on one
// another.
func Kinds() []Kind {
	return []Kind{
		{Kind: "Namespace", Plural: "namespaces", Short: "ns", Doc: "A team's room, with its limits."},
		{Kind: "Node", Plural: "nodes", Short: "no", Namespaced: true, Doc: "A machine: an immutable id, a name that may change, labels."},
		{Kind: "Group", Plural: "groups", Short: "gr", Namespaced: true, Doc: "A named set of nodes: listed, by CEL, or other groups."},
		{Kind: "Property", Plural: "properties", Short: "prop", Namespaced: true, Doc: "A value with a place in the chain global, namespace, group, node."},
		{Kind: "Check", Plural: "checks", Short: "ch", Namespaced: true, Doc: "Something judged on a node, by a command or a built-in probe."},
		{Kind: "Handler", Plural: "handlers", Short: "ha", Namespaced: true, Doc: "One way to tell: a command or a webhook."},
	}
}

// KindByName finds a kind by its name, plural or short form, in any case.
func KindByName(name string) (Kind, error) {
	var all []string
	for _, k := range Kinds() {
		if strings.EqualFold(name, k.Kind) || strings.EqualFold(name, k.Plural) || strings.EqualFold(name, k.Short) {
			return k, nil
		}
		all = append(all, strings.ToLower(k.Kind), k.Plural)
	}
	e := model.Errorf(model.Invalid, "there is no kind %q", name)
	if near := model.Nearest(strings.ToLower(name), all); near != "" {
		return Kind{}, e.WithHint("did you mean %s? All kinds: muster explain", near)
	}
	return Kind{}, e.WithHint("all kinds: muster explain")
}
