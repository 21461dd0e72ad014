package sensuimport

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// importEntity imports an entity as a node. It is a proxy node, or a node that waits for its machine to enrol.
func importEntity(o *object) {
	s := o.spec
	class := s.text("entity_class")
	s.ignore("system", "last_seen", "sensu_agent_version", "user") // agents measure
	redacted := s.texts("redact")
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
		o.noteChange("this is the backend itself: not imported")
		return
	default:
		n.Proxy = true
		o.noteChange("entities of class %s become proxy nodes", class)
	}
	for _, sub := range subscriptions {
		if !strings.HasPrefix(sub, "entity:") {
			n.Groups = append(n.Groups, o.subscriptionGroup(sub))
		}
	}
	if deregister && !n.Proxy {
		n.Lifecycle = &model.Lifecycle{Ephemeral: true}
	}
	if tell != "" && n.Lifecycle != nil {
		importDeregistrationHandler(o, n.Lifecycle, tell)
	}
	importKeepaliveHandlers(o, n, handlers)
	redactMetadata(o, o.declareResource(n), redacted)
}

// redactMetadata hides the values of labels and annotations that a Sensu entity lists as secret (redact). Sensu
// never shows or sends these values, but a node of Muster would.
func redactMetadata(o *object, node *model.Resource, names []string) {
	for _, metadata := range [...]struct {
		field  string
		values map[string]string
	}{{"label", node.Metadata.Labels}, {"annotation", node.Metadata.Annotations}} {
		field, values := metadata.field, metadata.values
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if values[key] == model.RedactedValue || !slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, key) }) {
				continue
			}
			values[key] = model.RedactedValue
			o.noteChange("%s %s: redact names it, so its value is not imported; a check that needs the value reads it from a Secret: muster explain secret", field, key)
		}
	}
}

// importDeregistrationHandler adds an entity's deregistration handler to the handlers that Muster calls when
// the node is removed. Of a handler set it adds the members.
func importDeregistrationHandler(o *object, l *model.Lifecycle, handler string) {
	for _, h := range handlersOf(o, handler, 0) {
		made := o.findResource("Handler", musterName(h.name))
		if made == nil {
			o.noteLoss("deregistration.handler %s: not in these files, or not imported", h.name)
			continue
		}
		if service := made.Spec.(*model.HandlerSpec).ProblemService(); service != "" {
			o.noteLoss("deregistration.handler %s: %s accepts only problems; name a command, webhook, email or chat in lifecycle.handlers", h.name, service)
			continue
		}
		l.Handlers = appendNew(l.Handlers, made.Metadata.Name)
	}
}

// importKeepaliveHandlers sends a node's keepalive problems to the keepalive handlers of its entity. For an entity
// without handlers Sensu uses the handler named keepalive, if that exists.
func importKeepaliveHandlers(o *object, n *model.NodeSpec, handlers []string) {
	named := len(handlers) > 0
	if !named {
		handlers = []string{model.KeepaliveCheckName}
	}
	if len(handlers) == 1 && handlers[0] == model.KeepaliveCheckName && o.importer.objectsByKey[resourceKey{"Handler", o.namespace, handlers[0]}] == nil && o.findOnServer("Handler", handlers[0]) == nil {
		return
	}
	if n.Proxy {
		if named {
			o.noteLoss("keepalive_handlers %s: a proxy node has no keepalive", strings.Join(handlers, ", "))
		}
		return
	}
	var hear model.CheckSpec
	for _, h := range handlers {
		routeToHandler(o, &hear, h, nil)
	}
	k := &model.Keepalive{Pipelines: hear.Pipelines}
	if hear.Alert != nil {
		k.Handlers = hear.Alert.Handlers
	}
	if len(k.Pipelines)+len(k.Handlers) > 0 {
		n.Keepalive = k
	}
}

