package kind

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// Node returns the resource kind Node, a machine with an agent or a proxy node without an agent.
func Node() Kind {
	return Define(Definition[*model.NodeSpec]{
		KindInfo: model.KindInfo{Name: "Node", Plural: "nodes", Short: "no", Namespaced: true},
		Related:  NodeEvents,
		Example: `kind: Node
metadata: {name: web01, labels: {env: prod}}
spec:
  groups: [web]
  keepalive: {timeout: 5m}
`,
		Validate: validateNode,
		Cycle:    CycleMessage{"depends on itself", "remove spec.dependsOn from one of these nodes: the node nearest to the server has none"},
		Declared: func(s *model.NodeSpec) *model.NodeSpec {
			out := *s
			out.JoinGrant, out.Facts, out.AgentLabels, out.AgentGroups, out.AgentReceivers, out.AgentEntity = nil, nil, nil, nil, nil, nil
			return &out
		},
		FromSensu: func(s *model.NodeSpec) string {
			if s.Keepalive != nil && len(s.Keepalive.Pipelines) > 0 {
				return "pipelines of a Node's keepalive"
			}
			return ""
		},
		Columns: []Column[*model.NodeSpec]{
			{"GROUPS", 0, func(_ ResourceView, s *model.NodeSpec) string {
				return dashIfEmpty(strings.Join(s.AssignedGroups(), ","))
			}},
			{"OS", 0, func(_ ResourceView, s *model.NodeSpec) string {
				return dashIfEmpty(strings.TrimSpace(s.Facts["os"] + " " + s.Facts["arch"]))
			}},
		},
	})
}

// validateNode validates the spec of a Node.
func validateNode(v *Validator, s *model.NodeSpec) {
	if s.Proxy {
		validateProxyNode(v, s)
	}
	if s.UID != "" {
		if id, err := uuid.Parse(s.UID); err != nil || id.String() != s.UID {
			v.Flaw("spec.uid", "leave the field out: enrolment sets the id", "%q is not a node id", s.UID)
		}
	}
	v.RequireNames("spec.mayJoin", s.MayJoin, v.RequireSharedName)
	validateProperties(v, "spec.properties", s.Properties)
	validateLifecycle(v, "spec.lifecycle", s.Lifecycle)
	v.requireOneOf("spec.policyMode", s.PolicyMode, model.ModeAudit, model.ModeEnforce)
	v.requireOneOf("spec.state", s.State, model.StateInitializing, model.StateEnabled, model.StateEmptyPolicies, model.StateIgnored, model.StatePreparingEOL)
	if z := s.ZabbixAgent; z != nil {
		v.FlawIf(len(z.Address) > model.MaxText || model.CheckHostPort(z.Endpoint()) != nil,
			"spec.zabbixAgent.address", "write HOST or HOST:PORT: 10.0.0.7, web1.example.org:10050 or [fd00::7]:10050", "%q is not the address of an agent", model.Truncate(z.Address, 100))
		v.InRange("spec.zabbixAgent.timeout", z.Timeout, model.Duration(time.Second), model.Duration(30*time.Second))
	}
	if b := s.Upstream; b != nil {
		v.MissingIf(b.Node == "",
			"spec.dependsOn.node", "write dependsOn: {node: NAME}; add check: NAME if a check other than keepalive reports that node as down", "the node on which this node depends is missing")
	}
	if g := s.JoinGrant; g != nil {
		v.RequireLine("spec.joinGrant.token", g.Token, model.MaxText)
		v.RequireNames("spec.joinGrant.groups", g.Groups, v.RequireSharedName)
		v.validateLabels("spec.joinGrant.labels", g.Labels)
		validateLifecycle(v, "spec.joinGrant.lifecycle", g.Lifecycle)
		v.validateNames("spec.joinGrant.lifecycle", g.Lifecycle)
	}
	if k := s.Keepalive; k != nil {
		v.InRange("spec.keepalive.interval", k.Interval, model.Duration(time.Second), maxTimeout)
		v.InRange("spec.keepalive.timeout", k.Timeout, model.Duration(time.Second), maxInterval)
		interval, timeout := k.EffectiveTimes()
		v.FlawIf(timeout <= interval, "spec.keepalive", "", "timeout %s must be longer than interval %s", timeout, interval)
		if w := k.Warning; w != 0 && (w <= interval || w >= timeout) {
			v.Flaw("spec.keepalive.warning", "", "%s must lie between interval %s and timeout %s", w, interval, timeout)
		}
	}
}

