package rudderimport

import (
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/model"
)

// importParameter converts a global parameter of Rudder to a Property of the namespace. In Rudder it is the property of
// all nodes that have no value of their own.
func (im *importer) importParameter(p *conversion.Mapping) {
	name := p.TextOf("id")
	what := "parameter " + name
	switch {
	case p.TextOf("provider") == "system" || name == "rudder":
		im.noteLoss(p, what, "left out: a parameter of Rudder itself")
		return
	case p.TextOf("scope") != "" && p.TextOf("scope") != "special:all":
		im.noteLoss(p, what, "left out: it applies to %s alone: write it into spec.properties of a group", p.TextOf("scope"))
		return
	}
	p.IgnoreFields("changeRequestId", "security")
	if property := im.convertProperty(p, what, name); property != nil {
		im.addProperty(p, name, property)
	}
}

// convertProperty converts a property of a group or a global parameter of Rudder. It returns nil and adds a note if the
// property has no valid name or value.
func (im *importer) convertProperty(p *conversion.Mapping, what, name string) *model.PropertySpec {
	value := p.Field("value")
	p.IgnoreFields("name", "description", "provider", "hierarchy", "hierarchyStatus", "origval")
	if err := model.PropertyNameError(name); err != nil || value == nil {
		im.noteLoss(p, what, "property %s left out: it has no value, or its name is not valid here", name)
		return nil
	}
	spec := &model.PropertySpec{Property: name, Value: value.AppendJSON(nil)}
	if strings.Contains(string(spec.Value), "${") {
		im.noteLoss(p, what, "property %s has a variable of Rudder, which is plain text here", name)
	}
	if mode := p.TextOf("inheritMode"); mode != "" && mode != "moo" {
		merges := map[string]string{"m": "", "o": "", "a": model.MergeAppend, "p": model.MergePrepend}
		letters := strings.Split(mode, "")
		if len(letters) != 3 || !strings.Contains("mo", letters[0]) || !strings.Contains("oap", letters[1]) || !strings.Contains("oap", letters[2]) {
			im.noteLoss(p, what, "property %s: the mode of inheritance %s has no equivalent in Muster", name, mode)
			return spec
		}
		if letters[0] == "o" {
			spec.Merge.Objects = model.MergeOverride
		}
		spec.Merge.Lists, spec.Merge.Texts = merges[letters[1]], merges[letters[2]]
	}
	im.noteUnreadFields(p, what)
	return spec
}

// addProperty adds a Property to the result, under a name made from a title.
func (im *importer) addProperty(p *conversion.Mapping, title string, spec *model.PropertySpec) {
	name := im.unusedName("Property", title, "")
	if name == spec.Property {
		spec.Property = ""
	}
	im.addResource(p, "Property", name, "", spec)
}
