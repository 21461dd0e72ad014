package muster

import "time"

// Budget is what one node of another source may send: the limits are those of our own
// agents, and it draws from the same bucket of its namespace.
type Budget struct {
	srv  *Server
	node string
	own  bucket
	team *team
}

// Budget begins one, for a session.
func (s *Server) Budget(node *Node) *Budget {
	return &Budget{srv: s, node: node.Name, team: s.team(node.Namespace)}
}

// Take pays for n results, and says how long to wait before the next, and which limit it is
// that makes it wait.
func (b *Budget) Take(n int) (wait time.Duration, limit string) {
	limits := b.team.limits.Load()
	now, burst := b.srv.sinceBegan(), b.srv.cfg.Limits.RateBurst
	own, all := b.own.take(n, limits.NodeResultsPerSec, burst, now), b.team.buckets[loadResults].take(n, limits.ResultsPerSec, burst, now)
	if all > own {
		return all, "namespace_rate"
	}
	return own, "node_rate"
}

// OutputBytes is the longest output that a result may have.
func (b *Budget) OutputBytes() int { return b.team.limits.Load().OutputBytes }

// Hit counts and remembers that a limit was met.
func (b *Budget) Hit(limit, reason string) { b.srv.hit(b.team, b.node, limit, reason) }
