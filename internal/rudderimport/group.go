package rudderimport

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/model"
)

// nameGroups chooses the Muster names of all imported groups first, because groups can refer to other groups.
func (im *importer) nameGroups(groups []*conversion.Mapping) {
	for _, p := range groups {
		if id := p.TextOf("id"); id != "" && im.groups[id] == "" && p.TextOf("system") != "true" {
			im.groups[id] = im.unusedName("Group", p.TextOf("displayName"), id)
		}
	}
}

// importGroup converts a group of Rudder to a condition on nodes. A dynamic group has a query; a static group has the
// ids of its nodes.
func (im *importer) importGroup(p *conversion.Mapping) {
	im.result.Counts.Groups++
	id, title := p.TextOf("id"), p.TextOf("displayName")
	what := "group " + title
	name := im.groups[id]
	p.IgnoreFields("description", "category", "categoryId", "groupClass", "target", "tags")
	switch {
	case p.TextOf("system") == "true":
		im.noteLoss(p, what, "left out: a group of Rudder itself")
		return
	case name == "" || im.names["Group/"+name] != title+" " || slices.ContainsFunc(im.converted, func(g convertedGroup) bool { return g.id == id }):
		im.noteLoss(p, what, "left out: it has no id, or another group has it")
		return
	}
	drop := func(format string, args ...any) {
		im.noteLoss(p, what, "left out: "+format, args...)
		delete(im.groups, id)
	}
	if p.TextOf("enabled") == "false" {
		drop("it is disabled")
		return
	}
	spec := &model.GroupSpec{}
	query, nodes := p.Child("query"), p.Texts("nodeIds")
	if p.TextOf("dynamic") == "true" && query != nil {
		where, groups, err := im.convertQuery(query)
		if err != nil {
			drop("%v", err)
			return
		}
		spec.Where, spec.Groups = where, groups
	} else {
		p.IgnoreFields("query")
		slices.Sort(nodes)
		quoted := make([]string, len(nodes))
		for i, n := range nodes {
			quoted[i] = strconv.Quote(n)
		}
		if spec.Where = "node.facts.rudderNode in [" + strings.Join(quoted, ", ") + "]"; len(nodes) == 0 {
			drop("it has no nodes")
			return
		}
	}
	var merged []*model.PropertySpec
	for _, one := range p.List("properties") {
		switch property := im.convertProperty(one, what, one.TextOf("name")); {
		case property == nil:
		case property.Merge != (model.PropertyMerge{}):
			property.Scope = "group:" + name
			merged = append(merged, property)
		default:
			if spec.Properties == nil {
				spec.Properties = map[string]json.RawMessage{}
			}
			spec.Properties[property.Property] = property.Value
		}
	}
	im.noteUnreadFields(p, what)
	im.converted = append(im.converted, convertedGroup{p, id, name, title, spec, merged})
}

// convertedGroup is a group of Rudder after its conversion. The groups that its query names may still be left out.
type convertedGroup struct {
	part            *conversion.Mapping
	id, name, title string
	spec            *model.GroupSpec
	merged          []*model.PropertySpec // its properties with a mode of inheritance
}

// addGroups adds the converted Rudder groups to the import's result, except groups whose query names a missing
// group. Without the missing group such a group would have too few nodes.
func (im *importer) addGroups() {
	for {
		remaining := map[string]bool{}
		for _, g := range im.converted {
			remaining[g.name] = true
		}
		im.converted = slices.DeleteFunc(im.converted, func(g convertedGroup) bool {
			i := slices.IndexFunc(g.spec.Groups, func(name string) bool { return !remaining[name] })
			if i >= 0 {
				im.noteLoss(g.part, "group "+g.title, "left out: the group %s of its query was left out", g.spec.Groups[i])
				delete(im.groups, g.id)
			}
			return i >= 0
		})
		if len(im.converted) == len(remaining) {
			break
		}
	}
	for _, g := range im.converted {
		if !im.addResource(g.part, "Group", g.name, g.title, g.spec) {
			delete(im.groups, g.id)
			continue
		}
		for _, property := range g.merged {
			im.addProperty(g.part, g.name+"-"+property.Property, property)
		}
	}
}

