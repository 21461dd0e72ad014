package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// Every command takes the names that tables and messages print: NAME or NAMESPACE/NAME, and for events NODE/CHECK,
// NAMESPACE/NODE/CHECK or the id of a problem. A name without a namespace is looked up in the namespace of -n, or with
// -A in all namespaces.

// eventName identifies an event by namespace, node and check, or a whole node by an empty check.
type eventName struct{ namespace, node, check string }

// String returns the name of an event or node in the form of tables.
func (n eventName) String() string {
	return nameWithNamespace(n.namespace, n.node) + textIf(n.check != "", "/"+n.check)
}

// parseEventName parses the name of an event, NODE/CHECK or NAMESPACE/NODE/CHECK.
func parseEventName(text string) (n eventName, err error) {
	names, trigger, isTrigger := strings.Cut(text, ":")
	parts := strings.Split(names, "/")
	if isTrigger { // its name may have slashes
		parts[len(parts)-1] += ":" + trigger
	}
	switch len(parts) {
	case 1:
		n.node = parts[0]
	case 2:
		n.node, n.check = parts[0], parts[1]
	case 3:
		n = eventName{parts[0], parts[1], parts[2]}
		if n.namespace == "" {
			n.node = ""
		}
	}
	if n.node == "" || n.check == "" {
		node := n.node
		if node == "" {
			node = "web01"
		}
		return n, model.Errorf(model.Invalid, "%q is not an event: expected NODE/CHECK or NAMESPACE/NODE/CHECK, such as web01/disk, or the id of a problem", text).
			WithHint("all events of a node: muster get events --node %s", node)
	}
	return n, nil
}

// findObject resolves an argument, NAME or NAMESPACE/NAME, to the namespace and name of an existing object.
func (c *commandCall) findObject(k model.KindInfo, text string) (namespace, name string, err error) {
	if !k.Namespaced {
		return "", text, nil
	}
	if namespace, name, named := strings.Cut(text, "/"); named {
		if namespace == "" || name == "" || strings.Contains(name, "/") {
			return "", "", model.Errorf(model.Invalid, "%q: expected NAME or NAMESPACE/NAME", text).WithHint("list names: muster get %s -A", k.Plural)
		}
		return namespace, name, c.checkNamespaceFlag(namespace, text)
	}
	if !c.allNamespaces {
		return c.objectNamespace(), text, nil
	}
	found, err := c.findNamespacesOfObject(k, text)
	slices.Sort(found)
	switch {
	case err != nil:
		return "", "", err
	case len(found) == 0:
		return "", "", model.Errorf(model.NotFound, "%s %s does not exist in any namespace", strings.ToLower(k.Name), text).WithHint("list names: muster get %s -A", k.Plural)
	case len(found) > 1:
		return "", "", model.Errorf(model.Invalid, "%s %s exists in namespaces %s", strings.ToLower(k.Name), text, strings.Join(found, ", ")).
			WithHint("name the namespace: %s/%s", found[0], text)
	}
	return found[0], text, nil
}

// findNamespacesOfObject returns the namespaces that contain an object with a given kind and name.
func (c *commandCall) findNamespacesOfObject(k model.KindInfo, name string) (found []string, err error) {
	if k == kind.Node().KindInfo {
		l, err := c.api.Nodes.States(c.ctx, v1.NodeFilter{Where: fmt.Sprintf("node.name == %q", name), Limit: maxRows})
		return convertEach(l.Items, func(n v1.NodeState) string { return n.Namespace }), err
	}
	page, err := c.api.Resources.List(c.ctx, k, "", v1.ResourceFilter{Where: fmt.Sprintf("metadata.name == %q", name)}, false, 500, "")
	for _, item := range page.Items {
		r, err := c.Kinds.DecodeResource(item)
		if err != nil {
			return nil, err
		}
		found = append(found, r.Metadata.Namespace)
	}
	return found, err
}

