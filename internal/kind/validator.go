package kind

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// Validator collects the validation errors of one resource, without checking whether referenced resources
// exist. Its methods are checks that several kinds share; the checks of one kind are functions in the file of
// that kind.
type Validator struct {
	resource  *model.Resource
	namespace string // of the resource; of a Namespace, its own name
	flaws     model.Flaws
}

// Check validates one resource without looking up referenced resources, and returns a list of all errors. An
// absent namespace is correct.
func (r *Registry) Check(res *model.Resource) model.Flaws {
	v := &Validator{resource: res, namespace: res.Metadata.Namespace}
	k := r.findKind(res.Kind)
	v.validateMetadata(k, res)
	v.MissingIf(k != nil && res.Spec == nil, "spec", "", "missing")
	if k != nil && res.Spec != nil {
		if k.Validate != nil {
			k.Validate(v, res.Spec)
		}
		v.validateNames("spec", res.Spec)
	}
	return v.flaws
}

// Validate validates one resource without looking up referenced resources, and returns all errors as one error.
func (r *Registry) Validate(res *model.Resource) error { return r.Check(res).Err() }

// Flaw records a validation error about a field, with a hint. hint is the text to write.
func (v *Validator) Flaw(field, hint, format string, args ...any) {
	v.recordFlaw(false, field, hint, format, args)
}

// FlawIf records a validation error about a field if the parameter wrong is true.
func (v *Validator) FlawIf(wrong bool, field, hint, format string, args ...any) {
	if wrong {
		v.recordFlaw(false, field, hint, format, args)
	}
}

// Missing records a validation error about a required field that is missing.
func (v *Validator) Missing(field, hint, format string, args ...any) {
	v.recordFlaw(true, field, hint, format, args)
}

// MissingIf records an error about a missing required field if the parameter missing is true.
func (v *Validator) MissingIf(missing bool, field, hint, format string, args ...any) {
	if missing {
		v.recordFlaw(true, field, hint, format, args)
	}
}

// recordFlaw records an error in a field, up to the limit model.MaxFlaws. absent is true if the field is missing.
func (v *Validator) recordFlaw(absent bool, field, hint, format string, args []any) {
	if len(v.flaws) < model.MaxFlaws {
		v.flaws = append(v.flaws, &model.Flaw{Field: model.Shorten(field), Hint: model.Shorten(hint), Text: model.Shorten(fmt.Sprintf(format, args...)), Absent: absent})
	}
}

// RequireName records an error unless a text is a valid resource name.
func (v *Validator) RequireName(field, text string) {
	if text == "" {
		v.Missing(field, "", "%v", model.NameError(text))
		return
	}
	if err := model.NameError(text); err != nil {
		hint := ""
		if clean := model.CleanName(text); clean != "" {
			hint = "write " + clean
			if field == "metadata.name" {
				hint += fmt.Sprintf(" and displayName: %q", text)
			}
		}
		v.Flaw(field, hint, "%v", err)
	}
}

// RequireSharedName records an error unless a text is a resource name or `shared/NAME`. The forms are NAME and
// shared/NAME.
func (v *Validator) RequireSharedName(field, text string) {
	namespace, name, found := strings.Cut(text, "/")
	switch {
	case !found:
		v.RequireName(field, text)
	case namespace != v.namespace && namespace != model.SharedNamespaceName:
		v.Flaw(field, "write a name of the same namespace, or "+model.SharedNamespaceName+"/"+name, "%q belongs to another namespace", text)
	default:
		v.RequireName(field, name)
	}
}

// RequireSourceName records an error unless a text is the name of a check or Template trigger.
// RequireSharedName decides about the namespace.
func (v *Validator) RequireSourceName(field, text string) {
	name, trigger, ok := strings.Cut(text, ":")
	v.RequireSharedName(field, name)
	v.FlawIf(ok && trigger == "", field, "write TEMPLATE:TRIGGER", "the name of the trigger is missing")
	v.RequireLine(field, trigger, model.MaxName)
}

