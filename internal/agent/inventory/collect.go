package inventory

import (
	"context"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/inventory"
)

// DefaultDir is the default folder of scripts that print properties.
const DefaultDir = "/etc/muster/inventory.d"

// Machine gives the collectors of the inventory the files, programs and network of a computer.
type Machine struct {
	Root       fs.FS                            // the folder /
	Facts      map[string]string                // of package facts
	Addresses  func() map[string][]netip.Prefix // by interface
	SizeOf     func(path string) uint64         // bytes of a mounted file system; zero: unknown
	Environ    []string
	Runner     *run.Runner // runs rpm and scripts
	ScriptsDir string
	// Warn receives what could not be collected, for the agent's log.
	Warn func(message string)
}

// Local returns the Machine for the computer of the running program.
func Local(facts map[string]string, runner *run.Runner, scriptsDir string, warn func(string)) *Machine {
	return &Machine{Root: os.DirFS("/"), Facts: facts, Addresses: interfaceAddresses, SizeOf: fileSystemSize, Environ: os.Environ(), Runner: runner, ScriptsDir: scriptsDir, Warn: warn}
}

// Collect returns the machine's inventory, sorted and of bounded size.
func (m *Machine) Collect(ctx context.Context) []inventory.Entry {
	programs, sockets := m.programs()
	return inventory.Normalize(slices.Concat(
		m.system(), m.hardware(), m.network(), m.storage(), m.packages(ctx), m.services(), m.accounts(), m.ports(sockets), programs, inventory.Environ(m.Environ), m.customProperties(ctx),
	))
}

// packageFiles are the files that package managers change when they install or remove packages.
var packageFiles = [...]string{
	"var/lib/dpkg/status", "var/lib/dpkg/updates", "lib/apk/db/installed", "usr/lib/apk/db/installed", "var/lib/rpm/rpmdb.sqlite", "var/lib/rpm/rpmdb.sqlite-wal", "var/lib/rpm/Packages",
	"var/lib/rpm/Packages.db", "usr/lib/sysimage/rpm/rpmdb.sqlite", "usr/lib/sysimage/rpm/rpmdb.sqlite-wal", "usr/lib/sysimage/rpm/Packages.db",
}

// watched are the other files whose changes make the inventory worth collecting before it is due.
var watched = [...]string{"etc/passwd", "etc/group", "etc/hostname", "etc/os-release", "etc/systemd/system"}

// ChangeStamp returns a text that changes when packages, accounts, services or scripts may have changed. The text has the
// times and sizes of their files.
func (m *Machine) ChangeStamp() string {
	var b strings.Builder
	b.WriteString(PackageStamp(m.Root))
	for _, name := range watched {
		b.WriteString(fileStamp(fs.Stat(m.Root, name)))
	}
	for _, script := range m.scripts() {
		b.WriteString(fileStamp(os.Stat(script)))
	}
	return b.String()
}

// PackageStamp returns a text that changes when packages may have changed. root is the folder /. The text is empty on
// a machine without a known package manager.
func PackageStamp(root fs.FS) string {
	var b strings.Builder
	for _, name := range packageFiles {
		b.WriteString(fileStamp(fs.Stat(root, name)))
	}
	return b.String()
}

// fileStamp returns the time and size of a file, or "" for a missing file.
func fileStamp(info fs.FileInfo, err error) string {
	if err != nil {
		return ""
	}
	return info.Name() + " " + strconv.FormatInt(info.ModTime().UnixNano(), 36) + " " + strconv.FormatInt(info.Size(), 36) + "\n"
}

// maxFileBytes is the number of bytes that are read of a file.
const maxFileBytes = 32 << 20

// fileText returns the content of a file, or "" if the file cannot be read.
func (m *Machine) fileText(name string) string {
	f, err := m.Root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxFileBytes))
	return string(data)
}

// fileFirstLine returns the first line of a file without surrounding space.
func (m *Machine) fileFirstLine(name string) string {
	line, _, _ := strings.Cut(m.fileText(name), "\n")
	return strings.TrimSpace(line)
}

