package plan

import (
	"maps"
	"slices"
	"strings"
	"unique"

	"github.com/muster-fleet/muster/internal/model"
)

// A pair is a label or fact. Both halves are shared by all nodes that have the
// same text, so that a fleet of equal machines costs 16 bytes per label.
type pair struct{ key, value unique.Handle[string] }

// pairs are ascending by key, each key once.
type pairs []pair

func makePairs(m map[string]string) pairs {
	if len(m) == 0 {
		return nil
	}
	p := make(pairs, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		p = append(p, pair{unique.Make(key), unique.Make(m[key])})
	}
	return p
}

func (p pairs) get(key string) (string, bool) {
	i, ok := slices.BinarySearchFunc(p, key, func(x pair, key string) int { return strings.Compare(x.key.Value(), key) })
	if !ok {
		return "", false
	}
	return p[i].value.Value(), true
}

func (p pairs) toMap() map[string]string {
	m := make(map[string]string, len(p))
	for _, x := range p {
		m[x.key.Value()] = x.value.Value()
	}
	return m
}

// EffectiveLabels merges the labels of a node by owner: those the server keeps
// (metadata) over those of the agent's configuration over measured facts.
func EffectiveLabels(meta model.Metadata, spec *model.NodeSpec) map[string]string {
	labels := make(map[string]string, len(meta.Labels)+len(spec.AgentLabels)+len(spec.Facts))
	maps.Copy(labels, spec.Facts)
	maps.Copy(labels, spec.AgentLabels)
	maps.Copy(labels, meta.Labels)
	return labels
}