// RequireNodeName records an error unless a text can be the name of a node. The form is NAME, or NAMESPACE/NAME in the
// namespace shared.
func (v *Validator) RequireNodeName(field, text string) {
	namespace, name, found := strings.Cut(text, "/")
	switch {
	case !found:
		v.RequireName(field, text)
	case namespace != v.namespace && v.namespace != model.SharedNamespaceName:
		v.Flaw(field, "only a resource in the namespace "+model.SharedNamespaceName+" can name nodes of other namespaces", "%q belongs to another namespace", text)
	default:
		v.RequireName(field, namespace)
		v.RequireName(field, name)
	}
}

// RequireNames records an error for each invalid resource name in a list. A repeated name is an error.
func (v *Validator) RequireNames(field string, names []string, check func(field, text string)) {
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if len(v.flaws) >= model.MaxFlaws {
			return
		}
		at := fmt.Sprintf("%s[%d]", field, i)
		check(at, name)
		v.FlawIf(seen[name], at, "keep one entry", "%s occurs twice here", name)
		seen[name] = true
	}
}

// validateNames records an error for each malformed name by which a spec refers to other resources. field is
// the place of the part.
func (v *Validator) validateNames(field string, spec any) {
	model.EachReference(field, spec, func(f model.FieldReference) {
		check := v.RequireSharedName
		if f.Kind == "Node" && f.Optional {
			check = v.RequireNodeName
		}
		names := f.Names()
		switch {
		case f.IsList() && !f.Optional:
			v.LimitElements(f.Field, len(names))
			v.FlawIf(f.Kind == "Asset" && len(names) > model.MaxAssets, f.Field, "", "more than %d", model.MaxAssets)
			fallthrough
		case f.IsList():
			v.RequireNames(f.Field, names, check)
		case len(names) > 0:
			check(f.Field, names[0])
		}
	})
}

// excludeRoute records an error if a spec sets both handlers and a route.
func (v *Validator) excludeRoute(field, route string, handlers []string) {
	v.FlawIf(route != "" && len(handlers) > 0, field, "remove one: a route names handlers in its steps", "route and handlers exclude each other")
}

// LimitElements records an error if a list or mapping in a field has too many elements.
func (v *Validator) LimitElements(field string, n int) {
	v.FlawIf(n > maxEntries, field, "", "%d entries, at most %d", n, maxEntries)
}

// RequireLine records an error unless a text is a single line within a length limit. Control characters are refused, too.
func (v *Validator) RequireLine(field, text string, most int) {
	v.FlawIf(len(text) > most || model.HasControl(text), field, "", "expected one line of at most %d bytes", most)
}

// requireUniqueTitle records an error unless a title is one line and differs from all titles validated before.
// It then adds the title to seen. noun names the titled thing.
func (v *Validator) requireUniqueTitle(field, noun, title, hint string, seen map[string]bool) {
	v.MissingIf(title == "", field, hint, "missing")
	v.RequireLine(field, title, model.MaxName)
	v.FlawIf(title != "" && seen[title], field, "", "%s %q occurs twice", noun, title)
	seen[title] = true
}

// validateSeverity records an error unless a text is the name of a severity
func (v *Validator) validateSeverity(field, name string) {
	_, ok := model.ParseSeverity(name)
	v.FlawIf(!ok, field, "write "+strings.Join(model.SeverityNames(), ", "), "unknown severity %q", name)
}

// InRange records an error unless a duration lies between two limits or is zero, which means the default.
func (v *Validator) InRange(field string, d, low, high model.Duration) {
	v.FlawIf(d != 0 && (d < low || d > high), field, "", "expected %s to %s, got %s", low, high, d)
}

// validateCount records an error unless a number is from 0 (the default) to maxCount.
func (v *Validator) validateCount(field string, n int) {
	v.FlawIf(n < 0 || n > maxCount, field, "", "expected 1 to %d, got %d", maxCount, n)
}

// requireOneOf records an error unless a text is empty or one of the allowed words.
func (v *Validator) requireOneOf(field, text string, words ...string) {
	v.FlawIf(text != "" && !slices.Contains(words, text), field, "write "+strings.Join(words, " or "), "unknown value %q", text)
}

// validateTimeZone records an error unless a text is empty or the name of a time zone.
func (v *Validator) validateTimeZone(field, zone string) {
	_, err := time.LoadLocation(zone)
	v.FlawIf(err != nil || zone == "Local", field, "write one such as Europe/Paris or UTC", "unknown time zone %q", zone)
}

