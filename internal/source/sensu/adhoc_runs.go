package sensu

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// requestedRun is an ad-hoc run that a person requested and the agent has not answered yet. The result of any request
// issued from since on answers it: an agent that is running the check drops the request silently, and the next one of
// the timetable is answered in its place.
type requestedRun struct {
	check   model.CheckID
	since   int64 // s since 1970
	pending *core.PendingRun
}

// RequestRun asks a node's agent for an ad-hoc run of an assigned check. The answer goes to the caller and, like any result,
// to the journal.
func (s *Server) RequestRun(runs *core.Runs, node model.NodeID, run wire.Run) error {
	x := s.registry.Get(node)
	if x == nil {
		return core.ErrNoSession()
	}
	if run.Command != nil {
		return model.Errorf(model.Forbidden, "this node runs sensu-agent, which can run assigned checks on request, but no other commands")
	}
	return runs.Start(node, &run, x.cancelRun, func(p *core.PendingRun) error { return x.submitRun(run.Definition, p) })
}

// submitRun queues the request for an ad-hoc run of an assigned check.
func (x *session) submitRun(definition model.DefinitionID, p *core.PendingRun) error {
	j, err := x.addRequestedRun(definition, p)
	if err == nil {
		x.requestRuns([]*checkJob{j})
	}
	return err
}

// addRequestedRun records an ad-hoc run that a user requested, and returns the scheduled check to run.
func (x *session) addRequestedRun(definition model.DefinitionID, p *core.PendingRun) (*checkJob, error) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	if x.EndedLocked() {
		return nil, core.ErrNoSession()
	}
	j := selectJob(x.list, func(j *checkJob) bool { return j.prepared.definition.ID == definition })
	switch {
	case j == nil:
		return nil, model.Errorf(model.Forbidden, "the node does not run this check, or its session has not applied the last change yet")
	case j.proxy.ID != 0:
		return nil, model.Errorf(model.Forbidden, "a proxy check cannot be run on request, because it runs by its schedule for each proxy node")
	case j.unsupportedReason() != "":
		return nil, model.Errorf(model.Forbidden, "%s", j.unsupportedReason())
	case len(x.runs) >= core.MaxRuns:
		return nil, core.ErrTooManyRuns()
	}
	x.runs = append(x.runs, requestedRun{check: j.prepared.definition.Unit, since: max(x.srv.cfg.Now().Unix(), j.issued+1), pending: p})
	return j, nil
}

// answerRuns passes a check's result to the callers of waiting ad-hoc runs.
func (x *session) answerRuns(check model.CheckID, issued int64, result *wire.Result) {
	x.Mu.Lock()
	if len(x.runs) == 0 {
		x.Mu.Unlock()
		return
	}
	var answered []*core.PendingRun
	x.runs = slices.DeleteFunc(x.runs, func(a requestedRun) bool {
		if a.check != check || issued < a.since {
			return false
		}
		answered = append(answered, a.pending)
		return true
	})
	x.Mu.Unlock()
	for _, p := range answered {
		p.Answer(&wire.RunOutput{Output: result.Output, Last: true, Status: result.Status, DurationMs: result.DurationMs, Cut: result.Cut})
	}
}

// cancelRun removes an ad-hoc run whose caller no longer waits. The agent still finishes the run.
func (x *session) cancelRun(id uint64) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	x.runs = slices.DeleteFunc(x.runs, func(a requestedRun) bool { return a.pending.ID == id })
}

// runTarget identifies the node that a check is about, with a zero value for the agent's own node. For the
// agent a proxy node is an entity, whose name its events repeat.
type runTarget struct {
	directory.ProxyNode
	name       string
	properties []wire.Property
}

// proxyTargetsOf returns, for each proxy check in an assignment, the proxy nodes to check.
func proxyTargetsOf(a *directory.Assignment) map[model.DefinitionID][]runTarget {
	if a.Proxied == nil {
		return nil
	}
	p := &a.Proxied.ProxyChecks
	known := make(map[model.NodeID]*wire.ProxyNode, len(p.Nodes))
	for i := range p.Nodes {
		known[p.Nodes[i].Node] = &p.Nodes[i]
	}
	proxies := map[model.DefinitionID][]runTarget{}
	for _, set := range p.Sets {
		list := make([]runTarget, 0, len(set.Nodes))
		names := make(map[string]bool, len(set.Nodes))
		for _, id := range set.Nodes {
			n := known[id]
			if n == nil {
				continue
			}
			name := n.Name
			if names[name] { // another namespace has a proxy node of the same name
				name = fmt.Sprintf("%s:%d", name, id)
			}
			names[name] = true
			list = append(list, runTarget{directory.ProxyNode{ID: id}, name, n.Properties})
		}
		for _, definition := range set.Definitions {
			proxies[definition] = list
		}
	}
	return proxies
}

// runTargetsOf returns the nodes that a check is about, the agent's own node or proxy nodes. They are the agent's own
// node, or the check's proxy nodes.
func runTargetsOf(c *model.CheckDefinition, a *directory.Assignment, proxies map[model.DefinitionID][]runTarget) (list []runTarget) {
	if !c.Proxy {
		return []runTarget{{properties: a.Properties}}
	}
	for _, of := range proxies[c.ID] {
		if proxy, ok := a.ProxyNode(c.Unit, of.ID); ok {
			of.ProxyNode = proxy
			list = append(list, of)
		}
	}
	return list
}

// mayReportOn reports whether the node's assignment lets the agent send a check's results about a proxy node.
func (x *session) mayReportOn(c *model.CheckDefinition, proxy model.NodeID) bool {
	_, ok := x.srv.cfg.Assignments.AssignmentOf(x.Node.ID).ProxyNode(c.Unit, proxy)
	return ok
}

// RequestRoundRobinRun asks a node's agent to run a round-robin check now. It returns false if the node has no session
// or the check is not assigned. Give does not block.
func (s *Server) RequestRoundRobinRun(node model.NodeID, g wire.RoundRobinRun) bool {
	x := s.registry.Get(node)
	if x == nil {
		return false
	}
	x.Mu.Lock()
	var j *checkJob
	if !x.EndedLocked() {
		j = selectJob(x.list, func(j *checkJob) bool { return j.prepared.definition.ID == g.Definition && j.proxy.ID == g.Node })
	}
	x.Mu.Unlock()
	if j == nil {
		return false
	}
	x.requestRuns([]*checkJob{j})
	return true
}

// reportRun reports to the round-robin scheduler that the session's agent has run a round-robin check.
func (x *session) reportRun(c *model.CheckDefinition, proxy model.NodeID) {
	if c.RoundRobin && x.srv.cfg.OnRan != nil {
		x.srv.cfg.OnRan(c.Unit, proxy, 0)
	}
}