// convertQuery converts the query of a dynamic Rudder group to a condition and a list of groups. A node has to
// match one of them.
func (im *importer) convertQuery(q *conversion.Mapping) (where string, groups []string, err error) {
	if kind := q.TextOf("select"); kind != "" && kind != "node" && kind != "nodeAndPolicyServer" {
		return "", nil, fmt.Errorf("the group selects %s instead of nodes, which has no equivalent in Muster", kind)
	}
	criteria := q.List("where")
	or := strings.EqualFold(q.TextOf("composition"), "or")
	var terms []string
	elements := map[string][]criterion{} // by object type: criteria that one element has to match
	for _, c := range criteria {
		kind, attribute, comparator, value := c.TextOf("objectType"), c.TextOf("attribute"), c.TextOf("comparator"), c.TextOf("value")
		if kind == "group" || attribute == "nodeGroupId" {
			name := im.groups[value]
			if name == "" || comparator != "eq" || !or && len(criteria) > 1 {
				return "", nil, fmt.Errorf("group %s within a query can be converted only if a node may be in any of its groups", value)
			}
			groups = append(groups, name)
			continue
		}
		one := criterion{kind, attribute, comparator, value}
		if _, ok := sections[one.key()]; ok && !or {
			elements[kind] = append(elements[kind], one)
			continue
		}
		term, err := convertCriterion(one)
		if err != nil {
			return "", nil, err
		}
		terms = append(terms, term)
	}
	for _, kind := range slices.Sorted(maps.Keys(elements)) {
		some, err := convertElement(elements[kind])
		if err != nil {
			return "", nil, err
		}
		terms = append(terms, some...)
	}
	if len(criteria) == 0 {
		return "", nil, fmt.Errorf("the query of the group is empty")
	}
	where = strings.Join(terms, map[bool]string{true: " || ", false: " && "}[or])
	switch transform := q.TextOf("transform"); {
	case transform == "invert" && len(groups) > 0:
		return "", nil, fmt.Errorf("the inverse of a query with groups has no equivalent in Muster")
	case transform == "invert":
		where = "!(" + where + ")"
	case transform != "" && transform != "none":
		return "", nil, fmt.Errorf("the query transformation %s of the group has no equivalent in Muster", transform)
	}
	if names := q.UnreadFields(); len(names) > 0 {
		return "", nil, fmt.Errorf("field %s of its query has no equivalent in Muster", names[0])
	}
	return where, groups, nil
}

// attributes has the CEL expressions of attributes of a node, and inventory the sections and fields of others, by object type and
// attribute.
var attributes = map[string]string{
	"node.nodeId": "node.facts.rudderNode", "node.nodeHostname": "node.facts.fqdn", "node.OS": "node.facts.os",
	"node.osVersion": "node.facts.distributionVersion", "node.osKernelVersion": "node.facts.kernel", "node.policyServerId": "node.facts.rudderServer",
}

// sections has the sections and fields of inventories by object type and attribute.
var sections = map[string][2]string{
	"software.cn": {"packages", "name"}, "software.softwareVersion": {"packages", "version"}, "process.commandName": {"processes", "name"},
	"fileSystemLogicalElement.mountPoint": {"storage", "mount"}, "networkInterfaceLogicalElement.networkInterfaceName": {"network", "name"},
}

// distributions has, by Rudder's name of a system in small letters, the names that the fact distribution has. The first
// ones are those of os-release, the others come from inventories of Rudder's agents.
var distributions = map[string][]string{
	"almalinux": {"almalinux"}, "amazonlinux": {"amzn", "amazon linux"}, "centos": {"centos"}, "debian": {"debian"}, "fedora": {"fedora"}, "kali": {"kali"},
	"mint": {"linuxmint"}, "oracle": {"ol", "oracle linux server", "oracle"}, "raspbian": {"raspbian"}, "redhat": {"rhel", "redhat"}, "rockylinux": {"rocky", "rocky linux"},
	"scientific": {"scientific"}, "slackware": {"slackware"}, "suse": {"sles", "sled", "opensuse-leap", "opensuse-tumbleweed", "suse", "suse linux"}, "ubuntu": {"ubuntu"},
}

// criterion is one line of a Rudder group's query, such as node, osName, eq, Debian.
type criterion struct{ kind, attribute, comparator, value string }

// key returns the object type and attribute of a query criterion, such as node and osName.
func (c criterion) key() string { return c.kind + "." + c.attribute }

// isNegated reports whether the criterion's comparator is negative (notEq, notRegex, notExists) and so matches
// absent values.
func (c criterion) isNegated() bool {
	return c.comparator == "notEq" || c.comparator == "notRegex" || c.comparator == "notExists"
}

