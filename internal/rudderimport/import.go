// Package rudderimport turns techniques of Rudder's editor (YAML), and directives, rules, groups, parameters and campaigns as Rudder's API answers
// them (JSON), into resources: Technique, Directive, Policy, Group and Property. It reports with file and line each part that has no equivalent in Muster.
//
// A file becomes mappings that remember which of their fields were read (conversion.Mapping). import.go makes the resources in the order
// in which they refer to each other: techniques (technique.go, its methods in method.go, conditions in convert_condition.go), global properties
// (property.go), groups (group.go), directives with their schedules (schedule.go) and rules (directives_and_rules.go).
//
// Pure: no goroutines, no locks, no files but the bytes passed in. Start reading at Import.
package rudderimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// Result holds the Muster resources made by an import from Rudder, and notes about lost or changed parts.
type Result struct {
	conversion.Result
	Counts Counts `json:"counts"`
}

// Counts has the numbers of techniques, methods, directives, rules and groups in the imported Rudder files. It
// also has the number of methods that were imported.
type Counts struct {
	Techniques      int `json:"techniques"`
	Methods         int `json:"methods"`
	ImportedMethods int `json:"importedMethods"`
	Directives      int `json:"directives"`
	Rules           int `json:"rules"`
	Groups          int `json:"groups"`
}

// Options has the settings of an import, such as the kinds of resources to convert.
type Options struct {
	Kinds *kind.Registry
	// Bridge imports directives that Rudder's agents go on to run: the server compares their reports with the techniques. False:
	// Muster's agents run them.
	Bridge bool
	Now    time.Time // a one-shot whose time is over is left out
}

// Import converts techniques (YAML) and answers of the API (JSON) of Rudder to Muster resources. It fails on a file that has
// none of these.
func Import(files []conversion.File, o Options) (*Result, error) {
	im := &importer{Options: o, result: &Result{}, names: map[string]string{}, techniques: map[string]*technique{}, directives: map[string]string{}, groups: map[string]string{}, rules: map[string]bool{}, schedules: map[string]*schedule{}}
	var techniques, directives, rules, groups, parameters, campaigns []*conversion.Mapping
	for _, f := range files {
		documents, err := conversion.ReadMappings(f)
		if err != nil {
			return nil, err
		}
		for _, p := range documents {
			data := p.Child("data")
			switch {
			case data != nil:
				im.noteUnknownLists(data)
				directives, rules = append(directives, data.List("directives")...), append(rules, data.List("rules")...)
				groups, parameters = append(groups, data.List("groups")...), append(parameters, data.List("parameters")...)
				campaigns = append(campaigns, data.List("campaigns")...)
			case p.HasField("items"):
				techniques = append(techniques, p)
			default:
				return nil, model.Errorf(model.Invalid, "%s: neither a technique in YAML nor an answer of Rudder's API", p.Place()).
					WithHint("techniques: technique.yml of the configuration repository; the rest: curl https://RUDDER/rudder/api/latest/directives (rules, groups, parameters, campaigns)")
			}
		}
	}
	for _, p := range techniques {
		im.importTechnique(p)
	}
	if o.Bridge {
		im.addResource(nil, "Group", im.unusedName("Group", bridgeGroup, ""), "", &model.GroupSpec{Where: `node.facts.rudderNode != ""`})
	}
	for _, p := range parameters {
		im.importParameter(p)
	}
	for _, p := range campaigns {
		im.importSchedule(p)
	}
	im.nameGroups(groups)
	for _, p := range groups {
		im.importGroup(p)
	}
	im.addGroups()
	for _, p := range directives {
		im.importDirective(p)
	}
	for _, p := range rules {
		im.importRule(p)
	}
	im.noteUnusedSchedules()
	im.result.SortNotes()
	return im.result, nil
}

// bridgeGroup is the name of the group of all nodes with an agent of Rudder.
const bridgeGroup = "rudder-nodes"

// importer collects the converted resources and the notes of an import. Each part without an equivalent in Muster has
// a note.
type importer struct {
	Options
	result     *Result
	names      map[string]string     // titles in Rudder, by kind and name here
	techniques map[string]*technique // by id in Rudder
	directives map[string]string     // names here by ids in Rudder
	groups     map[string]string
	converted  []convertedGroup
	rules      map[string]bool      // ids in Rudder
	schedules  map[string]*schedule // by id in Rudder
}

// noteLoss adds a note about a lost part of an imported file that has no equivalent in Muster.
func (im *importer) noteLoss(p *conversion.Mapping, what, format string, args ...any) {
	im.result.AddNote(p.File, p.Line(), what, true, "%s", conversion.OneLine(fmt.Sprintf(format, args...)))
}

// noteChange adds a note about a part of an imported file that was converted to another form.
func (im *importer) noteChange(p *conversion.Mapping, what, format string, args ...any) {
	im.result.AddNote(p.File, p.Line(), what, false, "%s", conversion.OneLine(fmt.Sprintf(format, args...)))
}

// noteUnreadFields adds a note about each field of a Rudder file that the import has not read.
func (im *importer) noteUnreadFields(p *conversion.Mapping, what string) {
	for _, name := range p.UnreadFields() {
		im.noteLoss(p, what, "field %s has no equivalent in Muster", name)
	}
}

// noteUnknownLists adds a note for each list in an API answer of Rudder that is not imported.
func (im *importer) noteUnknownLists(data *conversion.Mapping) {
	for _, name := range data.Names() {
		if !slices.Contains([]string{"directives", "rules", "groups", "parameters", "campaigns"}, name) {
			im.noteLoss(data, name, "only directives, rules, groups, parameters and campaigns of the API are imported; techniques as YAML")
		}
	}
}

// unusedName makes a Muster name from the title of a Rudder resource, different from all names in use.
func (im *importer) unusedName(kind, title, other string) string {
	base := cmp.Or(strings.Trim(model.CleanName(title), "-"), model.CleanName(other), strings.ToLower(kind))
	name := base
	for n := 2; im.names[kind+"/"+name] != ""; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	im.names[kind+"/"+name] = title + " "
	return name
}

// addResource adds a resource without labels to the result, unless Muster's validation refuses the resource.
func (im *importer) addResource(p *conversion.Mapping, kind, name, title string, spec model.Spec) bool {
	return im.addLabelled(p, kind, name, title, nil, spec)
}

// addLabelled adds a resource with labels to the result, unless Muster's validation refuses the resource. A refused resource
// gives a note.
func (im *importer) addLabelled(p *conversion.Mapping, kind, name, title string, labels map[string]string, spec model.Spec) bool {
	r := &model.Resource{APIVersion: model.APIVersion, Kind: kind, Metadata: model.Metadata{Name: name, Namespace: model.DefaultNamespaceName, Labels: labels}, Spec: spec}
	if title = conversion.OneLine(title); title != "" && title != name {
		r.Metadata.DisplayName = title
	}
	if flaws := im.Kinds.Check(r); len(flaws) > 0 {
		im.noteLoss(p, strings.ToLower(kind)+" "+name, "left out: Muster refuses it: %s", flaws[0].Error())
		return false
	}
	im.result.Resources = append(im.result.Resources, r)
	return true
}
