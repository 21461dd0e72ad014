package scenario

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// check returns all flaws that decoding does not find. Defaults are not filled in yet; written reports whether the file has a
// field.
func (s *Scenario) check(written func(field string) bool) model.Flaws {
	v := &checker{Scenario: s, written: written}
	v.lacks(s.Scenario == "", "scenario", "begin the file with scenario: "+Version, "missing")
	v.when(s.Scenario != "" && s.Scenario != Version, "scenario", "write "+Version, "%q is not known", s.Scenario)
	walk("", reflect.ValueOf(s), func(field, _ string, f reflect.StructField, value reflect.Value) {
		if r, ok := ruleOf(f); ok {
			v.field(field, value, r)
		}
	})
	v.classes()
	v.proxies()
	v.phases()
	for i := range s.Faults {
		v.fault(fmt.Sprintf("faults[%d]", i), &s.Faults[i], s.end(), "the measurement")
	}
	v.intent()
	v.lacks(s.Operators.Pause != "" && s.Operators.Lists == 0, "operators.pages", "write lists: 5", "no user lists")
	v.limits("objectives", s.Objectives, false)
	return v.flaws
}

// class finds a class by its name.
func (s *Scenario) class(name string) *Class {
	if i := slices.IndexFunc(s.Agents, func(c Class) bool { return c.Name == name }); i >= 0 {
		return &s.Agents[i]
	}
	return nil
}

// repeated records a flaw for each word that a list has twice.
func (v *checker) repeated(field string, words []string) {
	for i, word := range words {
		v.when(slices.Contains(words[:i], word), fmt.Sprintf("%s[%d]", field, i), "leave it out", "%s is named twice", word)
	}
}

// classes checks all classes.
func (v *checker) classes() {
	v.lacks(len(v.Agents) == 0, "agents", "write agents: [{name: web, count: 100, checks: [{name: disk, interval: 60s}]}]", "missing")
	checks, agents := map[string]string{}, 0 // checks: class of each, by its name on the server
	for i := range v.Agents {
		c, at := &v.Agents[i], fmt.Sprintf("agents[%d]", i)
		v.when(c.Name != "" && v.class(c.Name) != c, at+".name", "give each class a name of its own", "there are two classes %q", c.Name)
		if c.Count == 0 && c.Recorded == nil { // a flawed stream has a flaw of its own
			v.lacks(true, at+".count", "write how many agents", "missing, or 0")
			v.flaws[len(v.flaws)-1].Zero = true
		}
		agents += max(0, min(c.Count, maxAgents))
		v.labels(at, c.Name, c.Labels)
		v.classFields(at, c)
		v.groupsOf(at, c)
		if v.checks(at, c) {
			for j, p := range c.placed() {
				v.fullName(fmt.Sprintf("%s.checks[%d].name", at, j), p, "of "+c.Name, checks)
			}
		}
	}
	v.groupChecks(checks)
	for i := range v.Agents {
		v.perNode(fmt.Sprintf("agents[%d]", i), &v.Agents[i])
	}
	v.when(agents > maxAgents, "agents", "", "%d agents, at most %d", agents, maxAgents)
}

// labels checks labels of nodes.
func (v *checker) labels(at, name string, labels map[string]string) {
	v.when(len(labels) > model.DefaultLabels-1, at+".labels", "", "%d labels, at most %d beside class", len(labels), model.DefaultLabels-1)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if err := model.LabelError(key, labels[key]); err != nil {
			v.flaw(at+".labels."+key, "", "%v", err)
		}
		v.when(key == "class", at+".labels.class", "leave it out", "every node has it already: class=%s", name)
	}
}

