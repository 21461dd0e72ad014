package sensu

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// place identifies an event: a check on a node.
type place struct {
	node  model.NodeID
	check model.CheckID
}

// passiveChunk finds the passive check of an event whose check the assignment does not name: a program sent it to the
// agent's API or socket. If the namespace allows it, a missing check is created. nil: the event is refused.
func (e *incoming) passiveChunk() (c *model.CheckChunk, proxy directory.ProxyNode, out outcome) {
	if len(e.Proxy) > 0 {
		var ok bool
		if proxy, ok = e.assignedProxy(string(e.Proxy)); !ok {
			return nil, proxy, e.refuseProxy()
		}
	}
	name := model.CleanName(string(e.Check))
	if name == "" || model.BuiltinCheck(name) != 0 {
		return nil, proxy, e.refuse(unassigned, fmt.Sprintf("an event of check %q, which is no valid name of a check", e.Check))
	}
	check, known := e.srv.cfg.Checks.PassiveCheck(e.namespace, name)
	subject := "an event of check " + name + ", which "
	switch {
	case known && check.Chunk == nil && check.Disabled:
		return nil, proxy, e.refuse(disabled, subject+"is disabled; to accept such events without running it, replace its command, targets and times by passive: true")
	case known && check.Chunk == nil && len(e.Proxy) > 0:
		return nil, proxy, e.refuseProxy()
	case known && check.Chunk == nil:
		return nil, proxy, e.refuse(unassigned, subject+"other nodes run: this node's assignment does not name it")
	case known && check.Source == model.SourceAlerts:
		return nil, proxy, e.refuse(unassigned, subject+"belongs to alerts of another sender")
	case known && check.Disabled:
		return nil, proxy, e.refuse(disabled, subject+"is disabled")
	case known && check.Source != model.SourceSensu:
		return check.Chunk, proxy, kept
	}
	// Checks that were created for events, or will be, have a limit of events per node.
	at := place{node: cmp.Or(proxy.ID, e.Node.ID)}
	if known {
		at.check = check.Chunk.Unit
		if _, ok := e.admitted[at]; ok {
			return check.Chunk, proxy, kept
		}
	}
	if !known || !e.srv.cfg.View.HasEvent(at.node, at.check) {
		if out := e.checkPassiveLimit(at, name); out != kept {
			return nil, proxy, out
		}
	}
	if !known {
		var err error
		if check, err = e.srv.creation.create(e, name); err != nil {
			return nil, proxy, e.refuse(uncreated, subject+"could not be created: "+err.Error())
		}
		at.check = check.Chunk.Unit
	}
	if e.admitted == nil || len(e.admitted) >= model.MaxPassives {
		e.session.admitted = map[place]struct{}{}
	}
	e.admitted[at] = struct{}{}
	return check.Chunk, proxy, kept
}

// checkPassiveLimit returns kept if a node may have one more event of a created passive check.
func (e *incoming) checkPassiveLimit(at place, name string) outcome {
	limit, n := e.srv.cfg.Intent.LimitsFor(e.namespace).PassivePerNode, 0
	if limit <= 0 {
		return e.refuse(unassigned, "an event of check "+name+", which the node's assignment does not name, and for which there is no passive Check: declare it (passive: true), or let such checks be created (spec.limits.passivePerNode of the namespace)")
	}
	for _, id := range e.srv.cfg.Checks.PassiveChecks(e.namespace, model.SourceSensu) {
		if _, ok := e.admitted[place{at.node, id}]; id != at.check && (ok || e.srv.cfg.View.HasEvent(at.node, id)) {
			n++
		}
	}
	if n < limit {
		return kept
	}
	reason := fmt.Sprintf("the node has events of %d created passive checks, the limit passivePerNode; refused: %s", n, name)
	e.Budget.Hit("node_passive", reason)
	return e.refuse(states, reason)
}

// assignedProxy finds a proxy node that the node's assignment names, for any check.
func (e *incoming) assignedProxy(name string) (proxy directory.ProxyNode, ok bool) {
	e.Mu.Lock()
	i := slices.IndexFunc(e.list, func(j *job) bool {
		return j.proxy.ID != 0 && (j.recipe.request.Proxy == name || j.recipe.request.Proxy == model.CleanName(name))
	})
	var j *job
	if i >= 0 {
		j = e.list[i]
	}
	e.Mu.Unlock()
	if j == nil || !e.mayReportOn(j.recipe.chunk, j.proxy.ID) {
		return proxy, false
	}
	return j.proxy, true
}

// refuseProxy refuses an event about an entity on which the agent may not report.
func (e *incoming) refuseProxy() outcome {
	return e.refuse(other, "an event of check "+string(e.Check)+" for "+string(e.Proxy)+": an agent may report on its own entity and on the proxy nodes that its node's assignment names")
}
