package series

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/index"
)

// seriesIndex finds the series in memory by their labels. Two partitions may have series with the same labels, of a
// node that was deleted and made again: these twins share a reference.
type seriesIndex struct {
	mu         sync.RWMutex
	postings   *index.MemPostings
	byRef      map[storage.SeriesRef]*headSeries // further twins by headSeries.twin
	byHash     map[uint64]*headSeries            // further series with that hash by headSeries.next
	namespaces map[string]seriesCount            // references
	checks     map[uint64]int32                  // references of numbers, by checkHash
	last       storage.SeriesRef
}

// newIndex returns an empty index.
func newIndex() *seriesIndex {
	return &seriesIndex{
		postings: index.NewMemPostings(), byRef: map[storage.SeriesRef]*headSeries{}, byHash: map[uint64]*headSeries{}, namespaces: map[string]seriesCount{}, checks: map[uint64]int32{},
	}
}

// seriesCount counts the series of a namespace, separately for values and for thresholds of checks. values
// counts the series of values, bounds the series of bounds of numbers in check results. Long labels count as more series.
type seriesCount struct{ values, bounds int }

// labelUnit is the length of labels in bytes that one more series counts for.
const labelUnit = 1024

// countOf returns the number for which a series counts toward the limit of its namespace. It is 1 for usual labels.
func countOf(l labels.Labels) int { return 1 + int(l.ByteSize())/labelUnit }

// checkHash returns a hash that identifies a check on a node, or zero for other series. It is zero if the
// series has no number of a check.
func checkHash(l labels.Labels, bound bool) uint64 {
	if bound || l.Get(LabelNode) == "" {
		return 0
	}
	if _, ok := PerformanceDataKind(l); !ok {
		return 0
	}
	h, _ := l.HashForLabels(nil, LabelCheck, LabelNamespace, LabelNode)
	return h
}

// seriesLimits has the limits Options.MaxSeries and Options.MaxCheckSeries.
type seriesLimits struct {
	namespace func(string) int // nil: no limit
	check     int
}

// ofNamespace returns the limit of series in the namespace of some labels, or zero for no limit.
func (s seriesLimits) ofNamespace(l labels.Labels) int {
	if s.namespace == nil {
		return 0
	}
	return s.namespace(l.Get(LabelNamespace))
}

// find returns the series of a partition with given labels, and makes a missing one. It returns nil with the reason
// if a limit is reached. For a new series of values, only series of values count towards the limit of the namespace.
// For a bound, series of bounds count, too. Bounds get no values any more while both together exceed the limit, and
// so leave the head. Call it with the partition's mutex. The labels stay the caller's.
func (x *seriesIndex) find(p *headPartition, l labels.Labels, limits seriesLimits) (*headSeries, Outcome) {
	hash := l.Hash()
	x.mu.RLock()
	of, twin := x.search(p, hash, l)
	full := Stored
	switch {
	case of != nil && of.bound:
		count := x.namespaces[l.Get(LabelNamespace)]
		if limit := limits.ofNamespace(l); limit > 0 && count.values+count.bounds > limit {
			full = NamespaceFull
		}
	case of == nil && twin == nil:
		full = x.checkNew(l, isBound(l), limits) // refused values do not wait for each other
	}
	x.mu.RUnlock()
	if full != Stored {
		return nil, full
	}
	if of != nil {
		return of, Stored
	}
	x.mu.Lock() // no other goroutine makes a series of this partition; one may have made a twin
	defer x.mu.Unlock()
	_, twin = x.search(p, hash, l)
	bound := isBound(l)
	if twin == nil {
		if full := x.countNew(l, bound, limits); full != Stored {
			return nil, full
		}
	}
	l = l.Copy()
	of = &headSeries{labels: l, partition: p, next: x.byHash[hash], bound: bound}
	if twin != nil {
		of.ref, of.twin = twin.ref, x.byRef[twin.ref]
	} else {
		x.last++
		of.ref = x.last
		x.postings.Add(of.ref, l)
	}
	x.byHash[hash], x.byRef[of.ref] = of, of
	p.series = append(p.series, of)
	return of, Stored
}

// checkNew returns the limit that refuses a new series, or Stored. Call it with mu, at least for reading.
func (x *seriesIndex) checkNew(l labels.Labels, bound bool, limits seriesLimits) Outcome {
	check, count := checkHash(l, bound), x.namespaces[l.Get(LabelNamespace)]
	taken := count.values
	if bound {
		taken += count.bounds
	}
	switch limit := limits.ofNamespace(l); {
	case limit > 0 && taken+countOf(l) > limit:
		return NamespaceFull
	case limits.check > 0 && check != 0 && int(x.checks[check]) >= limits.check:
		return CheckFull
	}
	return Stored
}