// classFields checks one class without its checks.
func (v *checker) classFields(at string, c *Class) {
	if k := c.Keepalive; k != nil {
		interval, timeout := k.EffectiveTimes()
		for field, d := range map[string]model.Duration{"interval": k.Interval, "timeout": k.Timeout} {
			v.field(at+".keepalive."+field, reflect.ValueOf(d), rule{rule: "1s..366d"})
		}
		v.when(timeout <= interval, at+".keepalive", "three intervals are usual", "the timeout %s must be longer than the interval %s", timeout, interval)
	}
	v.signals(at, c)
	for j := range c.Values {
		v.when(c.Values[j].Dependents > 0 && c.Values[j].Type != "text", fmt.Sprintf("%s.values[%d].dependents", at, j), "write type: text", "items are made of a text alone")
	}
	for j := range c.Policies {
		p, field := &c.Policies[j], fmt.Sprintf("%s.policies[%d]", at, j)
		v.when(p.Directives > max(1, p.Components), field+".directives", "write at most as many as components", "%d directives have only %d components", p.Directives, p.Components)
		v.when(p.Policies > max(1, p.Directives), field+".policies", "write at most as many as directives", "%d policies have only %d directives", p.Policies, max(1, p.Directives))
	}
	v.when(c.Inventory > 0 && len(c.Policies) == 0, at+".inventory", "write policies: [{name: base, components: 100, interval: 5m}]", "agents without policies send no inventory")
	v.lacks(len(v.Held(c))+len(c.Values)+len(c.Policies) == 0 && c.Recorded == nil && c.Inventory == 0 && c.Keepalive == nil,
		at, "write checks: [{name: disk, interval: 60s}]; or groups that checks target; or keepalive: {interval: 20s} for agents that only live", "these agents send nothing")
	v.lacks(c.Churn.OfflineFor != 0 && c.Churn.Offline == "", at+".churn.offlineFor", "write offline: 1%/min", "no machine goes offline")
	v.lacks(c.Churn.Offline != "" && c.Churn.OfflineFor == 0, at+".churn.offline", "write offlineFor: 60s", "the length is missing")
}

// signals checks the values and policies of a class together: its agents send one signal in each interval.
func (v *checker) signals(at string, c *Class) {
	for j := range c.Values {
		v.when(c.Values[j].Interval != c.Values[0].Interval, fmt.Sprintf("%s.values[%d].interval", at, j), "write them in a class of their own", "the values of a class have one interval, and others have %s", c.Values[0].Interval)
	}
	other := slices.ContainsFunc(v.Agents, func(x Class) bool { return len(x.Policies) > 0 && x.Name != c.Name })
	v.when(len(c.Policies) > 1 || len(c.Policies) > 0 && other, at+".policies", "keep one entry, in one class", "there is more than one entry of policies")
	v.when(len(c.Policies) > 0 && len(c.Values) > 0, at+".values", "write them in a class of their own", "the class has policies, too")
	v.when(c.valueBytes() > wire.MaxFrame-4096, at+".values", "write fewer of them, in more agents", "the values of one agent are about %s, and a frame has at most %s", model.Size(c.valueBytes()), model.Size(wire.MaxFrame))
	v.when(c.Inventory > wire.MaxFrame*3/4, at+".inventory", "write at most 768KiB", "an inventory of %s does not fit a frame", c.Inventory)
	signals := len(c.Values)+len(c.Policies) > 0
	v.when(signals && c.Recorded != nil, at+".recorded", "write it in a class of its own", "a recorded stream is all that its agents send")
	v.when(signals && c.Churn.Renames != "", at+".churn.renames", "leave it out", "values and directives are compared by the names of nodes")
}

// groupsOf checks the groups of a class.
func (v *checker) groupsOf(at string, c *Class) {
	v.when(c.Name == AllGroup, at+".name", "choose another name", "%s is the group of all agents", AllGroup)
	v.repeated(at+".groups", c.Groups)
	for j, g := range c.Groups {
		field, own := fmt.Sprintf("%s.groups[%d]", at, j), g == AllGroup || g == c.Name && g != ""
		v.when(own, field, "leave it out", "its agents are in group %s anyway", g)
		v.when(!own && v.class(g) != nil, field, "give both classes a group of another name", "group %s is that of class %s alone", g, g)
	}
}

// checks checks the checks of a class, and reports whether their names are usable.
func (v *checker) checks(at string, c *Class) bool {
	seen, usable := map[string]bool{}, true
	for j := range c.Checks {
		k, field := &c.Checks[j], fmt.Sprintf("%s.checks[%d]", at, j)
		v.when(k.Name != "" && seen[k.Name], field+".name", "choose another name for one of them, or write count", "there are two checks %q", k.Name)
		usable = usable && k.Name != "" && !seen[k.Name] && k.Count >= 0 && k.Count <= model.DefaultStatesPerNode
		seen[k.Name] = true
		v.check(field, k)
		v.proxyCheck(field, k)
	}
	return usable
}

