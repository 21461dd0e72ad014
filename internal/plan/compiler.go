package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
)

// unitCompilers has one compile function for each kind that lands on nodes. A function makes the unit of
// a declared resource; it reads other resources by the unitCompiler, so that the unit is compiled again
// when one of them changes.
var unitCompilers = map[string]func(*unitCompiler, *declared) (*unit, error){
	"Check": compileCheck,
}

// resourceKinds are compiled into no unit: the server itself uses them, or units read them.
var resourceKinds = []string{"Handler", "Secret", "Window", "Route", "Silence", "Filter", "Mutator", "Hook", "Pipeline", "Asset"}

// compiledKinds lists the kinds that the planner reads, those first that others refer to.
func compiledKinds() []string {
	kinds := append([]string{"Namespace", "Node", "Group", "Property"}, resourceKinds...)
	return append(kinds, slices.Sorted(maps.Keys(unitCompilers))...)
}

// declared is a decoded resource.
type declared struct {
	key  intent.Key
	id   uint32
	meta model.Metadata
	spec model.Spec
}

func (d *declared) name() route.Name { return routeName(d.key.Namespace, d.key.Name) }

// compiler turns resources into definitions. The holder of Planner.compiling uses it.
type compiler struct {
	groups     *groupNumbers
	kinds      *kind.Registry
	conditions map[string]*where.Condition // by expression
}

func newCompiler(groups *groupNumbers, kinds *kind.Registry) *compiler {
	return &compiler{groups: groups, kinds: kinds, conditions: map[string]*where.Condition{}}
}

// decode reads a stored body.
func (c *compiler) decode(key intent.Key, id uint32, data []byte) (*declared, error) {
	kind, ok := c.kinds.Of(key.Kind)
	if !ok {
		return nil, fmt.Errorf("compile %s %q: unknown kind", key.Kind, key.Name)
	}
	d := &declared{key: key, id: id, spec: kind.New()}
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

// define makes the definition of a resource that is no unit.
func (c *compiler) define(d *declared) (def any, err error) {
	switch spec := d.spec.(type) {
	case *model.NamespaceSpec:
		def = &directory.Namespace{
			ID: model.NamespaceID(d.id), Name: d.key.Name, Limits: spec.Limits, Handlers: spec.Handlers, Zone: spec.TimeZone,
			Shadow: spec.Notifications == model.NotificationsShadow,
		}
	case *model.NodeSpec:
		def = c.node(d, spec)
	case *model.GroupSpec:
		def, err = c.group(d.name(), spec)
	case *model.PropertySpec:
		def, err = c.property(d.name(), spec)
	case *model.HandlerSpec:
		spec.QualifyReferences(d.key.Namespace)
		def = &resourceDef{directory.Resource{Kind: d.key.Kind, Name: d.name()}, spec}
	default:
		def = &resourceDef{directory.Resource{Kind: d.key.Kind, Name: d.name()}, spec}
	}
	if err != nil {
		return nil, fmt.Errorf("compile %s %q: %w", d.key.Kind, d.name(), err)
	}
	return def, nil
}

// unitCompiler compiles one unit. It notes the resources that the unit reads.
type unitCompiler struct {
	*compiler
	lookup func(intent.Key) any // the definition that will be in force
	uses   []intent.Key
}

// resource returns the specification of a resource that the unit names; nil: it does not exist, which
// intent refuses, so that it comes from another version.
func (c *unitCompiler) resource(kind, namespace, name string) (model.Spec, route.Name) {
	var at route.Name
	at.Namespace, at.Name = model.SplitRef(namespace, name)
	def, _ := c.use(intent.Key{Kind: kind, Namespace: at.Namespace, Name: at.Name}).(*resourceDef)
	if def == nil {
		return nil, at
	}
	return def.spec, at
}

// namespace returns a namespace; an empty one if it does not exist.
func (c *unitCompiler) namespace(name string) *directory.Namespace {
	if n, ok := c.use(intent.Key{Kind: "Namespace", Name: name}).(*directory.Namespace); ok {
		return n
	}
	return &directory.Namespace{}
}

func (c *unitCompiler) use(key intent.Key) any {
	if !slices.Contains(c.uses, key) {
		c.uses = append(c.uses, key)
	}
	return c.lookup(key)
}

// unit compiles a declared unit; lookup finds the definitions that will be in force.
func (c *compiler) unit(d *declared, lookup func(intent.Key) any) (*unit, error) {
	in := &unitCompiler{compiler: c, lookup: lookup}
	u, err := unitCompilers[d.key.Kind](in, d)
	if err != nil {
		return nil, fmt.Errorf("compile %s %q: %w", d.key.Kind, d.name(), err)
	}
	u.source, u.uses = d, in.uses
	return u, nil
}

// maxConditions bounds the cache of compiled conditions.
const maxConditions = 4096

// condition compiles an expression once.
func (c *compiler) condition(expr string) (*where.Condition, error) {
	if w := c.conditions[expr]; w != nil {
		return w, nil
	}
	w, err := where.Compile(expr)
	if err != nil {
		return nil, err
	}
	if len(c.conditions) >= maxConditions {
		clear(c.conditions)
	}
	c.conditions[expr] = w
	return w, nil
}
