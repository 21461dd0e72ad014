package computed

import (
	"fmt"
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// Server holds facts about the running server, such as its uptime, for internal items that report the facts.
type Server struct {
	Version string
	Started time.Time
	Values  func() uint64 // raw values of items since the start of the server
	Queued  func() int    // commits that wait for the workers of values
	// EachItem calls each for the items of a node: with the time of the last value or failure in Unix ns.
	EachItem func(node model.NodeID, each func(of *model.Item, at int64, unsupported bool))
	// Triggers returns the number of triggers on a node.
	Triggers func(node model.NodeID) int
	// Available returns the state of a node's keepalive; ok is false while it has none.
	Available func(node model.NodeID) (status model.Status, ok bool)
}

// itemStatistics counts the items, unsupported items and triggers of the nodes in a namespace.
type itemStatistics struct {
	items, unsupported, triggers int
	perSecond                    float64 // values that the agents collect
	late                         []model.Duration
}

// addNode adds one node's items to the counts, and collects the delays of late items. It also counts
// unsupported items and values per second. The delay of an item is the time since its next value was due.
func (s *itemStatistics) addNode(server *Server, node model.NodeID, now time.Time) {
	server.EachItem(node, func(of *model.Item, at int64, unsupported bool) {
		s.items++
		if unsupported {
			s.unsupported++
		}
		if !of.IsCollected() || of.Interval.First() <= 0 {
			return
		}
		s.perSecond += 1 / of.Interval.First().Seconds()
		if late := model.Duration(now.UnixNano()-at) - model.Duration(of.Interval.First()); at > 0 && late > 0 {
			s.late = append(s.late, late)
		}
	})
	s.triggers += server.Triggers(node)
}

// countItems returns the numbers of items, unsupported items and triggers in a namespace. The numbers are
// counted once per calculation.
func (c *calculation) countItems(namespace string) *itemStatistics {
	s := c.surveys[namespace]
	if s == nil {
		s = &itemStatistics{}
		for _, node := range c.engine.opts.Directory.Nodes(namespace) {
			s.addNode(&c.engine.opts.Server, node, c.now)
		}
		c.surveys[namespace] = s
	}
	return s
}

// Values of zabbix[host,…,available], as in Zabbix.
const (
	availabilityUnknown = 0
	available           = 1
	unavailable         = 2
)

// computeInternalItem returns the value of an internal item, such as the uptime of the server.
func (c *calculation) computeInternalItem(k *model.InternalKey, namespace string, node model.NodeID) (item.Value, error) {
	server := &c.engine.opts.Server
	count := func(n int) (item.Value, error) { return item.FromUnsigned(uint64(max(n, 0))), nil }
	switch k.Name {
	case "boottime":
		return item.FromUnsigned(uint64(server.Started.Unix())), nil
	case "uptime":
		return count(int(c.now.Sub(server.Started).Seconds()))
	case "version":
		return item.FromText(server.Version), nil
	case "wcache,values", "wcache,values,all":
		return item.FromUnsigned(server.Values()), nil
	case "preprocessing_queue":
		return count(server.Queued())
	case "hosts":
		return count(len(c.engine.opts.Directory.Nodes(namespace)))
	case "items":
		return count(c.countItems(namespace).items)
	case "items_unsupported":
		return count(c.countItems(namespace).unsupported)
	case "triggers":
		return count(c.countItems(namespace).triggers)
	case "requiredperformance":
		return item.FromFloat(math.Round(c.countItems(namespace).perSecond*1e6) / 1e6), nil
	case "queue":
		n := 0
		for _, late := range c.countItems(namespace).late {
			if late >= k.From && (k.To == 0 || late < k.To) {
				n++
			}
		}
		return count(n)
	case "host,,items", "host,,items_unsupported":
		var s itemStatistics
		s.addNode(server, node, c.now)
		if k.Name == "host,,items" {
			return count(s.items)
		}
		return count(s.unsupported)
	case "host,agent,available", "host,active_agent,available":
		switch status, ok := server.Available(node); {
		case !ok:
			return count(availabilityUnknown)
		case status == model.OK:
			return count(available)
		}
		return count(unavailable)
	}
	return item.Value{}, fmt.Errorf("the server does not measure %s", k.Name)
}
