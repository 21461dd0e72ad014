package sensuctl

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// reportedEntity has the subscriptions and annotations that a Sensu agent reported about its entity. The server
// changes them when it shows the node as an entity.
type reportedEntity struct {
	Subscriptions []string
	Annotations   map[string]string
}

// reportedEntityOf returns the subscriptions and annotations that a node's Sensu agent reported about its
// entity. It also returns the fields that need a change. Another node has none.
func reportedEntityOf(n *model.NodeSpec) (form object, fields reportedEntity) {
	form = object{}
	if json.Unmarshal(n.AgentEntity, &form) != nil || json.Unmarshal(n.AgentEntity, &fields) != nil {
		return object{}, reportedEntity{}
	}
	for _, field := range []string{"name", "labels", "annotations", "keepalive_handlers"} {
		delete(form, field)
	}
	return form, fields
}

// restoreSpelling replaces each group name by the spelling that the agent uses in its subscriptions.
func (e *reportedEntity) restoreSpelling(groups []string) []string {
	spelled := slices.Clone(groups)
	for i, g := range groups {
		if at := slices.IndexFunc(e.Subscriptions, func(s string) bool { return model.CleanName(s) == g }); at >= 0 {
			spelled[i] = e.Subscriptions[at]
		}
	}
	return spelled
}

// entityForm converts a node to an Entity in Sensu's JSON format. The base is the entity that its Sensu agent
// reported, with declared fields added.
func entityForm(r *request, m *model.Resource) (object, error) {
	n := m.Spec.(*model.NodeSpec)
	state, err := r.nodeState(m.Metadata.Namespace, m.Metadata.Name)
	if err != nil {
		return nil, err
	}
	class, lastSeen := "agent", int64(0)
	if n.Proxy {
		class = "proxy"
	}
	if state != nil {
		lastSeen = unixTime(state.LastHeartbeat)
	}
	name := model.EntityName(m.Metadata, n)
	labels, groups := effectiveLabelsAndGroups(m, n, state)
	o, reported := reportedEntityOf(n)
	shown := *m
	shown.Metadata.Labels, shown.Metadata.Annotations = labels, maps.Clone(reported.Annotations)
	if shown.Metadata.Annotations == nil {
		shown.Metadata.Annotations = map[string]string{}
	}
	maps.Copy(shown.Metadata.Annotations, m.Metadata.Annotations)
	f := n.Facts
	system := object{"network": object{"interfaces": nil}, "libc_type": "", "vm_system": f["virtualisation"], "vm_role": "", "cloud_provider": f["cloud"], "processes": nil}
	for field, fact := range map[string]string{"hostname": "hostname", "os": "os", "platform": "distribution", "platform_version": "distributionVersion", "arch": "arch"} {
		if f[fact] != "" {
			system[field] = f[fact]
		}
	}
	if o["system"] == nil {
		o["system"] = system
	}
	maps.Copy(o, object{
		"metadata": metadataForm(&shown, name), "entity_class": class, "subscriptions": append([]string{"entity:" + name}, reported.restoreSpelling(groups)...), "last_seen": lastSeen,
		"deregister": n.EffectiveLifecycle().ForgetDelay() > 0, "deregistration": deregistrationForm(n.EffectiveLifecycle()), "sensu_agent_version": strings.TrimPrefix(f["agentVersion"], "sensu-agent "),
	})
	if k := n.Keepalive; k != nil && len(k.Handlers)+len(k.Pipelines) > 0 {
		handlers := slices.Clone(k.Handlers)
		for _, p := range k.Pipelines {
			handlers = append(handlers, strings.TrimPrefix(p, model.SensuPipeline("")))
		}
		o["keepalive_handlers"] = handlers
	}
	return o, nil
}

// effectiveLabelsAndGroups returns all labels and groups of a node, declared or from its agent. Declared ones come
// first. If the state is known, the labels and groups of its agent and matching groups follow.
func effectiveLabelsAndGroups(m *model.Resource, n *model.NodeSpec, state *v1.NodeState) (labels map[string]string, groups []string) {
	labels, all := m.Metadata.Labels, n.Groups
	if state != nil {
		labels, all = map[string]string{}, state.Groups
		for k, v := range state.Labels {
			if fact, measured := n.Facts[k]; !measured || fact != v {
				labels[k] = v
			}
		}
	}
	for _, g := range all {
		if g != "all" && !strings.Contains(g, "/") && !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return labels, groups
}

// deregistrationForm returns a node's removal handler as the deregistration handler of a Sensu entity. An
// entity in Sensu has only one.
func deregistrationForm(l *model.Lifecycle) object {
	if l == nil || len(l.Handlers) == 0 {
		return object{}
	}
	return object{"handler": l.Handlers[0]}
}

// In core/v3 an Entity has two parts: the declared fields (EntityConfig) and the measured ones (EntityState).
const (
	entityConfigFields = "entity_class user subscriptions deregister deregistration keepalive_handlers redact"
	entityStateFields  = "system last_seen sensu_agent_version"
)

// entityPartForm returns a function that converts a node to a Sensu object with only the given fields. It
// writes an object {type, api_version, metadata, spec} of core/v3.
func entityPartForm(kind, fields string) formWriter {
	return func(r *request, m *model.Resource) (object, error) {
		whole, err := entityForm(r, m)
		spec := object{}
		for _, field := range strings.Fields(fields) {
			if value, ok := whole[field]; ok {
				spec[field] = value
			}
		}
		return object{"type": kind, "api_version": core3, "metadata": whole["metadata"], "spec": spec}, err
	}
}

// ignoreEntityState accepts a request with measured values of an entity, and ignores the values. The node's agent
// reports its own values.
func (r *request) ignoreEntityState() (answer, error) {
	_, err := r.readResource("Node", r.namespace, r.name(0))
	return answer{status: http.StatusOK}, err
}

// keepUndeclaredNodeFields keeps the machine id, key and facts of a node that an import replaces. The import repeats
// labels and groups that the server shows of the node but that its agent, a token or a condition gave the node; those
// stay undeclared.
func (r *request) keepUndeclaredNodeFields(made, is *model.Resource) error {
	now, ok := made.Spec.(*model.NodeSpec)
	was, ok2 := is.Spec.(*model.NodeSpec)
	if !ok || !ok2 {
		return nil
	}
	state, err := r.nodeState(is.Metadata.Namespace, is.Metadata.Name)
	if err != nil {
		return err
	}
	labels, groups := effectiveLabelsAndGroups(is, was, state)
	spec := *was
	spec.Proxy, spec.Keepalive, spec.Lifecycle = now.Proxy, now.Keepalive, now.Lifecycle
	spec.Groups = slices.DeleteFunc(now.Groups, func(g string) bool { return slices.Contains(groups, g) && !slices.Contains(was.Groups, g) })
	for name, value := range made.Metadata.Labels {
		if _, declared := is.Metadata.Labels[name]; !declared && labels[name] == value {
			delete(made.Metadata.Labels, name)
		}
	}
	_, reported := reportedEntityOf(was)
	for name, value := range made.Metadata.Annotations {
		if _, declared := is.Metadata.Annotations[name]; !declared && reported.Annotations[name] == value {
			delete(made.Metadata.Annotations, name)
		}
	}
	made.Spec = &spec
	return nil
}
