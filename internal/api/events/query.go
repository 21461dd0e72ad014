package events

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/api/list"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// limitToGroup limits a query to the members of a group; empty: no limit.
func limitToGroup(ctx context.Context, v *view.View, q *event.Query, namespace, group string) (err error) {
	if group == "" {
		return nil
	}
	if q.Nodes == nil {
		q.Nodes = v.Directory.Nodes(namespace)
	}
	q.Nodes, err = v.MembersAmong(ctx, q.Nodes, namespace, group)
	if q.Nodes == nil {
		q.Nodes = []model.NodeID{} // nil would be all nodes
	}
	return err
}

// Selection is the nodes and checks whose events a request asks for.
type Selection struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Of the node. Empty: all."`
	Node      string `query:"node" maxLength:"253"`
	Check     string `query:"check" maxLength:"253"`
	Group     string `query:"group" maxLength:"253" doc:"Only nodes of this group, as it is now."`
	Selector  string `query:"selector" maxLength:"4096" doc:"Labels of the node: env=prod,tier!=db"`
}

// Filter is the events that a request asks for.
type Filter struct {
	Selection
	Status  string `query:"status" maxLength:"64" doc:"Names or digits, comma-separated: critical,unknown"`
	Problem bool   `query:"problem" doc:"Only those with an open problem."`
	Where   string `query:"where" maxLength:"4096" doc:"CEL over event.* and node.*, for example event.occurrences > 3 && node.labels.env == \"prod\""`
}

// namespacesShown is the number of further namespaces that an answer counts.
const namespacesShown = 5

// CountNamespaces counts the events of every namespace except one, the most events that are not OK
// first.
func CountNamespaces(v *view.View, except string) (list []v1.NamespaceEvents) {
	for id, c := range v.Events.CountsByNamespace() {
		if name, ok := v.Directory.NamespaceName(id); ok && name != except && c.States > 0 {
			list = append(list, v1.NamespaceEvents{Namespace: name, Events: c.States, Wrong: c.Wrong()})
		}
	}
	slices.SortFunc(list, func(a, b v1.NamespaceEvents) int {
		return cmp.Or(cmp.Compare(b.Wrong, a.Wrong), cmp.Compare(b.Events, a.Events), cmp.Compare(a.Namespace, b.Namespace))
	})
	return list[:min(len(list), namespacesShown)]
}

// Query converts a filter to a query of the event view: it turns names into ids and compiles the
// condition. A name that does not exist is an error.
func Query(ctx context.Context, v *view.View, in *Filter) (event.Query, error) {
	q := event.Query{Problems: in.Problem}
	namespaces := []string{in.Namespace}
	if in.Namespace != "" {
		id, ok := v.Directory.NamespaceByName(in.Namespace)
		if !ok {
			return q, v.NoNamespace(ctx, in.Namespace)
		}
		q.Namespaces = []model.NamespaceID{id}
	} else if in.Node != "" || in.Check != "" {
		var err error
		if namespaces, err = v.Namespaces(ctx); err != nil {
			return q, err
		}
	}
	if in.Node != "" {
		for _, ns := range namespaces {
			if id, ok := v.Directory.NodeByName(ns, in.Node); ok {
				q.Nodes = append(q.Nodes, id)
			}
		}
		if len(q.Nodes) == 0 {
			return q, v.NoNode(ctx, in.Namespace, in.Node)
		}
	}
	if in.Check != "" {
		q.Checks = v.ChecksNamed(namespaces, in.Check)
		if len(q.Checks) == 0 {
			return q, v.NoCheck(ctx, in.Namespace, in.Check)
		}
	}
	if in.Selector != "" {
		selector, err := directory.ParseSelector(in.Selector)
		if err != nil {
			return q, err
		}
		matching := v.Directory.NodesMatching(in.Namespace, selector)
		if q.Nodes != nil {
			named := q.Nodes
			matching = slices.DeleteFunc(matching, func(id model.NodeID) bool { return !slices.Contains(named, id) })
		}
		if q.Nodes = matching; matching == nil {
			q.Nodes = []model.NodeID{} // nil would be all nodes
		}
	}
	for word := range strings.SplitSeq(in.Status, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		status, ok := model.ParseStatus(word)
		if !ok {
			return q, model.Errorf(model.Invalid, "status %q is not known", word).WithHint("ok, warning, critical or unknown; or 0 to 3")
		}
		q.Statuses = append(q.Statuses, status)
	}
	if in.Where != "" {
		compiled, err := conditions.Compile(in.Where)
		if err != nil {
			return q, err
		}
		q.Match, q.MatchWithin = newConditionState(compiled, v).match, list.SearchTime
	}
	return q, limitToGroup(ctx, v, &q, in.Namespace, in.Group)
}

// Path is the path of one event.
type Path struct {
	Namespace string `path:"namespace" maxLength:"253"`
	Node      string `path:"node" maxLength:"253"`
	Check     string `path:"check" maxLength:"253"`
}

// Find returns the event of a path. A check of the node's namespace comes before a shared check of the same name.
func Find(ctx context.Context, v *view.View, in Path) (event.State, error) {
	node, ok := v.Directory.NodeByName(in.Namespace, in.Node)
	if !ok {
		return event.State{}, v.NoNode(ctx, in.Namespace, in.Node)
	}
	checks := v.ChecksNamed([]string{in.Namespace}, in.Check)
	for _, check := range checks {
		if st, ok := v.Events.Get(node, check); ok {
			return st, nil
		}
	}
	if len(checks) == 0 {
		return event.State{}, v.NoCheck(ctx, in.Namespace, in.Check)
	}
	e := model.Errorf(model.NotFound, "there is no event %s/%s in namespace %s", in.Node, in.Check, in.Namespace)
	for _, check := range checks {
		if v.Directory.HasUnit(node, check) {
			return event.State{}, e.WithHint("the node has this check, but no result came in yet")
		}
	}
	if _, own := v.Directory.CheckByName(in.Namespace, in.Check); own && model.BuiltinCheck(in.Check) == 0 {
		return event.State{}, e.WithHint("the check does not run on this node: muster describe check %s", in.Check)
	}
	return event.State{}, e.WithHint("what there is: muster get events -n %s --node %s", in.Namespace, in.Node)
}

// CheckOn finds the check of a path: the one that the node runs, else the one of its namespace.
func CheckOn(ctx context.Context, v *view.View, node model.NodeID, in Path) (model.CheckID, error) {
	checks := v.ChecksNamed([]string{in.Namespace}, in.Check)
	if len(checks) == 0 {
		return 0, v.NoCheck(ctx, in.Namespace, in.Check)
	}
	for _, check := range checks {
		if v.Directory.HasUnit(node, check) {
			return check, nil
		}
	}
	return checks[0], nil
}
