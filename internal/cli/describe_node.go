package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// describeNode prints a node for muster describe. It prints its state, agent, machine, lifecycle and limits, and the
// origin of its groups, labels and properties.
func describeNode(c *commandCall, r *model.Resource, spec *model.NodeSpec) error {
	l, err := c.api.Nodes.States(c.ctx, v1.NodeFilter{Namespace: r.Metadata.Namespace, Name: r.Metadata.Name, Limit: 1})
	if err != nil {
		return err
	}
	if len(l.Items) == 0 {
		return model.Errorf(model.NotFound, "node %s was deleted meanwhile", r.Metadata.Name).WithHint("find who deleted the node: muster audit node %s", r.Metadata.Name)
	}
	n := l.Items[0]
	c.Printf("%s is %s\n\n", resourceTitle(r), nodeStatus(n))
	c.printField("namespace", "%s", n.Namespace)
	switch {
	case n.Events.NotOK() > 0:
		c.printField("events", "%s are not OK; %s open", n.Events.Failing(), model.CountNoun(n.Problems, "problem"))
	case n.Events.OK > 0:
		c.printField("events", "%d, all OK", n.Events.OK)
	default:
		c.printField("events", "none yet")
	}
	if !n.Proxy {
		c.printField("last seen", "%s", c.TimeAndAge(n.LastHeartbeat))
	}
	c.printField("agent", "%s", agentStateText(n, spec)+textIf(n.Agent != "", ", version "+n.Agent))
	c.printNonEmptyField("state", spec.State+textIf(!spec.RunsDirectives(), ": no directive runs on it, and it has no compliance"))
	if err := describeAgent(c, n.Namespace, n.Name); err != nil {
		return err
	}
	describeFacts(c, spec.Facts)
	if err := describeInventory(c, n.Namespace, n.Name); err != nil {
		return err
	}
	c.printField("checks", "%d: %s", len(n.Checks), cmp.Or(strings.Join(n.Checks, ", "), "-"))
	if len(n.Directives) > 0 {
		c.printField("directives", "%d: %s; see them: muster get compliance %s", len(n.Directives), strings.Join(n.Directives, ", "), n.Name)
	}
	if r.Status != nil {
		joined := c.TimeAndAge(r.Status.Created)
		if spec.JoinGrant != nil && spec.JoinGrant.Token != "" {
			joined += ", with " + spec.JoinGrant.Source()
		}
		c.printField("joined", "%s", joined)
	}
	if err := describeLifecycle(c, n.Namespace, spec); err != nil {
		return err
	}
	if n.Origins != nil {
		describeLimits(c, n.Origins.Limits)
		describeGroups(c, n.Origins, n.Name)
		describeLabels(c, n.Origins.Labels, spec.Facts)
		describeProperties(c, n.Origins.Properties)
	}
	return nil
}

// agentStateText returns whether the agent of a node is connected, or why not.
func agentStateText(n v1.NodeState, spec *model.NodeSpec) string {
	switch {
	case n.Proxy:
		return "none: other nodes run the checks of a proxy node"
	case n.Connected:
		return "connected"
	case spec.UID == "":
		return "has not joined yet: muster node token"
	case n.Stopped:
		return "stopped on purpose"
	}
	return "not connected"
}

