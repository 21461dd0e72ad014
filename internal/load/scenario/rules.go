package scenario

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// The tag check is RULE|HINT|OPTION. RULE is one of
//
//	LOW..HIGH               a number, duration or size; zero is absent
//	share                   a number from 0 to 1
//	name, text, rate        a name; a text for people; a rate that is no share
//	a THING                 a word of a list, see words; of a mapping its keys, of a list its items
//	a THING of WORD, …      likewise, of these words
//	any                     no rule
//
// OPTION is required (zero is a flaw), nonzero (a zero that somebody wrote is a flaw), or for a mapping of shares
// shares REST: they add up to at most 1.
type rule struct{ rule, hint, option string }

// maxAgents is the largest number of agents, of a class and of all.
const maxAgents = 1_000_000

// bounds are the named ends of a range.
var bounds = map[string]int64{"agents": maxAgents, "states": model.DefaultStatesPerNode, "signals": wire.MaxSignals, "connections": model.MaxStreamConnections, "proxies": wire.MaxProxies}

// checker finds all flaws of a scenario.
type checker struct {
	*Scenario
	flaws   model.Flaws
	written func(field string) bool // the file has the field
}

// walk calls fn with each field of the structs of this package in a value: with its path in the file, and its name as in
// Class.TLS.
func walk(at string, value reflect.Value, fn func(path, name string, f reflect.StructField, value reflect.Value)) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			walk(at, value.Elem(), fn)
		}
	case reflect.Slice:
		for i := range value.Len() {
			walk(fmt.Sprintf("%s[%d]", at, i), value.Index(i), fn)
		}
	case reflect.Struct:
		own := value.Type().PkgPath() == reflect.TypeFor[Scenario]().PkgPath()
		for f, inner := range value.Fields() {
			if !own || f.PkgPath != "" {
				continue
			}
			path := at
			if !f.Anonymous {
				path = strings.TrimPrefix(at+"."+document.JSONName(f), ".")
			}
			fn(path, value.Type().Name()+"."+f.Name, f, inner)
			walk(path, inner, fn)
		}
	}
}

// ruleOf parses the tag of a field.
func ruleOf(f reflect.StructField) (rule, bool) {
	tag, ok := f.Tag.Lookup("check")
	parts := append(strings.SplitN(tag, "|", 3), "", "")
	if parts[1] == "required" || strings.HasPrefix(parts[1], "shares") {
		parts[1], parts[2] = "", parts[1]
	}
	return rule{parts[0], parts[1], parts[2]}, ok
}

// field applies one rule.
func (v *checker) field(field string, value reflect.Value, r rule) {
	if value.IsZero() {
		switch {
		case r.option == "required" && r.rule == "name":
			v.lacks(true, field, "", "the name is missing")
		case r.option == "required":
			v.lacks(true, field, r.hint, "missing")
		case r.option == "nonzero" && v.written(field):
			want := "a share above 0"
			if low, high, isRange := strings.Cut(r.rule, ".."); isRange {
				want = fmt.Sprintf("%s to %v", low, bound(high, value.Type()))
			}
			v.flaw(field, r.hint, "want %s, not 0", want)
		}
		return
	}
	low, high, isRange := strings.Cut(r.rule, "..")
	thing, list, _ := strings.Cut(r.rule, " of ")
	switch {
	case isRange:
		a, b := bound(low, value.Type()), bound(high, value.Type())
		if !(numeric(value) >= numeric(a) && numeric(value) <= numeric(b)) {
			v.flaw(field, r.hint, "want %v to %v, not %v", a, b, value)
		}
	case r.rule == "share":
		v.when(!(value.Float() >= 0 && value.Float() <= 1), field, "a share is between 0 and 1: write 0.05 for 5 %", "%v is no share", value)
	case r.rule == "rate":
		v.when(strings.Contains(value.String(), "%"), field, "write 10/min", "%s is a share, expected a number in a time", value)
	case r.rule == "text":
		v.when(value.Len() > 500 || strings.ContainsAny(value.String(), "\r\x00"), field, "", "want at most 500 bytes of text")
	case value.Kind() == reflect.Slice:
		for i := range value.Len() {
			v.field(fmt.Sprintf("%s[%d]", field, i), value.Index(i), r)
		}
	case value.Kind() == reflect.Map:
		names := slices.Sorted(maps.Keys(value.Interface().(map[string]float64)))
		for _, name := range names {
			v.field(field+"."+name, reflect.ValueOf(name), r)
		}
		if rest, ok := strings.CutPrefix(r.option, "shares "); ok {
			v.shares(field, names, value.Interface().(map[string]float64), rest)
		}
	case r.rule == "name":
		if err := model.NameError(value.String()); err != nil {
			v.flaw(field, strings.TrimSuffix("write "+model.CleanName(value.String()), "write "), "%v", err)
		}
	case list != "":
		v.oneOf(field, thing, value.String(), strings.Split(list, ", "))
	case r.rule == "a status":
		if _, ok := model.ParseStatus(value.String()); !ok {
			v.oneOf(field, r.rule, value.String(), []string{"ok", "warning", "critical", "unknown"})
		}
	case r.rule != "any":
		v.oneOf(field, r.rule, value.String(), v.words(r.rule))
	}
}

