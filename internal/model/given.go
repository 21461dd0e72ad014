package model

import (
	"maps"
	"slices"
)

// Source says in words who gave it: join token ID, or operator who accepted it.
func (g *Given) Source() string {
	if g.Token == "" {
		return "operator who accepted it"
	}
	return "join token " + g.Token
}

// Empty says whether nothing is given; nil is empty.
func (g *Given) Empty() bool {
	return g == nil || g.Token == "" && len(g.Groups) == 0 && len(g.Labels) == 0 && g.Lifecycle == nil
}

// AllGroups are those that operators or the join token put the node into, each once.
func (s *NodeSpec) AllGroups() []string { return s.withGiven(s.Groups) }

// AllMayJoin are those that the agent may put itself into, each once.
func (s *NodeSpec) AllMayJoin() []string { return s.withGiven(s.MayJoin) }

func (s *NodeSpec) withGiven(groups []string) []string {
	if s.Given == nil {
		return groups
	}
	all := slices.Clone(groups)
	for _, group := range s.Given.Groups {
		if !slices.Contains(all, group) {
			all = append(all, group)
		}
	}
	return all
}

// Life is the lifecycle in force: what is declared, or else what is given; nil: the default.
func (s *NodeSpec) Life() *Lifecycle {
	if s.Lifecycle == nil && s.Given != nil {
		return s.Given.Lifecycle
	}
	return s.Lifecycle
}

// ServerLabels are the labels of a node that operators and join tokens say, declared ones
// first. The map is not the caller's.
func (s *NodeSpec) ServerLabels(meta Metadata) map[string]string {
	if s.Given == nil || len(s.Given.Labels) == 0 {
		return meta.Labels
	}
	labels := maps.Clone(s.Given.Labels)
	maps.Copy(labels, meta.Labels)
	return labels
}
