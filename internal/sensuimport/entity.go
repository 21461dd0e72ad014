package sensuimport

import (
	"encoding/json"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// importEntity becomes a node that waits for its machine, or a proxy node.
func importEntity(o *object) {
	s := o.spec
	class := s.text("entity_class")
	for _, measured := range []string{"system", "last_seen", "sensu_agent_version", "user", "redact"} {
		s.value(measured) // redact: secrets are redacted whatever they are called
	}
	handlers := s.texts("keepalive_handlers")
	subscriptions := s.texts("subscriptions")
	deregister := s.boolean("deregister")
	tell := s.object("deregistration").text("handler")
	n := &model.NodeSpec{}
	switch class {
	case "agent":
	case "proxy", "switch", "router", "firewall", "":
		n.Proxy = true
	case "backend":
		o.noteChange("this is the backend itself: left out")
		return
	default:
		n.Proxy = true
		o.noteChange("entities of the class %s are taken for proxy nodes", class)
	}
	for _, sub := range subscriptions {
		if !strings.HasPrefix(sub, "entity:") {
			n.Groups = append(n.Groups, o.group(sub))
		}
	}
	if deregister && !n.Proxy {
		n.Lifecycle = &model.Lifecycle{Ephemeral: true}
	}
	switch {
	case tell == "" || n.Lifecycle == nil:
	case o.find("Handler", name(tell)) == nil:
		o.noteLoss("deregistration.handler %s: it is not in these files, or was not carried", tell)
	default:
		if service := o.find("Handler", name(tell)).Spec.(*model.HandlerSpec).ProblemService(); service != "" {
			o.noteLoss("deregistration.handler %s: %s takes problems only; name a command, a webhook, mail or a chat in lifecycle.handlers", tell, service)
			break
		}
		n.Lifecycle.Handlers = []string{name(tell)}
	}
	importKeepaliveHandlers(o, n, handlers)
	labels, annotations := o.meta.labels("labels"), o.meta.labels("annotations")
	for prop, t := range o.importer.props[o.namespace] {
		if value, ok := t.of(o, labels, annotations); ok {
			text, err := json.Marshal(value)
			if err != nil {
				continue
			}
			if n.Properties == nil {
				n.Properties = map[string]json.RawMessage{}
			}
			n.Properties[prop] = text
		}
	}
	o.declare(n)
}

// hearsKeepalive lets the handlers of an entity's keepalive hear of its node's. Where an entity
// names none, Sensu tells one called keepalive, if there is one.
func importKeepaliveHandlers(o *object, n *model.NodeSpec, handlers []string) {
	said := len(handlers) > 0
	if !said {
		handlers = []string{model.KeepaliveCheckName}
	}
	if len(handlers) == 1 && handlers[0] == model.KeepaliveCheckName && o.importer.by[key{"Handler", o.namespace, handlers[0]}] == nil && o.existing("Handler", handlers[0]) == nil {
		return
	}
	if n.Proxy {
		if said {
			o.noteLoss("keepalive_handlers %s: nobody waits for the keepalive of a proxy node", strings.Join(handlers, ", "))
		}
		return
	}
	var hear model.CheckSpec
	for _, h := range handlers {
		routeTo(o, &hear, h, nil)
	}
	k := &model.Keepalive{Pipelines: hear.Pipelines}
	if hear.Alert != nil {
		k.Handlers = hear.Alert.Handlers
	}
	if len(k.Pipelines)+len(k.Handlers) > 0 {
		n.Keepalive = k
	}
}