// convertElement converts the query criteria that one element (such as one package) must match together. In
// Rudder one element, such as a package, has to match all of them. Without a criterion that names an element,
// each one excludes elements by itself.
func convertElement(list []criterion) (terms []string, err error) {
	if len(list) == 1 || !slices.ContainsFunc(list, func(c criterion) bool { return !c.isNegated() }) {
		for _, c := range list {
			term, err := convertCriterion(c)
			if err != nil {
				return nil, err
			}
			terms = append(terms, term)
		}
		return terms, nil
	}
	for _, c := range list {
		term, err := compare("x."+sections[c.key()][1], c.comparator, c.value)
		if err != nil {
			return nil, err
		}
		terms = append(terms, term)
	}
	return []string{fmt.Sprintf("inventory.%s.exists(x, %s)", sections[list[0].key()][0], strings.Join(terms, " && "))}, nil
}

// convertSystem converts a criterion about the name of the operating system to a CEL expression.
func convertSystem(c criterion) (string, error) {
	names := distributions[strings.ToLower(c.value)]
	if names == nil || c.comparator != "eq" && c.comparator != "notEq" {
		return "", fmt.Errorf("criterion node, osName, %s %s has no equivalent in Muster", c.comparator, c.value)
	}
	if len(names) == 1 {
		return compare("node.facts.distribution", c.comparator, names[0])
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return fmt.Sprintf("%s(node.facts.distribution in [%s])", map[string]string{"eq": "", "notEq": "!"}[c.comparator], strings.Join(quoted, ", ")), nil
}

// convertCriterion converts one criterion of a Rudder group's query to a CEL expression.
func convertCriterion(c criterion) (string, error) {
	kind, attribute, comparator, value := c.kind, c.attribute, c.comparator, c.value
	key := c.key()
	switch key {
	case "node.osName":
		return convertSystem(c)
	case "node.OS":
		value = strings.ToLower(value)
	}
	if expression := attributes[key]; expression != "" {
		return compare(expression, comparator, value)
	}
	section, field := sections[key][0], sections[key][1]
	if section == "" {
		name, is, ok := strings.Cut(value, "=")
		switch {
		case key == "serializedNodeProperty.name.value" && ok && comparator == "eq":
			return fmt.Sprintf(`inventory.custom.exists(x, x.name == %s && x.value == %s)`, strconv.Quote(name), strconv.Quote(is)), nil
		case key == "serializedNodeProperty.name.value" && comparator == "hasKey":
			return fmt.Sprintf(`inventory.custom.exists(x, x.name == %s)`, strconv.Quote(value)), nil
		case key == "environmentVariable.name.value" && ok && comparator == "eq":
			return fmt.Sprintf(`inventory.environment.exists(x, x.name == %s && x.value == %s)`, strconv.Quote(name), strconv.Quote(is)), nil
		}
		return "", fmt.Errorf("the query criterion (%s, %s, %s) of the group has no equivalent in Muster", kind, attribute, comparator)
	}
	negated := c.isNegated()
	term, err := compare("x."+field, map[string]string{"notEq": "eq", "notRegex": "regex", "notExists": "exists"}[comparator], value)
	if !negated {
		term, err = compare("x."+field, comparator, value)
	}
	if err != nil {
		return "", err
	}
	term = fmt.Sprintf("inventory.%s.exists(x, %s)", section, term)
	if negated {
		term = "!" + term
	}
	return term, nil
}

// compare returns a CEL expression that compares a value like the given comparator of Rudder, such as regex.
func compare(expression, comparator, value string) (string, error) {
	switch comparator {
	case "eq":
		return expression + " == " + strconv.Quote(value), nil
	case "notEq":
		return expression + " != " + strconv.Quote(value), nil
	case "exists":
		return expression + ` != ""`, nil
	case "notExists":
		return expression + ` == ""`, nil
	case "regex", "notRegex":
		if _, err := regexp.Compile(value); err != nil {
			return "", fmt.Errorf("the regular expression %q has no equivalent in Muster: %w", value, err)
		}
		return map[string]string{"regex": "", "notRegex": "!"}[comparator] + expression + ".matches(" + strconv.Quote("^(?:"+value+")$") + ")", nil
	}
	return "", fmt.Errorf("the query comparator %s has no equivalent in Muster", comparator)
}
