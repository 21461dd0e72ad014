package discovery

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// macroLookup returns a function that looks up the values of an entity's macros.
func (s *State) macroLookup(e *Entity) func(string) (string, bool) {
	return func(macro string) (string, bool) {
		at, ok := slices.BinarySearch(s.Macros, macro)
		if !ok || e.Values[at] == macro {
			return "", false
		}
		return e.Values[at], true
	}
}

// entityOverrides has the changes (overrides) that a discovery rule makes to the items and triggers of one
// entity.
type entityOverrides struct {
	items    []model.ItemOverride
	triggers []model.TriggerOverride
}

// overridesOf returns the changes (overrides) that a discovery rule makes to an entity's items and triggers.
func (r *Rule) overridesOf(value func(string) (string, bool)) (c entityOverrides) {
	for i := range r.Overrides {
		if ok, _, _ := r.overrides[i].match(value); !ok {
			continue
		}
		c.items = append(c.items, r.Overrides[i].Items...)
		c.triggers = append(c.triggers, r.Overrides[i].Triggers...)
		if r.Overrides[i].Stop {
			break
		}
	}
	return c
}

// Items returns the items that a discovery rule creates from its prototypes for one entity. Their formulas are
// still those of the prototypes.
func (r *Rule) Items(s *State, e *Entity) (list []model.Item) {
	value := s.macroLookup(e)
	c := r.overridesOf(value)
	for i := range r.DefinitionRule.Items {
		prototype := &r.DefinitionRule.Items[i]
		of := *prototype
		for k := range c.items {
			o := &c.items[k]
			if len(o.Keys) > 0 && !slices.Contains(o.Keys, prototype.Key) {
				continue
			}
			if o.Discover != nil {
				of.Disabled = !*o.Discover
			}
			if o.Interval != "" && of.Interval != "" {
				of.Interval = o.Interval
			}
			of.Tags = model.MergeTags(of.Tags, o.Tags)
		}
		if of.Disabled {
			continue
		}
		of.Tags = maps.Clone(of.Tags)
		of.Key, of.From = ReplaceInKey(of.Key, value), ReplaceInKey(of.From, value)
		of.Unit, of.Interval = model.ReplaceEntityMacros(of.Unit, value), model.Interval(model.ReplaceEntityMacros(string(of.Interval), value))
		for name := range of.Tags {
			of.Tags[name] = model.ReplaceEntityMacros(of.Tags[name], value)
		}
		of.Steps = replaceInSteps(of.Steps, value)
		if of.HTTP != nil {
			of.HTTP, _ = of.HTTP.ExpandTexts(func(text string) (string, error) { return model.ReplaceEntityMacros(text, value), nil })
		}
		if e.Disabled {
			of.Interval, of.NotCollected = "", "not discovered since "+time.Unix(0, e.LostAt).UTC().Format(time.RFC3339)
		}
		if len(of.Key) <= maxKey {
			list = append(list, of)
		}
	}
	return list
}

// maxKey bounds the key of an item, in bytes.
const maxKey = 2048

// Replacer is a function that replaces the macros of a discovered entity in an expression. The function value returns
// the value of a macro, and key replaces macros inside item keys. The server passes trigger.ReplaceEntityMacros. The
// agent evaluates no expressions and does not link package trigger.
type Replacer func(expression string, value func(macro string) (string, bool), key func(key string) string) (string, error)

// SetFormulas replaces the discovery macros in the formulas of an entity's items. A formula that does not parse stays
// as it is.
func SetFormulas(items []model.Item, s *State, e *Entity, replace Replacer) {
	value := s.macroLookup(e)
	for i := range items {
		of := &items[i]
		if formula, err := replace(of.Formula, value, func(key string) string { return ReplaceInKey(key, value) }); err == nil {
			of.Formula = formula
		}
	}
}

// TriggersOf returns the triggers that a discovery rule creates from its prototypes for one entity. An
// expression that does not parse stays as it is and compiles nowhere, so that the reason is shown.
func TriggersOf(r *Rule, s *State, e *Entity, replace Replacer) (list []model.DefinitionTrigger) {
	if e.Disabled {
		return nil
	}
	value := s.macroLookup(e)
	c := r.overridesOf(value)
	key := func(key string) string { return ReplaceInKey(key, value) }
	for i := range r.DefinitionRule.Triggers {
		prototype := &r.DefinitionRule.Triggers[i]
		of := *prototype
		for k := range c.triggers {
			o := &c.triggers[k]
			if len(o.Names) > 0 && !slices.Contains(o.Names, prototype.Name) {
				continue
			}
			if o.Discover != nil {
				of.Disabled = !*o.Discover
			}
			if severity, ok := model.ParseSeverity(o.Severity); ok {
				of.Severity = severity
			}
			of.Tags = model.MergeTags(of.Tags, o.Tags)
		}
		if of.Disabled {
			continue
		}
		of.Name = model.Truncate(model.ReplaceEntityMacros(of.Name, value), model.MaxName)
		of.Runbook = model.ReplaceEntityMacros(of.Runbook, value)
		of.MapTexts(func(text string) string { return model.ReplaceEntityMacros(text, value) })
		for _, text := range []*string{&of.Expression, &of.Recovery} {
			if out, err := replace(*text, value, key); err == nil {
				*text = out
			}
		}
		list = append(list, of)
	}
	return list
}

