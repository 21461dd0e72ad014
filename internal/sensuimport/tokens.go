package sensuimport

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// placeholder is the field of an entity that a property has the value of.
type placeholder struct{ field, key string } // {labels disk_warn}, {name ""}

var (
	tokenText  = regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`)
	tokenField = regexp.MustCompile(`^\.(labels|annotations|name|namespace|system)(?:\.([A-Za-z0-9_.]+))?$`)
	tokenIndex = regexp.MustCompile(`^\(?\s*index\s+\.(labels|annotations)\s+"([^"]+)"\s*\)?$`)
	notInName  = regexp.MustCompile(`[^A-Za-z0-9_]`)
)

// translateTokens translates {{ .labels.x | default "y" }} in a text; the labels that it reads become properties of the nodes.
func translateTokens(o *object, field, text string) string {
	return tokenText.ReplaceAllStringFunc(text, func(whole string) string {
		inner := tokenText.FindStringSubmatch(whole)[1]
		if variable, ok := assetPath(inner); ok {
			return variable
		}
		what, rest, piped := strings.Cut(inner, "|")
		what, rest = strings.TrimSpace(what), strings.TrimSpace(rest)
		t, ok := parseToken(what)
		deflt, isDefault := strings.CutPrefix(rest, "default")
		if !ok || piped && !isDefault {
			o.noteLoss("%s: %s is no token that Muster knows: write a property, {{ .props.NAME | default \"…\" }}; a check is disabled until then", field, whole)
			o.broken = true
			return `{{ "{{" }}` + strings.TrimPrefix(whole, "{{")
		}
		prop := t.property()
		if o.importer.props[o.namespace] == nil {
			o.importer.props[o.namespace] = map[string]placeholder{}
		}
		o.importer.props[o.namespace][prop] = t
		if t.field == "system" {
			o.noteChange("%s: %s reads the property %s: set it for the nodes, or let the command ask the system", field, whole, prop)
		}
		if !piped {
			return "{{ .props." + prop + " }}"
		}
		return "{{ .props." + prop + " | default " + strings.TrimSpace(deflt) + " }}"
	})
}

func parseToken(text string) (placeholder, bool) {
	if m := tokenIndex.FindStringSubmatch(text); m != nil {
		return placeholder{m[1], m[2]}, true
	}
	m := tokenField.FindStringSubmatch(text)
	switch {
	case m == nil:
		return placeholder{}, false
	case m[1] == "name" || m[1] == "namespace":
		return placeholder{m[1], ""}, m[2] == ""
	}
	return placeholder{m[1], m[2]}, m[2] != ""
}

// property is the name of the property that stands for it.
func (t placeholder) property() string {
	switch t.field {
	case "labels", "annotations":
		clean := notInName.ReplaceAllString(t.key, "_")
		if c := clean[0]; c >= '0' && c <= '9' {
			clean = "_" + clean
		}
		return clean
	case "system":
		return notInName.ReplaceAllString("system_"+t.key, "_")
	}
	return "entity_" + t.field
}

// of returns the value for an entity; false: the entity has no such field.
func (t placeholder) of(o *object, labels, annotations map[string]string) (value string, ok bool) {
	switch t.field {
	case "labels":
		value, ok = labels[t.key]
	case "annotations":
		value, ok = annotations[t.key]
	case "name":
		return o.name, true
	case "namespace":
		return cmp.Or(o.namespace, "default"), true
	}
	return value, ok
}

func (t placeholder) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s.%s", t.field, t.key), ".")
}