// importSilence imports a silence, which names a subscription, a check or both. Each of the two may be * or absent.
func importSilence(o *object) {
	s := o.spec
	subscription, check := s.text("subscription"), s.text("check")
	if subscription == "" && check == "" {
		subscription, check, _ = strings.Cut(o.name, ":")
		if node, ok := strings.CutPrefix(o.name, "entity:"); ok {
			subscription, check, _ = strings.Cut(node, ":")
			subscription = "entity:" + subscription
		}
	}
	spec := &model.SilenceSpec{Reason: cmp.Or(s.text("reason"), "silenced in Sensu"), UntilResolved: s.boolean("expire_on_resolve")}
	if by := s.text("creator"); by != "" {
		spec.Reason += " (by " + by + ")"
	}
	switch node, ok := strings.CutPrefix(subscription, "entity:"); {
	case ok:
		spec.Targets = &model.Targets{Nodes: []string{musterName(node)}}
	case subscription != "" && subscription != "*":
		spec.Targets = &model.Targets{Groups: []string{o.subscriptionGroup(subscription)}}
	}
	if check != "" && check != "*" {
		spec.Checks = []string{musterName(check)}
	} else if spec.Targets != nil && spec.Targets.Groups != nil {
		spec.Where = SubscriptionCondition(spec.Targets.Groups[0])
	}
	begin := timeOfUnix(s.integer("begin"))
	until := timeOfUnix(s.integer("expire_at"))
	if expire := s.integer("expire"); until.IsZero() && expire > 0 { // of a silence that has begun, the remaining time
		from := o.importer.now
		if begin.After(from) {
			from = begin
		}
		until = from.Add(time.Duration(expire) * time.Second)
	}
	if !until.IsZero() && !until.After(o.importer.now) {
		o.noteChange("the silence has ended: not imported")
		return
	}
	if begin.After(o.importer.now) {
		spec.Begin.Time = begin
	}
	spec.Until.Time = until
	o.name = cmp.Or(strings.ReplaceAll(o.name, "*", "all"), "all")
	o.declareResource(spec)
}

// SubscriptionCondition returns the condition by which an imported silence covers all checks of a subscription.
// The keepalives and other checks of the nodes stay loud, as in Sensu.
func SubscriptionCondition(group string) string { return strconv.Quote(group) + " in source.groups" }

// timeOfUnix converts seconds since 1970 to a time. 0 gives the zero time.
func timeOfUnix(n int) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0).UTC()
}

// importUser adds a note with the command that creates a Sensu user's account in Muster. Only Sensu can verify
// the user's password hash.
func importUser(o *object) {
	s := o.spec
	user, groups := s.text("username"), s.texts("groups")
	s.ignore("password", "password_hash")
	switch {
	case s.boolean("disabled"):
		o.noteChange("user %s is disabled: not imported", user)
	case user == "agent":
		o.noteChange("Sensu agents log in as such a user: muster auth user create agent --role agent")
	default:
		role := roleOf(groups)
		o.noteLoss("user %s (groups %s): muster auth user create %s --role %s", user, strings.Join(groups, ", "), musterName(user), role)
	}
}

// roleOf returns the Muster role for the groups of a Sensu user.
func roleOf(groups []string) string {
	for _, g := range groups {
		switch g {
		case "cluster-admins", "admins":
			return "admin"
		case "system:agents":
			return "agent"
		case "ops", "operators", "editors":
			return "operator"
		}
	}
	return "viewer"
}

// roles maps the names of Sensu's roles to roles of Muster.
var roles = map[string]string{"cluster-admin": "admin", "admin": "admin", "edit": "operator", "operator": "operator", "view": "viewer", "system:agent": "agent"}