// check checks a check of a class or of groups.
func (v *checker) check(field string, k *Check) {
	v.when(k.TTL != 0 && k.TTL <= k.Interval, field+".ttl", "two to three intervals are usual", "%s must be longer than the interval %s", k.TTL, k.Interval)
	seen := map[model.Status]string{}
	for _, name := range slices.Sorted(maps.Keys(k.Status)) {
		if status, ok := model.ParseStatus(name); ok {
			v.when(seen[status] != "", field+".status."+name, "keep one of them", "%s and %s are the same status", seen[status], name)
			seen[status] = name
		}
	}
}

// groupChecks checks the checks of groups. names has the names on the server of the others.
func (v *checker) groupChecks(names map[string]string) {
	for i := range v.Checks {
		k, at := &v.Checks[i], fmt.Sprintf("checks[%d]", i)
		v.check(at, &k.Check)
		v.when(k.Proxy != nil || k.RoundRobin || k.Timeout != 0, at, "write it among the checks of a class", "a check of groups has no proxy nodes and no round robin")
		v.lacks(len(k.Groups)+len(k.Each) == 0, at+".groups", "write groups: [GROUP, …]: one check for all of them; or each: [GROUP, …]: for each one of its own", "the check has no groups")
		v.when(len(k.Groups) > 0 && len(k.Each) > 0, at+".each", "keep one of them", "both groups and each")
		v.repeated(at+".groups", k.Groups)
		v.repeated(at+".each", k.Each)
		one := Scenario{Checks: v.Checks[i : i+1]}
		for _, p := range one.ofGroups() {
			v.fullName(at+".name", p, "of groups", names)
		}
	}
}

// fullName checks that no other check has the same name on the server.
func (v *checker) fullName(field string, p Placed, whose string, names map[string]string) {
	full := p.prefix + p.Name // with a number behind it: the check's name
	other, twice := names[full]
	v.when(twice && p.Name != "", field, "choose another name for one of them", "this and a check %s would both be %s-000", other, full)
	names[full] = whose
}

// perNode checks the sum of the checks of an agent.
func (v *checker) perNode(at string, c *Class) {
	states, rate := 0, 0.0
	for _, k := range v.Held(c) {
		if k.Proxy == nil {
			states += max(1, min(k.Count, maxAgents))
		}
		if k.Interval > 0 && c.Count > 0 { // of round robin its share
			rate += float64(v.PerInterval(c, k.Check)) / float64(c.Count) / time.Duration(k.Interval).Seconds()
		}
		if c.Recorded != nil && !k.Own() {
			v.flaw(at+".recorded", "leave its groups out, or the check", "check %s targets it, and a recorded stream is all that its agents send", k.Name)
			return
		}
	}
	if len(c.Checks) > 0 {
		at += ".checks"
	}
	v.when(states > model.DefaultStatesPerNode, at, "make the agents more, and their checks fewer", "%d checks of each agent; a server takes %d", states, model.DefaultStatesPerNode)
	v.when(rate > model.DefaultNodeRate, at, "make the intervals longer", "%.0f results per second of each agent; a server takes %d", rate, model.DefaultNodeRate)
}

// proxies checks the proxy nodes.
func (v *checker) proxies() {
	all, seen := 0, map[string]bool{}
	for i := range v.Proxies {
		p, at := &v.Proxies[i], fmt.Sprintf("proxies[%d]", i)
		v.when(p.Name != "" && (seen[p.Name] || v.class(p.Name) != nil), at+".name", "give each a name of its own", "there are two classes %q", p.Name)
		seen[p.Name] = true
		all += max(0, min(p.Count, wire.MaxProxies+1))
		v.labels(at, p.Name, p.Labels)
		checks := 0
		for _, k := range v.Placed() {
			if k.Proxy != nil && slices.Contains(k.Proxy.Groups, p.Name) {
				checks += max(1, k.Count)
			}
		}
		v.when(checks > model.DefaultStatesPerNode, at, "make the proxies more, and the checks of each fewer", "%d checks of each; a server takes %d of a node", checks, model.DefaultStatesPerNode)
		v.when(checks == 0 && p.Name != "", at, "write proxy: {groups: ["+p.Name+"]} at a check", "no check has them")
	}
	v.when(all > wire.MaxProxies, "proxies", "", "%d proxy nodes, at most %d", all, wire.MaxProxies)
}

