package facts

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The names of facts never change: conditions of groups are written over them.
const (
	Hostname            = "hostname"
	FQDN                = "fqdn"
	OS                  = "os"
	Distribution        = "distribution"
	DistributionVersion = "distributionVersion"
	DistributionName    = "distributionName"
	Kernel              = "kernel"
	Arch                = "arch"
	ARMVersion          = "armVersion"
	CPUs                = "cpus"
	Memory              = "memory"
	Addresses           = "addresses"
	Virtualisation      = "virtualisation"
	Cloud               = "cloud"
	CloudInstance       = "cloudInstance"
	CloudRegion         = "cloudRegion"
	CloudZone           = "cloudZone"
	CloudType           = "cloudType"
	AgentVersion        = "agentVersion" // the server takes it from the session
)

// Fact describes one fact, such as os or arch, for the reference page.
type Fact struct{ Name, Example, Meaning string }

// All returns every fact that the agent reports, in the order of the reference page.
func All() []Fact {
	return []Fact{
		{Hostname, "web01", "what the machine calls itself"},
		{FQDN, "web01.example.com", "its full name: the host name if that has a dot, else what `/etc/hosts` says of it, else what the resolver says. The resolver is asked when the agent starts and once an hour, for at most 5 seconds, and the agent waits for it with nothing"},
		{OS, "linux", "the kind of system: linux, freebsd, windows, darwin"},
		{Distribution, "debian", "`ID` of `/etc/os-release`"},
		{DistributionVersion, "12", "`VERSION_ID` there; a distribution without versions has none"},
		{DistributionName, "Debian GNU/Linux 12 (bookworm)", "`PRETTY_NAME` there"},
		{Kernel, "6.1.0-28-amd64", "the release of the kernel, as `uname -r` says it"},
		{Arch, "amd64", "of the processor, in Go's words: amd64, arm64, 386, arm, riscv64, ppc64le, s390x"},
		{ARMVersion, "7", "the version of the architecture of a 32-bit ARM processor. Linux only"},
		{CPUs, "8", "processors that the agent may use"},
		{Memory, "16677531648", "bytes that the kernel can use: somewhat less than is built in"},
		{Addresses, "192.0.2.7,2001:db8::7", "of all interfaces, without loopback and link-local ones; at most 32, IPv4 first, in order"},
		{Virtualisation, "kvm", "what it runs in: a container's kind (docker, podman, kubernetes, lxc, systemd-nspawn, openvz, wsl, container), else a hypervisor's (kvm, qemu, vmware, virtualbox, xen, hyper-v, parallels, bhyve, apple, powervm, zvm; vm: one that does not say its name), else none. Linux only"},
		{Cloud, "aws", "whose machine it is: aws, gcp, azure, digitalocean, hetzner, openstack, oracle, alibaba, vultr, scaleway, upcloud, exoscale, akamai, or as cloud-init calls it"},
		{CloudInstance, "i-0abcd1234ef567890", "the machine's id there: from cloud-init, or from the firmware where that says it"},
		{CloudRegion, "eu-central-1", "from cloud-init"},
		{CloudZone, "eu-central-1b", "from cloud-init"},
		{CloudType, "m7g.large", "the size that was bought; of aws only"},
		{AgentVersion, "1.2.0", "of muster-agent; said by the session, not measured"},
	}
}

// Reference returns the reference page of all facts, docs/reference/facts.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Facts

What the agent measures of its machine, without running a program or asking anybody in the network but
the resolver. It says them when it opens a session and, looking about once a minute, when they change.
Names are stable. All values are text; a fact that is not known is left out.

| fact | for example | what it is |
|---|---|---|
`)
	for _, f := range All() {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", f.Name, f.Example, f.Meaning)
	}
	b.WriteString(`
Conditions read them as ` + "`node.facts.NAME`" + `, numbers by ` + "`int(…)`" + `: see [targets](../targets.md). Where neither
an operator nor the agent's configuration sets a label of the name, a fact is also a label: ` + "`muster get nodes -l\ncloud=aws`" + `. Facts are what a machine says of itself: groups that are ` + "`trusted`" + ` do not hear them.

