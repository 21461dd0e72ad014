package kind

import (
	"cmp"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Placement counts the nodes and the users of one resource; the planner computes it.
type Placement struct {
	Nodes int // that hold it (check), are members (group), read it (property), are in it (namespace)
	About int // proxy nodes that it is about (check)
	// Users of a handler, pipeline, hook, secret, asset, property, group or route.
	Checks   int
	Routes   int // a handler
	Flows    int // pipelines; a handler
	Spaces   int // namespaces; a handler
	Hear     int // nodes, for their keepalive or their end; a handler or pipeline
	Handlers int // a secret or asset
	Mutators int // …
	Filters  int // an asset
	// Warnings for the operator.
	Warnings []string `json:"-"`
}

// UsedBy names the users of a resource; empty: none. where follows the number of checks.
func (l Placement) UsedBy(where string) string {
	var by []string
	for _, users := range []struct {
		n    int
		what string
	}{{l.Checks, "check"}, {l.Routes, "route"}, {l.Flows, "pipeline"}, {l.Spaces, "namespace"}, {l.Hear, "node"},
		{l.Handlers, "handler"}, {l.Mutators, "mutator"}, {l.Filters, "filter"}} {
		if users.n > 0 {
			by = append(by, model.CountNoun(users.n, users.what))
		}
	}
	if l.Checks > 0 {
		by[0] += where
	}
	if last := len(by) - 1; last > 0 {
		return strings.Join(by[:last], ", ") + " and " + by[last]
	}
	return strings.Join(by, "")
}

// nodes counts the nodes, and the proxy nodes that a check is about.
func (l Placement) nodes() string {
	nodes := model.CountNoun(l.Nodes, "node")
	if l.About > 0 {
		nodes += ", about " + model.CountNoun(l.About, "proxy node")
	}
	return nodes
}

// Effect says where a resource lands, and warns where it lands nowhere. changed: an apply has
// just changed it.
func (r *Registry) Effect(res *model.Resource, l Placement, changed bool) (note, warning string) {
	k := r.find(res.Kind)
	switch {
	case k == nil:
		return "", ""
	case k.effect != nil:
		return k.effect(res, l, changed)
	case k.LandsAs != "":
		return k.LandsAs + " " + l.nodes(), ""
	case k.Users:
		note = "used by " + cmp.Or(l.UsedBy(""), "nothing yet")
	}
	if k.Sensu {
		note = strings.TrimPrefix(note+"; kept from Sensu", "; ")
	}
	return note, ""
}

// Removal says where a resource landed that an apply deletes.
func (r *Registry) Removal(kind string, l Placement) string {
	if k := r.find(kind); k != nil && k.LandsAs != "" {
		return k.LandsAs + " " + model.CountNoun(l.Nodes, "node")
	}
	return "nothing that stays uses it"
}
