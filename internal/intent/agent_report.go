package intent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/muster-fleet/muster/internal/model"
)

// AgentReport is the self-description of an agent: measured facts, labels of its configuration, and wanted groups.
type AgentReport struct {
	Facts, Labels map[string]string
	Groups        []string
	// Hears names the wanted receivers of its keepalive; nil: the agent names none.
	Hears *model.KeepaliveReceivers
}

// recordedReport returns the report in a node's row.
func recordedReport(spec *model.NodeSpec) AgentReport {
	return AgentReport{spec.Facts, spec.AgentLabels, spec.AgentGroups, spec.AgentReceivers}
}

// orElse fills the parts that were not accepted (nil) from the report on record.
func (s AgentReport) orElse(before AgentReport) AgentReport {
	if s.Facts == nil {
		s.Facts = before.Facts
	}
	if s.Labels == nil {
		s.Labels = before.Labels
	}
	if s.Groups == nil {
		s.Groups = before.Groups
	}
	if s.Hears == nil {
		s.Hears = before.Hears
	}
	return s
}

func (s AgentReport) equal(o AgentReport) bool {
	return maps.Equal(s.Facts, o.Facts) && maps.Equal(s.Labels, o.Labels) && slices.Equal(s.Groups, o.Groups) && s.Hears.Equal(o.Hears)
}

// fingerprint returns a hash that ignores the order of facts and labels.
func (s AgentReport) fingerprint() uint64 {
	sum := uint64(len(s.Facts))<<40 | uint64(len(s.Labels))<<20 | uint64(len(s.Groups))
	add := func(seed uint64, k, v string) {
		d := xxhash.NewWithSeed(seed)
		_, _ = d.WriteString(k)
		_, _ = d.WriteString("\x00")
		_, _ = d.WriteString(v)
		sum += d.Sum64()
	}
	for k, v := range s.Facts {
		add(0, k, v)
	}
	for k, v := range s.Labels {
		add(1, k, v)
	}
	for _, g := range s.Groups {
		add(2, g, "")
	}
	if !s.Hears.Empty() {
		add(3, strings.Join(s.Hears.Handlers, "\x00"), strings.Join(s.Hears.Pipelines, "\x00"))
	}
	return sum
}

// sortedGroups returns groups in order, each once; never nil.
func sortedGroups(groups []string) []string {
	sorted := append([]string{}, groups...)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// Bounds of a report: it is stored with its node and recorded with every change. A part over its bound is dropped, the
// recorded part stays, and the operator sees the reason.
const (
	maxFacts        = 256
	maxReportGroups = 64
	maxReportBytes  = 32 << 10 // of facts or of labels, keys and values
)

// rejectLabels returns why labels are not accepted; empty: they are.
func (r *repository) rejectLabels(namespace string, labels map[string]string) (reason string) {
	if most := r.namespaces.limitsByName(namespace).Labels; most > 0 && len(labels) > most {
		return fmt.Sprintf("the agent says %d labels, namespace %s allows %d", len(labels), namespace, most)
	}
	size := 0
	for key, value := range labels {
		if err := model.LabelError(key, value); err != nil {
			return fmt.Sprintf("the agent says a label that is none: %v", err)
		}
		size += len(key) + len(value)
	}
	if size > maxReportBytes {
		return fmt.Sprintf("the agent says %d bytes of labels, at most %d", size, maxReportBytes)
	}
	return ""
}

// rejectGroups returns why groups are not accepted; empty: they are.
func rejectGroups(namespace string, groups []string) (reason string) {
	if len(groups) > maxReportGroups {
		return fmt.Sprintf("the agent wants to be in %d groups, at most %d", len(groups), maxReportGroups)
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

// rejectFacts returns why facts are not accepted; empty: they are.
func rejectFacts(facts map[string]string) (reason string) {
	if len(facts) > maxFacts {
		return fmt.Sprintf("the agent says %d facts, at most %d", len(facts), maxFacts)
	}
	size := 0
	for key, value := range facts {
		size += len(key) + len(value)
	}
	if size > maxReportBytes {
		return fmt.Sprintf("the agent says %d bytes of facts, at most %d", size, maxReportBytes)
	}
	return ""
}
