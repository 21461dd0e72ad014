package rudder

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// machineInventory is the inventory of one machine that Rudder's agent collected.
type machineInventory struct {
	node    string // id of the node in Rudder
	name    string // full host name
	key     *agentKey
	logged  time.Time // when the agent collected it, by its clock; zero: it does not say
	facts   map[string]string
	entries []inventory.Entry // normalized
}

// maxIDBytes bounds the id of a node in Rudder.
const maxIDBytes = 64

// readInventory converts the outermost element of an inventory file to a machineInventory. Fields that have no place
// here are left out.
func readInventory(root *element) (*machineInventory, error) {
	content := root.child("CONTENT")
	rudder := content.child("RUDDER")
	agents := rudder.childrenNamed("AGENT")
	if len(agents) != 1 {
		return nil, model.Errorf(model.Invalid, "the inventory describes %d Rudder agents, expected exactly one", len(agents))
	}
	m := &machineInventory{node: rudder.value("UUID")}
	custom := customPropertiesOf(rudder)
	m.name = cmp.Or(hostNameProperty(custom), rudder.value("HOSTNAME"), content.child("OPERATINGSYSTEM").value("FQDN"), content.child("HARDWARE").value("NAME"), m.node)
	if m.node == "" || len(m.node) > maxIDBytes || strings.ContainsFunc(m.node, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, model.Errorf(model.Invalid, "the inventory has no valid id of its node (RUDDER/UUID)")
	}
	var err error
	if m.key, err = parseKey(cmp.Or(agents[0].value("AGENT_CERT"), agents[0].value("CFENGINE_KEY"))); err != nil {
		return nil, model.Errorf(model.Invalid, "%w", err)
	}
	if m.key.node != "" && m.key.node != m.node {
		return nil, model.Errorf(model.Forbidden, "the certificate in the inventory is of node %s, but the inventory is of node %s", model.Truncate(m.key.node, 100), m.node)
	}
	m.logged = collectionTime(content)
	system, hardware := m.describeMachine(content, agents[0])
	for name, value := range system {
		if value != "" {
			m.entries = append(m.entries, inventory.New(inventory.System, name, value))
		}
	}
	for name, value := range hardware {
		if value != "" {
			m.entries = append(m.entries, inventory.New(inventory.Hardware, name, value))
		}
	}
	m.entries = slices.Concat(m.entries, networkOf(content), storageOf(content), softwareOf(content), accountsOf(content), processesOf(content), environmentOf(content), custom)
	m.entries = inventory.Normalize(m.entries)
	return m, nil
}

// collectionTime returns the time at which the agent collected the inventory. It is zero if the inventory does not
// say. The agent writes its local time.
func collectionTime(content *element) time.Time {
	zone := time.UTC
	if offset, err := time.Parse("-0700", content.child("OPERATINGSYSTEM").child("TIMEZONE").value("OFFSET")); err == nil {
		zone = offset.Location()
	}
	at, err := time.ParseInLocation(time.DateTime, content.child("ACCESSLOG").value("LOGDATE"), zone)
	if err != nil {
		return time.Time{}
	}
	return at
}

// architectures has Go's words for the words of uname.
var architectures = map[string]string{"x86_64": "amd64", "64-bit": "amd64", "i386": "386", "i586": "386", "i686": "386", "aarch64": "arm64", "armv6l": "arm", "armv7l": "arm"}

