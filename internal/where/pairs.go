package where

import (
	"maps"
	"slices"
	"strings"
	"unique"
)

// Pair is a label or fact. Nodes with equal texts share both halves, so a fleet of equal machines
// costs 16 bytes per label.
type Pair struct{ Key, Value unique.Handle[string] }

// Pairs is ascending by key, each key once. Immutable.
type Pairs []Pair

// MakePairs interns the entries of m.
func MakePairs(m map[string]string) Pairs {
	if len(m) == 0 {
		return nil
	}
	p := make(Pairs, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		p = append(p, Pair{unique.Make(key), unique.Make(m[key])})
	}
	return p
}

// Get returns the value of a key.
func (p Pairs) Get(key string) (string, bool) {
	i, ok := slices.BinarySearchFunc(p, key, func(x Pair, key string) int { return strings.Compare(x.Key.Value(), key) })
	if !ok {
		return "", false
	}
	return p[i].Value.Value(), true
}

// Map returns a copy.
func (p Pairs) Map() map[string]string {
	m := make(map[string]string, len(p))
	for _, x := range p {
		m[x.Key.Value()] = x.Value.Value()
	}
	return m
}
