package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// known are the facts that describeMachine puts into words; others follow by name.
var known = [...]string{
	"hostname", "fqdn", "os", "arch", "distribution", "distributionVersion", "distributionName", "kernel", "cpus", "memory", "addresses",
	"virtualisation", "cloud", "cloudInstance", "cloudRegion", "cloudZone", "cloudType", "agentVersion",
}

// describeMachine says what an agent measured, a line for what belongs together.
func (a *app) describeMachine(facts map[string]string) {
	for _, line := range [...]struct{ name, text string }{
		{"host", cmp.Or(facts["fqdn"], facts["hostname"])},
		{"system", systemOf(facts)},
		{"hardware", hardwareOf(facts)},
		{"cloud", joined(" ", facts["cloud"], facts["cloudInstance"], facts["cloudType"], cmp.Or(facts["cloudZone"], facts["cloudRegion"]))},
		{"addresses", strings.ReplaceAll(facts["addresses"], ",", ", ")},
	} {
		if line.text != "" {
			a.long(line.name, "%s", line.text)
		}
	}
	var others []string
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		if !slices.Contains(known[:], name) {
			others = append(others, name+"="+facts[name])
		}
	}
	if len(others) > 0 {
		a.long("more facts", "%s", strings.Join(others, ", "))
	}
}

// systemOf is what runs on a machine: debian 12 amd64, kernel 6.12.
func systemOf(facts map[string]string) string {
	name := joined(" ", cmp.Or(facts["distribution"], facts["os"]), facts["distributionVersion"], facts["arch"])
	if facts["kernel"] != "" {
		name = joined(", ", name, "kernel "+facts["kernel"])
	}
	return name
}

// hardwareOf is how large it is, and what it runs in: 4 CPUs, 15.6 GiB, kvm.
func hardwareOf(facts map[string]string) string {
	var parts []string
	if cpus, err := strconv.Atoi(facts["cpus"]); err == nil {
		parts = append(parts, model.CountNoun(cpus, "CPU"))
	}
	if memory, err := strconv.ParseInt(facts["memory"], 10, 64); err == nil {
		parts = append(parts, model.Size(memory).Approximate())
	}
	switch v := facts["virtualisation"]; v {
	case "":
	case "none":
		parts = append(parts, "not virtual")
	default:
		parts = append(parts, "virtual: "+v)
	}
	return strings.Join(parts, ", ")
}

// joined leaves out what is empty.
func joined(between string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), between)
}

// long is field for text that may be longer than a line.
func (a *app) long(name, format string, args ...any) {
	a.lines(fmt.Sprintf("%-14s ", name), fmt.Sprintf(format, args...))
}

// lines prints text behind a beginning, each line as far in as the first.
func (a *app) lines(begin, text string) {
	a.wrapped(begin+clean(text, false), width(begin))
}

// describeNodeLimits shows in one paragraph what the node may hold and send, and below
// it which of that it met last of all nodes.
func (a *app) describeNodeLimits(limits []v1.LimitUse) {
	if len(limits) == 0 {
		return
	}
	var all, met []string
	for _, l := range limits {
		text := l.Name + " " + strconv.FormatFloat(l.Limit, 'f', -1, 64)
		if l.Used != nil {
			text += fmt.Sprintf(" (%d used)", *l.Used)
		}
		all = append(all, text)
		if l.Met > 0 {
			met = append(met, fmt.Sprintf("%s met %s ago: %s", l.Name, model.Age(a.Now(), l.Last), l.Reason))
		}
	}
	a.long("limits", "%s", strings.Join(all, ", "))
	for _, text := range met {
		a.long("", "%s", text)
	}
}

// describeGroups says why the node is in each group, and which it asked for in vain.
func (a *app) describeGroups(o *v1.NodeOrigins, node string) {
	if len(o.Groups) == 0 && len(o.Asked) == 0 {
		return
	}
	fmt.Fprintln(a.Stdout, "\ngroups, and why it is in them")
	deeper := false
	for _, g := range o.Groups {
		name := strings.TrimPrefix(g.Text, "it is in group ")
		for i, why := range g.Under {
			if i > 0 {
				name = ""
			}
			a.lines(fmt.Sprintf("  %-14s ", clean(name, false)), why.Text)
			deeper = deeper || len(why.Under) > 0
		}
		if len(g.Under) == 0 {
			fmt.Fprintln(a.Stdout, "  "+clean(name, false))
		}
	}
	if deeper {
		fmt.Fprintf(a.Stdout, "the whole chain: muster why %s\n", clean(node, false))
	}
	for i, asked := range slices.DeleteFunc(slices.Clone(o.Asked), func(g v1.GroupAsked) bool { return g.Accepted }) {
		if i == 0 {
			fmt.Fprintln(a.Stdout, "\ngroups that its agent asked for in vain")
		}
		a.lines(fmt.Sprintf("  %-14s ", clean(asked.Group, false)), asked.Why)
	}
}

// describeLabels shows each label with its owner. Facts stand above, and are read as
// labels too: only those that are hidden are shown here.
func (a *app) describeLabels(labels []v1.LabelOrigin, facts map[string]string) {
	head := "\nlabels, with their owners"
	for _, l := range labels {
		if l.Owner == "facts" {
			continue
		}
		if head != "" {
			fmt.Fprintln(a.Stdout, head)
			head = ""
		}
		text := fmt.Sprintf("%-20s %s", cmp.Or(l.Value, `""`), l.Owner)
		for _, h := range l.Hides {
			text += fmt.Sprintf("; hides %q of the %s", h.Value, h.Owner)
		}
		a.lines(fmt.Sprintf("  %-14s ", clean(l.Name, false)), text)
	}
	if len(facts) > 0 && head == "" {
		fmt.Fprintln(a.Stdout, "  and its facts, where they are not hidden")
	}
}

// describeProperties shows each value and where it comes from, who wins last.
func (a *app) describeProperties(properties []v1.PropertyValue) {
	if len(properties) == 0 {
		return
	}
	fmt.Fprintln(a.Stdout, "\nproperties, and where they come from (later ones win)")
	for _, p := range properties {
		begin := fmt.Sprintf("  %-14s ", clean(p.Name, false))
		if p.Conflict != "" {
			a.lines(begin, "no value: "+p.Conflict)
		} else {
			a.lines(begin, string(p.Value))
		}
		for _, from := range p.From {
			if len(p.From) == 1 {
				a.lines(strings.Repeat(" ", 19), from.From)
				continue
			}
			text := from.From + ", " + from.Effect
			if from.Effect != "in force" || string(from.Value) != string(p.Value) {
				text += ": " + string(from.Value)
			}
			a.lines(strings.Repeat(" ", 19), text)
		}
	}
}
