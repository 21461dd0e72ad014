package remotewrite

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/muster-fleet/muster/internal/wire"
)

// cachedSeries is a cached series, with its labels in the sender's encoding and in the stored form.
type cachedSeries struct {
	namespace string
	key       string             // requestReader.labelKey
	labels    []wire.SeriesLabel // as stored
	section   int
	usedIn    atomic.Uint32 // the sweep period of its last sample
}

// size returns the approximate number of bytes that the series uses in memory.
func (x *cachedSeries) size() int { return len(x.key) + 32*len(x.labels) + 128 }

// Bounds of the series cache.
const (
	maxCacheBytes = 64 << 20         // of all series; further series are decoded with each sample
	sweepInterval = 10 * time.Minute // a full cache drops the series without a sample between two sweeps
)

// seriesCache finds a series by its encoded labels, without decoding the labels again. Only the first sample of a
// series costs their decoding, order and validation. Requests share it.
type seriesCache struct {
	mu     sync.RWMutex
	byHash map[uint64]*cachedSeries // of two series with one hash only the first is kept
	bytes  int
	sweeps uint32
	next   time.Time // of the next sweep
}

// hash returns the cache's hash of a namespace and of a series' encoded labels.
func (c *seriesCache) hash(namespace string, key []byte) uint64 {
	return xxhash.Sum64(key) ^ xxhash.Sum64String(namespace)
}

// find returns the cached series with given encoded labels in a namespace, or nil for an unknown series.
func (c *seriesCache) find(namespace string, key []byte) *cachedSeries {
	hash := c.hash(namespace, key)
	c.mu.RLock()
	defer c.mu.RUnlock()
	x := c.byHash[hash]
	if x == nil || x.namespace != namespace || x.key != string(key) {
		return nil
	}
	if x.usedIn.Load() != c.sweeps {
		x.usedIn.Store(c.sweeps)
	}
	return x
}

// space returns how many more bytes the cache of series may use.
func (c *seriesCache) space(now time.Time) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if space := maxCacheBytes - c.bytes; space > 0 || !now.After(c.next) {
		return space
	}
	return maxCacheBytes // add sweeps first
}

// add adds series to the cache until its memory limit is reached.
func (c *seriesCache) add(list []*cachedSeries, now time.Time) {
	if len(list) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes >= maxCacheBytes && now.After(c.next) {
		c.sweep(now)
	}
	if c.byHash == nil {
		c.byHash = map[uint64]*cachedSeries{}
	}
	for _, x := range list {
		hash := c.hash(x.namespace, []byte(x.key))
		if c.bytes >= maxCacheBytes || c.byHash[hash] != nil {
			continue
		}
		x.usedIn.Store(c.sweeps)
		c.byHash[hash] = x
		c.bytes += x.size()
	}
}

// sweep removes from the cache the series that got no sample since the last sweep. The caller holds the lock.
func (c *seriesCache) sweep(now time.Time) {
	for hash, x := range c.byHash {
		if x.usedIn.Load() != c.sweeps {
			delete(c.byHash, hash)
			c.bytes -= x.size()
		}
	}
	c.sweeps++
	c.next = now.Add(sweepInterval)
}

// newCachedSeries returns a cache entry for an accepted series and its encoded labels. Its memory is its own.
func newCachedSeries(namespace string, key []byte) *cachedSeries {
	key = bytes.Clone(key)
	labels, _ := appendLabels(nil, key, maxKey)
	labels = slices.Clone(setNamespace(labels, namespace)) // without the memory of empty labels
	return &cachedSeries{namespace: namespace, key: bytesAsString(key), labels: labels, section: sectionOf(labels)}
}