// importBinding adds a note for a Sensu role binding, with the users or groups and their Muster role.
func importBinding(o *object) {
	s := o.spec
	role := s.object("role_ref").reference()
	var who []string
	for _, subject := range s.objects("subjects") {
		who = append(who, strings.ToLower(subject.text("type"))+" "+subject.text("name"))
	}
	if strings.HasPrefix(o.name, "system:") || strings.HasPrefix(role, "system:") {
		return // every backend has it
	}
	advice := "the roles are admin, operator, viewer, agent and alerts"
	if ours := roles[role]; ours != "" {
		advice = "give these users --role " + ours
	}
	o.noteLoss("role %s for %s: %s", role, strings.Join(who, ", "), advice)
}

// secretProvider is the source from which a Sensu secret gets its value, the environment or Vault. Its settings
// become part of each imported Secret.
type secretProvider struct {
	env   bool
	vault model.Vault
}

// importProvider reads a secrets provider, and keeps its address for the import of secrets.
func importProvider(o *object) {
	p := secretProvider{env: o.kind == "Env"}
	if !p.env {
		client := o.spec.object("client")
		p.vault = model.Vault{Address: client.text("address"), Engine: cmp.Or(client.text("version"), "v2"), Namespace: client.text("namespace"),
			TokenFile: "/etc/muster/vault-token", CA: client.object("tls").text("ca_cert")}
		client.ignore("token", "max_retries", "timeout", "agent_address")
		o.noteChange("its token is not imported: write one to %s, readable for the server's user, or let Vault Agent do it", p.vault.TokenFile)
	}
	o.importer.providers[o.name] = p
}

// importSecret imports a secret whose value is in the environment or in Vault.
func importSecret(o *object) {
	id, of := o.spec.text("id"), o.spec.text("provider")
	p, ok := o.importer.providers[of]
	spec := &model.SecretSpec{}
	switch {
	case ok && p.env, !ok && of == "env":
		spec.Env = id
		if strings.HasPrefix(id, "MUSTER_") {
			o.noteLoss("id: variables MUSTER_… are the server's own settings: give it another name")
			return
		}
		o.noteChange("set %s in the environment of the server", id)
	case ok:
		at, key, found := strings.Cut(id, "#")
		mount, path, _ := strings.Cut(strings.Trim(at, "/"), "/")
		if p.vault.Engine == "v2" {
			path = strings.TrimPrefix(path, "data/")
		}
		if !found || path == "" || key == "" {
			o.noteLoss("id %q: expected mount/path#key", id)
			return
		}
		vault := p.vault
		vault.Mount, vault.Path, vault.Key = mount, path, key
		spec.Vault = &vault
	default:
		o.noteLoss("provider %q: a Secret is in the environment, in files or in Vault: muster explain secret", of)
		return
	}
	o.declareResource(spec)
}

// importCheckSecrets imports the secrets that a check passes to its command. The server gives their values only to
// machines of trusted groups and to known nodes: a check for others is disabled until people trust its group.
func importCheckSecrets(o *object, c *model.CheckSpec) {
	c.Secrets = commandSecrets(o, "check")
	if len(c.Secrets) == 0 || o.importer.server != nil { // a server refuses the check itself
		return
	}
	c.Disabled = true
	o.noteLoss("secrets: the check is disabled, because any machine could join its targets %s: write trusted: true for selfJoin: true in the groups, then delete disabled: true (docs/secrets.md)",
		strings.Join(slices.Concat(c.Targets.Groups, c.Targets.Nodes), ", "))
}

// commandSecrets converts the secrets in a command's environment to Secrets of Muster.
func commandSecrets(o *object, what string) (list []model.CommandSecret) {
	for _, secret := range o.spec.objects("secrets") {
		of, as := secret.text("secret"), secret.text("name")
		switch named := model.CleanName(of); {
		case o.findResource("Secret", named) == nil:
			o.noteLoss("secret %s as %s: the Secret does not exist: declare the Secret, and name it in secrets", of, as)
		case len(list) == model.MaxCheckSecrets:
			o.noteLoss("secret %s as %s: a %s has at most %d", of, as, what, model.MaxCheckSecrets)
		default:
			list = append(list, model.CommandSecret{Env: as, Secret: named})
		}
	}
	return list
}
