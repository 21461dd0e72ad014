package scenario

import "strings"

// stagePrefix is before a stage's name in a target.
const stagePrefix = "stage:"

// Stages are those of a server that a target can name to drive one alone.
func Stages() []string {
	return []string{"session", "journal", "view", "spine", "reactions", "planner"}
}

// Targets are all that a scenario can name, also those that cannot be loaded yet.
func Targets() []string {
	names := []string{"muster", "sensu", "zabbix", "prometheus"}
	for _, s := range Stages() {
		names = append(names, stagePrefix+s)
	}
	return names
}

// Stage is the one that the target names; not ok: the target is no stage.
func (s *Scenario) Stage() (name string, ok bool) { return strings.CutPrefix(s.Target, stagePrefix) }