// describeAgent shows the session of a node's agent, its certificate and its load.
func describeAgent(c *commandCall, namespace, node string) error {
	l, err := c.api.Nodes.Agents(c.ctx, v1.AgentFilter{Namespace: namespace, Name: node, Limit: 1})
	if err != nil || len(l.Items) == 0 || l.Items[0].Session == nil {
		return err
	}
	s := l.Items[0].Session
	text := fmt.Sprintf("since %s, from %s", c.TimeAndAge(s.Since), s.Address)
	if offset := time.Duration(s.ClockOffsetMs) * time.Millisecond; offset.Abs() >= time.Second {
		text += "; its clock is " + clockOffsetText(s.ClockOffsetMs)
	}
	c.printField("session", "%s", text)
	if !s.CertificateExpires.IsZero() {
		c.printField("certificate", "expires %s, %s", s.CertificateExpires.In(c.Zone).Format(time.DateOnly), c.TimeUntil(s.CertificateExpires))
	}
	c.printNonEmptyField("refuses", strings.Join(s.Refuses, ", "))
	for _, u := range s.IdleUnits {
		c.printField("not in force", "%s: %s", u.Name, u.Reason)
	}
	if st := s.Stats; st != nil {
		c.printField("load", "%d runs, %s processes a minute, %s sent%s%s", st.Runs, rateText(st.ForksPerMinute), model.Size(st.BytesSent).Approximate(),
			textIf(st.BytesPerDay > 0, " ("+sizeTextIfKnown(st.BytesPerDay)+" a day)"), textIf(st.ResidentBytes > 0, ", "+sizeTextIfKnown(st.ResidentBytes)+" of memory"))
	}
	c.printNonEmptyField("trouble", strings.Join(l.Items[0].Trouble, "; "))
	return nil
}

// namedFacts are the facts that describeFacts puts into fields of their own.
var namedFacts = [...]string{
	"hostname", "fqdn", "os", "arch", "distribution", "distributionVersion", "distributionName", "kernel", "cpus", "memory", "addresses",
	"virtualisation", "cloud", "cloudInstance", "cloudRegion", "cloudZone", "cloudType", "agentVersion",
}

// describeFacts prints the facts of a node. Host, system, hardware, cloud and addresses have one field each, and the
// other facts follow by name.
func describeFacts(c *commandCall, facts map[string]string) {
	var others []string
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		if !slices.Contains(namedFacts[:], name) {
			others = append(others, name+"="+facts[name])
		}
	}
	c.printNonEmptyField("host", cmp.Or(facts["fqdn"], facts["hostname"]))
	c.printNonEmptyField("system", operatingSystemText(facts))
	c.printNonEmptyField("hardware", hardwareText(facts))
	c.printNonEmptyField("cloud", joinNonEmpty(" ", facts["cloud"], facts["cloudInstance"], facts["cloudType"], cmp.Or(facts["cloudZone"], facts["cloudRegion"])))
	c.printNonEmptyField("addresses", strings.ReplaceAll(facts["addresses"], ",", ", "))
	c.printNonEmptyField("more facts", strings.Join(others, ", "))
}

// operatingSystemText formats operating system and kernel, such as "debian 12 amd64, kernel 6.12"
func operatingSystemText(facts map[string]string) string {
	name := joinNonEmpty(" ", cmp.Or(facts["distribution"], facts["os"]), facts["distributionVersion"], facts["arch"])
	if facts["kernel"] != "" {
		name = joinNonEmpty(", ", name, "kernel "+facts["kernel"])
	}
	return name
}

// hardwareText formats the size of a machine and its virtualisation, such as "4 CPUs, 15.6 GiB, virtual: kvm"
func hardwareText(facts map[string]string) string {
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

// joinNonEmpty joins the non-empty texts with a separator
func joinNonEmpty(between string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), between)
}

// describeLifecycle prints when the server will remove an ephemeral node, and which handlers hear of the
// removal.
func describeLifecycle(c *commandCall, namespace string, spec *model.NodeSpec) error {
	if limit := spec.EffectiveLifecycle().ForgetDelay(); limit > 0 {
		text := fmt.Sprintf("ephemeral: removed after %s without a session", model.Duration(limit))
		if refs := spec.EffectiveLifecycle().Handlers; len(refs) > 0 {
			handlers, err := handlersWithFaults(c, namespace, refs)
			if err != nil {
				return err
			}
			text += "; notifies " + handlers
		}
		switch {
		case spec.Lifecycle != nil:
		case spec.Facts["sensuEntity"] != "":
			text += "; by its Sensu agent"
		default:
			text += "; by " + spec.JoinGrant.Source()
		}
		c.printField("lifecycle", "%s", text)
	}
	if h, byAgent := spec.KeepaliveReceivers(); h != nil {
		var parts []string
		if len(h.Handlers) > 0 {
			parts = append(parts, "handlers "+strings.Join(h.Handlers, ", "))
		}
		if len(h.Pipelines) > 0 {
			parts = append(parts, "pipelines "+strings.Join(h.Pipelines, ", "))
		}
		text := "notifies " + strings.Join(parts, " and ")
		text += textIf(byAgent, "; by its Sensu agent, if they exist")
		c.printField("keepalive", "%s", text)
	}
	return nil
}