// countNew counts a new series and returns Stored, or returns the limit that refuses the series. Call it with mu.
func (x *seriesIndex) countNew(l labels.Labels, bound bool, limits seriesLimits) Outcome {
	if full := x.checkNew(l, bound, limits); full != Stored {
		return full
	}
	check, count := checkHash(l, bound), x.namespaces[l.Get(LabelNamespace)]
	if bound {
		count.bounds += countOf(l)
	} else {
		count.values += countOf(l)
	}
	x.namespaces[strings.Clone(l.Get(LabelNamespace))] = count
	if check != 0 {
		x.checks[check]++
	}
	return Stored
}

// removeFromCounts subtracts a removed series from the series counts of its namespace and check. Call it with
// mu.
func (x *seriesIndex) removeFromCounts(of *headSeries) {
	namespace := of.labels.Get(LabelNamespace)
	count := x.namespaces[namespace]
	if of.bound {
		count.bounds -= countOf(of.labels)
	} else {
		count.values -= countOf(of.labels)
	}
	if x.namespaces[namespace] = count; count == (seriesCount{}) {
		delete(x.namespaces, namespace)
	}
	if check := checkHash(of.labels, of.bound); check != 0 {
		if x.checks[check]--; x.checks[check] <= 0 {
			delete(x.checks, check)
		}
	}
}

// seriesCount returns the number of series of values in a namespace.
func (x *seriesIndex) seriesCount(namespace string) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.namespaces[namespace].values
}

// search finds a partition's series by its labels, or an equal series of a second partition (twin). A twin is an equal
// series. Call it with mu.
func (x *seriesIndex) search(p *headPartition, hash uint64, l labels.Labels) (of, twin *headSeries) {
	for of := x.byHash[hash]; of != nil; of = of.next {
		if labels.Equal(of.labels, l) {
			if of.partition == p {
				return of, nil
			}
			twin = of
		}
	}
	return nil, twin
}

// remove removes series without recent values from the index. Call it with the mutex of their partition.
func (x *seriesIndex) remove(list []*headSeries) {
	if len(list) == 0 {
		return // the postings would copy the list of all series
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	deleted, affected := map[storage.SeriesRef]struct{}{}, map[labels.Label]struct{}{}
	for _, of := range list {
		of.removed = true
		unlink(x.byHash, of.labels.Hash(), of, func(s *headSeries) **headSeries { return &s.next })
		unlink(x.byRef, of.ref, of, func(s *headSeries) **headSeries { return &s.twin })
		if x.byRef[of.ref] != nil {
			continue
		}
		deleted[of.ref] = struct{}{}
		of.labels.Range(func(l labels.Label) { affected[l] = struct{}{} })
		x.removeFromCounts(of)
	}
	x.postings.Delete(deleted, affected)
}

// unlink removes a series from the linked list under a key of a map. The map has the first series of each list under a
// key.
func unlink[K comparable](m map[K]*headSeries, key K, of *headSeries, next func(*headSeries) **headSeries) {
	if m[key] == of {
		if m[key] = *next(of); m[key] == nil {
			delete(m, key)
		}
		return
	}
	for s := m[key]; s != nil; s = *next(s) {
		if *next(s) == of {
			*next(s) = *next(of)
			return
		}
	}
}

// get returns all series with a reference, which twins (equal series of several partitions) share. Series of several
// partitions with equal labels share one reference.
func (x *seriesIndex) get(ref storage.SeriesRef, list []*headSeries) []*headSeries {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for of := x.byRef[ref]; of != nil; of = of.twin {
		list = append(list, of)
	}
	return list
}

// list returns the series with the given references, and joins equal series of several partitions. Series of
// several partitions with equal labels become one.
func (x *seriesIndex) list(refs []storage.SeriesRef, r *headReader) []selectedSeries {
	list, all := make([]selectedSeries, 0, len(refs)), make([]*headSeries, 0, len(refs))
	for part := range slices.Chunk(refs, 1024) { // new series need not wait for all
		x.mu.RLock()
		for _, ref := range part {
			from := len(all)
			for of := x.byRef[ref]; of != nil; of = of.twin {
				all = append(all, of)
			}
			if len(all) > from {
				list = append(list, selectedSeries{r, all[from:len(all):len(all)]})
			}
		}
		x.mu.RUnlock()
	}
	return list
}
