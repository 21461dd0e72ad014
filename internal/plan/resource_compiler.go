package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
)

// compileUnit is the type of functions that compile a declared resource for nodes, such as a check. It reads
// other resources through the unitCompiler, which remembers them: when one of them changes, the unit is
// compiled again.
type compileUnit func(*unitCompiler, *declaredResource) (*unit, error)

// unitCompilers has the compile function of each kind that nodes can get, such as Check.
var unitCompilers = map[string]compileUnit{
	"Check":     compileCheck,
	"Directive": compileDirective,
	"RuleGroup": compileRuleGroup,
	"Template":  compileTemplate,
	"Waiver":    compileWaiver,
}

// declaredResource is a resource from the database, decoded but not yet compiled
type declaredResource struct {
	key  intent.Key
	id   uint32
	meta model.Metadata
	spec model.Spec
}

// name returns the name of the declared resource with its namespace
func (d *declaredResource) name() route.Name { return routeName(d.key.Namespace, d.key.Name) }

// compiler compiles declared resources to the forms that the planner uses. Only the holder of Planner.compiling uses
// it.
type compiler struct {
	groups     *groupNumbers
	kinds      *kind.Registry
	names      []string // of the kinds, those without a unit first: units read them
	units      map[string]compileUnit
	conditions map[string]*where.Condition // compiled conditions by expression
}

// newCompiler returns a compiler of declared resources, with an empty cache of compiled conditions.
func newCompiler(groups *groupNumbers, kinds *kind.Registry) *compiler {
	c := &compiler{groups: groups, kinds: kinds, units: unitCompilers, conditions: map[string]*where.Condition{}}
	var units []string
	for _, k := range kinds.Kinds() {
		if k.Unit != 0 {
			units = append(units, k.Name)
		} else {
			c.names = append(c.names, k.Name)
		}
	}
	c.names = append(c.names, units...)
	return c
}

// decode decodes a stored resource by the rules of its kind.
func (c *compiler) decode(key intent.Key, id uint32, data []byte) (*declaredResource, error) {
	kind, ok := c.kinds.Lookup(key.Kind)
	if !ok {
		return nil, fmt.Errorf("compile %s %q: unknown kind", key.Kind, key.Name)
	}
	d := &declaredResource{key: key, id: id, spec: kind.New()}
	var envelope struct {
		Metadata *model.Metadata `json:"metadata"`
		Spec     json.RawMessage `json:"spec"`
	}
	envelope.Metadata = &d.meta
	err := json.Unmarshal(data, &envelope)
	if err == nil && len(envelope.Spec) > 0 {
		err = json.Unmarshal(envelope.Spec, d.spec)
	}
	if err != nil {
		return nil, fmt.Errorf("compile %s %q: %w", key.Kind, d.name(), err)
	}
	return d, nil
}

// define compiles a resource that no agent runs, such as a group or a namespace.
func (c *compiler) define(d *declaredResource) (def any, err error) {
	switch spec := d.spec.(type) {
	case *model.NamespaceSpec:
		def = &directory.Namespace{
			ID: model.NamespaceID(d.id), Name: d.key.Name, Limits: spec.Limits, Handlers: spec.Handlers, Zone: spec.TimeZone,
			Shadow: spec.Notifications == model.NotificationsShadow, RudderChanges: spec.RudderReports == model.RudderChangesOnly,
			ZabbixCertificate: spec.ZabbixTLS == model.ZabbixCertificate,
		}
		if spec.PolicyMode != nil {
			def.(*directory.Namespace).PolicyMode = *spec.PolicyMode
		}
		n := def.(*directory.Namespace)
		if n.ZabbixFrom, err = model.ParseNetworks(spec.ZabbixFrom); err == nil {
			n.RudderFrom, err = model.ParseNetworks(spec.RudderFrom)
		}
	case *model.NodeSpec:
		def = c.node(d, spec)
	case *model.GroupSpec:
		def, err = c.group(d.name(), spec)
	case *model.PropertySpec:
		def, err = c.property(d.name(), spec)
	default:
		if handler, ok := spec.(*model.HandlerSpec); ok {
			handler.QualifyReferences(d.key.Namespace)
		}
		def = &resourceDef{directory.ResourceKey{Kind: d.key.Kind, Name: d.name()}, d.spec,
			c.kinds.References(&model.Resource{Kind: d.key.Kind, Metadata: model.Metadata{Namespace: d.key.Namespace, Name: d.key.Name}, Spec: d.spec})}
	}
	if err != nil {
		return nil, fmt.Errorf("compile %s %q: %w", d.key.Kind, d.name(), err)
	}
	return def, nil
}

