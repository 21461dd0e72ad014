package sensuctl

import (
	"net/http"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// entityForm converts a node to Sensu's JSON format, an Entity.
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
		lastSeen = unixTime(state.Heard)
	}
	name := model.EntityName(m.Metadata, n)
	labels, groups := effectiveLabelsAndGroups(m, n, state)
	shown := *m
	shown.Metadata.Labels = labels
	f := n.Facts
	system := object{"network": object{"interfaces": nil}, "libc_type": "", "vm_system": f["virtualisation"], "vm_role": "", "cloud_provider": f["cloud"], "processes": nil}
	for field, fact := range map[string]string{"hostname": "hostname", "os": "os", "platform": "distribution", "platform_version": "distributionVersion", "arch": "arch"} {
		if f[fact] != "" {
			system[field] = f[fact]
		}
	}
	o := object{
		"metadata": metadataForm(&shown, name), "entity_class": class, "system": system, "subscriptions": append([]string{"entity:" + name}, groups...), "last_seen": lastSeen,
		"deregister": n.EffectiveLifecycle().ForgetDelay() > 0, "deregistration": deregistrationForm(n.EffectiveLifecycle()), "sensu_agent_version": strings.TrimPrefix(f["agentVersion"], "sensu-agent "),
	}
	if k := n.Keepalive; k != nil && len(k.Handlers)+len(k.Pipelines) > 0 {
		handlers := slices.Clone(k.Handlers)
		for _, p := range k.Pipelines {
			handlers = append(handlers, strings.TrimPrefix(p, model.SensuPipeline("")))
		}
		o["keepalive_handlers"] = handlers
	}
	return o, nil
}

// effectiveLabelsAndGroups returns the declared labels and groups of a node and, if its state is given, those of its
// agent and matching groups.
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

// deregistrationForm returns the first deregistration handler of a node, because an entity in Sensu has only one.
func deregistrationForm(l *model.Lifecycle) object {
	if l == nil || len(l.Handlers) == 0 {
		return object{}
	}
	return object{"handler": l.Handlers[0]}
}

// entityConfigForm converts a node's declaration to Sensu's JSON format, an EntityConfig. In core/v3 an Entity has
// two parts.
func entityConfigForm(r *request, m *model.Resource) (object, error) {
	return entityPartForm(r, m, "EntityConfig", "entity_class", "subscriptions", "deregister", "deregistration", "keepalive_handlers")
}

// entityStateForm converts a node's measured state to Sensu's JSON format, an EntityState.
func entityStateForm(r *request, m *model.Resource) (object, error) {
	return entityPartForm(r, m, "EntityState", "system", "last_seen", "sensu_agent_version")
}

// entityPartForm returns the named fields of a node's Entity as an object {type, api_version, metadata, spec} of
// core/v3.
func entityPartForm(r *request, m *model.Resource, kind string, fields ...string) (object, error) {
	whole, err := entityForm(r, m)
	spec := object{}
	for _, field := range fields {
		if value, ok := whole[field]; ok {
			spec[field] = value
		}
	}
	return object{"type": kind, "api_version": "core/v3", "metadata": whole["metadata"], "spec": spec}, err
}

// ignoreEntityState accepts a request with measured values of an entity and ignores them, because the node's agent
// reports its own.
func (r *request) ignoreEntityState() (answer, error) {
	_, err := r.readResource("Node", r.namespace, r.name(0))
	return answer{status: http.StatusOK}, err
}

// keepUndeclaredNodeFields keeps machine id, key and facts of an existing node when an imported node replaces it. The
// import repeats labels and groups that the server shows of the node but that its agent, a token or a condition gave
// the node; those stay undeclared.
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
	made.Spec = &spec
	return nil
}
