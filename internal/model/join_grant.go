package model

import (
	"maps"
	"slices"
)

// Source says in words who gave it: join token ID, or operator who accepted it.
func (g *JoinGrant) Source() string {
	if g.Token == "" {
		return "operator who accepted it"
	}
	return "join token " + g.Token
}

// Empty says whether nothing is given; nil is empty.
func (g *JoinGrant) Empty() bool {
	return g == nil || g.Token == "" && len(g.Groups) == 0 && len(g.Labels) == 0 && g.Lifecycle == nil
}

// AssignedGroups are those that operators or the join token put the node into, each once.
func (s *NodeSpec) AssignedGroups() []string { return s.withGiven(s.Groups) }

// JoinableGroups are those that the agent may put itself into, each once.
func (s *NodeSpec) JoinableGroups() []string { return s.withGiven(s.MayJoin) }

func (s *NodeSpec) withGiven(groups []string) []string {
	if s.JoinGrant == nil {
		return groups
	}
	all := slices.Clone(groups)
	for _, group := range s.JoinGrant.Groups {
		if !slices.Contains(all, group) {
			all = append(all, group)
		}
	}
	return all
}

// EffectiveLifecycle is the lifecycle in force: what is declared, or else what is given; nil: the default.
func (s *NodeSpec) EffectiveLifecycle() *Lifecycle {
	if s.Lifecycle == nil && s.JoinGrant != nil {
		return s.JoinGrant.Lifecycle
	}
	return s.Lifecycle
}

// OperatorLabels are the labels of a node that operators and join tokens say, declared ones
// first. The map is not the caller's.
func (s *NodeSpec) OperatorLabels(meta Metadata) map[string]string {
	if s.JoinGrant == nil || len(s.JoinGrant.Labels) == 0 {
		return meta.Labels
	}
	labels := maps.Clone(s.JoinGrant.Labels)
	maps.Copy(labels, meta.Labels)
	return labels
}
