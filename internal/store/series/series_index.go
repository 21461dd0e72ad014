package series

import (
	"strings"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/index"
)

// indexStripes is the number of parts of the index by labels, each with its own mutex.
const indexStripes = 64

// seriesIndex finds the series in memory by their labels. Two partitions may have series with the same labels, of a
// node that was deleted and made again: these twins share a reference.
//
// Writers find a new series at once, and queries find it after publish. Postings of all series share one mutex, and writers
// that create many series would wait for it. Lock order: mu, then a stripe, then created or counts.
type seriesIndex struct {
	stripes [indexStripes]indexStripe
	counts  seriesCounts
	created createdSeries

	mu       sync.RWMutex // guards the rest
	postings *index.MemPostings
	byRef    map[storage.SeriesRef]*headSeries // further twins by headSeries.twin
	last     storage.SeriesRef
}

// indexStripe has the series whose hash of labels has a certain remainder.
type indexStripe struct {
	mu     sync.Mutex
	byHash map[uint64]*headSeries // further series with that hash by headSeries.next
}

// createdSeries has the series without a reference, in the order of their creation.
type createdSeries struct {
	mu   sync.Mutex
	list []*headSeries
}

// newIndex returns an empty index.
func newIndex() *seriesIndex {
	x := &seriesIndex{postings: index.NewMemPostings(), byRef: map[storage.SeriesRef]*headSeries{}}
	for i := range x.stripes {
		x.stripes[i].byHash = map[uint64]*headSeries{}
	}
	x.counts = seriesCounts{namespaces: map[string]*seriesCount{}, checks: map[uint64]int32{}}
	return x
}