// describeLimits prints the limits for a node, such as results per second, and when each was last reached.
func describeLimits(c *commandCall, limits []v1.LimitUse) {
	c.printNonEmptyField("limits", strings.Join(convertEach(limits, func(l v1.LimitUse) string {
		text := l.Name + " " + strconv.FormatFloat(l.Limit, 'f', -1, 64)
		if l.Used != nil {
			text += fmt.Sprintf(" (%d used)", *l.Used)
		}
		return text
	}), ", "))
	for _, l := range limits {
		if l.Reached > 0 {
			c.printField("", "%s reached %s: %s", l.Name, c.AgeText(l.Last), l.Reason)
		}
	}
}

// describeGroups prints the groups of a node, each with the reason for the membership. Groups that its agent
// requested and the server refused follow.
func describeGroups(c *commandCall, o *v1.NodeOrigins, node string) {
	if len(o.Groups) == 0 && len(o.RequestedGroups) == 0 {
		return
	}
	c.Printf("\ngroups, and the reason for each\n")
	deeper := false
	for _, g := range o.Groups {
		name := strings.TrimPrefix(g.Text, "it is in group ")
		for i, reason := range g.Steps {
			c.printItem(fieldNameOnce(i, name), "%s", reason.Text)
			deeper = deeper || len(reason.Steps) > 0
		}
		if len(g.Steps) == 0 {
			c.Printf("  %s\n", name)
		}
	}
	if deeper {
		c.Printf("the whole chain: muster why %s\n", node)
	}
	for i, g := range slices.DeleteFunc(slices.Clone(o.RequestedGroups), func(g v1.RequestedGroup) bool { return g.Accepted }) {
		if i == 0 {
			c.Printf("\ngroups that the agent asked for and the server refused\n")
		}
		c.printItem(g.Group, "%s", g.Reason)
	}
}

// describeLabels prints each label of a node and its origin, such as a declaration or the agent. Facts count as
// labels, too; describeFacts shows them, and here stand only the hidden ones.
func describeLabels(c *commandCall, labels []v1.LabelOrigin, facts map[string]string) {
	labels = slices.DeleteFunc(slices.Clone(labels), func(l v1.LabelOrigin) bool { return l.Owner == "facts" })
	for i, l := range labels {
		if i == 0 {
			c.Printf("\nlabels, with their owners\n")
		}
		text := fmt.Sprintf("%-20s %s", cmp.Or(l.Value, `""`), l.Owner)
		for _, h := range l.Hides {
			text += fmt.Sprintf("; hides %q of the %s", h.Value, h.Owner)
		}
		c.printItem(l.Name, "%s", text)
	}
	if len(facts) > 0 && len(labels) > 0 {
		c.Printf("  facts count as labels, too, unless a label hides them\n")
	}
}

// describeProperties prints each property of a node with its values in all scopes, the value in force last
func describeProperties(c *commandCall, properties []v1.PropertyValue) {
	if len(properties) > 0 {
		c.Printf("\nproperties, and their origins (later ones win)\n")
	}
	for _, p := range properties {
		if p.Conflict != "" {
			c.printItem(p.Name, "no value: %s", p.Conflict)
		} else {
			c.printItem(p.Name, "%s", string(p.Value))
		}
		for _, from := range p.From {
			text := from.From
			if len(p.From) > 1 {
				text += ", " + from.Effect
				text += textIf(from.Effect != "in force" || string(from.Value) != string(p.Value), ": "+string(from.Value))
			}
			c.printItem("", "  %s", text)
		}
	}
}