// validateProxyNode refuses fields of a proxy node that only a machine with an agent can have.
func validateProxyNode(v *Validator, s *model.NodeSpec) {
	const hint = "leave the field out: a proxy node has no agent"
	for _, field := range [...]struct {
		name string
		set  bool
	}{
		{"uid", s.UID != ""}, {"key", s.Key != ""}, {"keepalive", s.Keepalive != nil}, {"lifecycle", s.Lifecycle != nil},
		{"zabbixAgent", s.ZabbixAgent != nil},
		{"given", s.JoinGrant != nil}, {"mayJoin", len(s.MayJoin) > 0},
	} {
		v.FlawIf(field.set, "spec."+field.name, hint, "a proxy node cannot have this field")
	}
}

// validateLifecycle validates the lifecycle of a node or join token.
func validateLifecycle(v *Validator, field string, l *model.Lifecycle) {
	if l == nil {
		return
	}
	v.FlawIf(len(l.Handlers) > 0 && !l.Ephemeral,
		field+".handlers", "write ephemeral: true, too", "only ephemeral nodes are removed automatically")
	v.FlawIf(l.ForgetAfter != 0 && !l.Ephemeral,
		field+".forgetAfter", "write lifecycle: {ephemeral: true, forgetAfter: "+l.ForgetAfter.String()+"}", "only ephemeral nodes are removed automatically")
	v.InRange(field+".forgetAfter", l.ForgetAfter, model.Duration(model.MinForgetAfter), model.Duration(model.MaxForgetAfter))
}

// Group returns the resource kind Group, a named set of nodes.
func Group() Kind {
	return Define(Definition[*model.GroupSpec]{
		KindInfo: model.KindInfo{Name: "Group", Plural: "groups", Short: "gr", Namespaced: true},
		Related:  GroupMembers,
		LandsAs:  "has",
		Example: `kind: Group
metadata: {name: web}
spec:
  where: node.labels.role == "web"
`,
		Validate: validateGroup,
		Cycle:    CycleMessage{"contains itself", "remove one of them from the spec.groups of the group before it"},
		Columns: []Column[*model.GroupSpec]{
			nodesColumn[*model.GroupSpec](), checksColumn[*model.GroupSpec]("CHECKS"),
			{"MEMBERS", 60, func(_ ResourceView, s *model.GroupSpec) string { return groupMembersText(s) }},
		},
		Details: func(view ResourceView, s *model.GroupSpec) []Detail {
			return []Detail{{"members", groupMembersText(s)}, {"checks", "targeted by " + model.CountNoun(view.State.Checks, "check")}}
		},
		Effect: func(_ *model.Resource, _ *model.GroupSpec, l ResourceUsage, _ bool) (note, warning string) {
			if l.Nodes == 0 {
				return "has no member", "no node belongs to the group. List nodes: muster get nodes; the groups of a node: muster why NODE"
			}
			return "has " + l.nodesText(), ""
		},
	})
}

// groupMembersText describes the rules of a group's membership.
func groupMembersText(s *model.GroupSpec) string {
	var from []string
	if len(s.Nodes) > 0 {
		from = append(from, model.CountNoun(len(s.Nodes), "node")+" listed")
	}
	if len(s.Groups) > 0 {
		from = append(from, "groups "+strings.Join(s.Groups, ","))
	}
	switch s.Where {
	case "":
	case "true":
		from = append(from, "every node")
	default:
		from = append(from, "where "+s.Where)
	}
	if s.SelfJoin {
		from = append(from, "agents that request the group")
	}
	return dashIfEmpty(strings.Join(from, "; "))
}

