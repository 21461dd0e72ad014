// Package zabbiximport turns Zabbix's exports of templates (YAML or JSON, 6.0 to 7.x) into resources of kind Template, and
// reports with file and line each part that has no equivalent in Muster.
//
// A file becomes entities (read_export.go): mappings that remember which of their fields were read. import.go makes a Template of each
// template, item.go its items and steps, trigger.go its triggers. A field that no function read is reported.
//
// Pure: no goroutines, no locks, no files but the bytes passed in. Start reading at Import in import.go.
package zabbiximport

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
)

// Result has the resources of an import, and notes about omitted entities.
type Result struct {
	conversion.Result
	Counts Counts `json:"counts"`
}

// Counts has the numbers of Zabbix templates, items, triggers and rules, as found and as imported.
type Counts struct {
	Templates, Items, Steps, Triggers, Rules                      int // also of discovery rules
	ImportedItems, ImportedSteps, ImportedTriggers, ImportedRules int
	Sources                                                       model.ItemSources // of the imported items and rules
}

// Options has the registry of resource kinds, and a function that checks Zabbix item keys. The function tells
// which item keys agents collect.
type Options struct {
	Kinds *kind.Registry
	// CheckKey returns the reason why an agent collects no item with a key; nil: it does.
	CheckKey func(key string) error
}

// Import converts the templates in export files of Zabbix to Muster resources. It fails on a file that is no export.
func Import(files []conversion.File, o Options) (*Result, error) {
	im := &importer{Options: o, result: &Result{}, versions: map[string]string{}, byName: map[string]*template{}, names: map[string]string{}}
	var exports []*conversion.Mapping
	for _, f := range files {
		export, err := readExport(f)
		if err != nil {
			return nil, err
		}
		exports = append(exports, export)
		im.versions[f.Name] = export.TextOf("version")
		for _, e := range export.List("templates") {
			im.addTemplate(e, export.TextOf("version"))
		}
	}
	for _, export := range exports {
		for _, e := range export.List("triggers") {
			im.importTrigger(nil, e)
		}
		export.IgnoreFields("version", "date", "groups", "host_groups", "template_groups", "images")
		for _, name := range export.UnreadFields() {
			im.noteLoss(export, name, "no equivalent in Muster")
		}
	}
	for _, t := range im.templates {
		im.importDependencies(t)
		im.finishTemplate(t)
	}
	im.result.SortNotes()
	return im.result, nil
}

// importer collects the converted Templates, and a note about each part that has no equivalent in Muster.
type importer struct {
	Options
	result    *Result
	versions  map[string]string // of Zabbix, by file
	templates []*template
	byName    map[string]*template // by technical name
	names     map[string]string    // technical names by names here
}

// noteLoss adds a note about a part of an entity that was not imported.
func (im *importer) noteLoss(e *conversion.Mapping, what, format string, args ...any) {
	im.result.AddNote(e.File, e.Line(), what, true, format, args...)
}

// noteChange adds a note about a part of an entity that was imported in changed form.
func (im *importer) noteChange(e *conversion.Mapping, what, format string, args ...any) {
	im.result.AddNote(e.File, e.Line(), what, false, format, args...)
}

// template is the working state of one Zabbix template during its conversion to a Muster Template.
type template struct {
	entity       *conversion.Mapping
	name         string // technical name
	spec         *model.TemplateSpec
	version      string // of Zabbix
	macros       *model.MacroValues
	secrets      []secretMacro
	keys         map[string]bool                // of items, rules and prototypes
	omitted      map[string]*omission           // fields that have no equivalent in Muster, by kind and name
	idle         map[string]*omission           // items that nobody collects, by type
	triggers     map[string]bool                // names of triggers
	formulas     map[string]*conversion.Mapping // calculated items and prototypes, by key
	dependencies []dependency
}

// omission is an import note, with the number of entities in a template to which the note applies.
type omission struct {
	first   *conversion.Mapping
	subject string
	text    string
	isLost  bool
	count   int
}

// title returns the Zabbix template's name for the notes of the import.
func (t *template) title() string { return "template " + t.name }

// countOmission counts the entities of a Zabbix template to which the same import note applies. So the note is
// added only once per template.
func countOmission(list map[string]*omission, e *conversion.Mapping, what, text string, isLost bool) {
	key := what + "\x00" + text
	if list[key] == nil {
		list[key] = &omission{first: e, subject: what, text: text, isLost: isLost}
	}
	list[key].count++
}

// noteUnreadFields adds an import note for each field of a Zabbix entity that the importer did not read.
func (t *template) noteUnreadFields(e *conversion.Mapping, what string) {
	for _, name := range e.UnreadFields() {
		countOmission(t.omitted, e, what, "field "+name+" has no equivalent in Muster", true)
	}
}

