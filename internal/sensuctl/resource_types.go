package sensuctl

import (
	"errors"
	"net/http"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// resourceType describes an object type of Sensu's API, with its Muster kind and commands.
type resourceType struct {
	group, sensu string // core/v2, CheckConfig
	kind         string // Muster's
	form         formWriter
	deletable    bool

	// objects returns all objects of a read-only type that Muster has no kind for, such as users.
	objects func(*request) ([]object, error)

	word   string // first word of the type's fields in selectors
	fields string // that selectors may use, beside commonFields

	// commands are the commands of Muster that read, create and delete; %s is the name. Empty: the usual commands of a kind.
	commands [3]string
}

const (
	core2 = "core/v2"
	core3 = "core/v3"
)

// commonFields lists the fields by which selectors can choose objects of every type.
const commonFields = "name namespace labels annotations"

// eventCheckFields lists the fields that the check of an event has and a CheckConfig has not.
const eventCheckFields = "duration executed issued history output state status total_state_change last_ok occurrences occurrences_watermark is_silenced silenced scheduler"

// Commands of several types.
var (
	nodeCommands    = [3]string{"muster get nodes", "muster apply -f FILE", "muster node retire %s (with its events), or muster delete node %s"}
	roleCommands    = [3]string{"muster auth user list: the roles are admin, operator, viewer, agent and alerts", "muster auth user create NAME --role ROLE", "muster auth user delete NAME"}
	bindingCommands = [3]string{"muster auth user list: a user has one role", "muster auth user create NAME --role ROLE", "muster auth user delete NAME"}
)

// repeatCommand returns a list with one Muster command three times, as the command to read, create and delete.
func repeatCommand(command string) [3]string { return [3]string{command, command, command} }

// commandsOf returns the Muster commands that read, create and delete a Sensu type. It returns none if Muster has no
// counterpart.
func commandsOf(path string) [3]string {
	t, known := sensuTypes[path]
	if !known || t.commands != [3]string{} {
		return t.commands
	}
	return [3]string{"muster get " + path, "muster apply -f FILE", "muster delete " + strings.TrimSuffix(path, "s") + " %s"}
}

// sensuTypes holds the types that sensuctl knows, by their words in paths.
var sensuTypes = map[string]resourceType{
	"namespaces": {
		group: core2, sensu: "Namespace", kind: "Namespace", form: namespaceForm,
		word:     "namespace",
		commands: [3]string{"muster get namespaces", "muster apply -f FILE, with kind: Namespace", "muster delete namespace %s"},
	},
	"checks": {
		group: core2, sensu: "CheckConfig", kind: "Check", form: checkForm, deletable: true,
		word: "check", fields: "command handlers high_flap_threshold low_flap_threshold interval cron publish runtime_assets subscriptions proxy_entity_name proxy_requests check_hooks stdin subdue " +
			"ttl timeout round_robin output_metric_format output_metric_handlers output_metric_tags output_metric_thresholds " +
			"subdues env_vars secrets pipelines max_output_size discard_output",
	},
	"entities": {
		group: core2, sensu: "Entity", kind: "Node", form: entityForm,
		word: "entity", fields: entityConfigFields + " " + entityStateFields,
		commands: nodeCommands,
	},
	"hooks": {
		group: core2, sensu: "HookConfig", kind: "Hook", form: resourceForm(hookForm), deletable: true,
		word: "hook", fields: "command timeout runtime_assets stdin",
	},
	"filters": {
		group: core2, sensu: "EventFilter", kind: "Filter", form: resourceForm(filterForm), deletable: true,
		word: "filter", fields: "action expressions runtime_assets when",
	},
	"mutators": {
		group: core2, sensu: "Mutator", kind: "Mutator", form: resourceForm(mutatorForm), deletable: true,
		word: "mutator", fields: "type command eval timeout env_vars runtime_assets secrets",
	},
	"handlers": {
		group: core2, sensu: "Handler", kind: "Handler", form: handlerForm, deletable: true,
		word: "handler", fields: "type command socket timeout env_vars filters handlers runtime_assets secrets mutator",
	},
	"pipelines": {
		group: core2, sensu: "Pipeline", kind: "Pipeline", form: pipelineForm, deletable: true,
		word: "pipeline", fields: "workflows",
	},
	"assets": {
		group: core2, sensu: "Asset", kind: "Asset", form: resourceForm(assetForm), deletable: true,
		word: "asset", fields: "url sha512 filters builds headers",
		commands: [3]string{"muster asset list", "muster asset add NAME --url URL --sha512 SUM", "muster delete asset %s"},
	},
	"silenced": {
		group: core2, sensu: "Silenced", kind: "Silence", form: func(_ *request, m *model.Resource) (object, error) { return silenceForm(m), nil }, deletable: true,
		word: "silenced", fields: "subscription check begin expire expire_at expire_on_resolve creator reason",
		commands: [3]string{"muster silence list", "muster silence --check NAME -m WHY", "muster silence end NAME (muster silence list)"},
	},
	"entity-configs": {
		group: core3, sensu: "EntityConfig", kind: "Node", form: entityPartForm("EntityConfig", entityConfigFields),
		word: "entity_config", fields: entityConfigFields,
		commands: nodeCommands,
	},
	"entity-states": {
		group: core3, sensu: "EntityState", kind: "Node", form: entityPartForm("EntityState", entityStateFields),
		word: "entity_state", fields: entityStateFields,
		commands: [3]string{"muster get nodes", "only agents send metrics", "muster node retire %s"},
	},
	"events": {
		group: core2,
		word:  "event", fields: "check entity timestamp sequence pipelines is_silenced",
		commands: [3]string{"muster get events", "results come from agents and from POST /events of the agent's local API; muster run CHECK runs a check now", "muster event delete %s"},
	},
	"users": {
		group: core2, objects: listUsers,
		fields:   "username groups disabled",
		commands: [3]string{"muster auth user list", "muster auth user create NAME --role ROLE", "muster auth user delete %s"},
	},
	"clusterroles": {
		group: core2, objects: listClusterRoles,
		word: "clusterrole", fields: "rules",
		commands: roleCommands,
	},
	"clusterrolebindings": {
		group: core2, objects: listClusterRoleBindings,
		word: "clusterrolebinding", fields: "subjects role_ref",
		commands: bindingCommands,
	},
	"roles": {
		group: core2, objects: answerEmptyList,
		word: "role", fields: "rules",
		commands: roleCommands,
	},
	"rolebindings": {
		group: core2, objects: answerEmptyList,
		word: "rolebinding", fields: "subjects role_ref",
		commands: bindingCommands,
	},
	"apikeys": {
		commands: [3]string{"muster auth token list", "muster auth token create --role ROLE", "muster auth token revoke ID"},
	},
	"secrets": {
		commands: [3]string{"muster get secrets", "muster apply -f FILE, with kind: Secret", "muster delete secret %s"},
	},
	"cluster": {commands: repeatCommand("muster status")},
	"tessen":  {commands: repeatCommand("Muster sends no usage data")},
	"license": {commands: repeatCommand("Muster has no licences")},
}

// unsupportedRequestError returns the error for a request of sensuctl that Muster does not support. The hint has
// Muster's command.
func unsupportedRequestError(r *request) error {
	text := commandFor(r)
	if strings.HasPrefix(text, "muster ") {
		text = "type " + text
	}
	return &sensuError{http.StatusNotImplemented, "not by sensuctl: " + text, codeNotFound}
}

// commandFor returns the Muster command that does the same as a sensuctl request.
func commandFor(r *request) string {
	switch kind, last := r.kind, len(r.names)-1; {
	case kind == "checks" && last == 1 && r.names[1] == "execute":
		return "muster run " + r.name(0)
	case kind == "checks" && last > 0:
		return "muster edit check " + r.name(0)
	case kind == "users" && last == 1 && (r.names[1] == "password" || r.names[1] == "change_password"):
		return "muster auth password"
	case kind == "users" && last == 1 && r.names[1] == "reset_password":
		return "muster auth reset-password --data DIR --user " + r.name(0) + ", on the server's machine"
	}
	of := commandsOf(r.kind)
	if of == [3]string{} {
		return "muster help: " + r.group + " " + r.kind + " does not exist in Muster"
	}
	text := of[1]
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		text = of[0]
	case http.MethodDelete:
		text = of[2]
	}
	name := r.name(0)
	if r.kind == "events" && len(r.names) > 1 {
		name += "/" + r.name(1)
	}
	if name == "" {
		name = "NAME"
	}
	return strings.ReplaceAll(text, "%s", name)
}

