package sensu

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

// place is where an event stands.
type place struct {
	node  model.NodeID
	check model.CheckID
}

// unasked finds the passive check that an event is of and that no assignment names: some
// program gave it to the agent's API or socket. Where the namespace allows it, a check that is
// not there is made. nil: the event is refused.
func (x *session) unasked(said *sensuwire.Said) (c *model.CheckChunk, about directory.ProxyNode, out outcome) {
	if len(said.Proxy) > 0 {
		var ok bool
		if about, ok = x.proxyNamed(string(said.Proxy)); !ok {
			return nil, about, x.notOurs(said)
		}
	}
	name := model.CleanName(string(said.Check))
	if name == "" || model.BuiltinCheck(name) != 0 {
		return nil, about, x.complain(unassigned, fmt.Sprintf("an event of check %q, which is no name that a check can have", said.Check))
	}
	check, known := x.srv.cfg.Checks.PassiveCheck(x.namespace, name)
	what := "an event of check " + name + ", which "
	switch {
	case known && check.Chunk == nil && check.Disabled:
		return nil, about, x.complain(disabled, what+"is disabled; where nobody is to run it, passive: true in place of its command, targets and times takes such events")
	case known && check.Chunk == nil && len(said.Proxy) > 0:
		return nil, about, x.notOurs(said)
	case known && check.Chunk == nil:
		return nil, about, x.complain(unassigned, what+"other nodes run: this node's assignment does not name it")
	case known && check.Source == model.SourceAlerts:
		return nil, about, x.complain(unassigned, what+"is of alerts that somebody else brings in")
	case known && check.Disabled:
		return nil, about, x.complain(disabled, what+"is disabled")
	case known && check.Source != model.SourceSensu:
		return check.Chunk, about, kept
	}
	// What was made, or is to be, has room within the limit only.
	at := place{node: cmp.Or(about.ID, x.node.ID)}
	if known {
		at.check = check.Chunk.Unit
		if _, ok := x.brought[at]; ok {
			return check.Chunk, about, kept
		}
	}
	if !known || !x.srv.cfg.View.Known(at.node, at.check) {
		if out := x.roomFor(at, name); out != kept {
			return nil, about, out
		}
	}
	if !known {
		var err error
		if check, err = x.srv.making.passive(x, name, said); err != nil {
			return nil, about, x.complain(unmade, what+"could not be made: "+err.Error())
		}
		at.check = check.Chunk.Unit
	}
	if x.brought == nil || len(x.brought) >= model.MaxPassives {
		x.brought = map[place]struct{}{}
	}
	x.brought[at] = struct{}{}
	return check.Chunk, about, kept
}

// roomFor says whether a node may have one more event of a passive check that was made; kept: it may.
func (x *session) roomFor(at place, name string) outcome {
	most, n := x.srv.cfg.Intent.LimitsFor(x.namespace).PassivePerNode, 0
	if most <= 0 {
		return x.complain(unassigned, "an event of check "+name+", which the node's assignment does not name, and of which there is no passive Check: declare it (passive: true), or have such checks made (spec.limits.passivePerNode of the namespace)")
	}
	for _, id := range x.srv.cfg.Checks.PassiveChecks(x.namespace, model.SourceSensu) {
		if _, ok := x.brought[place{at.node, id}]; id != at.check && (ok || x.srv.cfg.View.Known(at.node, id)) {
			n++
		}
	}
	if n < most {
		return kept
	}
	reason := fmt.Sprintf("the node has events of %d passive checks that were made, the limit passivePerNode; refused: %s", n, name)
	x.budget.Hit("node_passive", reason)
	return x.complain(states, reason)
}

// proxyNamed finds a proxy node that the node's assignment names, for whichever check.
func (x *session) proxyNamed(name string) (about directory.ProxyNode, ok bool) {
	x.Mu.Lock()
	i := slices.IndexFunc(x.jobs, func(j *job) bool {
		return j.about.ID != 0 && (j.recipe.ask.Proxy == name || j.recipe.ask.Proxy == model.CleanName(name))
	})
	var j *job
	if i >= 0 {
		j = x.jobs[i]
	}
	x.Mu.Unlock()
	if j == nil || !x.speaks(j.recipe.chunk, j.about.ID) {
		return about, false
	}
	return j.about, true
}

// notOurs refuses an event for somebody for whom the agent does not speak.
func (x *session) notOurs(said *sensuwire.Said) outcome {
	return x.complain(other, "an event of check "+string(said.Check)+" for "+string(said.Proxy)+": an agent speaks for itself, and for the proxy nodes that its node's assignment names")
}
