package directory

import (
	"hash/maphash"
	"iter"
	"maps"
)

// shards is the number of parts of a Map. A map of 20,000 nodes has 80 entries in each.
const shards = 256

var seed = maphash.MakeSeed()

func shardOf[K comparable](key K) uint8 { return uint8(maphash.Comparable(seed, key)) }

// Map is an immutable map in 256 shards. Versions of a map share the shards in which they agree: an edit
// of n keys copies at most n shards, whatever the size of the map. The zero Map is empty.
type Map[K comparable, V any] struct {
	shards *[shards]map[K]V
	size   int
}

// Get returns the value of a key.
func (m Map[K, V]) Get(key K) (v V, ok bool) {
	if m.shards == nil {
		return v, false
	}
	v, ok = m.shards[shardOf(key)][key]
	return v, ok
}

// Value returns the value of a key; the zero value: the map has none.
func (m Map[K, V]) Value(key K) V {
	v, _ := m.Get(key)
	return v
}

// Len returns the number of keys.
func (m Map[K, V]) Len() int { return m.size }

// All yields keys and values in no order.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.shards == nil {
			return
		}
		for _, shard := range m.shards {
			for k, v := range shard {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// mapDraft is the next version of a Map. It owns the shards that it has copied since the last seal.
// One goroutine uses it.
type mapDraft[K comparable, V any] struct {
	Map[K, V]
	changed bool
	owned   [shards]bool
}

// shard returns the shard of a key for writing.
func (d *mapDraft[K, V]) shard(key K) map[K]V {
	if !d.changed {
		next := new([shards]map[K]V)
		if d.shards != nil {
			*next = *d.shards
		}
		d.shards, d.changed = next, true
	}
	i := shardOf(key)
	if !d.owned[i] {
		d.owned[i] = true
		if d.shards[i] = maps.Clone(d.shards[i]); d.shards[i] == nil {
			d.shards[i] = map[K]V{}
		}
	}
	return d.shards[i]
}

func (d *mapDraft[K, V]) set(key K, v V) {
	shard := d.shard(key)
	before := len(shard)
	shard[key] = v
	d.size += len(shard) - before
}

func (d *mapDraft[K, V]) delete(key K) {
	if _, ok := d.Get(key); ok {
		delete(d.shard(key), key)
		d.size--
	}
}

// seal returns the map for readers. The draft copies shards again from now on.
func (d *mapDraft[K, V]) seal() Map[K, V] {
	if d.changed {
		d.changed, d.owned = false, [shards]bool{}
	}
	return d.Map
}
