package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// SharedNamespace is the room whose checks, groups and properties may reach the
// nodes of all namespaces.
const SharedNamespace = model.SharedNamespaceName

// A ref names a node or a group. A node ref without namespace, which only resources
// of the shared namespace have, means the nodes of that name everywhere.
type ref struct{ ns, name string }

func (r ref) String() string { return r.ns + "/" + r.name }

// Definitions are resources decoded and compiled. They are immutable: an edit makes a
// new one, so that going back to the one before undoes it exactly.
type (
	nodeDef struct {
		ref
		id            model.NodeID
		uid           uuid.UUID
		labels, facts where.Pairs
		declared      where.Pairs // labels that the server owns
		groups        []gid       // that operators and tokens say
		given         *given      // what of that its machine got when it joined; nil: nothing
		claims        []claim     // that its agent says, ascending
		props         values
		notes         map[string]string // annotations
		proxy         bool              // no machine can be it
		stranger      bool              // its machine has another system's agent
		behind        *front
		hears         *hears   // of its keepalive; nil: nobody is named
		tell          []string // handlers that hear when it was forgotten
	}
	groupDef struct {
		ref
		id      gid
		targets *targets // listed, by condition, and other groups
		props   values

		selfJoin bool // agents may put themselves in
		trusted  bool // no machine can bring itself in
	}
	checkDef struct {
		ref
		id      model.CheckID
		targets *targets // nil: disabled, or on no node
		proxied *targets // proxy nodes that it is about; nil: it is about the nodes that run it
		chunk   *model.CheckChunk
		size    int      // of the encoded chunk, in bytes
		props   []string // properties that the chunk names

		except    []model.ScheduleException // see calendars
		hooks     []model.Hook              // as they are declared, where one names a Hook; see named
		secrets   []model.CommandSecret
		dependsOn []ref    // checks on the same node
		assets    []string // names of Assets; see Planner.assets
		shown     shown
		template  *model.CommandTemplate // nil: the chunk names none
		passive   bool                   // nobody runs it
		disabled  bool
	}
	propertyDef struct {
		ref
		property string
		scope    scope
		value    json.RawMessage
	}
	namespaceDef struct {
		id       model.NamespaceID
		name     string
		limits   *model.Limits
		handlers []string // told of problems that name nobody
		zone     string   // of windows and mutes that name none
		shadow   bool     // nothing is sent
	}
	// shown is what a check shows of itself to expressions that are kept from Sensu.
	shown struct{ labels, notes map[string]string }

	handlerDef struct {
		ref
		spec *model.HandlerSpec
	}
	secretDef struct {
		ref
		spec *model.SecretSpec
	}
	// routingDef is a Window, Route or Silence, or what is kept from Sensu: nothing of the
	// assignments.
	routingDef struct {
		ref
		spec model.Spec
	}
)

// given is what a node's machine got when it joined.
type given struct {
	token  string // its id; empty: it was accepted
	from   string // the same in words
	groups []gid  // ascending
}

// scope is where in the chain a property stands.
type scope struct {
	level level
	ns    string
	group gid
	node  ref
}

type level uint8

const (
	global level = iota
	namespaced
	grouped
	ofNode
)

// values are properties by name, ascending.
type values []namedValue

type namedValue struct {
	name  string
	value json.RawMessage
}

func makeValues(m map[string]json.RawMessage) values {
	v := make(values, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		v = append(v, namedValue{name, m[name]})
	}
	return v
}

func (v values) get(name string) (json.RawMessage, bool) {
	i, ok := slices.BinarySearchFunc(v, name, func(x namedValue, name string) int { return strings.Compare(x.name, name) })
	if !ok {
		return nil, false
	}
	return v[i].value, true
}

