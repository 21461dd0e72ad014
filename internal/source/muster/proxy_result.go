package muster

import (
	"fmt"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// authorizeProxy returns the reason why a result does not belong to the proxy node that it names, or names none; empty: it
// does, and x.proxy is that node. A node sends results only for the proxy nodes that its assignment names, also where
// the result ran under an older definition of the check.
func (x *session) authorizeProxy(sig *wire.Signal, c *model.CheckChunk, held *directory.Assignment) string {
	switch {
	case !c.Proxy:
		return fmt.Sprintf("the result names node %d, and definition %d is about the node that runs it", sig.Node, c.ID)
	case sig.Node == 0:
		return fmt.Sprintf("definition %d is about proxy nodes, and the result names none", c.ID)
	}
	if held == nil {
		held = x.srv.cfg.Assignments.For(x.node.ID)
	}
	var ok bool
	if x.proxy, ok = held.ProxyNode(c.Unit, sig.Node); !ok {
		return fmt.Sprintf("node %d is none that this node's assignment names for check %s", sig.Node, c.Name)
	}
	return ""
}