// validateGroup validates the spec of a Group.
func validateGroup(v *Validator, s *model.GroupSpec) {
	name := v.resource.Metadata.Name
	v.FlawIf(slices.Contains(s.Groups, name) || slices.Contains(s.Groups, v.namespace+"/"+name),
		"spec.groups", "", "a group cannot contain itself")
	v.validateCondition("spec.where", s.Where, where.CompileSearch, func(c *where.Condition) error {
		if s.Trusted {
			return c.CheckTrusted()
		}
		if c.ReadsGroups() {
			return model.Errorf(model.Invalid, "the condition of a group cannot read node.groups").WithHint("list the other groups under groups:")
		}
		return nil
	})
	v.FlawIf(s.Trusted && s.SelfJoin,
		"spec.selfJoin", "leave the field out, or declare another group for agents that request it", "an agent cannot join a trusted group by itself")
	validateProperties(v, "spec.properties", s.Properties)
}

// Property returns the resource kind Property, a named value for templates.
func Property() Kind {
	return Define(Definition[*model.PropertySpec]{
		KindInfo: model.KindInfo{Name: "Property", Plural: "properties", Short: "prop", Namespaced: true},
		LandsAs:  "read on",
		Example: `kind: Property
metadata: {name: disk-warn}
spec:
  property: disk_warn
  scope: group:web
  value: "20%"
`,
		Validate: validateProperty,
		References: func(refs *References, s *model.PropertySpec) {
			if name, ok := strings.CutPrefix(s.Scope, "node:"); ok {
				refs.AddOptional("Node", "spec.scope", name)
			}
		},
		Columns: []Column[*model.PropertySpec]{
			{"SCOPE", 0, func(_ ResourceView, s *model.PropertySpec) string { return cmp.Or(s.Scope, "namespace") }},
			{"VALUE", 40, func(_ ResourceView, s *model.PropertySpec) string { return compactJSON(s.Value) }},
			{"READ ON", 0, func(v ResourceView, _ *model.PropertySpec) string { return model.CountNoun(v.State.Nodes, "node") }},
		},
		Details: func(view ResourceView, s *model.PropertySpec) []Detail {
			return []Detail{{"scope", cmp.Or(s.Scope, "namespace")}, {"value", compactJSON(s.Value)}, {"read by", model.CountNoun(view.State.Checks, "check")}}
		},
		Effect: func(_ *model.Resource, _ *model.PropertySpec, l ResourceUsage, _ bool) (note, warning string) {
			if l.Nodes == 0 {
				return "read by no check yet", ""
			}
			return "read on " + l.nodesText(), ""
		},
	})
}

// compactJSON returns JSON without the white space between its elements.
func compactJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// validateProperty validates the spec of a Property.
func validateProperty(v *Validator, s *model.PropertySpec) {
	name := v.resource.Metadata.Name
	if s.Property != "" {
		validatePropertyName(v, "spec.property", s.Property)
	} else if err := model.PropertyNameError(name); err != nil && name != "" {
		v.Flaw("metadata.name", "write spec: {property: …}", "%v", err)
	}
	v.MissingIf(len(s.Value) == 0, "spec.value", "", "missing")
	validatePropertyValue(v, "spec.value", s.Value)
	v.requireOneOf("spec.merge.objects", s.Merge.Objects, model.MergeMembers, model.MergeOverride)
	v.requireOneOf("spec.merge.lists", s.Merge.Lists, model.MergeOverride, model.MergeAppend, model.MergePrepend)
	v.requireOneOf("spec.merge.texts", s.Merge.Texts, model.MergeOverride, model.MergeAppend, model.MergePrepend)
	switch level, of, _ := strings.Cut(s.Scope, ":"); {
	case s.Scope == "" || s.Scope == "global" || s.Scope == "namespace":
	case level == "group" && of != "":
		v.RequireSharedName("spec.scope", of)
	case level == "node" && of != "":
		v.RequireNodeName("spec.scope", of)
	default:
		v.Flaw("spec.scope", "write global, namespace, group:NAME or node:NAME", "unknown scope %q", s.Scope)
	}
}

// validatePropertyName records an error unless a text is a valid property name.
func validatePropertyName(v *Validator, field, name string) {
	v.recordCompileError(field, model.PropertyNameError(name))
}

// validateProperties validates the property values in a node or group.
func validateProperties(v *Validator, field string, values map[string]json.RawMessage) {
	v.LimitElements(field, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := field + "." + name
		validatePropertyName(v, at, name)
		validatePropertyValue(v, at, values[name])
	}
}