// addTemplate imports a template with its items, triggers, rules and macros. The export lists some triggers
// outside of the template.
func (im *importer) addTemplate(e *conversion.Mapping, version string) {
	im.result.Counts.Templates++
	t := &template{
		entity: e, name: e.TextOf("template"), version: version, spec: &model.TemplateSpec{}, keys: map[string]bool{}, omitted: map[string]*omission{}, idle: map[string]*omission{}, triggers: map[string]bool{}, formulas: map[string]*conversion.Mapping{},
	}
	if t.name == "" {
		t.name = e.TextOf("name")
	}
	if im.byName[t.name] != nil {
		im.noteLoss(e, t.title(), "another template of these files has the name %s", t.name)
		return
	}
	im.byName[t.name] = t
	im.templates = append(im.templates, t)
	im.importMacros(t)
	im.importValueMaps(t)
	t.spec.Tags = im.importProblemTags(e, t.title())
	items := e.List("items")
	for _, one := range items {
		im.importItem(t, one)
	}
	im.dropOrphans(t)
	im.checkFormulas(t, t.spec.Items, nil)
	for _, one := range items {
		for _, trigger := range one.List("triggers") {
			im.importTrigger(t, trigger)
		}
	}
	for _, one := range e.List("discovery_rules") {
		im.importRule(t, one)
	}
	for _, one := range e.List("templates") {
		im.noteLoss(one, t.title(), "it includes template %s: link both to the same nodes", one.TextOf("name"))
	}
	for _, one := range e.List("httptests") {
		im.noteLoss(one, "web scenario "+one.TextOf("name"), "web scenarios are not supported")
	}
	e.IgnoreFields("uuid", "name", "groups", "vendor")
	t.noteUnreadFields(e, t.title())
}

// maxMacroValue bounds the value of a macro, in bytes.
const maxMacroValue = 2048

// importMacros imports the macros of a template with their values.
func (im *importer) importMacros(t *template) {
	values := map[string]string{}
	for _, one := range t.entity.List("macros") {
		text := one.TextOf("macro")
		macro, length := model.ParseMacro(text)
		value := one.TextOf("value")
		what := "macro " + text
		one.IgnoreFields("description", "config")
		switch kind := enumField(one, "type", "TEXT"); {
		case length == 0 || length != len(text):
			im.noteLoss(one, what, "the name is not valid here")
			continue
		case kind != "TEXT":
			t.secrets = append(t.secrets, secretMacro{one, macro, value})
			continue
		}
		if _, err := model.NewMacroValues(map[string]string{macro.String(): value}); err != nil {
			im.noteLoss(one, what, "%v", err)
			continue
		}
		if len(value) > maxMacroValue {
			im.noteLoss(one, what, "the value is longer than %d bytes", maxMacroValue)
			continue
		}
		values[macro.String()] = value
		for _, name := range one.UnreadFields() {
			im.noteLoss(one, what, "field %s has no equivalent in Muster", name)
		}
	}
	if len(values) > 0 {
		t.spec.Macros = values
	}
	samples := maps.Clone(values)
	for _, secret := range t.secrets {
		samples[secret.String()] = "1"
	}
	t.macros, _ = model.NewMacroValues(samples)
}

// mappingTypes has the types of mappings by their names in exports.
var mappingTypes = map[string]string{
	"EQUAL": "", "GREATER_OR_EQUAL": "greaterOrEqual", "LESS_OR_EQUAL": "lessOrEqual", "IN_RANGE": "inRange", "REGEXP": "regexp", "DEFAULT": "default",
}

// importValueMaps imports the value maps of a template.
func (im *importer) importValueMaps(t *template) {
	for _, one := range t.entity.List("valuemaps") {
		m := model.ValueMap{Name: conversion.ShortenLine(one.TextOf("name"), model.MaxName)}
		what := "value map " + m.Name
		for _, mapping := range one.List("mappings") {
			word := enumField(mapping, "type", "EQUAL")
			kind, known := mappingTypes[word]
			of := model.ValueMapping{Type: kind, Value: mapping.TextOf("value"), Text: conversion.OneLine(mapping.TextOf("newvalue"))}
			if _, err := prep.CompileValueMap(&model.ValueMap{Mappings: []model.ValueMapping{of}}); err != nil || !known {
				im.noteLoss(mapping, what, "mapping of type %s left out: %v", word, err)
				continue
			}
			m.Mappings = append(m.Mappings, of)
		}
		switch {
		case slices.ContainsFunc(t.spec.ValueMaps, func(other model.ValueMap) bool { return other.Name == m.Name }):
			im.noteLoss(one, what, "another value map has this name")
		case m.Name == "" || len(m.Mappings) == 0:
			im.noteLoss(one, what, "it has no name or no mappings")
		default:
			t.spec.ValueMaps = append(t.spec.ValueMaps, m)
		}
	}
}