// unitCompiler compiles one check, and records the resources that the check uses.
type unitCompiler struct {
	*compiler
	lookup   func(intent.Key) any                 // returns the definition that will be in force after the change
	policies func() map[intent.Key][]*resourceDef // by directive, after the change
	uses     []intent.Key
}

// resource returns the specification and name of a resource that a check refers to. The specification is nil if the
// resource does not exist. Intent refuses such a unit, so only another version of Muster can have stored it.
func (c *unitCompiler) resource(kind, namespace, name string) (model.Spec, route.Name) {
	var at route.Name
	at.Namespace, at.Name = model.SplitRef(namespace, name)
	def, _ := c.use(intent.Key{Kind: kind, Namespace: at.Namespace, Name: at.Name}).(*resourceDef)
	if def == nil {
		return nil, at
	}
	return def.spec, at
}

// namespace returns the compiled Namespace with a given name, and records that the check uses the Namespace. It is
// empty if the namespace does not exist.
func (c *unitCompiler) namespace(name string) *directory.Namespace {
	if n, ok := c.use(intent.Key{Kind: "Namespace", Name: name}).(*directory.Namespace); ok {
		return n
	}
	return &directory.Namespace{}
}

// use returns the compiled form of a resource, and records that the check depends on the resource. When the resource
// changes, the check is compiled again.
func (c *unitCompiler) use(key intent.Key) any {
	if !slices.Contains(c.uses, key) {
		c.uses = append(c.uses, key)
	}
	return c.lookup(key)
}

// unit compiles a resource that agents run, such as a check. lookup and policies return the definitions of other
// resources after the edit.
func (c *compiler) unit(d *declaredResource, lookup func(intent.Key) any, policies func() map[intent.Key][]*resourceDef) (*unit, error) {
	in := &unitCompiler{compiler: c, lookup: lookup, policies: policies}
	u, err := c.units[d.key.Kind](in, d)
	if known := (*model.Error)(nil); errors.As(err, &known) { // a change of one resource may break another one
		named := *known
		named.Resource = d.key.String()
		named.Message = fmt.Sprintf("%s %s: %s", strings.ToLower(d.key.Kind), strings.TrimPrefix(d.name().String(), model.DefaultNamespaceName+"/"), known.Message)
		return nil, &named
	}
	if err != nil {
		return nil, fmt.Errorf("compile %s %q: %w", d.key.Kind, d.name(), err)
	}
	u.source, u.uses = d, in.uses
	return u, nil
}

// maxConditions is the largest number of compiled conditions in the cache.
const maxConditions = 4096

// condition compiles a condition in CEL, or returns the compiled condition from the cache.
func (c *compiler) condition(expr string) (*where.Condition, error) {
	if w := c.conditions[expr]; w != nil {
		return w, nil
	}
	w, err := where.CompileSearch(expr)
	if err != nil {
		return nil, err
	}
	if len(c.conditions) >= maxConditions {
		clear(c.conditions)
	}
	c.conditions[expr] = w
	return w, nil
}

// shared is the namespace with resources for the nodes of all namespaces.
const shared = model.SharedNamespaceName

// Definitions are the compiled forms of resources, such as *nodeDef and *groupDef. They are immutable: an edit makes a
// new one, so that a return to the one before undoes the edit exactly.
type (
	// nodeDef is the compiled definition of a Node.
	nodeDef struct {
		*directory.Node
		operatorLabels where.Pairs         // labels that no machine can set
		groups         []directory.GroupID // groups that operators and join tokens put the node in
		grant          *joinGrant          // groups that the node got when it joined; nil: none
		requests       []joinRequest       // groups that the node's agent wants to join, ascending
		properties     values
		policyMode     string   // of its directives: ModeAudit, ModeEnforce or empty
		state          string   // of its life; model.NodeSpec.State
		exempt         bool     // its state lets it run no directive
		entityName     string   // the name in Sensu, which may have capitals
		endHandlers    []string // notified when the node was removed as absent
	}
	// groupDef is the compiled definition of a Group. Definitions are *nodeDef, *groupDef, *propertyDef,
	// *directory.Namespace, *unit and *resourceDef.
	groupDef struct {
		route.Name
		id         directory.GroupID
		targets    *targets // selects the members: listed nodes, condition, and other groups
		properties values
		selfJoin   bool // agents may put their own nodes in
		trusted    bool // no machine can bring itself in
		review     bool // changes of directives on its nodes need an approval
	}
	// propertyDef is the compiled definition of a Property.
	propertyDef struct {
		route.Name
		property string
		scope    scope
		value    json.RawMessage
		merge    model.PropertyMerge
	}
	// resourceDef is a resource that agents never receive, such as a handler, route or hook. It stays as declared,
	// without compilation.
	resourceDef struct {
		directory.ResourceKey
		spec       model.Spec
		references []kind.Reference
	}
)

