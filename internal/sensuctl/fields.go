package sensuctl

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// everyField are the fields of each type.
const everyField = "name namespace labels annotations"

// fields are the fields that selectors may use, by the words of types in paths.
var fields = map[string]string{
	"namespaces": "", "users": "username groups disabled", "entity-configs": "entity_class subscriptions deregister deregistration keepalive_handlers", "entity-states": "system last_seen sensu_agent_version",
	"assets": "url sha512 filters builds headers",
	"checks": "command handlers high_flap_threshold low_flap_threshold interval cron publish runtime_assets subscriptions proxy_entity_name proxy_requests check_hooks stdin subdue ttl timeout " +
		"round_robin output_metric_format output_metric_handlers output_metric_tags output_metric_thresholds subdues env_vars secrets pipelines max_output_size discard_output",
	"entities": "entity_class system subscriptions last_seen deregister deregistration keepalive_handlers sensu_agent_version",
	"events":   "check entity timestamp sequence pipelines is_silenced",
	"filters":  "action expressions runtime_assets when", "hooks": "command timeout runtime_assets stdin",
	"handlers": "type command socket timeout env_vars filters handlers runtime_assets secrets mutator", "mutators": "type command eval timeout env_vars runtime_assets secrets",
	"clusterroles": "rules", "clusterrolebindings": "subjects role_ref", "roles": "rules", "rolebindings": "subjects role_ref",
	"pipelines": "workflows", "silenced": "subscription check begin expire expire_at expire_on_resolve creator reason",
}

// resultFields are the fields of an event's check that a CheckConfig does not have.
const resultFields = "duration executed issued history output state status total_state_change last_ok occurrences occurrences_watermark is_silenced silenced scheduler"

// words are the first words of fields, by the words of types in paths.
var words = map[string]string{
	"namespaces": "namespace", "entity-configs": "entity_config", "entity-states": "entity_state", "assets": "asset", "checks": "check", "entities": "entity", "events": "event", "filters": "filter",
	"clusterroles": "clusterrole", "clusterrolebindings": "clusterrolebinding", "roles": "role", "rolebindings": "rolebinding",
	"hooks": "hook", "handlers": "handler", "mutators": "mutator", "pipelines": "pipeline", "silenced": "silenced",
}

// checkField refuses a field that a type does not have: its term would match nothing, or everything.
func (t *term) checkField(kind string) error {
	field := t.left
	if (t.op == "in" || t.op == "notin") && !t.list { // db in entity.subscriptions
		field = t.right[0]
	}
	if t.label || field.quoted {
		return nil
	}
	word, rest, _ := strings.Cut(field.text, ".")
	parts := strings.Split(rest, ".")
	if word != words[kind] || rest == "" {
		return model.Errorf(model.Invalid, "selector: %s is no field of this list", model.Shorten(field.text)).WithHint("type %[1]s.name, %[1]s.labels.NAME, …: fields begin with %[1]s", words[kind])
	}
	has := fields[kind]
	if kind == "events" && len(parts) > 1 && (parts[0] == "check" || parts[0] == "entity") {
		has, word = fields[map[string]string{"check": "checks", "entity": "entities"}[parts[0]]], word+"."+parts[0]
		if parts = parts[1:]; word == "event.check" {
			has += " " + resultFields
		}
	}
	if parts[0] == "metadata" && len(parts) > 1 {
		parts = parts[1:]
	}
	all := append(strings.Fields(everyField), strings.Fields(has)...)
	if !slices.Contains(all, parts[0]) {
		return model.Errorf(model.Invalid, "selector: %s is no field of this list", model.Shorten(field.text)).WithHint("type %s. and one of: %s", word, strings.Join(all, ", "))
	}
	return nil
}