// addCommandHint adds the equivalent Muster command to the error for a refused risky operation of sensuctl.
// Sensuctl cannot confirm with --yes.
func addCommandHint(err error, command string) error {
	var e *model.Error
	if !errors.As(err, &e) || e.Class != model.Guarded {
		return err
	}
	copied := *e
	return copied.WithHint("sensuctl cannot confirm a large change; check the change, then type: %s", command)
}

// applyCommand applies the file of sensuctl create.
const applyCommand = "muster import sensu FILE --out muster.yaml; muster plan -f muster.yaml; muster apply -f muster.yaml --yes"

// musterCommand returns the command line `muster VERB KIND NAME` for a resource.
func musterCommand(verb string, ref v1.Ref, flags ...string) string {
	words := []string{"muster", verb, strings.ToLower(ref.Kind), model.ShellWord(ref.Name)}
	return strings.Join(append(words, namespaceFlags(ref.Namespace, flags...)...), " ")
}

// silenceCommand returns the Muster command that creates a silence with the same fields.
func silenceCommand(namespace string, s *model.SilenceSpec) string {
	words := []string{"muster silence"}
	if s.Targets != nil {
		for _, node := range s.Targets.Nodes {
			words = append(words, model.ShellWord(node))
		}
		for _, group := range s.Targets.Groups {
			words = append(words, "--group", model.ShellWord(group))
		}
	}
	for _, check := range s.Checks {
		words = append(words, "--check", model.ShellWord(check))
	}
	if s.Targets == nil && len(s.Checks) == 0 {
		words = append(words, "--all")
	}
	if !s.Begin.IsZero() {
		words = append(words, "--from", s.Begin.UTC().Format(time.RFC3339))
	}
	if !s.Until.IsZero() {
		words = append(words, "--until", s.Until.UTC().Format(time.RFC3339))
	}
	if s.UntilResolved {
		words = append(words, "--until-resolved")
	}
	if s.Until.IsZero() && !s.UntilResolved {
		words = append(words, "--forever")
	}
	words = append(words, "-m", model.ShellWord(s.Reason))
	return strings.Join(append(words, namespaceFlags(namespace, "--yes")...), " ")
}

// namespaceFlags returns the flag -n with the namespace, or nothing for the namespace default.
func namespaceFlags(namespace string, more ...string) []string {
	if namespace == "" || namespace == model.DefaultNamespaceName {
		return more
	}
	return append([]string{"-n", model.ShellWord(namespace)}, more...)
}
