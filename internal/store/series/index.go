package series

import (
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/index"
)

// seriesIndex finds the series of the head by their labels. Two partitions may have series with the same labels, of a
// node that was deleted and made again: these twins share a reference.
type seriesIndex struct {
	mu         sync.RWMutex
	postings   *index.MemPostings
	byRef      map[storage.SeriesRef]*headSeries // further twins by headSeries.twin
	byHash     map[uint64]*headSeries            // further series with that hash by headSeries.next
	namespaces map[string]int                    // references
	last       storage.SeriesRef
}

// newIndex returns an empty index.
func newIndex() *seriesIndex {
	return &seriesIndex{
		postings: index.NewMemPostings(), byRef: map[storage.SeriesRef]*headSeries{}, byHash: map[uint64]*headSeries{}, namespaces: map[string]int{},
	}
}

// find returns the series of a partition with these labels, and makes a missing one; it returns nil if the namespace already
// has the maximum number of series (zero: no maximum). Call it with the partition's mutex. The labels stay the caller's.
func (x *seriesIndex) find(p *headPartition, l labels.Labels, limit int) *headSeries {
	hash := l.Hash()
	x.mu.RLock()
	of, _ := x.search(p, hash, l)
	x.mu.RUnlock()
	if of != nil {
		return of
	}
	x.mu.Lock() // no other goroutine makes a series of this partition; one may have made a twin
	defer x.mu.Unlock()
	_, twin := x.search(p, hash, l)
	l = l.Copy()
	of = &headSeries{labels: l, partition: p, next: x.byHash[hash]}
	if twin != nil {
		of.ref, of.twin = twin.ref, x.byRef[twin.ref]
	} else {
		namespace := l.Get(LabelNamespace)
		if limit > 0 && x.namespaces[namespace] >= limit {
			return nil
		}
		x.namespaces[namespace]++
		x.last++
		of.ref = x.last
		x.postings.Add(of.ref, l)
	}
	x.byHash[hash], x.byRef[of.ref] = of, of
	p.series = append(p.series, of)
	return of
}

// search returns the series of a partition with these labels; without one it returns a twin: a series of another partition with
// these labels. Call it with mu.
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

// remove removes series from the index because they have no values in the head any more. Call it with the mutex of
// their partition.
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
		namespace := of.labels.Get(LabelNamespace)
		if x.namespaces[namespace]--; x.namespaces[namespace] == 0 {
			delete(x.namespaces, namespace)
		}
	}
	x.postings.Delete(deleted, affected)
}

// unlink removes a series from a linked list; the map has the first series of each list under a key.
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

// get returns the series with a reference; series of several partitions with equal labels share one reference.
func (x *seriesIndex) get(ref storage.SeriesRef, list []*headSeries) []*headSeries {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for of := x.byRef[ref]; of != nil; of = of.twin {
		list = append(list, of)
	}
	return list
}

// list returns the series with these references; series of several partitions with equal labels become one.
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
