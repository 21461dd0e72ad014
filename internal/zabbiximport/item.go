package zabbiximport

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
	"github.com/muster-fleet/muster/internal/prep/javascript"
	"github.com/muster-fleet/muster/internal/trigger"
	"github.com/muster-fleet/muster/internal/when"
)

// valueTypes has the types of values by their names in exports.
var valueTypes = map[string]string{"UNSIGNED": "unsigned", "FLOAT": "", "CHAR": "text", "TEXT": "text", "LOG": "log"}

// unsupportedItemType describes a type of Zabbix item for which Muster has no collector.
type unsupportedItemType struct {
	text   string
	detail string // the field with the source of the values
}

// idleTypes has the types of items that nobody collects here, by their names in exports.
var idleTypes = map[string]unsupportedItemType{
	"SNMP_AGENT": {"SNMP", "snmp_oid"}, "SNMPV1": {"SNMP", "snmp_oid"}, "SNMPV2": {"SNMP", "snmp_oid"}, "SNMPV3": {"SNMP", "snmp_oid"}, "SNMP_TRAP": {"SNMP trap", ""},
	"IPMI": {"IPMI", "ipmi_sensor"}, "JMX": {"JMX", "jmx_endpoint"}, "ODBC": {"ODBC", ""}, "SSH": {"SSH", ""}, "TELNET": {"Telnet", ""}, "SIMPLE": {"simple check", ""},
	"EXTERNAL": {"external script", ""},
	"SCRIPT":   {"script", ""}, "ITEM_TYPE_SCRIPT": {"script", ""}, "BROWSER": {"browser", ""}, "ITEM_TYPE_BROWSER": {"browser", ""},
}

// connectionFields are the fields of items that say how a value is collected; they have no meaning for an item that nobody
// collects.
var connectionFields = []string{
	"delay", "snmp_oid", "ipmi_sensor", "jmx_endpoint", "params", "url", "query_fields", "parameters", "posts", "headers", "status_codes", "post_type", "request_method", "output_format",
	"retrieve_mode", "follow_redirects", "verify_peer", "verify_host", "http_proxy", "authtype", "username", "password", "publickey", "privatekey", "timeout", "ssl_cert_file",
	"ssl_key_file", "ssl_key_password", "allow_traps", "allowed_hosts", "snmp_community", "snmpv3_securityname", "port",
}

// importItem imports an item of Zabbix with its preprocessing steps.
func (im *importer) importItem(t *template, e *conversion.Mapping) {
	im.result.Counts.Items++
	if of, ok := im.newItem(t, e, "item "+e.TextOf("key")); ok {
		t.noteUnreadFields(e, "items")
		t.spec.Items = append(t.spec.Items, of)
	}
}

// newItem converts an item or item prototype of the export to an item of Muster.
func (im *importer) newItem(t *template, e *conversion.Mapping, what string) (of model.Item, ok bool) {
	of = model.Item{Key: e.TextOf("key"), Unit: conversion.OneLine(e.TextOf("units")), Disabled: isDisabled(e)}
	word := enumField(e, "value_type", "UNSIGNED")
	valueType, known := valueTypes[word]
	if !known {
		im.noteLoss(e, what, "values of type %s are not supported", word)
		return of, false
	}
	if !im.claimKey(t, e, what, of.Key) {
		return of, false
	}
	of.Type = valueType
	if history := e.TextOf("history"); history != "" && strings.Trim(history, "0smhdw") == "" {
		of.NoHistory = true
	}
	if m := e.Child("valuemap"); m != nil {
		of.ValueMap = conversion.ShortenLine(m.TextOf("name"), model.MaxName)
		if !slices.ContainsFunc(t.spec.ValueMaps, func(one model.ValueMap) bool { return one.Name == of.ValueMap }) {
			im.noteLoss(e, what, "the template has no value map %q", of.ValueMap)
			of.ValueMap = ""
		}
	}
	im.importSource(t, e, what, &of)
	im.importSteps(t, e, what, &of)
	of.Tags = im.importTags(e, what)
	e.IgnoreFields("uuid", "name", "triggers", "trigger_prototypes", "logtimefmt")
	if e.HasField("discovery_rule") {
		im.noteLoss(e, what, "field discovery_rule has no equivalent in Muster")
	}
	return of, true
}