// describeMachine reads facts about the machine, such as its system and processor, from the inventory. It returns the
// values of the sections system and hardware.
func (m *machineInventory) describeMachine(content, agent *element) (system, hardware map[string]string) {
	os, hw, bios := content.child("OPERATINGSYSTEM"), content.child("HARDWARE"), content.child("BIOS")
	arch := os.value("ARCH")
	if known := architectures[arch]; known != "" {
		arch = known
	}
	host, _, _ := strings.Cut(m.name, ".")
	system = map[string]string{
		"hostname": host, "fqdn": m.name, "os": strings.ToLower(os.value("KERNEL_NAME")), "distribution": strings.ToLower(os.value("NAME")),
		"distributionVersion": os.value("VERSION"), "distributionName": os.value("FULL_NAME"), "kernel": os.value("KERNEL_VERSION"), "arch": arch,
		"virtualisation": strings.ToLower(hw.value("VMSYSTEM")), "timeZone": os.child("TIMEZONE").value("NAME"),
	}
	if strings.HasPrefix(system["os"], "mswin") {
		system["os"] = "windows"
	}
	if system["virtualisation"] == "physical" {
		system["virtualisation"] = "none"
	}
	cpus := 0
	for _, c := range content.childrenNamed("CPUS") {
		cores, _ := strconv.Atoi(c.value("CORE"))
		cpus += max(cores, 1)
	}
	hardware = map[string]string{
		"memory": mebibytes(hw.value("MEMORY")), "swap": mebibytes(hw.value("SWAP")), "cpuModel": content.child("CPUS").value("NAME"),
		"manufacturer": bios.value("SMANUFACTURER"), "product": bios.value("SMODEL"), "serial": bios.value("SSN"), "uuid": hw.value("UUID"), "board": bios.value("MMODEL"),
		"biosVendor": bios.value("BMANUFACTURER"), "biosVersion": bios.value("BVERSION"), "biosDate": bios.value("BDATE"),
	}
	if cpus > 0 {
		hardware["cpus"] = strconv.Itoa(cpus)
	}
	m.facts = map[string]string{"rudderNode": m.node, "cpus": hardware["cpus"], "memory": hardware["memory"]}
	for name, value := range system {
		if name != "timeZone" {
			m.facts[name] = value
		}
	}
	if server := agent.value("POLICY_SERVER_UUID"); server != "" {
		m.facts["rudderServer"] = server
	}
	if version := content.child("RUDDER").value("AGENT_VERSION"); version != "" { // since Rudder 8.3
		m.facts["agentVersion"] = "Rudder agent " + version
	}
	for _, s := range content.childrenNamed("SOFTWARES") {
		if s.value("NAME") == "rudder-agent" {
			m.facts["agentVersion"] = "Rudder agent " + s.value("VERSION")
		}
	}
	var addresses []string
	for _, n := range content.childrenNamed("NETWORKS") {
		for _, address := range n.values("IPADDRESS") {
			if !strings.HasPrefix(address, "127.") && address != "::1" && !strings.HasPrefix(address, "fe80:") && len(addresses) < 32 {
				addresses = append(addresses, address)
			}
		}
	}
	slices.Sort(addresses)
	m.facts["addresses"] = strings.Join(slices.Compact(addresses), ",")
	maps.DeleteFunc(m.facts, func(_, value string) bool { return value == "" })
	return system, hardware
}

// mebibytes converts a number of MiB to a number of bytes, both as text. An empty text means no number or zero.
func mebibytes(text string) string {
	n, err := strconv.ParseUint(text, 10, 40)
	if err != nil || n == 0 {
		return ""
	}
	return strconv.FormatUint(n<<20, 10)
}

// networkOf returns the inventory entries of the network interfaces, without loopback. The inventory has an element for
// each address.
func networkOf(content *element) (list []inventory.Entry) {
	type link struct {
		mac, mtu, state string
		addresses       []string
	}
	links := map[string]*link{}
	for _, n := range content.childrenNamed("NETWORKS") {
		name := n.value("DESCRIPTION")
		if name == "" || n.value("TYPE") == "loopback" {
			continue
		}
		l := links[name]
		if l == nil {
			l = &link{mac: n.value("MACADDR"), mtu: n.value("MTU"), state: strings.ToLower(n.value("STATUS"))}
			links[name] = l
		}
		l.addresses = append(l.addresses, slices.Concat(n.values("IPADDRESS"), n.values("IPADDRESS6"))...)
	}
	for name, l := range links {
		slices.Sort(l.addresses)
		list = append(list, inventory.New(inventory.Network, name, l.mac, l.mtu, strings.Join(slices.Compact(l.addresses), ","), l.state))
	}
	return list
}

// storageOf returns the inventory entries of disks and file systems.
func storageOf(content *element) (list []inventory.Entry) {
	for _, s := range content.childrenNamed("STORAGES") {
		size := ""
		if n, err := strconv.ParseUint(s.value("DISKSIZE"), 10, 40); err == nil && n > 0 {
			size = strconv.FormatUint(n*1_000_000, 10)
		}
		list = append(list, inventory.New(inventory.Storage, s.value("NAME"), "disk", size))
	}
	for _, d := range content.childrenNamed("DRIVES") {
		name, mount := d.value("VOLUMN"), d.value("TYPE")
		if letter := d.value("LETTER"); letter != "" {
			name, mount = letter, letter
		}
		list = append(list, inventory.New(inventory.Storage, name, "mount", mebibytes(d.value("TOTAL")), mount, d.value("FILESYSTEM")))
	}
	return list
}

// softwareOf returns the inventory entries of installed packages.
func softwareOf(content *element) (list []inventory.Entry) {
	for _, s := range content.childrenNamed("SOFTWARES") {
		list = append(list, inventory.New(inventory.Packages, s.value("NAME"), s.value("VERSION"), s.value("ARCH"), s.value("FROM")))
	}
	return list
}

