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

// Validator collects the flaws of one resource by itself; apply looks up its references. Its methods are checks that
// several kinds share; the checks of one kind are functions in the file of that kind.
type Validator struct {
	resource  *model.Resource
	namespace string // of the resource; of a Namespace, its own name
	flaws     model.Flaws
}

// Check returns all flaws of one resource by itself. A namespace that is left out is correct.
func (r *Registry) Check(res *model.Resource) model.Flaws {
	v := &Validator{resource: res, namespace: res.Metadata.Namespace}
	k := r.find(res.Kind)
	v.metadata(k, res)
	v.MissingIf(k != nil && res.Spec == nil, "spec", "", "missing")
	if k != nil && res.Spec != nil && k.Validate != nil {
		k.Validate(v, res.Spec)
	}
	return v.flaws
}

// Validate returns all flaws of one resource by itself in one error.
func (r *Registry) Validate(res *model.Resource) error { return r.Check(res).Err() }

// Flaw records a flaw of a field, at most model.MaxFlaws of them. hint is the text to write.
func (v *Validator) Flaw(field, hint, format string, args ...any) {
	v.record(false, field, hint, format, args)
}

// FlawIf records a flaw of a field where a condition is true.
func (v *Validator) FlawIf(wrong bool, field, hint, format string, args ...any) {
	if wrong {
		v.record(false, field, hint, format, args)
	}
}

// Missing records the flaw of an absent field.
func (v *Validator) Missing(field, hint, format string, args ...any) {
	v.record(true, field, hint, format, args)
}

// MissingIf records the flaw of an absent field where a condition is true.
func (v *Validator) MissingIf(missing bool, field, hint, format string, args ...any) {
	if missing {
		v.record(true, field, hint, format, args)
	}
}

// record adds a flaw, at most model.MaxFlaws of them; absent: the flaw is that the field is missing.
func (v *Validator) record(absent bool, field, hint, format string, args []any) {
	if len(v.flaws) < model.MaxFlaws {
		v.flaws = append(v.flaws, &model.Flaw{Field: model.Shorten(field), Hint: model.Shorten(hint), Text: model.Shorten(fmt.Sprintf(format, args...)), Absent: absent})
	}
}

// Name requires a valid name.
func (v *Validator) Name(field, text string) {
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

// SharedName requires NAME, of the same namespace, or shared/NAME.
func (v *Validator) SharedName(field, text string) {
	namespace, name, found := strings.Cut(text, "/")
	switch {
	case !found:
		v.Name(field, text)
	case namespace != v.namespace && namespace != model.SharedNamespaceName:
		v.Flaw(field, "write a name of the same namespace, or "+model.SharedNamespaceName+"/"+name, "%q belongs to another namespace", text)
	default:
		v.Name(field, name)
	}
}

// NodeName requires NAME, of the same namespace; in the namespace shared also NAMESPACE/NAME.
func (v *Validator) NodeName(field, text string) {
	namespace, name, found := strings.Cut(text, "/")
	switch {
	case !found:
		v.Name(field, text)
	case namespace != v.namespace && v.namespace != model.SharedNamespaceName:
		v.Flaw(field, "only a resource in the namespace "+model.SharedNamespaceName+" can name nodes of other namespaces", "%q belongs to another namespace", text)
	default:
		v.Name(field, namespace)
		v.Name(field, name)
	}
}

// Names checks each name of a list and refuses repetitions.
func (v *Validator) Names(field string, names []string, check func(field, text string)) {
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if len(v.flaws) >= model.MaxFlaws {
			return
		}
		at := fmt.Sprintf("%s[%d]", field, i)
		check(at, name)
		v.FlawIf(seen[name], at, "keep one of them", "%s occurs twice here", name)
		seen[name] = true
	}
}

// sharedNames bounds a list of names, each of the same namespace or shared/NAME.
func (v *Validator) sharedNames(field string, names []string) {
	v.Bound(field, len(names))
	v.Names(field, names, v.SharedName)
}

// Bound bounds a list or mapping.
func (v *Validator) Bound(field string, n int) {
	v.FlawIf(n > maxEntries, field, "", "%d entries, at most %d", n, maxEntries)
}

// Line requires a text of one line of at most so many bytes.
func (v *Validator) Line(field, text string, most int) {
	v.FlawIf(len(text) > most || model.HasControl(text), field, "", "expected one line of at most %d bytes", most)
}

// optionalName requires a name as SharedName does, unless it is empty.
func (v *Validator) optionalName(field, text string) {
	if text != "" {
		v.SharedName(field, text)
	}
}

// uniqueTitle requires a title in one line that is not among those seen, and adds it to them. noun names the titled thing.
func (v *Validator) uniqueTitle(field, noun, title, hint string, seen map[string]bool) {
	v.MissingIf(title == "", field, hint, "missing")
	v.Line(field, title, model.MaxName)
	v.FlawIf(title != "" && seen[title], field, "", "%s %q occurs twice", noun, title)
	seen[title] = true
}