// isDisabled reports whether an item, rule or trigger of the export is disabled. Prototypes that Zabbix does not
// discover count as disabled.
func isDisabled(e *conversion.Mapping) bool {
	status, discover := enumField(e, "status", "ENABLED"), enumField(e, "discover", "DISCOVER")
	return status == "DISABLED" || discover == "NO_DISCOVER"
}

// claimKey reserves the key of an item, rule or prototype, and refuses an invalid or repeated key. For an invalid or
// repeated key it returns false.
func (im *importer) claimKey(t *template, e *conversion.Mapping, what, key string) bool {
	switch {
	case key == "" || len(key) > maxKey || model.HasControl(key):
		im.noteLoss(e, what, "expected a key of one line and at most %d bytes", maxKey)
	case t.keys[key]:
		im.noteLoss(e, what, "another item of the template has this key")
	default:
		t.keys[key] = true
		return true
	}
	return false
}

// maxKey bounds the key of an item, in bytes.
const maxKey = 2048

// importSource imports where an item's values come from, such as the agent or another item. Sources are, for
// example, the agent, a trapper or a master item.
func (im *importer) importSource(t *template, e *conversion.Mapping, what string, of *model.Item) {
	switch word := enumField(e, "type", "ZABBIX_PASSIVE"); word {
	case "TRAP":
		of.Trapper = true
		if hosts := e.TextOf("allowed_hosts"); hosts != "" {
			im.noteLoss(e, what, "allowed_hosts %s has no equivalent in Muster", hosts)
		}
		e.IgnoreFields(connectionFields...)
	case "DEPENDENT":
		if master := e.Child("master_item"); master != nil {
			of.From = master.TextOf("key")
		}
		e.IgnoreFields(connectionFields...)
	case "ZABBIX_PASSIVE", "ZABBIX_ACTIVE":
		key, err := t.macros.Expand(of.Key)
		if err == nil {
			err = im.CheckKey(key)
		}
		if _, missing := err.(*model.MissingMacroError); err != nil && !missing {
			im.markNotCollected(e, what, of, conversion.OneLine("the agent: "+err.Error()))
			return
		}
		im.importInterval(t, e, what, of)
		e.IgnoreFields("timeout") // an agent has a limit of its own
	case "HTTP_AGENT":
		im.importRequest(t, e, what, of)
	case "CALCULATED":
		im.importFormula(t, e, what, of)
	case "INTERNAL":
		of.Internal = true
		im.importInterval(t, e, what, of)
		e.IgnoreFields(connectionFields...)
		if _, err := model.ParseInternalKey(of.Key); err != nil {
			im.markNotCollected(e, what, of, "internal item: "+err.Error())
			im.noteLoss(e, what, "%v", err)
		}
	default:
		idle, known := idleTypes[word]
		text := cmp.Or(idle.text, word)
		countOmission(t.idle, e, "items", fmt.Sprintf("items of type %s are not collected here; they are marked so", cmp.Or(idle.text, word)), !known)
		if detail := e.TextOf(idle.detail); idle.detail != "" && detail != "" {
			text += " " + detail
		}
		im.markNotCollected(e, what, of, text)
	}
}

// importFormula imports the formula of a calculated item. checkFormulas compiles it, when all items of the template
// are known.
func (im *importer) importFormula(t *template, e *conversion.Mapping, what string, of *model.Item) {
	formula, err := trigger.ReplaceHosts(im.expressionOf(e, "params"), func(host string) (string, error) {
		if host == t.name {
			return "", nil
		}
		return host, nil
	})
	e.IgnoreFields(connectionFields...)
	if err != nil {
		im.rejectFormula(e, what, of, err)
		return
	}
	of.Formula = strings.TrimSpace(formula)
	im.importInterval(t, e, what, of)
	t.formulas[of.Key] = e
}

// rejectFormula marks a calculated item as not collected, because its formula is unusable.
func (im *importer) rejectFormula(e *conversion.Mapping, what string, of *model.Item, err error) {
	im.markNotCollected(e, what, of, "calculated: "+compileErrorReason(err))
	im.noteLoss(e, what, "%s", compileErrorReason(err))
}