// validatePropertyValue records an error if a property value is too large.
func validatePropertyValue(v *Validator, field string, value json.RawMessage) {
	v.FlawIf(len(value) > maxPropertyValue,
		field, "keep large values in a file on the node", "%d bytes of JSON; at most %d", len(value), maxPropertyValue)
}

// Namespace returns the resource kind Namespace.
func Namespace() Kind {
	return Define(Definition[*model.NamespaceSpec]{
		KindInfo: model.KindInfo{Name: "Namespace", Plural: "namespaces", Short: "ns"},
		LandsAs:  "holds",
		Example: `kind: Namespace
metadata: {name: payments, displayName: Payments team}
spec:
  timeZone: Europe/Paris
  handlers: [shared/oncall]
`,
		Validate: func(v *Validator, s *model.NamespaceSpec) {
			validateLimits(v, s.Limits)
			v.namespace = v.resource.Metadata.Name
			v.validateTimeZone("spec.timeZone", s.TimeZone)
			v.requireOneOf("spec.notifications", s.Notifications, "send", model.NotificationsShadow)
			if m := s.PolicyMode; m != nil {
				v.requireOneOf("spec.policyMode.mode", m.Mode, model.ModeAudit, model.ModeEnforce)
			}
			if _, err := model.ParseNetworks(s.RudderFrom); err != nil {
				v.Flaw("spec.rudderFrom", "rudderFrom: [10.0.0.0/24]", "%v", err)
			}
			v.requireOneOf("spec.rudderReports", s.RudderReports, "full", model.RudderChangesOnly)
			if _, err := model.ParseNetworks(s.ZabbixFrom); err != nil {
				v.Flaw("spec.zabbixFrom", "zabbixFrom: [10.0.0.0/24]", "%v", err)
			}
			v.requireOneOf("spec.zabbixTLS", s.ZabbixTLS, "optional", model.ZabbixCertificate)
		},
		Columns: []Column[*model.NamespaceSpec]{
			nodesColumn[*model.NamespaceSpec](),
			{"DESCRIPTION", 0, func(v ResourceView, _ *model.NamespaceSpec) string {
				return dashIfEmpty(v.Resource.Metadata.DisplayName)
			}},
		},
		Details: func(view ResourceView, _ *model.NamespaceSpec) []Detail { return limitDetails(view) },
	})
}

// limitDetails returns the lines that `muster describe` prints about the limits of a namespace. The line has
// the limit's value, its use, and when it was last reached.
func limitDetails(view ResourceView) (list []Detail) {
	name := "limits"
	for _, l := range view.State.Limits {
		text := l.Name + " " + strconv.FormatFloat(l.Limit, 'f', -1, 64)
		if l.Used != nil && l.Name == "statesPerNode" {
			text += fmt.Sprintf(", at most %d on one node", *l.Used)
		} else if l.Used != nil {
			text += fmt.Sprintf(", %d used", *l.Used)
		}
		if l.Reached > 0 {
			text += fmt.Sprintf("; limit reached %s, last %s ago by node %s: %s", model.CountNoun(l.Reached, "time"), model.Age(view.Now, l.Last), l.Node, l.Reason)
		}
		list = append(list, Detail{name, text})
		name = ""
	}
	return list
}

// validateLimits validates the limits of a namespace.
func validateLimits(v *Validator, l *model.Limits) {
	if l == nil {
		return
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"states", float64(l.States)}, {"nodes", float64(l.Nodes)}, {"statesPerNode", float64(l.StatesPerNode)}, {"labels", float64(l.Labels)},
		{"outputBytes", float64(l.OutputBytes)}, {"resultsPerSec", l.ResultsPerSec}, {"nodeResultsPerSec", l.NodeResultsSec},
		{"valuesPerSec", l.ValuesPerSec}, {"nodeValuesPerSec", l.NodeValuesPerSec}, {"reportsPerSec", l.ReportsPerSec}, {"nodeReportsPerSec", l.NodeReportsPerSec},
		{"bytesPerSec", l.BytesPerSec}, {"nodeBytesPerSec", l.NodeBytesPerSec}, {"passivePerNode", float64(l.PassivePerNode)}, {"discoveredItems", float64(l.DiscoveredItems)},
		{"series", float64(l.Series)},
	} {
		v.FlawIf(f.value < 0, "spec.limits."+f.name, "leave the field out for the server's default", "cannot be negative")
	}
}
