package scenario

import (
	sensu "github.com/muster-fleet/muster/internal/load/sensu/about"
)

// system is one that a scenario can be played against in place of Muster. Its name and what it has
// come from its folder; what plays it is found by the same name in loadcmd's systems.
type system struct {
	name string
	// differs says whether a capability exists with it, and what it waits for if not; not ok: as with
	// Muster. Nil: everything is.
	differs func(capability string) (exists bool, waits string, ok bool)
	is      string // of one that is not there yet: what it would be
}

// systems are all, also those that cannot be loaded yet.
func systems() []system {
	return []system{
		{name: sensu.Name, differs: sensu.Differs},
		{name: "zabbix", is: "a Zabbix server as target"},
		{name: "prometheus", is: "a receiver of remote write as target"},
	}
}

func systemOf(target string) (system, bool) {
	for _, s := range systems() {
		if s.name == target {
			return s, true
		}
	}
	return system{}, false
}

// Systems are the names of those other than Muster that can be loaded.
func Systems() (names []string) {
	for _, s := range systems() {
		if s.is == "" {
			names = append(names, s.name)
		}
	}
	return names
}

// System is the one other than Muster that the target names; not ok: Muster.
func (s *Scenario) System() (name string, ok bool) {
	x, ok := systemOf(s.Target)
	return x.name, ok
}

// Playable are the targets that can be loaded.
func Playable() []string { return append([]string{muster}, Systems()...) }

// Targets are all that a scenario can name, also those that cannot be loaded yet.
func Targets() []string {
	names := []string{muster}
	for _, s := range systems() {
		names = append(names, s.name)
	}
	return names
}

// muster is the target of a scenario that names none.
const muster = "muster"

// waiting are the capabilities of which each stands for a system that cannot be loaded yet.
func waiting() (list []Capability) {
	for _, s := range systems() {
		if s.is != "" {
			list = append(list, Capability{Name: targetPrefix + s.name, What: s.is, Waits: "a later load tester"})
		}
	}
	return list
}

const targetPrefix = "target-"

// against is the capability with another target than Muster, which may have what Muster lacks.
func (c Capability) against(target string) Capability {
	if s, ok := systemOf(target); ok && s.differs != nil {
		if exists, waits, differs := s.differs(c.Name); differs {
			c.Exists, c.Waits = exists, waits
		}
	}
	return c
}
