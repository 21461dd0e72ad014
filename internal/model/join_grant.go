package model

import (
	"maps"
	"slices"
)

// Source describes the origin: join token ID, or an operator's approval.
func (g *JoinGrant) Source() string {
	if g.Token == "" {
		return "operator who accepted it"
	}
	return "join token " + g.Token
}

// Empty reports whether the grant holds nothing; nil is empty.
func (g *JoinGrant) Empty() bool {
	return g == nil || g.Token == "" && len(g.Groups) == 0 && len(g.Labels) == 0 && g.Lifecycle == nil
}

// AssignedGroups returns the groups that operators or the join token put the node into, each once.
func (s *NodeSpec) AssignedGroups() []string { return s.withGiven(s.Groups) }

// JoinableGroups returns the groups that the agent may join by itself, each once.
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

// EffectiveLifecycle returns the declared lifecycle, else the granted one; nil: the default.
func (s *NodeSpec) EffectiveLifecycle() *Lifecycle {
	if s.Lifecycle == nil && s.JoinGrant != nil {
		return s.JoinGrant.Lifecycle
	}
	return s.Lifecycle
}

// OperatorLabels returns the labels of operators and join tokens; declared ones win. The caller must not change
// the map.
func (s *NodeSpec) OperatorLabels(meta Metadata) map[string]string {
	if s.JoinGrant == nil || len(s.JoinGrant.Labels) == 0 {
		return meta.Labels
	}
	labels := maps.Clone(s.JoinGrant.Labels)
	maps.Copy(labels, meta.Labels)
	return labels
}
