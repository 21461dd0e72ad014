package scenario

import (
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

func (v *checker) classes() {
	if len(v.Agents) == 0 {
		v.absent("agents", "write agents: [{name: web, count: 100, checks: [{name: disk, interval: 60s}]}]", "missing")
	}
	seen, checks, agents := map[string]bool{}, map[string]string{}, 0 // checks: class of each, by its name on the server
	for i := range v.Agents {
		c, at := &v.Agents[i], fmt.Sprintf("agents[%d]", i)
		v.name(at+".name", c.Name)
		if c.Name != "" && seen[c.Name] {
			v.flaw(at+".name", "give each class a name of its own", "there are two classes %q", c.Name)
		}
		seen[c.Name] = true
		switch {
		case c.Count != 0:
			v.whole(at+".count", c.Count, 1, maxAgents)
		case c.Recorded == nil: // else its file could not be read, which is said
			v.absent(at+".count", "write how many agents", "missing, or 0")
			v.flaws[len(v.flaws)-1].Zero = true
		}
		agents += max(0, min(c.Count, maxAgents))
		v.shape(at, c)
		v.groupsOf(at, c)
		if v.checks(at, c) { // names that are of use; else a flaw stands there already
			for j, p := range c.placed() {
				v.fullName(fmt.Sprintf("%s.checks[%d].name", at, j), p, "of "+c.Name, checks)
			}
		}
	}
	v.groupChecks(checks)
	for i := range v.Agents {
		v.held(fmt.Sprintf("agents[%d]", i), &v.Agents[i])
	}
	if agents > maxAgents {
		v.flaw("agents", "", "%d agents, at most %d", agents, maxAgents)
	}
}

// shape checks all of a class but its signals' names.
func (v *checker) shape(at string, c *Class) {
	if len(c.Labels) > model.DefaultLabels-1 {
		v.flaw(at+".labels", "", "%d labels, at most %d beside class", len(c.Labels), model.DefaultLabels-1)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		if err := model.LabelError(key, c.Labels[key]); err != nil {
			v.flaw(at+".labels."+key, "", "%v", err)
		} else if key == "class" {
			v.flaw(at+".labels.class", "leave it out", "every node has it already: class=%s", c.Name)
		}
	}
	v.between(at+".linger", c.Linger, 1e6, 60e9)
	v.whole(at+".perFrame", c.PerFrame, 0, perFrame)
	v.whole(at+".share", c.Share, 0, maxShare)
	if k := c.Keepalive; k != nil {
		v.between(at+".keepalive.interval", k.Interval, minInterval, maxTime)
		v.between(at+".keepalive.timeout", k.Timeout, minInterval, maxTime)
		interval, timeout := c.keepalive()
		if timeout <= interval {
			v.flaw(at+".keepalive", "three intervals are usual", "the timeout %s must be longer than the interval %s", timeout, interval)
		}
	}
	for j := range c.Values {
		item, field := &c.Values[j], fmt.Sprintf("%s.values[%d]", at, j)
		v.name(field+".name", item.Name)
		v.whole(field+".count", item.Count, 0, maxAgents)
		v.nought(field+".count", "leave count out for one value, or leave out the value", float64(item.Count), "want 1 to %d", maxAgents)
		v.whole(field+".triggerEvery", item.TriggerEvery, 0, maxAgents)
		v.whole(field+".scriptEvery", item.ScriptEvery, 0, maxAgents)
		v.whole(field+".dependents", item.Dependents, 0, maxDependents)
		if item.Dependents > 0 && item.Type != "text" {
			v.flaw(field+".dependents", "write type: text", "items are made of a text alone")
		}
		v.interval(field, item.Interval)
		if item.Type != "" {
			v.oneOf(field+".type", "type of value", item.Type, []string{"float", "integer", "text"})
		}
	}
	for j := range c.Policies {
		p, field := &c.Policies[j], fmt.Sprintf("%s.policies[%d]", at, j)
		v.name(field+".name", p.Name)
		v.whole(field+".components", p.Components, 1, maxAgents)
		v.interval(field, p.Interval)
		for _, outcome := range slices.Sorted(maps.Keys(p.Outcome)) {
			v.oneOf(field+".outcome."+outcome, "outcome", outcome, []string{"repaired", "noncompliant", "error", "not-applicable"})
		}
		v.shares(field+".outcome", "the rest is compliant", p.Outcome)
	}
	if len(v.Held(c))+len(c.Values)+len(c.Policies) == 0 && c.Recorded == nil && c.Inventory == 0 && c.Keepalive == nil {
		v.absent(at, "write checks: [{name: disk, interval: 60s}]; or groups that checks target; or keepalive: {interval: 20s} for agents that only live", "these agents send nothing")
	}
	if c.Churn.OfflineFor != 0 && c.Churn.Offline == "" {
		v.absent(at+".churn.offlineFor", "write offline: 1%/min", "nobody goes offline")
	}
	if c.Churn.Offline != "" && c.Churn.OfflineFor == 0 {
		v.absent(at+".churn.offline", "write offlineFor: 60s", "for how long?")
	}
	v.between(at+".churn.offlineFor", c.Churn.OfflineFor, minInterval, maxTime)
}

// interval checks one that must be there.
func (v *checker) interval(field string, d model.Duration) {
	if d == 0 {
		v.absent(field+".interval", "write interval: 60s", "missing")
		return
	}
	v.between(field+".interval", d, minInterval, maxTime)
}

// checks checks those of a class, and says whether their names are of use.
func (v *checker) checks(at string, c *Class) bool {
	seen, fine := map[string]bool{}, true
	for j := range c.Checks {
		k, field := &c.Checks[j], fmt.Sprintf("%s.checks[%d]", at, j)
		v.name(field+".name", k.Name)
		if k.Name != "" && seen[k.Name] {
			v.flaw(field+".name", "call one of them otherwise, or write count", "there are two checks %q", k.Name)
		}
		fine = fine && k.Name != "" && !seen[k.Name] && k.Count >= 0 && k.Count <= model.DefaultStatesPerNode
		seen[k.Name] = true
		v.check(field, k)
		v.about(field, k)
	}
	return fine
}

// check checks all of a check but its name.
func (v *checker) check(field string, k *Check) {
	v.whole(field+".count", k.Count, 0, model.DefaultStatesPerNode)
	v.nought(field+".count", "leave count out for one check, or leave out the check", float64(k.Count), "want 1 to %d", model.DefaultStatesPerNode)
	v.interval(field, k.Interval)
	if k.TTL != 0 && k.TTL <= k.Interval {
		v.flaw(field+".ttl", "two to three intervals are usual", "%s must be longer than the interval %s", k.TTL, k.Interval)
	}
	v.between(field+".ttl", k.TTL, minInterval, maxTime)
	v.output(field+".output", k.Output)
	v.statuses(field+".status", k.Status)
	v.share(field+".changes", k.Changes)
	v.share(field+".flapping", k.Flapping)
	if k.Alert != "" {
		v.oneOf(field+".alert", "way to tell", k.Alert, []string{ByHandler, ByRoute})
	}
}

func (v *checker) output(field string, o Output) {
	if o.Like != "" {
		v.oneOf(field+".like", "plug-in", o.Like, Outputs())
	}
	if o.Bytes != 0 && (o.Bytes < minOutput || o.Bytes > MaxOutput) {
		v.flaw(field+".bytes", "", "want %d to %s, not %s: shorter ones cannot be distinguished, no frame has room for longer ones", minOutput, model.Size(MaxOutput), o.Bytes)
	}
}

func (v *checker) statuses(field string, m map[string]float64) {
	seen := map[model.Status]string{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		status, ok := model.ParseStatus(name)
		other, twice := seen[status]
		switch {
		case !ok:
			v.oneOf(field+"."+name, "status", name, []string{"ok", "warning", "critical", "unknown"})
		case twice:
			v.flaw(field+"."+name, "keep one of them", "%s and %s are the same status", other, name)
		default:
			seen[status] = name
		}
	}
	v.shares(field, "the rest is OK", m)
}
