package intent

import (
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// What a machine says of itself is kept with its node and recorded with every change:
// so it is bounded. Beyond a bound nothing of it is taken, what was known stays, and the
// operator hears why.
const (
	maxFacts      = 256
	maxSaidGroups = 64
	maxSaidBytes  = 32 << 10 // of facts or of labels, keys and values
)

// unsaidLabels says why labels are not taken; empty: they are.
func (s *Service) unsaidLabels(namespace string, labels map[string]string) (reason string) {
	if most := s.LimitsFor(namespace).Labels; most > 0 && len(labels) > most {
		return fmt.Sprintf("the agent says %d labels, namespace %s allows %d", len(labels), namespace, most)
	}
	size := 0
	for key, value := range labels {
		if err := model.LabelError(key, value); err != nil {
			return fmt.Sprintf("the agent says a label that is none: %v", err)
		}
		size += len(key) + len(value)
	}
	if size > maxSaidBytes {
		return fmt.Sprintf("the agent says %d bytes of labels, at most %d", size, maxSaidBytes)
	}
	return ""
}

func unsaidGroups(namespace string, groups []string) (reason string) {
	if len(groups) > maxSaidGroups {
		return fmt.Sprintf("the agent wants to be in %d groups, at most %d", len(groups), maxSaidGroups)
	}
	for _, group := range groups {
		ns, name := model.SplitRef(namespace, group)
		if err := model.NameError(name); err != nil {
			return fmt.Sprintf("the agent wants to be in a group that is none: %v", err)
		}
		if ns != namespace && ns != model.SharedNamespaceName {
			return fmt.Sprintf("the agent wants to be in group %s, which is of another namespace than its node", group)
		}
	}
	return ""
}

func unsaidFacts(facts map[string]string) (reason string) {
	if len(facts) > maxFacts {
		return fmt.Sprintf("the agent says %d facts, at most %d", len(facts), maxFacts)
	}
	size := 0
	for key, value := range facts {
		size += len(key) + len(value)
	}
	if size > maxSaidBytes {
		return fmt.Sprintf("the agent says %d bytes of facts, at most %d", size, maxSaidBytes)
	}
	return ""
}