func (v *Validator) severity(field, name string) {
	_, ok := model.ParseSeverity(name)
	v.FlawIf(!ok, field, "write "+strings.Join(model.SeverityNames(), ", "), "unknown severity %q", name)
}

// InRange requires a duration from low to high; zero means the default.
func (v *Validator) InRange(field string, d, low, high model.Duration) {
	v.FlawIf(d != 0 && (d < low || d > high), field, "", "expected %s to %s, got %s", low, high, d)
}

func (v *Validator) count(field string, n int) {
	v.FlawIf(n < 0 || n > maxCount, field, "", "expected 1 to %d, got %d", maxCount, n)
}

func (v *Validator) oneOf(field, text string, words ...string) {
	v.FlawIf(text != "" && !slices.Contains(words, text), field, "write "+strings.Join(words, " or "), "unknown value %q", text)
}

// timeZone accepts none, which means the default.
func (v *Validator) timeZone(field, zone string) {
	_, err := time.LoadLocation(zone)
	v.FlawIf(err != nil || zone == "Local", field, "write one such as Europe/Paris or UTC", "unknown time zone %q", zone)
}

// compileError records the error of a compiler of conditions, calendars or JavaScript; nil is correct.
func (v *Validator) compileError(field string, err error) {
	if e, ok := err.(*model.Error); ok {
		v.Flaw(field, e.Hint, "%s", strings.TrimPrefix(e.Message, "where: ")) // the field names the condition
	} else if err != nil {
		v.Flaw(field, "", "%v", err)
	}
}

// where compiles a condition over nodes; more checks the rules of its field, and may be nil.
func (v *Validator) where(field, expr string, more func(*where.Condition) error) {
	if expr == "" {
		return
	}
	c, err := where.Compile(expr)
	if err == nil && more != nil {
		err = more(c)
	}
	v.compileError(field, err)
}

// refuseRedacted refuses the placeholder of a hidden value: a reader without rights has applied the resource again.
func (v *Validator) refuseRedacted(field, value string) {
	v.FlawIf(strings.Contains(value, model.RedactedText),
		field, "write the real value, or read the resource as a user who may change it", "%s is the placeholder of a hidden value", model.RedactedText)
}

func (v *Validator) metadata(k *Kind, r *model.Resource) {
	m := &r.Metadata
	v.Name("metadata.name", m.Name)
	switch {
	case k == nil:
		v.Flaw("kind", "", "unknown kind %q", r.Kind)
	case k.Namespaced && m.Namespace != "":
		v.Name("metadata.namespace", m.Namespace)
	case !k.Namespaced && m.Namespace != "":
		v.Flaw("metadata.namespace", "leave it out", "a %s has no namespace", k.Name)
	}
	v.Line("metadata.displayName", m.DisplayName, model.MaxText)
	v.Line("metadata.owner", m.Owner, model.MaxText)
	v.labels("metadata.labels", m.Labels)
	v.Bound("metadata.annotations", len(m.Annotations))
	for _, name := range slices.Sorted(maps.Keys(m.Annotations)) {
		v.labelKey("metadata.annotations."+name, name)
		v.FlawIf(len(m.Annotations[name]) > maxAnnotation, "metadata.annotations."+name, "", "longer than %d bytes", maxAnnotation)
	}
}

func (v *Validator) labels(field string, labels map[string]string) {
	v.Bound(field, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		at := field + "." + name
		v.labelKey(at, name)
		v.FlawIf(len(labels[name]) > model.MaxText || model.HasControl(labels[name]),
			at, "write longer text into annotations", "expected one line of at most %d bytes", model.MaxText)
	}
}

func (v *Validator) labelKey(field, name string) {
	v.FlawIf(!model.IsLabelName(name), field, "", "invalid label name %q: use letters, digits, and . _ - / between them, at most %d", name, model.MaxText)
}

func (v *Validator) tags(field string, tags map[string]string) {
	v.FlawIf(len(tags) > model.MaxValueTags, field, "", "%d, at most %d", len(tags), model.MaxValueTags)
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		v.FlawIf(k == "" || len(k) > model.MaxText || len(tags[k]) > model.MaxText || model.HasControl(k) || model.HasControl(tags[k]),
			field+"."+k, "", "expected one line of at most %d bytes", model.MaxText)
	}
}

// countTrue returns how many conditions hold.
func countTrue(conditions ...bool) (n int) {
	for _, holds := range conditions {
		if holds {
			n++
		}
	}
	return n
}

const variableHint = "use letters, digits and _; the first character must not be a digit"

func isVariable(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && (!isAlphanumeric(c) || i == 0 && c <= '9') {
			return false
		}
	}
	return name != "" && len(name) <= model.MaxText
}

// isHeader reports whether a name is a token of RFC 9110, section 5.6.2.
func isHeader(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