// words returns the words of a thing.
func (v *checker) words(thing string) (names []string) {
	classes := func() {
		for _, c := range v.Agents {
			names = append(names, c.Name)
		}
	}
	switch thing {
	case "a class":
		classes()
	case "a group":
		classes()
		shared, _ := v.Shared()
		names = append(append(names, shared...), AllGroup)
	case "a capability":
		for _, c := range Capabilities() {
			names = append(names, c.Name)
		}
	case "a target":
		return Targets()
	case "a plug-in":
		return Outputs()
	case "a pipeline":
		return Pipelines()
	default:
		panic("BUG: no words for " + thing)
	}
	return names
}

// bound returns the end of a range as a value of the field's type.
func bound(text string, t reflect.Type) reflect.Value {
	b := reflect.New(t).Elem()
	n, named := bounds[text]
	switch {
	case named:
		b.SetInt(n)
	case t == reflect.TypeFor[model.Duration]() || t == reflect.TypeFor[model.Size]():
		if err := b.Addr().Interface().(interface{ UnmarshalJSON([]byte) error }).UnmarshalJSON([]byte(`"` + text + `"`)); err != nil {
			panic("BUG: " + err.Error())
		}
	default:
		if _, err := fmt.Sscan(text, b.Addr().Interface()); err != nil {
			panic("BUG: " + err.Error())
		}
	}
	return b
}

// numeric returns the value of a number, duration or size.
func numeric(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// shares checks a mapping of shares.
func (v *checker) shares(field string, names []string, m map[string]float64, rest string) {
	sum, before := 0.0, len(v.flaws)
	for _, name := range names {
		v.field(field+"."+name, reflect.ValueOf(m[name]), rule{rule: "share"})
		sum += m[name]
	}
	v.when(len(v.flaws) == before && sum > 1+1e-9, field, "the rest is "+rest, "the shares add up to %.4g, more than 1", sum)
}

// flaw records a flaw. The hint says what to write.
func (v *checker) flaw(field, hint, format string, args ...any) {
	if len(v.flaws) < model.MaxFlaws {
		v.flaws = append(v.flaws, &model.Flaw{Field: model.Shorten(field), Hint: model.Shorten(hint), Text: model.Shorten(fmt.Sprintf(format, args...))})
	}
}

// when records a flaw if it is one.
func (v *checker) when(wrong bool, field, hint, format string, args ...any) {
	if wrong {
		v.flaw(field, hint, format, args...)
	}
}

// lacks records a flaw of an absent field, if it is one.
func (v *checker) lacks(wrong bool, field, hint, format string, args ...any) {
	before := len(v.flaws)
	v.when(wrong, field, hint, format, args...)
	for _, f := range v.flaws[before:] {
		f.Absent = true
	}
}

// oneOf reports whether a word is in a list; if not, the hint names the nearest word or all of them.
func (v *checker) oneOf(field, thing, word string, words []string) bool {
	if slices.Contains(words, word) {
		return true
	}
	var each []string
	for _, w := range words {
		if !slices.Contains(each, w) { // two classes of one name are a flaw of their own
			each = append(each, w)
		}
	}
	hint := "one of " + strings.Join(each, ", ")
	switch near := model.Nearest(word, words); {
	case near != "":
		hint = "did you mean " + near + "?"
	case len(words) == 0:
		hint = ""
	}
	_, name, _ := strings.Cut(thing, " ")
	v.flaw(field, hint, "there is no %s %q", name, word)
	return false
}