// Instantiate returns a copy of a Template with items and triggers for all discovered entities instead of
// prototypes. faults has, by rule, the reason why items or triggers were left out; it is nil if none was. A
// rule that does not compile is nil and makes nothing.
func Instantiate(c *model.TemplateDefinition, rules []*Rule, states []*State, replace Replacer) (out *model.TemplateDefinition, faults []string) {
	out = new(*c)
	out.Items, out.Triggers = slices.Clone(c.Items), slices.Clone(c.Triggers)
	keys, names := map[string]string{}, map[string]string{} // by key and name: the prototype, or itself
	for i := range c.Items {
		keys[c.Items[i].Key] = c.Items[i].Key
	}
	for i := range c.Triggers {
		names[c.Triggers[i].Name] = c.Triggers[i].Name
	}
	faults = make([]string, len(rules))
	left := newRoom()
	for i, r := range rules {
		if r == nil {
			continue
		}
		over := 0
		for k := range states[i].Entities {
			e := &states[i].Entities[k]
			if !left.reserve(r, states[i], e) {
				over++
				continue
			}
			items := r.Items(states[i], e)
			if len(out.Items)+len(items) > len(c.Items)+MaxItems {
				over++
				continue
			}
			SetFormulas(items, states[i], e, replace)
			for _, one := range items {
				if _, taken := keys[one.Key]; !taken {
					keys[one.Key] = one.Key
					out.Items = append(out.Items, one)
				}
			}
			for _, one := range TriggersOf(r, states[i], e, replace) {
				if _, taken := names[one.Name]; !taken {
					names[one.Name] = one.Name
					out.Triggers = append(out.Triggers, one)
				}
			}
		}
		if over > 0 {
			faults[i] = fmt.Sprintf("%s without items: the rules of a template make at most %d items and %d triggers, with %s of texts, on a node", model.CountNoun(over, "entity"), MaxItems, maxTriggers, model.Size(maxTexts))
		}
	}
	slices.SortFunc(out.Items, func(a, b model.Item) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(out.Triggers, func(a, b model.DefinitionTrigger) int { return strings.Compare(a.Name, b.Name) })
	return out, faults
}

// room counts how many more triggers and text bytes discovery may create for one Template on a node.
type room struct {
	triggers, bytes int
	full            bool // an entity had no room, so that all later entities have none
}

// newRoom returns the full allowance of triggers and text bytes for one Template on a node.
func newRoom() *room { return &room{triggers: maxTriggers, bytes: maxTexts} }

// reserve takes the room of an entity, or returns false without room. The triggers and texts of all prototypes count,
// before any is made.
func (l *room) reserve(r *Rule, s *State, e *Entity) bool {
	if l.full {
		return false
	}
	triggers, bytes := len(r.DefinitionRule.Triggers), r.expandedBytes(s, e)
	if l.full = triggers > l.triggers || bytes > l.bytes; l.full {
		return false
	}
	l.triggers, l.bytes = l.triggers-triggers, l.bytes-bytes
	return true
}

// expandedBytes returns an upper bound for the bytes of an entity's item and trigger texts after macro
// replacement. Texts without a macro are left out, because all entities share their memory.
func (r *Rule) expandedBytes(s *State, e *Entity) (n int) {
	value := s.macroLookup(e)
	add := func(texts ...string) {
		for _, text := range texts {
			hasMacro := false
			_ = model.ReplaceEscapedEntityMacros(text, value, func(v string) string {
				hasMacro = true
				n += 2 * len(v) // in a key and an expression, quotation marks are escaped
				return ""
			})
			if hasMacro {
				n += len(text)
			}
		}
	}
	for i := range r.DefinitionRule.Items {
		of := &r.DefinitionRule.Items[i]
		add(of.Key, of.From, of.Unit, of.Formula)
		of.HTTP.EachText(func(text string) { add(text) })
		for name := range of.Tags {
			add(of.Tags[name])
		}
		for k := range of.Steps {
			add(of.Steps[k].Texts()...)
		}
	}
	for i := range r.Overrides {
		for k := range r.Overrides[i].Items {
			for _, text := range r.Overrides[i].Items[k].Tags {
				add(text)
			}
		}
		for k := range r.Overrides[i].Triggers {
			for _, text := range r.Overrides[i].Triggers[k].Tags {
				add(text)
			}
		}
	}
	for i := range r.DefinitionRule.Triggers {
		of := &r.DefinitionRule.Triggers[i]
		add(of.Name, of.Expression, of.Recovery, of.Runbook)
		add(of.ShownTexts()...)
	}
	return n
}

// LimitItems drops the last discovered entities, so that the number of items stays within a limit. The first
// entities stay.
func LimitItems(rules []*Rule, states []*State, items int) []*State {
	out := slices.Clone(states)
	left := newRoom()
	for i, r := range rules {
		if r == nil {
			continue
		}
		for k := range states[i].Entities {
			if !left.reserve(r, states[i], &states[i].Entities[k]) {
				continue // Instantiate makes nothing of it
			}
			if items -= len(r.Items(states[i], &states[i].Entities[k])); items < 0 {
				out[i] = &State{Macros: states[i].Macros, Entities: states[i].Entities[:k]}
				break
			}
		}
	}
	return out
}

// ReplaceInKey returns an item key with values in place of an entity's macros. A parameter whose value needs quotation
// marks gets them.
func ReplaceInKey(key string, value func(string) (string, bool)) string {
	if !strings.Contains(key, "{#") {
		return key
	}
	name, rest, found := strings.Cut(key, "[")
	var out strings.Builder
	out.WriteString(model.ReplaceEntityMacros(name, value))
	if !found {
		return out.String()
	}
	out.WriteByte('[')
	quoted := func(macro string) (string, bool) {
		v, ok := value(macro)
		return strings.ReplaceAll(v, `"`, `\"`), ok
	}
	for rest != "" {
		switch c := rest[0]; {
		case c == ' ' || c == ',' || c == '[' || c == ']':
			out.WriteByte(c)
			rest = rest[1:]
		case c == '"':
			end := 1
			for end < len(rest) && rest[end] != '"' {
				if rest[end] == '\\' && end+1 < len(rest) && rest[end+1] == '"' {
					end++
				}
				end++
			}
			end = min(end+1, len(rest))
			inside := strings.ReplaceAll(strings.TrimSuffix(rest[1:end], `"`), `\"`, `"`)
			out.WriteString(`"` + strings.ReplaceAll(model.ReplaceEntityMacros(inside, value), `"`, `\"`) + `"`)
			rest = rest[end:]
		default:
			end := 0
			for end < len(rest) && rest[end] != ',' && rest[end] != ']' {
				_, length := model.ParseMacro(rest[end:])
				end += max(length, model.MacroCallLength(rest[end:]), 1)
			}
			out.WriteString(replaceInParameter(rest[:end], value, quoted))
			rest = rest[end:]
		}
	}
	return out.String()
}

// replaceInParameter replaces the macros of an entity in an unquoted parameter of a key. If necessary, it adds
// quotation marks.
func replaceInParameter(text string, value, quoted func(string) (string, bool)) string {
	if strings.Contains(text, "{$") { // the context of a user macro
		return model.ReplaceEntityMacros(text, quoted)
	}
	replaced := model.ReplaceEntityMacros(text, value)
	if replaced != text && (strings.ContainsAny(replaced, ",]") || strings.HasPrefix(replaced, `"`) || strings.HasPrefix(replaced, " ") || strings.HasPrefix(replaced, "[")) {
		return `"` + strings.ReplaceAll(replaced, `"`, `\"`) + `"`
	}
	return replaced
}

// replaceInSteps returns preprocessing steps with an entity's values in place of the discovery macros. Values
// are escaped as each parameter needs.
func replaceInSteps(steps []model.Step, value func(string) (string, bool)) []model.Step {
	if !slices.ContainsFunc(steps, func(s model.Step) bool {
		return slices.ContainsFunc(s.Texts(), func(text string) bool { return strings.Contains(text, "{#") })
	}) {
		return steps
	}
	steps = slices.Clone(steps)
	for i := range steps {
		s := &steps[i]
		escape := escapes[s.Name]
		if escape == nil {
			escape = func(v string) string { return v }
		}
		s.Parameters = slices.Clone(s.Parameters)
		for k, text := range s.Parameters {
			s.Parameters[k] = model.ReplaceEscapedEntityMacros(text, value, escape)
		}
		if s.OnFail != nil {
			fail := *s.OnFail
			fail.Error = model.ReplaceEntityMacros(fail.Error, value)
			if fail.Value != nil {
				fail.Value = new(model.ReplaceEntityMacros(*fail.Value, value))
			}
			s.OnFail = &fail
		}
	}
	return steps
}

// SampleSteps returns preprocessing steps with 1 for each discovery macro, so that the steps can be compiled.
// Such steps can be compiled.
func SampleSteps(steps []model.Step) []model.Step {
	return replaceInSteps(steps, func(string) (string, bool) { return "1", true })
}

// escapes has the functions that escape a value in parameters of steps, by step. Others take it as it is.
var escapes = map[string]func(string) string{
	"regex": regexp.QuoteMeta, "matches": regexp.QuoteMeta, "notMatches": regexp.QuoteMeta, "checkRegexError": regexp.QuoteMeta,
	"prometheusPattern": strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace,
	"javascript":        strings.NewReplacer(`\`, `\\`, `"`, `\"`, `'`, `\'`, "\n", `\n`, "\r", `\r`).Replace,
	"jsonPath":          strings.NewReplacer(`\`, `\\`, `'`, `\'`, `"`, `\"`).Replace,
}