// seriesCounts counts the series of namespaces and of checks. Twins count once.
type seriesCounts struct {
	mu         sync.RWMutex
	namespaces map[string]*seriesCount
	checks     map[uint64]int32 // numbers, by checkHash
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
	if bound || l.Get(LabelCheck) == "" || l.Get(LabelNode) == "" {
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

// ofNamespace returns the limit of series in a namespace, or zero for no limit.
func (s seriesLimits) ofNamespace(namespace string) int {
	if s.namespace == nil {
		return 0
	}
	return s.namespace(namespace)
}

// find returns the series of a partition with given labels, and makes a missing one. It returns nil with the reason
// if a limit is reached. For a new series of values, only series of values count towards the limit of the namespace.
// For a bound, series of bounds count, too. Bounds get no values any more while both together exceed the limit, and
// so leave the head. Call it with the partition's mutex. The labels stay the caller's.
func (x *seriesIndex) find(p *headPartition, l labels.Labels, limits seriesLimits) (*headSeries, Outcome) {
	hash := l.Hash()
	stripe := x.stripe(hash)
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	of, twin := stripe.search(p, hash, l)
	if of != nil {
		if of.bound && x.counts.isExceeded(l.Get(LabelNamespace), limits) {
			return nil, NamespaceFull
		}
		return of, Stored
	}
	bound := isBound(l)
	if twin == nil {
		if full := x.counts.add(l, bound, limits); full != Stored {
			return nil, full
		}
	}
	of = &headSeries{labels: l.Copy(), partition: p, next: stripe.byHash[hash], twin: twin, bound: bound}
	stripe.byHash[hash] = of
	p.series = append(p.series, of)
	x.created.mu.Lock() // in the stripe's mutex, so that a series comes behind its twin
	x.created.list = append(x.created.list, of)
	x.created.mu.Unlock()
	return of, Stored
}

// stripe returns the part of the index that has the series with a hash.
func (x *seriesIndex) stripe(hash uint64) *indexStripe { return &x.stripes[hash%indexStripes] }

// publish gives each created series a reference and postings, so that queries find the series.
func (x *seriesIndex) publish() {
	x.mu.RLock() // not while another goroutine publishes
	x.created.mu.Lock()
	none := len(x.created.list) == 0
	x.created.mu.Unlock()
	x.mu.RUnlock()
	if none {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.publishLocked()
}

// publishLocked publishes the created series, for callers with mu.
func (x *seriesIndex) publishLocked() {
	x.created.mu.Lock()
	list := x.created.list
	x.created.list = nil
	x.created.mu.Unlock()
	for _, of := range list {
		if of.twin != nil {
			if of.twin = x.publishedTwin(of); of.twin == nil { // it has left the head, and its count
				x.counts.add(of.labels, of.bound, seriesLimits{})
			}
		}
		if of.twin != nil {
			of.ref, of.twin = of.twin.ref, x.byRef[of.twin.ref]
		} else {
			x.last++
			of.ref = x.last
			x.postings.Add(of.ref, of.labels)
		}
		x.byRef[of.ref] = of
	}
}

// publishedTwin returns a series of another partition that has the labels of a series, and a reference. Call it with mu.
func (x *seriesIndex) publishedTwin(of *headSeries) *headSeries {
	hash := of.labels.Hash()
	stripe := x.stripe(hash)
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	for twin := stripe.byHash[hash]; twin != nil; twin = twin.next {
		if twin.ref != 0 && labels.Equal(twin.labels, of.labels) {
			return twin
		}
	}
	return nil
}

// isExceeded reports whether a namespace has more series, of values and of bounds, than its limit.
func (c *seriesCounts) isExceeded(namespace string, limits seriesLimits) bool {
	limit := limits.ofNamespace(namespace)
	c.mu.RLock()
	defer c.mu.RUnlock()
	count := c.namespaces[namespace]
	return limit > 0 && count != nil && count.values+count.bounds > limit
}

// add counts a new series and returns Stored, or returns the limit that refuses the series.
func (c *seriesCounts) add(l labels.Labels, bound bool, limits seriesLimits) Outcome {
	namespace, check := l.Get(LabelNamespace), checkHash(l, bound)
	limit := limits.ofNamespace(namespace)
	full := func() Outcome {
		taken := 0
		if count := c.namespaces[namespace]; count != nil {
			taken = count.values
			if bound {
				taken += count.bounds
			}
		}
		switch {
		case limit > 0 && taken+countOf(l) > limit:
			return NamespaceFull
		case limits.check > 0 && check != 0 && int(c.checks[check]) >= limits.check:
			return CheckFull
		}
		return Stored
	}
	c.mu.RLock() // refused values do not wait for each other
	refused := full()
	c.mu.RUnlock()
	if refused != Stored {
		return refused
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused := full(); refused != Stored {
		return refused
	}
	count := c.namespaces[namespace]
	if count == nil {
		count = new(seriesCount)
		c.namespaces[strings.Clone(namespace)] = count
	}
	if bound {
		count.bounds += countOf(l)
	} else {
		count.values += countOf(l)
	}
	if check != 0 {
		c.checks[check]++
	}
	return Stored
}

// remove subtracts a series that has left the head from the counts of its namespace and check.
func (c *seriesCounts) remove(of *headSeries) {
	c.mu.Lock()
	defer c.mu.Unlock()
	namespace := of.labels.Get(LabelNamespace)
	count := c.namespaces[namespace]
	if of.bound {
		count.bounds -= countOf(of.labels)
	} else {
		count.values -= countOf(of.labels)
	}
	if *count == (seriesCount{}) {
		delete(c.namespaces, namespace)
	}
	if check := checkHash(of.labels, of.bound); check != 0 {
		if c.checks[check]--; c.checks[check] <= 0 {
			delete(c.checks, check)
		}
	}
}

// valueSeries returns the number of series of values in a namespace.
func (c *seriesCounts) valueSeries(namespace string) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if count := c.namespaces[namespace]; count != nil {
		return count.values
	}
	return 0
}

// search finds a partition's series by its labels, or an equal series of a second partition (twin). Call it with mu.
func (s *indexStripe) search(p *headPartition, hash uint64, l labels.Labels) (of, twin *headSeries) {
	for of := s.byHash[hash]; of != nil; of = of.next {
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
	x.publishLocked()
	deleted, affected := map[storage.SeriesRef]struct{}{}, map[labels.Label]struct{}{}
	for _, of := range list {
		of.removed = true
		x.stripe(of.labels.Hash()).unlink(of)
		unlink(x.byRef, of.ref, of, func(s *headSeries) **headSeries { return &s.twin })
		if x.byRef[of.ref] != nil {
			continue
		}
		deleted[of.ref] = struct{}{}
		of.labels.Range(func(l labels.Label) { affected[l] = struct{}{} })
		x.counts.remove(of)
	}
	x.postings.Delete(deleted, affected)
}

// unlink removes a series from the stripe.
func (s *indexStripe) unlink(of *headSeries) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unlink(s.byHash, of.labels.Hash(), of, func(s *headSeries) **headSeries { return &s.next })
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

// list returns the series with the given references, and joins equal series of several partitions.
func (x *seriesIndex) list(refs []storage.SeriesRef, r *headReader) []selectedSeries {
	list, all := make([]selectedSeries, 0, len(refs)), make([]*headSeries, 0, len(refs))
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, ref := range refs {
		from := len(all)
		for of := x.byRef[ref]; of != nil; of = of.twin {
			all = append(all, of)
		}
		if len(all) > from {
			list = append(list, selectedSeries{r, all[from:len(all):len(all)]})
		}
	}
	return list
}