// accountsOf returns the inventory entries of users and groups, without people's real names.
func accountsOf(content *element) (list []inventory.Entry) {
	for _, u := range content.childrenNamed("LOCAL_USERS") {
		name := u.value("LOGIN")
		if name == "" {
			name = u.value("NAME")
		}
		list = append(list, inventory.New(inventory.Users, name, u.value("ID"), "", u.value("HOME"), u.value("SHELL")))
	}
	for _, g := range content.childrenNamed("LOCAL_GROUPS") {
		members := g.values("MEMBER")
		slices.Sort(members)
		list = append(list, inventory.New(inventory.Groups, g.value("NAME"), g.value("ID"), strings.Join(members, ",")))
	}
	return list
}

// processesOf returns the inventory entries of running programs, without their arguments.
func processesOf(content *element) (list []inventory.Entry) {
	for _, p := range content.childrenNamed("PROCESSES") {
		command := p.value("CMD")
		if name, _, ok := strings.Cut(command, " "); ok {
			command = strings.TrimSuffix(name, ":")
		}
		if !strings.HasPrefix(command, "[") { // a thread of the kernel
			list = append(list, inventory.New(inventory.Processes, path.Base(command), p.value("USER")))
		}
	}
	return list
}

// environmentOf returns the inventory entries of the agent's environment variables. Values that may be secret are
// hidden.
func environmentOf(content *element) (list []inventory.Entry) {
	var variables []string
	for _, e := range content.childrenNamed("ENVS") {
		variables = append(variables, e.value("KEY")+"="+e.value("VAL"))
	}
	return inventory.Environ(variables)
}

// customPropertiesOf returns the custom properties of the node in the inventory. Hooks of Rudder's agent print
// them as JSON objects.
func customPropertiesOf(rudder *element) (list []inventory.Entry) {
	e := rudder.child("CUSTOM_PROPERTIES")
	var objects []map[string]json.RawMessage
	if json.Unmarshal([]byte(e.text), &objects) == nil {
		for _, object := range objects {
			for name, value := range object {
				var text string
				if json.Unmarshal(value, &text) != nil {
					var compact bytes.Buffer
					_ = json.Compact(&compact, value) // the decoder has accepted it
					text = compact.String()
				}
				list = append(list, inventory.New(inventory.Custom, name, text))
			}
		}
		return list
	}
	for _, c := range e.children {
		list = append(list, inventory.New(inventory.Custom, strings.ToLower(c.name), c.text))
	}
	return list
}

// hostNameProperty returns the host name that a hook (custom script) of Rudder's agent reported, or an empty
// text. The hook overrides the system's host name.
func hostNameProperty(custom []inventory.Entry) string {
	for _, e := range custom {
		if e != "" && e.Name() == "rudder_override_hostname" {
			return e.Field(1)
		}
	}
	return ""
}

// changesOf returns the journal messages that turn a node's present inventory into the new one. Each signal has a
// bounded size. There are none if nothing differs.
func changesOf(present []inventory.Entry, known bool, entries []inventory.Entry) (list []wire.Signal) {
	if !known {
		present = nil
	}
	added, removed := inventory.Difference(present, entries)
	change := wire.Inventory{Complete: !known, Base: inventory.Sum(present)}
	change.Sum = change.Base
	size := 0
	flush := func() {
		list = append(list, wire.Signal{Kind: wire.SignalInventory, Body: wire.AppendInventory(nil, &change)})
		change, size = wire.Inventory{Base: change.Sum, Sum: change.Sum}, 0
	}
	for i, e := range slices.Concat(removed, added) {
		if size >= inventory.MaxSignal {
			flush()
		}
		if size += len(e); i < len(removed) {
			change.Removed, change.Sum = append(change.Removed, e.Wire()), change.Sum-e.Hash()
		} else {
			change.Added, change.Sum = append(change.Added, e.Wire()), change.Sum+e.Hash()
		}
	}
	if len(change.Added)+len(change.Removed) > 0 {
		flush()
	}
	return list
}

// Bounds of the time of an inventory.
const (
	maxInventoryAge   = 48 * time.Hour
	maxInventoryAhead = 12 * time.Hour
)

// checkTime refuses an inventory that is too old or ahead of time.
func (m *machineInventory) checkTime(now time.Time) error {
	switch {
	case m.logged.IsZero():
		return model.Errorf(model.Invalid, "the inventory does not say when it was made (ACCESSLOG/LOGDATE)")
	case now.Sub(m.logged) > maxInventoryAge:
		return model.Errorf(model.Invalid, "the inventory is dated %s, more than two days ago", m.logged.UTC().Format(time.RFC3339)).WithHint("on the node: rudder agent inventory")
	case m.logged.Sub(now) > maxInventoryAhead:
		return model.Errorf(model.Invalid, "the inventory is dated %s, more than 12 hours ahead of the server's clock", m.logged.UTC().Format(time.RFC3339)).WithHint("set the clock of the node")
	}
	return nil
}

// String returns name and id of the machine's node, for messages.
func (m *machineInventory) String() string { return fmt.Sprintf("%s (%s)", m.name, m.node) }
