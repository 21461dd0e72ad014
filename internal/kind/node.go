package kind

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// Node returns the kind of machines, and of things without an agent.
func Node() Kind {
	return Define(func() *model.NodeSpec { return &model.NodeSpec{} }, Definition[*model.NodeSpec]{
		KindInfo: model.KindInfo{Name: "Node", Plural: "nodes", Short: "no", Namespaced: true},
		Related:  NodeEvents,
		Example: `kind: Node
metadata: {name: web01, labels: {env: prod}}
spec:
  groups: [web]
  keepalive: {timeout: 5m}
`,
		Validate: func(v *Validator, _ *model.Resource, s *model.NodeSpec) { validateNode(v, s) },
		Cycle:    Cycle{"is behind itself", "remove spec.behind from one of them: the first node has none"},
		References: func(refs *References, s *model.NodeSpec) {
			refs.Mention("Group", "spec.groups", s.Groups...)
			if l := s.Lifecycle; l != nil {
				refs.Require("Handler", "spec.lifecycle.handlers", l.Handlers...)
			}
			if k := s.Keepalive; k != nil {
				refs.Require("Handler", "spec.keepalive.handlers", k.Handlers...)
				refs.Require("Pipeline", "spec.keepalive.pipelines", k.Pipelines...)
			}
			if b := s.Upstream; b != nil {
				from := len(refs.list)
				refs.Require("Node", "spec.behind.node", b.Node)
				refs.chain(from)
				refs.check("spec.behind.check", b.CheckName())
			}
		},
		Declared: func(s *model.NodeSpec) *model.NodeSpec {
			out := *s
			out.JoinGrant, out.Facts, out.AgentLabels, out.AgentGroups, out.AgentReceivers = nil, nil, nil, nil, nil
			return &out
		},
		FromSensu: func(s *model.NodeSpec) string {
			if s.Keepalive != nil && len(s.Keepalive.Pipelines) > 0 {
				return "pipelines of a Node's keepalive"
			}
			return ""
		},
		Columns: []Column[*model.NodeSpec]{
			{"GROUPS", 0, func(_ View, s *model.NodeSpec) string { return dash(strings.Join(s.AssignedGroups(), ",")) }},
			{"OS", 0, func(_ View, s *model.NodeSpec) string {
				return dash(strings.TrimSpace(s.Facts["os"] + " " + s.Facts["arch"]))
			}},
		},
	})
}

func validateNode(v *Validator, s *model.NodeSpec) {
	if s.Proxy {
		validateProxyNode(v, s)
	}
	if s.UID != "" {
		if id, err := uuid.Parse(s.UID); err != nil || id.String() != s.UID {
			v.Flaw("spec.uid", "it is given at enrolment; leave it out", "%q is no node id", s.UID)
		}
	}
	v.Names("spec.groups", s.Groups, v.SharedName)
	v.Names("spec.mayJoin", s.MayJoin, v.SharedName)
	validateProperties(v, "spec.properties", s.Properties)
	validateLifecycle(v, "spec.lifecycle", s.Lifecycle)
	if b := s.Upstream; b != nil {
		if b.Node == "" {
			v.Missing("spec.behind.node", "write behind: {node: NAME}, and the check that says that it is down if keepalive does not", "does not say which node is in front")
		} else {
			v.SharedName("spec.behind.node", b.Node)
		}
		if b.Check != "" {
			v.SharedName("spec.behind.check", b.Check)
		}
	}
	if g := s.JoinGrant; g != nil {
		if len(g.Token) > model.MaxText || model.HasControl(g.Token) {
			v.Flaw("spec.given.token", "", "want one line of at most %d bytes", model.MaxText)
		}
		v.Names("spec.given.groups", g.Groups, v.SharedName)
		v.labels("spec.given.labels", g.Labels)
		validateLifecycle(v, "spec.given.lifecycle", g.Lifecycle)
	}
	if k := s.Keepalive; k != nil {
		v.InRange("spec.keepalive.interval", k.Interval, model.Duration(time.Second), maxTimeout)
		v.InRange("spec.keepalive.timeout", k.Timeout, model.Duration(time.Second), maxInterval)
		interval, timeout := k.EffectiveTimes()
		if timeout <= interval {
			v.Flaw("spec.keepalive", "", "timeout %s must be longer than interval %s", timeout, interval)
		}
		if w := k.Warning; w != 0 && (w <= interval || w >= timeout) {
			v.Flaw("spec.keepalive.warning", "", "%s must lie between interval %s and timeout %s", w, interval, timeout)
		}
		v.Bound("spec.keepalive.handlers", len(k.Handlers))
		v.Names("spec.keepalive.handlers", k.Handlers, v.SharedName)
		v.Bound("spec.keepalive.pipelines", len(k.Pipelines))
		v.Names("spec.keepalive.pipelines", k.Pipelines, v.SharedName)
	}
}

// validateProxyNode refuses fields that need a machine.
func validateProxyNode(v *Validator, s *model.NodeSpec) {
	const hint = "leave it out: a proxy node has no machine"
	for _, field := range [...]struct {
		name string
		set  bool
	}{
		{"uid", s.UID != ""}, {"key", s.Key != ""}, {"keepalive", s.Keepalive != nil}, {"lifecycle", s.Lifecycle != nil},
		{"given", s.JoinGrant != nil}, {"mayJoin", len(s.MayJoin) > 0},
	} {
		if field.set {
			v.Flaw("spec."+field.name, hint, "not of a proxy node")
		}
	}
}

func validateLifecycle(v *Validator, field string, l *model.Lifecycle) {
	if l == nil {
		return
	}
	v.Bound(field+".handlers", len(l.Handlers))
	for i, name := range l.Handlers {
		v.SharedName(fmt.Sprintf("%s.handlers[%d]", field, i), name)
	}
	if len(l.Handlers) > 0 && !l.Ephemeral {
		v.Flaw(field+".handlers", "write ephemeral: true beside it", "only ephemeral nodes are forgotten")
	}
	if l.ForgetAfter == 0 {
		return
	}
	if !l.Ephemeral {
		v.Flaw(field+".forgetAfter", "write lifecycle: {ephemeral: true, forgetAfter: "+l.ForgetAfter.String()+"}", "only ephemeral nodes are forgotten")
	}
	v.InRange(field+".forgetAfter", l.ForgetAfter, model.Duration(model.MinForgetAfter), model.Duration(model.MaxForgetAfter))
}