// proxyCheck checks the proxy nodes and the round robin of a check.
func (v *checker) proxyCheck(field string, k *Check) {
	if k.Proxy != nil {
		var names []string
		for _, p := range v.Proxies {
			names = append(names, p.Name)
		}
		v.lacks(len(k.Proxy.Groups) == 0, field+".proxy.groups", "write proxy: {groups: [NAME]} with the name of proxies", "missing")
		v.repeated(field+".proxy.groups", k.Proxy.Groups)
		for i, name := range k.Proxy.Groups {
			at := fmt.Sprintf("%s.proxy.groups[%d]", field, i)
			if len(names) == 0 {
				v.flaw(at, "write proxies: [{name: "+model.CleanName(name)+", count: 50}] at the head", "there are no proxies")
			} else {
				v.oneOf(at, "a kind of proxies", name, names)
			}
		}
		v.when(k.Alert != "", field+".alert", "leave it out: alerts of such checks are judged where a fault lets them fail", "the check is about proxy nodes, and several agents report it")
	}
	if k.RoundRobin {
		v.when(k.Timeout != 0 && (k.Timeout < minInterval || k.Timeout > max(minInterval, k.Interval)), field+".timeout", "", "want %s to %s, not %s", minInterval, max(minInterval, k.Interval), k.Timeout)
		v.when(k.Proxy == nil && k.TTL != 0, field+".ttl", "leave it out, or write proxy", "each agent's event is as old as its last turn: a server refuses a TTL there")
	} else {
		v.when(k.Timeout != 0, field+".timeout", "leave it out", "simulated agents run nothing: only roundRobin waits for it")
	}
}

// limits checks objectives of the run, or of one phase: each is of a figure, in its unit, and the scenario has its cause.
func (v *checker) limits(field string, limits map[string]Limit, phase bool) {
	var names []string
	for _, f := range Figures() {
		if f.Phase || !phase {
			names = append(names, f.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		at := field + "." + name
		if name == "loss" {
			v.when(limits[name] != "0", at, "write 0, or leave it out", "any loss fails the run")
			continue
		}
		if !v.oneOf(at, "a figure", name, names) {
			continue
		}
		f, _ := FigureOf(name)
		if _, err := limits[name].In(f.Unit); err != nil {
			v.flaw(at, "", "%v", err)
		}
		cause, needed := causes[f.Needs]
		v.when(needed && !v.uses(cause.fields), at, cause.hint, "the scenario has no cause of it")
	}
}

// causes of figures, by their names: one of the fields has to be used. The hint says what to write.
var causes = map[string]struct {
	hint   string
	fields []string
}{
	"step":    {"write a phase step: 30s", []string{"Phase.Step"}},
	"settle":  {"write settle: 30s in a steady phase", []string{"Phase.Settle"}},
	"faults":  {"write faults: [{at: 60s, for: 60s, stop: {count: 10}}], or fail", []string{"Fault.Stop", "Fault.Fail"}},
	"outage":  {"write faults: [{at: 60s, cut: {}}], or server", []string{"Fault.Cut", "Fault.Server"}},
	"restart": {"write faults: [{at: 60s, server: kill}]", []string{"Fault.Server=restart", "Fault.Server=kill"}},
	"turns": {"write a check with roundRobin: true, and faults: [{at: 60s, for: 60s, hang: {count: 2}}], or stop",
		[]string{"Check.RoundRobin"}},
	"intent":   {"write intent: [{at: 60s, create: 5, kind: check}]", []string{"Scenario.Intent"}},
	"lists":    {"write operators: {lists: 5}", []string{"Operators.Lists"}},
	"applies":  {"write operators: {applies: 10/min}", []string{"Operators.Applies"}},
	"silences": {"write operators: {silences: 10/min}", []string{"Operators.Silences"}},
	"runs":     {"write operators: {runs: 10/min}", []string{"Operators.Runs"}},
	"facts":    {"write operators: {facts: 10/min}", []string{"Operators.Facts"}},
	"watches":  {"write operators: {watches: 5}", []string{"Operators.Watches"}},
	"alerts":   {"write alert: handler at a check, or alert: route", []string{"Check.Alert"}},
	"stream":   {"write stream: {connections: 100}", []string{"Scenario.Stream"}},
}

// shortList returns a list that fits a message.
func shortList(names []string) []string {
	if len(names) > 8 {
		return append(slices.Clone(names[:7]), names[len(names)-1])
	}
	return names
}