// dropRefused removes the item, trigger, value map or macro that Muster's validation refuses. It reports whether there
// was one.
func (im *importer) dropRefused(t *template, flaw *model.Flaw) bool {
	list, rest, _ := strings.Cut(strings.TrimPrefix(flaw.Field, "spec."), "[")
	digits, _, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(digits)
	what := ""
	switch {
	case strings.HasPrefix(list, "macros.") && t.spec.Macros != nil:
		what = "macros"
		t.spec.Macros = nil
	case err != nil:
		return false
	case list == "items" && i < len(t.spec.Items):
		what = "item " + t.spec.Items[i].Key
		t.spec.Items = slices.Delete(t.spec.Items, i, i+1)
	case list == "triggers" && i < len(t.spec.Triggers) && strings.Contains(rest, ".dependsOn"):
		what = "dependencies of trigger " + t.spec.Triggers[i].Name
		t.spec.Triggers[i].DependsOn = nil
	case list == "triggers" && i < len(t.spec.Triggers):
		what = "trigger " + t.spec.Triggers[i].Name
		t.spec.Triggers = slices.Delete(t.spec.Triggers, i, i+1)
	case list == "discovery" && i < len(t.spec.Discovery):
		what = dropRefusedPart(t, i, flaw.Field)
	case list == "valueMaps" && i < len(t.spec.ValueMaps):
		what = "value map " + t.spec.ValueMaps[i].Name
		t.spec.ValueMaps = slices.Delete(t.spec.ValueMaps, i, i+1)
	default:
		return false
	}
	im.noteLoss(t.entity, what, "left out: Muster refuses it: %s", conversion.OneLine(flaw.Error()))
	return true
}

// finishTemplate adds the converted template and the notes about its parts to the import result.
func (im *importer) finishTemplate(t *template) {
	for _, list := range []map[string]*omission{t.omitted, t.idle} {
		for _, key := range slices.Sorted(maps.Keys(list)) {
			o := list[key]
			text := o.text
			if o.count > 1 {
				text = fmt.Sprintf("%s; the same for %s", o.text, model.CountNoun(o.count-1, "other"))
			}
			im.result.AddNote(o.first.File, o.first.Line(), o.subject, o.isLost, "%s", text)
		}
	}
	name := cmp.Or(model.CleanName(t.name), "unnamed")
	if other, taken := im.names[name]; taken {
		im.noteLoss(t.entity, t.title(), "it has the same name here as template %s: %s", other, name)
		return
	}
	im.names[name] = t.name
	if len(t.spec.Items)+len(t.spec.Discovery) == 0 {
		im.noteLoss(t.entity, t.title(), "left out: no items remain, so nothing would be collected")
		return
	}
	im.importSecrets(t, name)
	r := &model.Resource{APIVersion: model.APIVersion, Kind: "Template", Metadata: model.Metadata{Name: name, Namespace: model.DefaultNamespaceName}, Spec: t.spec}
	if shown := conversion.OneLine(cmp.Or(t.entity.TextOf("name"), t.name)); shown != name {
		r.Metadata.DisplayName = shown
	}
	for flaws := im.Kinds.Check(r); len(flaws) > 0; flaws = im.Kinds.Check(r) {
		if !im.dropRefused(t, flaws[0]) {
			im.noteLoss(t.entity, t.title(), "left out: Muster refuses it: %s", conversion.OneLine(flaws[0].Error()))
			return
		}
	}
	im.result.Counts.addSpec(t.spec)
	im.result.Resources = append(im.result.Resources, r)
	im.addSecrets(t)
}

// addSpec adds the numbers of an imported template's items, triggers and rules to the counts.
func (n *Counts) addSpec(s *model.TemplateSpec) {
	all := s.AllItems()
	more, of := (&model.TemplateSpec{Items: all}).CountSources(), &n.Sources
	of.Collected, of.Trapper, of.Computed, of.Idle = of.Collected+more.Collected, of.Trapper+more.Trapper, of.Computed+more.Computed, of.Idle+more.Idle
	n.ImportedRules += len(s.Discovery)
	n.ImportedItems -= len(s.Discovery) // AllItems has the items of rules
	n.ImportedTriggers += len(s.Triggers)
	for i := range s.Discovery {
		n.ImportedTriggers += len(s.Discovery[i].Triggers)
	}
	n.ImportedItems += len(all)
	for i := range all {
		n.ImportedSteps += len(all[i].Steps)
	}
}