// recordCompileError records an error that compiling a field's condition, calendar or JavaScript returned,
// unless nil. Nil records nothing.
func (v *Validator) recordCompileError(field string, err error) {
	if e, ok := err.(*model.Error); ok {
		v.Flaw(field, e.Hint, "%s", strings.TrimPrefix(e.Message, "where: ")) // the field names the condition
	} else if err != nil {
		v.Flaw(field, "", "%v", err)
	}
}

// validateCondition records an error unless a condition about nodes compiles. The function more checks further rules
// of the field, and may be nil.
func (v *Validator) validateCondition(field, expr string, compile func(string) (*where.Condition, error), more func(*where.Condition) error) {
	if expr == "" {
		return
	}
	c, err := compile(expr)
	if err == nil && more != nil {
		err = more(c)
	}
	v.recordCompileError(field, err)
}

// refuseRedacted records an error if a value contains the placeholder that muster prints in place of secrets.
func (v *Validator) refuseRedacted(field, value string) {
	v.FlawIf(strings.Contains(value, model.RedactedText),
		field, "write the real value, or read the resource as a user who may change it", "%s is the placeholder of a hidden value", model.RedactedText)
}

// validateMetadata validates the metadata of a resource, such as name, namespace, labels and annotations.
func (v *Validator) validateMetadata(k *Kind, r *model.Resource) {
	m := &r.Metadata
	v.RequireName("metadata.name", m.Name)
	switch {
	case k == nil:
		v.Flaw("kind", "", "unknown kind %q", r.Kind)
	case k.Namespaced && m.Namespace != "":
		v.RequireName("metadata.namespace", m.Namespace)
	case !k.Namespaced && m.Namespace != "":
		v.Flaw("metadata.namespace", "leave the field out", "a %s has no namespace", k.Name)
	}
	v.RequireLine("metadata.displayName", m.DisplayName, model.MaxText)
	v.RequireLine("metadata.owner", m.Owner, model.MaxText)
	v.validateLabels("metadata.labels", m.Labels)
	v.LimitElements("metadata.annotations", len(m.Annotations))
	for _, name := range slices.Sorted(maps.Keys(m.Annotations)) {
		v.validateLabelKey("metadata.annotations."+name, name)
		v.FlawIf(len(m.Annotations[name]) > maxAnnotation, "metadata.annotations."+name, "", "longer than %d bytes", maxAnnotation)
	}
}

// validateLabels validates the names and values of labels.
func (v *Validator) validateLabels(field string, labels map[string]string) {
	v.LimitElements(field, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		at := field + "." + name
		v.validateLabelKey(at, name)
		v.FlawIf(len(labels[name]) > model.MaxText || model.HasControl(labels[name]),
			at, "write longer text into annotations", "expected one line of at most %d bytes", model.MaxText)
	}
}

// validateLabelKey validates the name of a label.
func (v *Validator) validateLabelKey(field, name string) {
	v.FlawIf(!model.IsLabelName(name), field, "", "invalid label name %q: use letters, digits, and . _ - / between them, at most %d", name, model.MaxText)
}

// validateMetricTags validates the tags that a check adds to its metrics.
func (v *Validator) validateMetricTags(field string, tags map[string]string) {
	v.FlawIf(len(tags) > model.MaxValueTags, field, "", "%d, at most %d", len(tags), model.MaxValueTags)
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		v.FlawIf(k == "" || len(k) > model.MaxText || len(tags[k]) > model.MaxText || model.HasControl(k) || model.HasControl(tags[k]),
			field+"."+k, "", "expected one line of at most %d bytes", model.MaxText)
	}
}

// countTrue returns how many of the given conditions are true.
func countTrue(conditions ...bool) (n int) {
	for _, holds := range conditions {
		if holds {
			n++
		}
	}
	return n
}

const variableHint = "use letters, digits and _; the first character must not be a digit"

// isVariableName reports whether a text is the name of an environment variable.
func isVariableName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && (!isAlphanumeric(c) || i == 0 && c <= '9') {
			return false
		}
	}
	return name != "" && len(name) <= model.MaxText
}

// isHeaderName reports whether a text is a valid HTTP header name (token of RFC 9110).
func isHeaderName(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

// isAlphanumeric reports whether a byte is an ASCII letter or digit.
func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
