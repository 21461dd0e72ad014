package scenario

import "strings"

// stagePrefix is before a stage's name in a target.
const stagePrefix = "stage:"

// Stages are those of a server that a target can name to drive one alone.
func Stages() []string { return []string{"session", "journal", "view", "spine", "reactions"} }

// Stage is the one that the target names; not ok: the target is no stage.
func (s *Scenario) Stage() (name string, ok bool) { return strings.CutPrefix(s.Target, stagePrefix) }
