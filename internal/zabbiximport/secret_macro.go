package zabbiximport

import (
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/model"
)

// secretMacro is a macro whose value the export leaves out, because the value is secret.
type secretMacro struct {
	entity *conversion.Mapping
	model.Macro
	vault string // PATH:KEY in Vault; empty: the macro has the type secret text
}

// importSecrets creates a Muster Secret for each secret Zabbix macro in the keys of agent items. The values are
// in files of the nodes.
func (im *importer) importSecrets(t *template, name string) {
	for _, macro := range t.secrets {
		what := "macro " + macro.String()
		inKeys, elsewhere := t.findMacroUses(macro.Name)
		switch {
		case macro.Kind != model.NoContext:
			im.noteLoss(macro.entity, what, "a secret macro has no context here")
		case elsewhere:
			im.noteLoss(macro.entity, what, "a step, trigger, filter, interval or unit has it: agents alone have the values of secret macros, in keys and requests")
		case !inKeys:
			im.noteLoss(macro.entity, what, "no item that an agent collects has it in its key or request")
		default:
			secret := model.CleanName(name + "." + strings.ToLower(macro.Name))
			t.spec.Secrets = append(t.spec.Secrets, model.MacroSecret{Macro: macro.String(), Secret: secret})
			origin := ""
			if macro.vault != "" {
				origin = ", where it was in Vault at " + conversion.OneLine(macro.vault)
			}
			im.noteChange(macro.entity, what, "its value is not in the export%s: write it to the file %s in /etc/muster/secrets on each node, or change the Secret %s", origin, secret, secret)
		}
	}
}

// findMacroUses reports whether a macro occurs in item keys or HTTP requests, and whether elsewhere in the template.
// Agents collect such items; only the server reads the other texts.
func (t *template) findMacroUses(name string) (inKeys, elsewhere bool) {
	has := func(text string) bool {
		return strings.Contains(text, "{$"+name+"}") || strings.Contains(text, "{$"+name+":")
	}
	items, triggers := t.spec.AllItems(), t.spec.Triggers
	for i := range t.spec.Discovery {
		rule := &t.spec.Discovery[i]
		triggers = append(triggers[:len(triggers):len(triggers)], rule.Triggers...)
		filters := []*model.DiscoveryFilter{rule.Filter}
		elsewhere = elsewhere || has(rule.DisableAfter) || has(rule.DeleteAfter)
		for k := range rule.Overrides {
			filters = append(filters, rule.Overrides[k].Filter)
			for _, change := range rule.Overrides[k].Items {
				elsewhere = elsewhere || has(string(change.Interval))
			}
		}
		for _, f := range filters {
			for k := 0; f != nil && k < len(f.Conditions); k++ {
				elsewhere = elsewhere || has(f.Conditions[k].Pattern())
			}
		}
	}
	for i := range items {
		of := &items[i]
		log := strings.HasPrefix(of.Key, "log") // log, logrt and their counts: the agent reads no secret for the name of a file
		inKeys = inKeys || of.IsCollected() && !log && has(of.Key)
		of.HTTP.EachText(func(text string) { inKeys = inKeys || has(text) })
		elsewhere = elsewhere || has(of.Formula) || has(string(of.Interval)) || has(of.Unit) || log && has(of.Key)
		for k := range of.Steps {
			for _, text := range of.Steps[k].Texts() {
				elsewhere = elsewhere || has(text)
			}
		}
	}
	for i := range triggers {
		elsewhere = elsewhere || has(triggers[i].Expression) || has(triggers[i].Recovery)
	}
	return inKeys, elsewhere
}

// addSecrets adds the Secrets for a template's secret macros to the result.
func (im *importer) addSecrets(t *template) {
	for _, one := range t.spec.Secrets {
		im.result.Resources = append(im.result.Resources, &model.Resource{
			APIVersion: model.APIVersion, Kind: "Secret", Metadata: model.Metadata{Name: one.Secret, Namespace: model.DefaultNamespaceName},
			Spec: &model.SecretSpec{AgentFile: one.Secret},
		})
	}
}