// fileNames returns the sorted names of the files in a folder.
func (m *Machine) fileNames(folder string) (names []string) {
	list, _ := fs.ReadDir(m.Root, folder)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// fileExists reports whether a file of the machine exists.
func (m *Machine) fileExists(name string) bool {
	_, err := fs.Stat(m.Root, name)
	return err == nil
}

// entriesOfPairs returns one inventory entry for each pair of a name and a value, except for empty values.
func entriesOfPairs(section inventory.Section, values map[string]string) (list []inventory.Entry) {
	for name, value := range values {
		if value != "" {
			list = append(list, inventory.New(section, name, value))
		}
	}
	return list
}

// system returns the inventory entries about the operating system as a whole.
func (m *Machine) system() []inventory.Entry {
	values := map[string]string{}
	for _, name := range []string{"hostname", "fqdn", "os", "distribution", "distributionVersion", "distributionName", "kernel", "arch", "virtualisation", "cloud", "cloudInstance", "cloudRegion", "cloudZone", "cloudType"} {
		values[name] = m.Facts[name]
	}
	values["timeZone"] = m.fileFirstLine("etc/timezone")
	if target, err := fs.ReadLink(m.Root, "etc/localtime"); err == nil && values["timeZone"] == "" {
		if _, zone, ok := strings.Cut(target, "zoneinfo/"); ok {
			values["timeZone"] = zone
		}
	}
	if m.fileExists("run/systemd/system") {
		values["init"] = "systemd"
	}
	return entriesOfPairs(inventory.System, values)
}

// hardware returns the inventory entries about processors, memory and firmware.
func (m *Machine) hardware() []inventory.Entry {
	values := map[string]string{"cpus": m.Facts["cpus"], "memory": m.Facts["memory"]}
	for line := range strings.Lines(m.fileText("proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			values["cpuModel"] = strings.TrimSpace(value)
			break
		}
	}
	for line := range strings.Lines(m.fileText("proc/meminfo")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "SwapTotal:" && f[1] != "0" {
			values["swap"] = kibibytes(f[1])
		}
	}
	for name, file := range map[string]string{
		"manufacturer": "sys_vendor", "product": "product_name", "serial": "product_serial", "uuid": "product_uuid", "board": "board_name",
		"biosVendor": "bios_vendor", "biosVersion": "bios_version", "biosDate": "bios_date",
	} {
		values[name] = m.fileFirstLine("sys/class/dmi/id/" + file)
	}
	return entriesOfPairs(inventory.Hardware, values)
}

// kibibytes converts a number of KiB to a number of bytes, both as text.
func kibibytes(text string) string {
	n, err := strconv.ParseUint(text, 10, 50)
	if err != nil {
		return ""
	}
	return strconv.FormatUint(n*1024, 10)
}

// passingInterfaces are the beginnings of names of interfaces that containers and virtual machines make and remove.
var passingInterfaces = [...]string{"veth", "cali", "lxc", "tap", "vnet", "cni", "flannel"}

// network returns the inventory entries of the network interfaces.
func (m *Machine) network() (list []inventory.Entry) {
	addresses := m.Addresses()
	for _, name := range m.fileNames("sys/class/net") {
		folder := "sys/class/net/" + name + "/"
		if name == "lo" || !m.fileExists(folder+"mtu") || slices.ContainsFunc(passingInterfaces[:], func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		var texts []string
		for _, p := range addresses[name] {
			if p.Addr().IsGlobalUnicast() {
				texts = append(texts, p.String())
			}
		}
		slices.Sort(texts)
		list = append(list, inventory.New(inventory.Network, name, m.fileFirstLine(folder+"address"), m.fileFirstLine(folder+"mtu"), strings.Join(texts, ","), m.fileFirstLine(folder+"operstate")))
	}
	return list
}

// networkFileSystems are the file systems whose devices are no files in /dev.
var networkFileSystems = [...]string{"nfs", "nfs4", "cifs", "zfs", "ceph", "glusterfs", "9p", "virtiofs"}

// storage returns the inventory entries of disks and mounted file systems.
func (m *Machine) storage() (list []inventory.Entry) {
	for _, name := range m.fileNames("sys/block") {
		if strings.HasPrefix(name, "loop") || strings.HasPrefix(name, "ram") || strings.HasPrefix(name, "zram") {
			continue
		}
		sectors, _ := strconv.ParseUint(m.fileFirstLine("sys/block/"+name+"/size"), 10, 54)
		if sectors > 0 {
			list = append(list, inventory.New(inventory.Storage, name, "disk", strconv.FormatUint(sectors*512, 10)))
		}
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(m.fileText("proc/self/mounts")) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], "/dev/loop") || strings.HasPrefix(f[1], "/var/lib/docker/") || strings.HasPrefix(f[1], "/var/lib/kubelet/") {
			continue
		}
		if local := strings.HasPrefix(f[0], "/dev/"); local || slices.Contains(networkFileSystems[:], f[2]) {
			mount, size := unescape.Replace(f[1]), ""
			if local { // a server that does not answer would block the agent
				if n := m.SizeOf(mount); n > 0 {
					size = strconv.FormatUint(n, 10)
				}
			}
			list = append(list, inventory.New(inventory.Storage, unescape.Replace(f[0]), "mount", size, mount, f[2]))
		}
	}
	return list
}

// accounts returns the inventory entries of the users and groups in the files of /etc. It leaves out their real names.
func (m *Machine) accounts() (list []inventory.Entry) {
	for line := range strings.Lines(m.fileText("etc/passwd")) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 7 {
			list = append(list, inventory.New(inventory.Users, f[0], f[2], f[3], f[5], f[6]))
		}
	}
	for line := range strings.Lines(m.fileText("etc/group")) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 4 {
			list = append(list, inventory.New(inventory.Groups, f[0], f[2], f[3]))
		}
	}
	return list
}

// scriptTimeout bounds one script.
const scriptTimeout = 30 * time.Second

// scripts returns the paths of the operator's programs that print properties. Files that others than their owner may
// write are left out.
func (m *Machine) scripts() (list []string) {
	entries, _ := os.ReadDir(m.ScriptsDir)
	for _, e := range entries {
		name := filepath.Join(m.ScriptsDir, e.Name())
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if mode := info.Mode().Perm(); runtime.GOOS != "windows" && (mode&0o111 == 0 || mode&0o022 != 0) {
			m.Warn("inventory script " + name + " does not run: it needs mode 0755 or 0700")
			continue
		}
		list = append(list, name)
	}
	return list
}

// userNames returns a function that looks up the user's name for a user id. For an unknown id it returns the id.
func (m *Machine) userNames() func(id string) string {
	names := map[string]string{}
	for line := range strings.Lines(m.fileText("etc/passwd")) {
		if f := strings.Split(line, ":"); len(f) == 7 {
			names[f[2]] = f[0]
		}
	}
	return func(id string) string {
		if name, ok := names[id]; ok {
			return name
		}
		return id
	}
}