// checkFormulas compiles the formulas of calculated items, and marks items with unusable formulas as not
// collected. The formulas may read items of the template and prototypes of a rule.
func (im *importer) checkFormulas(t *template, list, prototypes []model.Item) {
	items := slices.Concat(t.spec.Items, prototypes)
	slices.SortFunc(items, func(a, b model.Item) int { return strings.Compare(a.Key, b.Key) })
	for i := range list {
		of := &list[i]
		if of.Formula == "" {
			continue
		}
		program, err := trigger.CompileFormula(items, of.Formula, t.macroLookup(prototypes != nil))
		if err == nil && prototypes != nil && len(program.Selections()) > 0 {
			err = fmt.Errorf("a discovered item can only read single items of its own node")
		}
		if err != nil {
			im.rejectFormula(t.formulas[of.Key], "item "+of.Key, of, err)
		}
	}
}

// markNotCollected marks an item as not collected by Muster, and records the reason.
func (im *importer) markNotCollected(e *conversion.Mapping, what string, of *model.Item, reason string) {
	e.IgnoreFields(connectionFields...)
	of.From, of.Interval, of.HTTP, of.Formula, of.Internal, of.NotCollected = "", "", nil, "", false, conversion.OneLine(reason)
	if strings.HasPrefix(reason, "the agent: ") {
		im.noteChange(e, what, "not collected: %s", strings.TrimPrefix(reason, "the agent: "))
	}
}

// importInterval imports the interval of an item that agents collect or the server computes. Only agents follow custom
// intervals.
func (im *importer) importInterval(t *template, e *conversion.Mapping, what string, of *model.Item) {
	text := e.TextOf("delay")
	if text == "" {
		return
	}
	if first, custom, ok := strings.Cut(text, ";"); ok && of.IsComputed() {
		im.noteLoss(e, what, "only agents follow custom intervals: %s left out", custom)
		if text = first; text == "0" {
			text = "1h"
		}
	}
	interval, err := t.convertInterval(text)
	if err != nil {
		im.noteLoss(e, what, "%s; it is collected every minute", conversion.OneLine(err.Error()))
		return
	}
	if of.Interval = interval; interval == model.DefaultItemInterval {
		of.Interval = ""
	}
}

// convertInterval converts an interval of Zabbix. One with macros or custom intervals stays as it is written.
func (t *template) convertInterval(text string) (model.Interval, error) {
	if d, ok := model.ParseZabbixTime(text); ok {
		if d == 0 {
			return "", fmt.Errorf("an interval of 0 has no equivalent in Muster")
		}
		return model.IntervalOf(model.Duration(d)), nil
	}
	i := model.Interval(text)
	if !i.HasMacros() && !i.IsCustom() {
		return "", fmt.Errorf("interval %s cannot be read", text)
	}
	_, err := when.ScheduleOf(i, t.macros)
	if missing := (*model.MissingMacroError)(nil); errors.As(err, &missing) || strings.Contains(text, "{#") {
		err = nil // nodes and entities have the value
	}
	return i, err
}

// importSteps imports the preprocessing steps of an item. An item with a step that has no equivalent in Muster would have wrong values: it is
// marked as not collected, with the steps before that one.
func (im *importer) importSteps(t *template, e *conversion.Mapping, what string, of *model.Item) {
	typ, _ := of.ValueType()
	for i, one := range e.List("preprocessing") {
		im.result.Counts.Steps++
		word := enumField(one, "type", "")
		step, err := importStep(one, word)
		if err == nil && step.Name == "checkNotSupported" && step.OnFail == nil {
			im.result.Counts.Steps--
			im.noteChange(one, what, "step %d, %s, has no effect: the reason of the agent stays", i+1, word)
			continue
		}
		if err == nil {
			steps := append(slices.Clone(of.Steps), step)
			if expanded, missing := t.macros.ExpandSteps(steps); missing == nil {
				_, err = prep.Compile(discovery.SampleSteps(expanded), typ, javascript.Compile)
			}
			if err == nil {
				of.Steps = steps
				continue
			}
		}
		im.noteLoss(one, what, "step %d, %s: %s; later steps are left out too, and the item is not collected", i+1, word, conversion.OneLine(err.Error()))
		if of.NotCollected == "" {
			of.Trapper = false
			im.markNotCollected(e, what, of, fmt.Sprintf("step %d, %s, has no equivalent in Muster", i+1, word))
		}
		for range e.List("preprocessing")[i+1:] {
			im.result.Counts.Steps++
		}
		return
	}
}

