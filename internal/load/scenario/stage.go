package scenario

import "strings"

// stagePrefix is before a stage's name in a target.
const stagePrefix = "stage:"

// Stages are those of a server that a target can name to drive one alone.
func Stages() []string {
	return []string{"session", "journal", "view", "spine", "reactions", "planner"}
}

func stageTargets() (names []string) {
	for _, s := range Stages() {
		names = append(names, stagePrefix+s)
	}
	return names
}

// connected is how many connections the agents hold: none where the target is a stage that is
// handed what would leave by them.
func (s *Scenario) connected() int {
	if name, ok := s.Stage(); ok && name != "session" && name != "spine" {
		return 0
	}
	return s.Sessions()
}

// files is how many have to be allowed to each process that plays it, with a server of its own;
// a stage is in the loader's, and has the other ends of connections there.
func (s *Scenario) files() int {
	if _, ok := s.Stage(); ok {
		return Files(2*s.connected(), false)
	}
	return Files(s.connected(), true)
}

// Stage is the one that the target names; not ok: the target is no stage.
func (s *Scenario) Stage() (name string, ok bool) { return strings.CutPrefix(s.Target, stagePrefix) }
