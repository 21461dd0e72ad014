package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Bounds of the preview of one unit, such as a check.
const (
	maxImpactNames       = 5
	maxImpactDifferences = 20
	maxDifferenceText    = 120 // bytes of one value
)

// unitImpacts returns the checks and directives that edits add, remove or change on existing nodes. The list is sorted
// by kind and name.
func (f inspection) unitImpacts(p *recomputation) (list []intent.UnitImpact) {
	gets, loses, changes := map[model.UnitID]*roaring.Bitmap{}, map[model.UnitID]*roaring.Bitmap{}, map[model.UnitID]*roaring.Bitmap{}
	collect := func(placements []placement, into map[model.UnitID]*roaring.Bitmap) {
		for _, at := range placements {
			if at.node < previewIDs {
				bitmapForKey(into, at.unit).Add(uint32(at.node))
			}
		}
	}
	collect(p.gained, gets)
	collect(p.removed, loses)
	for id := range gets {
		if loses[id] != nil { // a node that has the unit before and after the edits
			both := roaring.And(gets[id], loses[id])
			gets[id].AndNot(both)
			loses[id].AndNot(both)
		}
	}
	for id, old := range p.redefined {
		u := f.units[id]
		if old == nil || u == nil || u.def == nil || definitionKeyOf(old.definition) == definitionKeyOf(u.def.definition) {
			continue
		}
		nodes := f.runners(u)
		if got := gets[id]; got != nil {
			nodes.AndNot(got)
		}
		if nodes.RemoveRange(previewIDs, 1<<32); !nodes.IsEmpty() {
			changes[id] = nodes
		}
	}
	affected := map[model.UnitID]bool{}
	for _, of := range [...]map[model.UnitID]*roaring.Bitmap{gets, loses, changes} {
		for id, nodes := range of {
			affected[id] = affected[id] || !nodes.IsEmpty()
		}
	}
	for id, any := range affected {
		if !any {
			continue
		}
		old, new := p.before[id], (*unit)(nil)
		if u := f.units[id]; u != nil {
			new = u.def
		}
		of := new
		if of == nil {
			of = old
		}
		if of == nil {
			continue // the unit was renamed with the edits
		}
		one := intent.UnitImpact{Key: intent.Key{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name.Name}}
		nodes := roaring.New()
		for _, c := range []struct {
			into *int
			of   *roaring.Bitmap
		}{{&one.Gets, gets[id]}, {&one.Loses, loses[id]}, {&one.Changes, changes[id]}} {
			if c.of != nil {
				*c.into = int(c.of.GetCardinality())
				nodes.Or(c.of)
			}
		}
		one.Nodes = f.firstNames(of, nodes, p)
		if changes[id] != nil {
			one.Differences = Differences(old.definition, new.definition)
			if new.steps != nil {
				if new.steps.Approve {
					one.Steps = []string{"approval of another person"}
				}
				one.Steps = append(one.Steps, (&model.Rollout{Spec: *new.steps}).AllSteps()...)
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b intent.UnitImpact) int {
		return strings.Compare(a.Key.Kind+a.Key.String(), b.Key.Kind+b.Key.String())
	})
	return list
}

// firstNames returns the names of the alphabetically first nodes in a set.
func (f inspection) firstNames(of *unit, nodes *roaring.Bitmap, p *recomputation) (names []string) {
	deleted := map[model.NodeID]*node{}
	for _, n := range p.deleted {
		deleted[n.def.ID] = n
	}
	for id := range bitmapIDs(nodes) {
		n := f.nodes[model.NodeID(id)]
		if n == nil {
			n = deleted[model.NodeID(id)]
		}
		if n == nil {
			continue
		}
		name := n.def.Name.Name
		if n.def.Namespace != of.Namespace {
			name = n.def.Name.String()
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names[:min(len(names), maxImpactNames)]
}

// Differences returns the fields with different values in two definitions, such as "interval: 5m → 1m30s".
func Differences(old, new *model.Definition) (lines []string) {
	before, after := fieldsOf(old), fieldsOf(new)
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, known := before[name]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		was, had := before[name]
		is, has := after[name]
		switch {
		case was == is && had == has:
			continue
		case len(lines) == maxImpactDifferences:
			return append(lines, "…")
		case !had:
			lines = append(lines, name+": none → "+is)
		case !has:
			lines = append(lines, name+": "+was+" → none")
		default:
			lines = append(lines, name+": "+was+" → "+is)
		}
	}
	return lines
}

// fieldsOf returns the fields of a compiled check by their paths, with their values in JSON. A path is, for example,
// components.motd.fileContent.path. It leaves out the identity of the definition, and fields that are empty.
func fieldsOf(d *model.Definition) map[string]string {
	out := map[string]string{}
	body := d.Body()
	if directive := d.AsDirective(); directive != nil {
		components := make(map[string]any, len(directive.Components))
		order := make([]string, len(directive.Components))
		for i, c := range directive.Components {
			order[i] = c.Name
			components[c.Name] = map[string]any{"when": c.When, "item": c.Item, c.Method: json.RawMessage(c.Arguments)}
		}
		flattenFields(out, "components", components)
		out["components"] = shortenValue(strings.Join(order, ", "))
		for _, b := range directive.Blocks {
			flattenFields(out, "components."+b.Name+".reporting", b.Reporting.String())
		}
		rest := *directive
		rest.Components, rest.Blocks = nil, nil
		body = &rest
	}
	flattenFields(out, "", body)
	setDurations(out, body)
	maps.DeleteFunc(out, func(path, _ string) bool {
		top := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' })[0]
		return slices.Contains([]string{"iD", "hash", "kind", "unit", "namespace", "name"}, top)
	})
	return out
}

// setDurations replaces the nanoseconds of a definition's durations by texts such as 5m.
func setDurations(out map[string]string, body any) {
	value := reflect.Indirect(reflect.ValueOf(body))
	if value.Kind() != reflect.Struct {
		return
	}
	for i := range value.NumField() {
		field := value.Type().Field(i)
		name := strings.ToLower(field.Name[:1]) + field.Name[1:]
		if field.Type == reflect.TypeFor[time.Duration]() && out[name] != "" {
			out[name] = model.Duration(value.Field(i).Int()).String()
		}
	}
}

// flattenFields flattens a nested JSON value into single fields, and adds each field under its path.
func flattenFields(out map[string]string, path string, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		out[path] = fmt.Sprintf("%v", value) // a value that JSON does not have
		return
	}
	var decoded any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if decoder.Decode(&decoded) != nil {
		return
	}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for name, field := range v {
				first, size := utf8.DecodeRuneInString(name)
				walk(strings.TrimPrefix(path+"."+string(unicode.ToLower(first))+name[size:], "."), field)
			}
		case []any:
			for i, element := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), element)
			}
		case nil:
		case string:
			if v != "" {
				out[path] = shortenValue(fmt.Sprintf("%q", v))
			}
		default:
			if text := fmt.Sprint(v); text != "0" && text != "false" {
				out[path] = shortenValue(text)
			}
		}
	}
	walk(path, decoded)
}

// shortenValue shortens the value of a field for a message to people.
func shortenValue(text string) string {
	if len(text) <= maxDifferenceText {
		return text
	}
	return strings.ToValidUTF8(text[:maxDifferenceText], "") + "…"
}
