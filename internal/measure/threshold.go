package measure

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Judge compares values with thresholds. It returns the worst of status and all exceeded
// thresholds, and a line for each exceeded threshold.
func Judge(status model.Status, values []model.Value, thresholds []model.Threshold) (_ model.Status, lines []string) {
	for i := range thresholds {
		if raised, line := judge(values, &thresholds[i]); raised != model.OK {
			lines = append(lines, line)
			if worse(raised, status) {
				status = raised
			}
		}
	}
	return status, lines
}

// worse orders statuses OK, WARNING, UNKNOWN, CRITICAL.
func worse(a, b model.Status) bool {
	rank := [4]int{model.Warning: 1, model.Unknown: 2, model.Critical: 3}
	return rank[a&3] > rank[b&3]
}

// judge compares all values of one threshold's metric; the worst counts.
func judge(values []model.Value, t *model.Threshold) (status model.Status, line string) {
	found := false
	for i := range values {
		v := &values[i]
		if v.Name != t.Metric || !has(v.Tags, t.Tags) {
			continue
		}
		found = true
		for _, rule := range []struct {
			status model.Status
			*model.Bounds
		}{{model.Critical, t.Critical}, {model.Unknown, t.Unknown}, {model.Warning, t.Warning}} {
			if excess := exceeded(v.Value, rule.Bounds); excess != "" && worse(rule.status, status) {
				status, line = rule.status, fmt.Sprintf("%s: %s is %v, %s", rule.status, labelled(v.Name, v.Tags), v.Value, excess)
			}
		}
	}
	if !found && t.Missing != "" {
		status, _ = model.ParseStatus(t.Missing)
		return status, fmt.Sprintf("%s: there is no %s in the output", status, labelled(t.Metric, t.Tags))
	}
	return status, line
}

func has(tags, want map[string]string) bool {
	for k, v := range want {
		if got, ok := tags[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// exceeded describes the bound that v exceeds; empty for none.
func exceeded(v float64, b *model.Bounds) string {
	switch {
	case b == nil:
	case b.Max != nil && v > *b.Max:
		return fmt.Sprintf("more than %v", *b.Max)
	case b.Min != nil && v < *b.Min:
		return fmt.Sprintf("less than %v", *b.Min)
	}
	return ""
}

// labelled returns NAME{KEY=VALUE,…}, keys sorted.
func labelled(name string, tags map[string]string) string {
	if len(tags) == 0 {
		return name
	}
	var list []string
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, k+"="+tags[k])
	}
	return name + "{" + strings.Join(list, ",") + "}"
}