// decode turns a stored body into a definition; nil for kinds that do not concern
// assignments. Chunks have no ID yet: numbered gives it.
func (p *Planner) decode(key intent.Key, id uint32, body []byte) (any, error) {
	var envelope struct {
		Metadata model.Metadata  `json:"metadata"`
		Spec     json.RawMessage `json:"spec"`
	}
	into := func(spec any) error {
		if err := json.Unmarshal(body, &envelope); err != nil {
			return err
		}
		if len(envelope.Spec) == 0 {
			return nil
		}
		return json.Unmarshal(envelope.Spec, spec)
	}
	name := ref{key.Namespace, key.Name}
	var def any
	var err error
	switch key.Kind {
	case "Namespace":
		var spec model.NamespaceSpec
		err = into(&spec)
		def = &namespaceDef{id: model.NamespaceID(id), name: key.Name, limits: spec.Limits, handlers: spec.Handlers, zone: spec.TimeZone, shadow: spec.Notifications == model.NotificationsShadow}
	case "Node":
		var spec model.NodeSpec
		err = into(&spec)
		def = p.nodeDef(name, model.NodeID(id), envelope.Metadata, &spec)
	case "Group":
		var spec model.GroupSpec
		if err = into(&spec); err == nil {
			def, err = p.groupDef(name, &spec)
		}
	case "Check":
		var spec model.CheckSpec
		if err = into(&spec); err == nil {
			var d *checkDef
			if d, err = p.checkDef(name, model.CheckID(id), &spec); err == nil {
				d.shown = shown{envelope.Metadata.Labels, envelope.Metadata.Annotations}
				def = d
			}
		}
	case "Property":
		var spec model.PropertySpec
		if err = into(&spec); err == nil {
			def, err = p.propertyDef(name, &spec)
		}
	case "Handler":
		var spec model.HandlerSpec
		err = into(&spec)
		spec.QualifyReferences(name.ns)
		def = &handlerDef{ref: name, spec: &spec}
	case "Secret":
		var spec model.SecretSpec
		err = into(&spec)
		def = &secretDef{ref: name, spec: &spec}
	case "Window", "Route", "Silence", "Filter", "Mutator", "Hook", "Pipeline", "Asset":
		kind, _ := p.o.Kinds.Of(key.Kind)
		spec := kind.New()
		err = into(spec)
		def = &routingDef{ref: name, spec: spec}
	}
	if err != nil {
		return nil, fmt.Errorf("compile %s %q: %w", key.Kind, name, err)
	}
	return def, nil
}

func (p *Planner) nodeDef(name ref, id model.NodeID, meta model.Metadata, spec *model.NodeSpec) *nodeDef {
	uid, _ := uuid.Parse(spec.UID) // a node that never enrolled has none
	labels := EffectiveLabels(meta, spec)
	d := &nodeDef{
		ref: name, id: id, uid: uid, props: makeValues(spec.Properties), behind: frontOf(name.ns, spec.Upstream), stranger: intent.IsExternalAgent(uid),
		labels: where.MakePairs(labels), facts: where.MakePairs(spec.Facts), notes: meta.Annotations,
	}
	if own := spec.OperatorLabels(meta); len(labels) == len(own) { // the server's win, and are among them
		d.declared = d.labels
	} else {
		d.declared = where.MakePairs(own)
	}
	if spec.JoinGrant != nil {
		d.given = &given{token: spec.JoinGrant.Token, from: spec.JoinGrant.Source()}
		for _, g := range spec.JoinGrant.Groups {
			if r, ok := groupRef(name.ns, g); ok {
				d.given.groups = insert(d.given.groups, p.gids.id(r))
			}
		}
	}
	for _, g := range spec.AssignedGroups() {
		if r, ok := groupRef(name.ns, g); ok {
			d.groups = insert(d.groups, p.gids.id(r))
		}
	}
	d.claims = p.claims(name.ns, spec)
	if d.proxy = spec.Proxy; d.proxy {
		d.uid = directory.ProxyUID(id)
	}
	if h, said := spec.KeepaliveReceivers(); h != nil {
		d.hears = &hears{h, said}
	}
	if life := spec.EffectiveLifecycle(); life != nil {
		d.tell = life.Handlers
	}
	return d
}