// checkNamespaceFlag returns an error if a name contains another namespace than the flag -n.
func (c *commandCall) checkNamespaceFlag(namespace, text string) error {
	if c.namespace == "" || c.namespaceImplied || c.namespace == namespace || namespace == model.SharedNamespaceName {
		return nil
	}
	return model.Errorf(model.Invalid, "%s is in namespace %s, but -n names %s", text, namespace, c.namespace).WithHint("leave -n out")
}

// problemID matches the ids of problems.
var problemID = regexp.MustCompile(`^[2-9a-km-np-z]{16}$`)

// findProblem returns the problem whose id is the argument. If the argument is no id of a problem, found is false.
func (c *commandCall) findProblem(text string) (p v1.Problem, found bool, err error) {
	if !problemID.MatchString(text) {
		return p, false, nil
	}
	if p, err = c.api.Problems.Get(c.ctx, text); model.ClassOf(err) == model.NotFound {
		return p, false, nil
	}
	return p, err == nil, err
}

// findProblemID returns the problem id for an argument, which is a problem id or an event name. The argument is
// the id itself or NODE/CHECK, which means the event's open problem or else its last one.
func (c *commandCall) findProblemID(text string) (string, error) {
	if !strings.Contains(text, "/") {
		return text, nil
	}
	n, err := c.findEvent(text)
	if err != nil {
		return "", err
	}
	for _, open := range []bool{true, false} {
		l, err := c.api.Problems.List(c.ctx, n.namespace, n.node, n.check, open, 1, "", v1.RowFilter{})
		if err != nil || len(l.Items) > 0 {
			return convertEach(append(l.Items, v1.Problem{}), func(p v1.Problem) string { return p.ID })[0], err
		}
	}
	return "", model.Errorf(model.NotFound, "event %s never had a problem", n).WithHint("its changes: muster get history %s", n)
}

// findEventToChange finds the event on which an action will act, from an event name or a problem id. It refuses
// the id of a closed problem, because the action would concern a later problem of the event.
func (c *commandCall) findEventToChange(text string) (eventName, error) {
	p, found, err := c.findProblem(text)
	if err == nil && found && !p.Closed.IsZero() {
		n := eventName{p.Namespace, p.Node, p.Check}
		err = model.Errorf(model.Conflict, "problem %s of event %s is closed", text, n).WithHint("the event now: muster get event %s", n)
	}
	if err != nil {
		return eventName{}, err
	}
	return c.findEvent(text)
}

// findEvent returns the event that an argument (NODE/CHECK, or the id of a problem) names.
func (c *commandCall) findEvent(text string) (eventName, error) {
	if p, found, err := c.findProblem(text); found || err != nil {
		return eventName{p.Namespace, p.Node, p.Check}, err
	}
	n, err := parseEventName(text)
	if err != nil {
		return n, err
	}
	n.namespace, n.node, err = c.findObject(kind.Node().KindInfo, strings.TrimPrefix(n.namespace+"/"+n.node, "/"))
	return n, err
}

// findNodeOrEvent returns the node or event that an argument (NODE, NODE/CHECK or the id of a problem) names. NAME/NAME is NAMESPACE/NODE
// where this node exists, and NODE/CHECK otherwise.
func (c *commandCall) findNodeOrEvent(text string) (n eventName, err error) {
	first, second, two := model.CutRef(text)
	_, _, three := model.CutRef(second)
	switch {
	case !two:
		if p, found, err := c.findProblem(text); found || err != nil {
			return eventName{p.Namespace, p.Node, p.Check}, err
		}
		n.namespace, n.node, err = c.findObject(kind.Node().KindInfo, text)
		return n, err
	case three || first == "" || second == "":
		return c.findEvent(text)
	}
	if c.nodeExists(first, second) {
		return eventName{namespace: first, node: second}, c.checkNamespaceFlag(first, text)
	}
	return c.findEvent(text)
}

// findNodeOrEventOfList finds the node or event by which an argument filters a list of past states. With -A it
// accepts deleted nodes, and returns an empty namespace.
func (c *commandCall) findNodeOrEventOfList(text string) (n eventName, err error) {
	first, second, _ := model.CutRef(text)
	if _, _, three := model.CutRef(second); !c.allNamespaces || problemID.MatchString(text) || second != "" && (three || c.nodeExists(first, second)) {
		return c.findNodeOrEvent(text)
	}
	return eventName{node: first, check: second}, nil
}

