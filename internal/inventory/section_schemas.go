package inventory

import (
	"slices"
	"strconv"
)

// Section is a part of an inventory, such as packages. Its number is part of the protocol and never used again.
type Section uint8

// Sections of an inventory.
const (
	System Section = iota + 1
	Hardware
	Network
	Storage
	Packages
	Services
	Users
	Groups
	Ports
	Processes
	Environment
	Custom
	sections = iota
)

// Bit returns the bit that stands for the section in a set of sections. All sections that this program does not know
// share one bit.
func (s Section) Bit() uint32 {
	if s > sections {
		s = 0
	}
	return 1 << s
}

// SectionSchema has the name of an inventory section and the field names of the entries.
type SectionSchema struct {
	Section
	Name   string   // in conditions and commands
	Fields []string // of an entry, the name first; new ones come last
	Origin string   // origin of the entries, for people
	// Volatile entries change while the machine does its usual work: history leaves them out.
	Volatile bool
}

// forms has all sections in the order of their numbers.
var forms = [sections]SectionSchema{
	{System, "system", []string{"name", "value"}, "what the machine runs: names, system, kernel, boot", false},
	{Hardware, "hardware", []string{"name", "value"}, "processors, memory, firmware and serial number", false},
	{Network, "network", []string{"name", "mac", "mtu", "addresses", "state"}, "network interfaces with their addresses", false},
	{Storage, "storage", []string{"name", "type", "size", "mount", "filesystem"}, "disks and mounted file systems, sizes in bytes", false},
	{Packages, "packages", []string{"name", "version", "arch", "manager"}, "packages of dpkg, rpm and apk; manager is deb, rpm or apk", false},
	{Services, "services", []string{"name", "start", "state", "manager"}, "units of systemd and scripts of SysV: enabled, disabled, static or masked; running or stopped", false},
	{Users, "users", []string{"name", "uid", "gid", "home", "shell"}, "users of /etc/passwd", false},
	{Groups, "groups", []string{"name", "gid", "members"}, "groups of /etc/group", false},
	{Ports, "ports", []string{"name", "protocol", "address", "port"}, "listening ports; name is the program", true},
	{Processes, "processes", []string{"name", "user"}, "programs that run, once for each user", true},
	{Environment, "environment", []string{"name", "value"}, "environment of the agent; values of secrets are hidden", false},
	{Custom, "custom", []string{"name", "value"}, "properties that scripts in the folder inventory.d print", false},
}

// SectionSchemas returns the schemas (name and field names) of all inventory sections, ordered by section
// number.
func SectionSchemas() []SectionSchema { return slices.Clone(forms[:]) }

// SchemaOf returns the schema (name and field names) of an inventory section. A section that this program does
// not know has its number as name.
func SchemaOf(s Section) SectionSchema {
	if s < 1 || s > sections {
		return SectionSchema{Section: s, Name: "section-" + strconv.Itoa(int(s)), Fields: []string{"name"}}
	}
	return forms[s-1]
}

// SchemaByName returns the schema (field names) of the inventory section with a given name.
func SchemaByName(name string) (SectionSchema, bool) {
	i := slices.IndexFunc(forms[:], func(f SectionSchema) bool { return f.Name == name })
	if i < 0 {
		return SectionSchema{}, false
	}
	return forms[i], true
}

// SectionNames returns the names of all inventory sections.
func SectionNames() []string {
	names := make([]string, sections)
	for i := range forms {
		names[i] = forms[i].Name
	}
	return names
}