// importStep imports one preprocessing step of an item.
func importStep(e *conversion.Mapping, word string) (model.Step, error) {
	name, known := prep.NameOfZabbix(word)
	if !known {
		return model.Step{}, fmt.Errorf("unknown preprocessing step %s", word)
	}
	step := model.Step{Name: name, Parameters: e.Texts("parameters")}
	if text := e.TextOf("params"); len(step.Parameters) == 0 && text != "" { // exports up to 5.0
		step.Parameters = strings.Split(text, "\n")
	}
	for len(step.Parameters) > 1 && step.Parameters[len(step.Parameters)-1] == "" && name != "replace" && name != "regex" {
		step.Parameters = step.Parameters[:len(step.Parameters)-1]
	}
	if slices.Equal(step.Parameters, []string{""}) && name != "prometheusToJson" {
		step.Parameters = nil
	}
	value := e.TextOf("error_handler_params")
	switch handler := enumField(e, "error_handler", "ORIGINAL_ERROR"); handler {
	case "ORIGINAL_ERROR":
	case "DISCARD_VALUE":
		step.OnFail = &model.OnFail{}
	case "CUSTOM_VALUE":
		step.OnFail = &model.OnFail{Value: &value}
	case "CUSTOM_ERROR":
		step.OnFail = &model.OnFail{Error: cmp.Or(value, "failed")}
	default:
		return step, fmt.Errorf("unknown error handler %s of a preprocessing step", handler)
	}
	return step, nil
}

// importTags imports the tags of an item, trigger, override or template. A tag has one value here: several are joined.
func (im *importer) importTags(e *conversion.Mapping, what string) (tags map[string]string) {
	for _, one := range e.List("tags") {
		tag, value := conversion.OneLine(one.TextOf("tag")), conversion.OneLine(one.TextOf("value"))
		if tag == "" {
			continue
		}
		if tags == nil {
			tags = map[string]string{}
		}
		other, twice := tags[tag]
		switch {
		case twice && other != value:
			value = conversion.OneLine(other + ", " + value)
			im.noteChange(one, what, "tag %s has one value here: %s", tag, value)
		case !twice && len(tags) == model.MaxValueTags:
			im.noteLoss(one, what, "tag %s is left out: there are at most %d tags", tag, model.MaxValueTags)
			continue
		}
		tags[tag] = value
	}
	return tags
}

// importProblemTags imports the tags of a trigger or template, whose names are labels here.
func (im *importer) importProblemTags(e *conversion.Mapping, what string) map[string]string {
	tags := im.importTags(e, what)
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		name := labelName(tag)
		if name == tag {
			continue
		}
		value := tags[tag]
		if delete(tags, tag); name == "" || tags[name] != "" {
			im.noteLoss(e, what, "tag %s is no label", tag)
			continue
		}
		tags[name] = value
		im.noteChange(e, what, "tag %s is the label %s", tag, name)
	}
	return tags
}

// labelName returns the name of a label for the name of a tag. It is empty for a name with a macro.
func labelName(tag string) string {
	if strings.Contains(tag, "{") {
		return ""
	}
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/", r)) {
			return r
		}
		return '-'
	}, tag)
	return strings.Trim(name, "._-/")
}

// dropOrphans removes dependent items whose master item is not in the template.
func (im *importer) dropOrphans(t *template) {
	for dropped := true; dropped; {
		dropped = false
		t.spec.Items = slices.DeleteFunc(t.spec.Items, func(of model.Item) bool {
			has := of.From == "" || of.From != of.Key && hasItem(t.spec.Items, of.From)
			if !has {
				im.noteLoss(t.entity, "item "+of.Key, "its master item %q is not in the template", of.From)
				dropped = true
			}
			return !has
		})
	}
}

// hasItem reports whether a list of items contains an item with the given key.
func hasItem(list []model.Item, key string) bool {
	return slices.ContainsFunc(list, func(one model.Item) bool { return one.Key == key })
}