// joinGrant has the groups that a machine got from its join token or from the accepting person. It names the join
// token or the person that granted the groups.
type joinGrant struct {
	token  string // id of the join token; empty: a person accepted the machine
	text   string // the origin of the grant, written for people
	groups []directory.GroupID
}

// scope is the part of the fleet for which a Property is declared, such as a group. The range is everywhere, a
// namespace, a group or a node.
type scope struct {
	level scopeLevel
	ns    string
	group directory.GroupID
	node  route.Name
}

// scopeLevel is the kind of a property's scope, from global (widest) to node (narrowest)
type scopeLevel uint8

const (
	globalLevel scopeLevel = iota
	namespaceLevel
	groupLevel
	nodeLevel
)

// values is a list of property names and their values, sorted by name.
type values []namedValue

// namedValue is the name of a property with its value in JSON.
type namedValue struct {
	name  string
	value json.RawMessage
}

// newPropertyValues returns the property values of a map as a list sorted by name
func newPropertyValues(m map[string]json.RawMessage) values {
	v := make(values, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		v = append(v, namedValue{name, m[name]})
	}
	return v
}

// get returns the value of a property by its name.
func (v values) get(name string) (json.RawMessage, bool) {
	i, ok := slices.BinarySearchFunc(v, name, func(x namedValue, name string) int { return strings.Compare(x.name, name) })
	if !ok {
		return nil, false
	}
	return v[i].value, true
}

// node compiles a Node to the planner's form, with the labels from all sources.
func (c *compiler) node(d *declaredResource, spec *model.NodeSpec) *nodeDef {
	uid, _ := uuid.Parse(spec.UID) // a node that never enrolled has no UID
	if spec.Proxy {
		uid = directory.ProxyUID(model.NodeID(d.id))
	}
	labels, own := EffectiveLabels(d.meta, spec), spec.OperatorLabels(d.meta)
	n := &nodeDef{
		Node: &directory.Node{
			Name: d.name(), ID: model.NodeID(d.id), UID: uid, Labels: where.MakePairs(labels), Facts: where.MakePairs(spec.Facts),
			Annotations: d.meta.Annotations, Proxy: spec.Proxy, External: !spec.Proxy && intent.IsExternalAgent(uid), Entity: spec.AgentEntity,
			ZabbixAgent: spec.ZabbixAgent,
		},
		properties: newPropertyValues(spec.Properties), entityName: model.EntityName(d.meta, spec), policyMode: spec.PolicyMode, state: spec.State, exempt: !spec.RunsDirectives(),
		groups:   c.groupIDs(d.key.Namespace, spec.AssignedGroups()),
		requests: c.joinRequests(d.key.Namespace, spec),
	}
	n.operatorLabels = n.Labels
	if len(labels) != len(own) { // the operators' labels win over labels of the agent and facts, and are among all labels
		n.operatorLabels = where.MakePairs(own)
	}
	if b := spec.Upstream; b != nil {
		n.Upstream = &directory.Upstream{Node: splitName(d.key.Namespace, b.Node), Check: splitName(d.key.Namespace, b.CheckName())}
	}
	if spec.JoinGrant != nil {
		n.grant = &joinGrant{spec.JoinGrant.Token, spec.JoinGrant.Source(), c.groupIDs(d.key.Namespace, spec.JoinGrant.Groups)}
	}
	if k, fromAgent := spec.KeepaliveReceivers(); k != nil {
		n.Keepalive = &directory.Keepalive{KeepaliveReceivers: k, FromAgent: fromAgent}
	}
	if life := spec.EffectiveLifecycle(); life != nil {
		n.endHandlers = life.Handlers
	}
	return n
}

// groupIDs returns the ids of groups by their names, ascending. It skips groups that a resource of the namespace must
// not name.
func (c *compiler) groupIDs(ns string, names []string) (list []directory.GroupID) {
	for _, name := range names {
		if group, ok := groupName(ns, name); ok {
			list = insert(list, c.groups.number(group))
		}
	}
	return list
}

