// Package shares divides a budget of bytes among namespaces and nodes, so that no node pushes the history of others out. It has only
// pure functions; start reading at Quotas.
package shares

import (
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// Holder is a node that uses part of a store's bytes, with its namespace. Its namespace is that of the time when its
// rows were written.
type Holder struct {
	Node      model.NodeID
	Namespace string
}

// fairShare returns how many bytes each holder may keep, so that all together keep at most total bytes. Holders
// below the limit keep all their bytes.
func fairShare(held []int64, total int64) int64 {
	slices.Sort(held)
	for i, bytes := range held {
		share := total / int64(len(held)-i)
		if bytes > share {
			return max(share, 0)
		}
		total -= bytes
	}
	return total
}

// Quotas returns how many bytes of each node (holder) must be removed to reach a size limit. A holder is a node in a
// namespace. All holders together then keep at most keep bytes. Namespaces have equal shares, and so have the nodes of
// a namespace; a holder within its share loses nothing.
func Quotas(held map[Holder]int64, keep int64) map[Holder]int64 {
	nodes, sums := map[string][]int64{}, map[string]int64{}
	for h, bytes := range held {
		nodes[h.Namespace] = append(nodes[h.Namespace], bytes)
		sums[h.Namespace] += bytes
	}
	share := fairShare(slices.Collect(maps.Values(sums)), keep)
	quotas := map[Holder]int64{}
	shares := map[string]int64{} // of a node in a namespace beyond its share
	for namespace, list := range nodes {
		if sums[namespace] > share {
			shares[namespace] = fairShare(list, share)
		}
	}
	for h, bytes := range held {
		if most, beyond := shares[h.Namespace]; beyond && bytes > most {
			quotas[h] = bytes - most
		}
	}
	return quotas
}