func (p *Planner) groupDef(name ref, spec *model.GroupSpec) (*groupDef, error) {
	t, err := p.targets(name.ns, &model.Targets{Nodes: spec.Nodes, Groups: spec.Groups, Where: spec.Where})
	if err != nil {
		return nil, err
	}
	if t.where != nil && t.where.ReadsGroups() {
		return nil, model.Errorf(model.Invalid, "a group's where cannot read node.groups").
			WithHint("list the other groups under groups:")
	}
	if spec.Trusted {
		if t.where != nil {
			if err := t.where.Trusted(); err != nil {
				return nil, err
			}
			t.where.key.declared = true
		}
	}
	return &groupDef{
		ref: name, id: p.gids.id(name), targets: t, props: makeValues(spec.Properties), selfJoin: spec.SelfJoin, trusted: spec.Trusted,
	}, nil
}

func (p *Planner) checkDef(name ref, id model.CheckID, spec *model.CheckSpec) (*checkDef, error) {
	d := &checkDef{ref: name, id: id, dependsOn: checkRefs(name.ns, spec.DependsOn), passive: spec.Passive, disabled: spec.Disabled, secrets: spec.Secrets}
	chunk, err := compileChunk(name, id, spec)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(spec.Hooks, func(h model.Hook) bool { return h.Hook != "" }) {
		d.hooks = spec.Hooks
	}
	d.assets = spec.Assets
	template, err := chunk.Template()
	if err != nil {
		return nil, err
	}
	if d.size, err = sizeOf(chunk); err != nil {
		return nil, err
	}
	d.chunk, d.props = chunk, template.Names()
	if spec.Schedule != nil {
		d.except = spec.Schedule.Except
	}
	if len(d.props) > 0 {
		d.template = template
	}
	if spec.Targets != nil && !spec.Disabled {
		if d.targets, err = p.targets(name.ns, spec.Targets); err != nil {
			return nil, err
		}
	}
	if spec.Proxy != nil {
		if d.proxied, err = p.targets(name.ns, spec.Proxy); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (p *Planner) propertyDef(name ref, spec *model.PropertySpec) (*propertyDef, error) {
	d := &propertyDef{ref: name, property: spec.Property, value: spec.Value}
	if d.property == "" {
		d.property = name.name
	}
	kind, what, _ := strings.Cut(spec.Scope, ":")
	switch kind {
	case "global":
		d.scope = scope{level: global}
	case "namespace", "":
		d.scope = scope{level: namespaced, ns: name.ns}
	case "group":
		r, ok := groupRef(name.ns, what)
		if !ok {
			return nil, model.Errorf(model.Invalid, "scope %q names a group of another namespace", spec.Scope)
		}
		d.scope = scope{level: grouped, group: p.gids.id(r)}
	case "node":
		d.scope = scope{level: ofNode, node: nodeRef(name.ns, what)}
	default:
		return nil, model.Errorf(model.Invalid, "scope %q is not known", spec.Scope).
			WithHint("write global, namespace, group:NAME or node:NAME")
	}
	return d, nil
}

// nodeRef reads how a resource of a namespace names a node.
func nodeRef(ns, name string) ref {
	if before, after, ok := strings.Cut(name, "/"); ok {
		return ref{before, after}
	}
	if ns == SharedNamespace {
		return ref{"", name}
	}
	return ref{ns, name}
}

// groupRef reads how a resource of a namespace names a group: one of its own, or
// shared/NAME. Groups of another namespace are nobody's business.
func groupRef(ns, name string) (ref, bool) {
	before, after, ok := strings.Cut(name, "/")
	switch {
	case !ok:
		return ref{ns, name}, true
	case before == ns || before == SharedNamespace:
		return ref{before, after}, true
	}
	return ref{}, false
}

// inScope says whether what belongs to namespace owner may reach nodes of ns.
func inScope(owner, ns string) bool { return owner == ns || owner == SharedNamespace }