// nodeExists reports whether a node exists and is visible to the user.
func (c *commandCall) nodeExists(namespace, name string) bool {
	_, _, err := c.api.Resources.Get(c.ctx, kind.Node().KindInfo, namespace, name)
	return err == nil
}

// namesOfObjects returns the names of the objects in a JSON value, for -o name. A name is KIND/NAME; users, tokens and
// pending machines are written like the arguments of their commands.
func namesOfObjects(value any) ([]string, error) {
	type object struct {
		Items     []json.RawMessage `json:"items"`
		Kind      string            `json:"kind"`
		Metadata  model.Metadata    `json:"metadata"`
		Namespace string            `json:"namespace"`
		Node      string            `json:"node"`
		Check     string            `json:"check"`
		ID        any               `json:"id"` // of a problem a text, of a node a number
		Name      string            `json:"name"`
		Key       string            `json:"key"`    // of an item, or of a machine
		Policy    string            `json:"policy"` // of a queue
		Opened    *time.Time        `json:"opened"`
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode the list for -o name: %w", err)
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		var o object
		if err := json.Unmarshal(data, &o); err != nil {
			return nil, fmt.Errorf("decode the list for -o name: %w", err)
		}
		if list = o.Items; list == nil {
			list = []json.RawMessage{data}
		}
	}
	names := make([]string, len(list))
	for i, item := range list {
		var o object
		switch err := json.Unmarshal(item, &o); {
		case err != nil:
			return nil, fmt.Errorf("decode the list for -o name: %w", err)
		case o.Metadata.Name != "":
			names[i] = resourceRefText(o.Kind, o.Metadata.Namespace, o.Metadata.Name)
		case o.Opened != nil && o.ID != nil:
			names[i] = fmt.Sprint("problem/", o.ID)
		case o.Node != "" && o.Check != "" && o.Key == "":
			names[i] = "event/" + eventName{o.Namespace, o.Node, o.Check}.String()
		case o.Node != "" && o.Key != "":
			names[i] = "item/" + eventName{o.Namespace, o.Node, o.Key}.String()
		case o.Key != "":
			names[i] = o.Key
		case o.Name != "" && o.Namespace != "": // an agent is part of its node
			names[i] = resourceRefText("Node", o.Namespace, o.Name)
		case o.Policy != "":
			names[i] = "queue/" + o.Name
		case o.Name != "":
			names[i] = o.Name
		case o.ID != nil:
			names[i] = fmt.Sprint(o.ID)
		default:
			return nil, model.Errorf(model.Invalid, "-o name is not possible here: the rows of this list have no names").WithHint("-o json, or -o jsonpath='{.items[*].FIELD}'")
		}
	}
	return names, nil
}

// targetNamespace returns the namespace of the nodes that a new silence or run will select. With -A it returns
// shared, which stands for all namespaces.
func (c *commandCall) targetNamespace() string {
	if c.allNamespaces {
		return model.SharedNamespaceName
	}
	return c.objectNamespace()
}

// cutNamespacePrefix removes the prefix NAMESPACE/ from the values of filter flags such as --node, and returns
// the namespace. It returns that namespace, or without a prefix the namespace of -n or -A. Objects of namespace
// shared are in every namespace.
func (c *commandCall) cutNamespacePrefix(group *string, names ...*string) (string, error) {
	namespace, named := c.listNamespace(), ""
	for _, text := range append(names, group) {
		at, name, ok := model.CutRef(*text)
		switch {
		case !ok || at == model.SharedNamespaceName && text == group:
			continue
		case at == model.SharedNamespaceName:
			*text = name
			continue
		case named != "" && at != named:
			return "", model.Errorf(model.Invalid, "%s is not in namespace %s", *text, named).WithHint("name objects of one namespace")
		}
		if err := c.checkNamespaceFlag(at, *text); err != nil {
			return "", err
		}
		namespace, named, *text = at, at, name
	}
	return namespace, nil
}