A fact that keeps changing (an address that comes and goes) is taken at once the first few times, and
then every 30 seconds at most. A node has at most 256 facts with 32 KiB.
`)
	return b.String()
}

// MachineReader reads the raw data of a machine from files, network interfaces and the resolver.
type MachineReader struct {
	Root       fs.FS                                                 // the folder /
	CPUs       int                                                   // usable by the agent
	OS, Arch   string                                                // in Go's words
	Hostname   func() string                                         // where /proc does not have it
	Interfaces func() []netip.Prefix                                 // addresses of the machine's own
	Canonical  func(ctx context.Context, host string) (string, bool) // asks the resolver
}

// LocalSystem returns the MachineReader of the machine that the program runs on.
func LocalSystem() MachineReader {
	return MachineReader{
		Root: os.DirFS("/"), CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Hostname:   func() string { host, _ := os.Hostname(); return host },
		Interfaces: interfacePrefixes, Canonical: canonicalName,
	}
}

// Meter measures the facts of one machine (such as OS, addresses and cloud) repeatedly. Safe for concurrent use.
type Meter struct {
	machine MachineReader

	mu           sync.Mutex
	resolvedName struct{ host, name string } // the resolver's last answer: the full name of a host name
}

// New returns a Meter that has not measured any facts yet
func New(s MachineReader) *Meter { return &Meter{machine: s} }

// Measure returns the current facts of the machine, read from small files and the network interfaces, without DNS.
// Unknown facts are left out. The caller owns the map.
func (m *Meter) Measure() map[string]string {
	t := machineFS{m.machine.Root}
	host := m.hostName(t)
	f := map[string]string{
		Hostname: host, FQDN: m.fullName(t, host), OS: m.machine.OS, Arch: m.machine.Arch,
		CPUs: strconv.Itoa(m.machine.CPUs), Kernel: t.firstLine("proc/sys/kernel/osrelease"), Memory: t.memoryBytes(),
	}
	if m.machine.Interfaces != nil {
		f[Addresses] = globalAddresses(m.machine.Interfaces())
	}
	if m.machine.Arch == "arm" {
		f[ARMVersion] = t.armVersion()
	}
	t.setDistributionFacts(f)
	if m.machine.OS == "linux" {
		f[Virtualisation] = cmp.Or(t.containerRuntime(), t.hypervisor())
	}
	t.setCloudFacts(f)
	for name, value := range f {
		if f[name] = cleanValue(value); f[name] == "" {
			delete(f, name)
		}
	}
	return f
}

// maxFactBytes is the length in bytes of the longest value of a fact.
const maxFactBytes = 2048

// cleanValue removes control characters and invalid UTF-8 from the value of a fact.
func cleanValue(value string) string {
	value = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(value, ""))
	value = strings.TrimSpace(value)
	if len(value) > maxFactBytes {
		value = strings.ToValidUTF8(value[:maxFactBytes], "")
	}
	return value
}

// maxAddresses bounds the addresses of one fact: container hosts have hundreds.
const maxAddresses = 32

// globalAddresses returns the machine's global addresses, without loopback and link-local addresses.
func globalAddresses(list []netip.Prefix) string {
	var out []netip.Addr
	for _, p := range list {
		if a := p.Addr().Unmap().WithZone(""); a.IsGlobalUnicast() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare) // v4 first
	out = out[:min(len(out), maxAddresses)]
	var texts []string
	for _, a := range out {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ",")
}

// interfacePrefixes returns the addresses of the network interfaces, with their prefix lengths.
func interfacePrefixes() (list []netip.Prefix) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// machineFS is the file system of the machine whose facts are measured.
type machineFS struct{ fs.FS }

// maxFileBytes is the number of bytes that are read of a file.
const maxFileBytes = 1 << 20

// fileText returns the content of a file, or "" if the file cannot be read.
func (t machineFS) fileText(path string) string {
	f, err := t.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxFileBytes))
	return string(data)
}

// firstLine returns a file's first line without surrounding space.
func (t machineFS) firstLine(path string) string {
	first, _, _ := strings.Cut(t.fileText(path), "\n")
	return strings.TrimSpace(first)
}

// fileExists reports whether a file exists.
func (t machineFS) fileExists(path string) bool {
	_, err := fs.Stat(t, path)
	return err == nil
}

// armVersion returns the version of the architecture of an ARM processor, such as 7.
func (t machineFS) armVersion() string {
	for line := range strings.Lines(t.fileText("proc/cpuinfo")) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "CPU architecture" {
			return strings.TrimRight(strings.TrimSpace(value), "TEJ") // 5TEJ is version 5
		}
	}
	return ""
}

// memoryBytes returns the memory that the kernel can use, in bytes.
func (t machineFS) memoryBytes() string {
	for line := range strings.Lines(t.fileText("proc/meminfo")) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 53); err == nil {
				return strconv.FormatUint(kib*1024, 10)
			}
		}
	}
	return ""
}

// setDistributionFacts sets the facts of the Linux distribution from os-release(5) in /etc or else in /usr/lib.
func (t machineFS) setDistributionFacts(f map[string]string) {
	names := map[string]string{"ID": Distribution, "VERSION_ID": DistributionVersion, "PRETTY_NAME": DistributionName}
	for line := range strings.Lines(cmp.Or(t.fileText("etc/os-release"), t.fileText("usr/lib/os-release"))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name, ok := names[key]; ok {
			f[name] = withoutQuotes(value)
		}
	}
}

// withoutQuotes removes the quotes around a value of os-release.
func withoutQuotes(v string) string {
	if n := len(v); n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
		v = v[1 : n-1]
	}
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(v)
}

// Resolve asks DNS for the machine's full name, if neither host name nor /etc/hosts has one. Later calls of Measure
// report the answer, which stays when the resolver fails.
func (m *Meter) Resolve(ctx context.Context) {
	t := machineFS{m.machine.Root}
	host := m.hostName(t)
	if host == "" || strings.Contains(host, ".") || t.fullNameInHostsFile(host) != "" || m.machine.Canonical == nil {
		return
	}
	if name, ok := m.machine.Canonical(ctx, host); ok && strings.Contains(name, ".") {
		m.mu.Lock()
		m.resolvedName.host, m.resolvedName.name = host, name
		m.mu.Unlock()
	}
}

// hostName returns the host name of the machine from /proc, or else from the operating system.
func (m *Meter) hostName(t machineFS) string {
	host := t.firstLine("proc/sys/kernel/hostname")
	if host == "" && m.machine.Hostname != nil {
		host = m.machine.Hostname()
	}
	return host
}

// fullName returns the machine's fully qualified domain name, from the host name, /etc/hosts or the last DNS answer.
func (m *Meter) fullName(t machineFS, host string) string {
	if strings.Contains(host, ".") {
		return strings.TrimSuffix(host, ".")
	}
	if name := t.fullNameInHostsFile(host); name != "" {
		return name
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resolvedName.host != host {
		return ""
	}
	return m.resolvedName.name
}

// fullNameInHostsFile returns the fully qualified name of a host in /etc/hosts, as hostname -f prints. Names of
// localhost do not count.
func (t machineFS) fullNameInHostsFile(host string) string {
	if host == "" {
		return ""
	}
	for line := range strings.Lines(t.fileText("etc/hosts")) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		named, full := false, ""
		for _, name := range fields[min(1, len(fields)):] { // the first field is the address
			named = named || strings.EqualFold(name, host) || len(name) > len(host) && strings.EqualFold(name[:len(host)+1], host+".")
			if full == "" && strings.Contains(name, ".") && !strings.HasPrefix(name, "localhost.") {
				full = name
			}
		}
		if named && full != "" {
			return strings.TrimSuffix(full, ".")
		}
	}
	return ""
}

// canonicalName asks DNS for the canonical name of a host. Search domains of resolv.conf apply.
func canonicalName(ctx context.Context, host string) (string, bool) {
	name, err := net.DefaultResolver.LookupCNAME(ctx, host)
	name = strings.TrimSuffix(name, ".")
	return name, err == nil && !strings.HasPrefix(name, "localhost")
}