// joinRequests returns the groups that a node's agent asks to join. It leaves out group names that intent would
// refuse.
func (c *compiler) joinRequests(ns string, spec *model.NodeSpec) (list []joinRequest) {
	if len(spec.AgentGroups) == 0 {
		return nil
	}
	allowed := c.groupIDs(ns, spec.JoinableGroups())
	for _, g := range c.groupIDs(ns, spec.AgentGroups) {
		_, vouched := slices.BinarySearch(allowed, g)
		list = append(list, joinRequest{g, vouched})
	}
	slices.SortFunc(list, func(a, b joinRequest) int { return cmp.Compare(a.group, b.group) })
	return list
}

// group compiles a Group to its targets, properties and permissions.
func (c *compiler) group(name route.Name, spec *model.GroupSpec) (*groupDef, error) {
	t, err := c.targets(name.Namespace, &model.Targets{Nodes: spec.Nodes, Groups: spec.Groups, Where: spec.Where})
	if err != nil {
		return nil, err
	}
	if t.where != nil && t.where.ReadsGroups() {
		return nil, model.Errorf(model.Invalid, "the condition (where) of a group cannot read node.groups, because the members of groups depend on that condition").
			WithHint("name the other groups in spec.groups")
	}
	if spec.Trusted && t.where != nil {
		if err := t.where.CheckTrusted(); err != nil {
			return nil, err
		}
		t.where.key.operatorLabels = true
	}
	return &groupDef{
		Name: name, id: c.groups.number(name), targets: t, properties: newPropertyValues(spec.Properties), selfJoin: spec.SelfJoin, trusted: spec.Trusted, review: spec.Review,
	}, nil
}

// property compiles a Property resource to its value and the scope for which the value is declared.
func (c *compiler) property(name route.Name, spec *model.PropertySpec) (*propertyDef, error) {
	d := &propertyDef{Name: name, property: cmp.Or(spec.Property, name.Name), value: spec.Value, merge: spec.Merge}
	level, of, _ := strings.Cut(spec.Scope, ":")
	switch level {
	case "global":
		d.scope = scope{level: globalLevel}
	case "namespace", "":
		d.scope = scope{level: namespaceLevel, ns: name.Namespace}
	case "group":
		group, ok := groupName(name.Namespace, of)
		if !ok {
			return nil, model.Errorf(model.Invalid, "scope %q names a group of another namespace", spec.Scope)
		}
		d.scope = scope{level: groupLevel, group: c.groups.number(group)}
	case "node":
		d.scope = scope{level: nodeLevel, node: nodeName(name.Namespace, of)}
	default:
		return nil, model.Errorf(model.Invalid, "unknown scope %q", spec.Scope).
			WithHint("write global, namespace, group:NAME or node:NAME")
	}
	return d, nil
}

// routeName returns the name of a route with its namespace.
func routeName(namespace, name string) route.Name {
	return route.Name{Namespace: namespace, Name: name}
}

// nodeName splits a node's name, as written in a resource, into its namespace and its plain name. In the shared
// namespace a name without a namespace means the nodes of that name in all namespaces: then the result has an
// empty Namespace.
func nodeName(ns, name string) route.Name {
	if before, after, ok := strings.Cut(name, "/"); ok {
		return routeName(before, after)
	}
	if ns == shared {
		return routeName("", name)
	}
	return routeName(ns, name)
}

// matchesNode reports whether a name in targets, with or without namespace, means a given node. The function nodeName
// has made the name.
func matchesNode(name, node route.Name) bool {
	return name.Name == node.Name && (name.Namespace == "" || name.Namespace == node.Namespace)
}

// groupName splits a group's name, as written in a resource, into its namespace and its plain name. The text is
// NAME for its own namespace, or shared/NAME. Not ok: the group is of another namespace, and cannot be named.
func groupName(ns, name string) (route.Name, bool) {
	before, after, ok := strings.Cut(name, "/")
	switch {
	case !ok:
		return routeName(ns, name), true
	case before == ns || before == shared:
		return routeName(before, after), true
	}
	return route.Name{}, false
}

// reachesNamespace reports whether a resource of one namespace may apply to nodes of another namespace
func reachesNamespace(owner, ns string) bool { return owner == ns || owner == shared }

// EffectiveLabels merges a node's labels from the server, the agent's configuration and measured facts. Labels that
// the server keeps (metadata and join grant) win over labels of the agent's configuration, and those win over measured
// facts.
func EffectiveLabels(meta model.Metadata, spec *model.NodeSpec) map[string]string {
	own := spec.OperatorLabels(meta)
	labels := make(map[string]string, len(own)+len(spec.AgentLabels)+len(spec.Facts))
	maps.Copy(labels, spec.Facts)
	maps.Copy(labels, spec.AgentLabels)
	maps.Copy(labels, own)
	return labels
}
