package event

import (
	"cmp"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Summary has the number of a node's events by status, and the time of the node's last heartbeat.
type Summary struct {
	ByStatus      [4]uint64
	Problems      uint64
	Severity      model.Severity // of the worst
	Silent        bool           // the keepalive's deadline passed
	Stopped       bool           // it said goodbye: nothing is expected of it
	Limited       bool           // it has the event that says that it met a limit
	LastHeartbeat int64          // Unix ns of the last heartbeat; zero: never
	Silence       int64          // ns without a heartbeat after which the keepalive fails; zero: the node never had a session
}

// CountedStates returns the number of the node's events that count toward the limit statesPerNode. The event
// that reports the limit does not count.
func (s *Summary) CountedStates() uint64 {
	n := s.ByStatus[0] + s.NotOK()
	if s.Limited {
		n--
	}
	return n
}

// NotOK returns the number of events with a status other than OK.
func (s *Summary) NotOK() uint64 { return s.ByStatus[1] + s.ByStatus[2] + s.ByStatus[3] }

// RemainingNameProtection returns for how much longer no other machine may take the name of a silent node. The
// absence counts from the last of: the start of the server, the write of the node's row (a machine that just
// joined connects soon), the node's last heartbeat. A node that the listening clock does not call silent yet
// has at least a second left, unless it stopped on purpose or never connected.
func (s *Summary) RemainingNameProtection(need time.Duration, started, written, now time.Time) time.Duration {
	since := started
	for _, at := range []time.Time{written, time.Unix(0, s.LastHeartbeat)} {
		if at.After(since) {
			since = at
		}
	}
	wait := need - now.Sub(since)
	if s.LastHeartbeat != 0 && !s.Stopped && !s.Silent {
		wait = max(wait, time.Second)
	}
	return max(wait, 0)
}

// Summaries returns the event counts and the last heartbeat of each node in a list. It holds a partition's lock for
// one node at a time.
func (v *View) Summaries(nodes []model.NodeID) []Summary {
	out := make([]Summary, len(nodes))
	for i, id := range nodes {
		if p := v.partitionOf(id); p != nil {
			p.summarize(id, &out[i])
		}
	}
	return out
}

// summarize fills in a summary of a node with its events by status and its last heartbeat. It has the last heartbeat,
// a planned stop, and the number of event states by status.
func (p *eventPartition) summarize(id model.NodeID, out *Summary) {
	p.Lock()
	defer p.Unlock()
	at, ok := p.Find(id)
	if !ok {
		return
	}
	n := p.Node(at)
	out.LastHeartbeat, out.Stopped, out.Silence = n.LastSeen, n.Stopped, cmp.Or(n.Warning, n.Timeout)
	for _, e := range p.nodes[at].states {
		s := p.slots.slot(e.slot)
		out.ByStatus[s.status&3]++
		out.Severity = max(out.Severity, s.severity)
		if s.flags&flagProblemOpen != 0 {
			out.Problems++
		}
		out.Limited = out.Limited || e.check == model.LimitsCheck
		if e.check == model.KeepaliveCheck && s.status != model.OK {
			out.Silent = true
		}
	}
}

// CountsOf counts the events of one check by status over all nodes.
func (v *View) CountsOf(check model.CheckID) (sum Counts) {
	for _, p := range v.partitions {
		p.Lock()
		for _, slot := range p.byCheck[check] {
			s := p.slots.slot(slot)
			sum.States++
			sum.ByStatus[s.status&3]++
			if s.flags&flagProblemOpen != 0 {
				sum.Problems++
			}
		}
		p.Unlock()
	}
	return sum
}
