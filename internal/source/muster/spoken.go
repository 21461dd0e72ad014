package muster

import (
	"fmt"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/wire"
)

// spoken is a result about a proxy node. In the journal it stands with that node; its number
// stays with the node that sent it, in the same commit, so that it never counts twice.
type spoken struct {
	plan.Proxy
	signal []byte // as it came
	number uint64
}

// speaks says why a result is not about the proxy node that it names, or names none; empty:
// it is, and x.proxy is that node. A node speaks only for those that its assignment names:
// also where the result ran under an older definition of the check.
func (x *session) speaks(sig *wire.Signal, c *model.Chunk, held *plan.Assignment) string {
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
	if x.proxy, ok = held.Speaks(c.Check, sig.Node); !ok {
		return fmt.Sprintf("node %d is none that this node's assignment names for check %s", sig.Node, c.CheckName)
	}
	return ""
}

// speak returns the entries of a batch: list[0], and one for each result about a proxy node,
// in that node's section.
func (rec *record) speak(by model.NodeID, r *wire.BatchReader, about []spoken) []journal.Entry {
	own := len(rec.data)
	ends := make([]int, len(about))
	for i := range about {
		s := &about[i]
		rec.data = wire.AppendRecord(rec.data, &wire.Record{Kind: wire.RecordProxied, Node: s.ID, Proxied: &wire.ProxiedResult{
			StreamKey: r.StreamKey, Number: s.number, By: by, Namespace: s.Namespace, NowMs: r.NowMs, Signal: s.signal,
		}})
		ends[i] = len(rec.data)
	}
	rec.list[0].Data = rec.data[:own:own]
	rec.more = append(rec.more[:0], rec.list[0])
	for i, from := 0, own; i < len(about); i++ {
		rec.more = append(rec.more, journal.Entry{Section: sectionOf(about[i].UID), Data: rec.data[from:ends[i]:ends[i]], Signals: 1})
		from = ends[i]
	}
	rec.list[0] = journal.Entry{}
	return rec.more
}
