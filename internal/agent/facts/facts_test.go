package facts

import (
	"context"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/muster-fleet/muster/internal/testenv"
)

// machineFiles maps file paths to contents that were copied from a real machine, for tests.
type machineFiles map[string]string

// fileSystem returns the test's files as an in-memory file system.
func (m machineFiles) fileSystem() fstest.MapFS {
	root := fstest.MapFS{}
	for path, text := range m {
		root[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

// newMeter returns a Meter for a simulated Linux machine with the test's files and four CPUs.
func (m machineFiles) newMeter() *Meter {
	return New(MachineReader{Root: m.fileSystem(), CPUs: 4, OS: "linux", Arch: "amd64"})
}

const dmi = "sys/class/dmi/id/"
const clocks = "sys/devices/system/clocksource/clocksource0/available_clocksource"

// TestCloudsAreDetected measures facts from files of real machines and expects their cloud, hypervisor and
// distribution.
func TestCloudsAreDetected(t *testing.T) {
	for name, c := range map[string]struct {
		files machineFiles
		want  map[string]string
	}{
		"a server of one's own": {machineFiles{
			"proc/sys/kernel/hostname": "db01\n", "proc/sys/kernel/osrelease": "6.1.0-28-amd64\n",
			"proc/meminfo":     "MemTotal:       16286668 kB\nMemFree:         1 kB\n",
			"etc/os-release":   "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n",
			"etc/hosts":        "127.0.0.1\tlocalhost\n127.0.1.1\tdb01.example.com db01\n",
			dmi + "sys_vendor": "Dell Inc.\n", dmi + "product_name": "PowerEdge R640\n", clocks: "tsc hpet acpi_pm\n",
			"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme sse2\n",
		}, map[string]string{
			Hostname: "db01", FQDN: "db01.example.com", Kernel: "6.1.0-28-amd64", Memory: "16677548032", OS: "linux", Arch: "amd64", CPUs: "4",
			Distribution: "debian", DistributionVersion: "12", DistributionName: "Debian GNU/Linux 12 (bookworm)", Virtualisation: "none",
		}},
		"an instance of EC2": {machineFiles{
			dmi + "sys_vendor": "Amazon EC2\n", dmi + "product_name": "m6i.large\n", dmi + "board_asset_tag": "i-0abcd1234ef567890\n",
			clocks: "kvm-clock tsc acpi_pm \n",
		}, map[string]string{Virtualisation: "kvm", Cloud: "aws", CloudInstance: "i-0abcd1234ef567890", CloudType: "m6i.large"}},
		"bare metal of EC2": {machineFiles{
			dmi + "sys_vendor": "Amazon EC2\n", dmi + "product_name": "c5.metal\n", dmi + "board_asset_tag": "i-0abcd1234ef567891\n", clocks: "tsc hpet\n",
		}, map[string]string{Virtualisation: "none", Cloud: "aws", CloudInstance: "i-0abcd1234ef567891", CloudType: "c5.metal"}},
		"EC2 on Xen": {machineFiles{
			"sys/hypervisor/type": "xen\n", "sys/hypervisor/uuid": "ec2f1f0e-8ee8-4a2c-8f3c-9d6a5f0a3d0e\n", "proc/xen/capabilities": "",
			dmi + "sys_vendor": "Xen\n", dmi + "product_name": "HVM domU\n", dmi + "bios_version": "4.11.amazon\n",
		}, map[string]string{Virtualisation: "xen", Cloud: "aws"}},
		"Google": {machineFiles{
			dmi + "sys_vendor": "Google\n", dmi + "product_name": "Google Compute Engine\n", clocks: "kvm-clock tsc acpi_pm \n",
			"run/cloud-init/instance-data.json": `{"base64_encoded_keys": [], "v1": {"availability_zone": "europe-west1-b", "cloud_name": "gce", "instance_id": "5829182736451920384", "platform": "gce", "region": "europe-west1"}}`,
		}, map[string]string{Virtualisation: "kvm", Cloud: "gcp", CloudInstance: "5829182736451920384", CloudRegion: "europe-west1", CloudZone: "europe-west1-b"}},
		"Azure": {machineFiles{
			dmi + "sys_vendor": "Microsoft Corporation\n", dmi + "product_name": "Virtual Machine\n",
			dmi + "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77\n", clocks: "hyperv_clocksource_tsc_page acpi_pm \n",
		}, map[string]string{Virtualisation: "hyper-v", Cloud: "azure"}},
		"Hyper-V at home": {machineFiles{
			dmi + "sys_vendor": "Microsoft Corporation\n", dmi + "product_name": "Virtual Machine\n", dmi + "chassis_asset_tag": "1234-5678\n",
		}, map[string]string{Virtualisation: "hyper-v"}},
		"DigitalOcean": {machineFiles{
			dmi + "sys_vendor": "DigitalOcean\n", dmi + "product_name": "Droplet\n", dmi + "product_serial": "412345678\n", clocks: "kvm-clock tsc \n",
		}, map[string]string{Virtualisation: "kvm", Cloud: "digitalocean", CloudInstance: "412345678"}},
		"Hetzner, an agent that is not root": {machineFiles{
			dmi + "sys_vendor": "Hetzner\n", dmi + "product_name": "vServer\n", clocks: "kvm-clock tsc \n",
		}, map[string]string{Virtualisation: "kvm", Cloud: "hetzner"}},
		"OpenStack": {machineFiles{
			dmi + "sys_vendor": "OpenStack Foundation\n", dmi + "product_name": "OpenStack Nova\n",
			dmi + "product_uuid": "8D1B3D0E-5C2E-4C0B-9E5C-0A7A5C1B2F3D\n", clocks: "kvm-clock tsc \n",
		}, map[string]string{Virtualisation: "kvm", Cloud: "openstack", CloudInstance: "8d1b3d0e-5c2e-4c0b-9e5c-0a7a5c1b2f3d"}},
		"VMware": {machineFiles{
			dmi + "sys_vendor": "VMware, Inc.\n", dmi + "product_name": "VMware Virtual Platform\n", clocks: "tsc acpi_pm \n",
			"run/cloud-init/instance-data.json": `{"v1": {"cloud_name": "nocloud", "instance_id": "nocloud"}}`,
		}, map[string]string{Virtualisation: "vmware"}},
		"VirtualBox":      {machineFiles{dmi + "sys_vendor": "innotek GmbH\n", dmi + "product_name": "VirtualBox\n"}, map[string]string{Virtualisation: "virtualbox"}},
		"QEMU, emulated":  {machineFiles{dmi + "sys_vendor": "QEMU\n", clocks: "tsc hpet acpi_pm \n"}, map[string]string{Virtualisation: "qemu"}},
		"QEMU with KVM":   {machineFiles{dmi + "sys_vendor": "QEMU\n", clocks: "kvm-clock tsc hpet acpi_pm \n"}, map[string]string{Virtualisation: "kvm"}},
		"a micro VM":      {machineFiles{clocks: "tsc \n", "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n"}, map[string]string{Virtualisation: "vm"}},
		"the host of Xen": {machineFiles{"proc/xen/capabilities": "control_d\n", "sys/hypervisor/type": "xen\n"}, map[string]string{Virtualisation: "none"}},
		"KVM on arm":      {machineFiles{"proc/device-tree/hypervisor/compatible": "linux,kvm\x00"}, map[string]string{Virtualisation: "kvm"}},
		"a container of Docker on a virtual machine": {machineFiles{
			".dockerenv": "", clocks: "kvm-clock tsc \n", "proc/1/cgroup": "0::/\n",
		}, map[string]string{Virtualisation: "docker"}},
		"Docker with the old groups": {machineFiles{
			"proc/1/cgroup": "12:pids:/docker/7f1b0c2d\n1:name=systemd:/docker/7f1b0c2d\n",
		}, map[string]string{Virtualisation: "docker"}},
		"the host of containers": {machineFiles{
			"proc/1/cgroup": "0::/init.scope\n", clocks: "tsc hpet \n",
		}, map[string]string{Virtualisation: "none"}},
		"podman":                       {machineFiles{"run/.containerenv": "engine=\"podman-4.3.1\"\n"}, map[string]string{Virtualisation: "podman"}},
		"LXC":                          {machineFiles{"run/systemd/container": "lxc\n"}, map[string]string{Virtualisation: "lxc"}},
		"LXC, told by its environment": {machineFiles{"proc/1/environ": "TERM=linux\x00container=lxc\x00"}, map[string]string{Virtualisation: "lxc"}},
		"nspawn":                       {machineFiles{"run/systemd/container": "systemd-nspawn\n"}, map[string]string{Virtualisation: "systemd-nspawn"}},
		"OpenVZ":                       {machineFiles{"proc/vz/version": ""}, map[string]string{Virtualisation: "openvz"}},
		"Kubernetes":                   {machineFiles{"var/run/secrets/kubernetes.io/serviceaccount/token": "x"}, map[string]string{Virtualisation: "kubernetes"}},
		"WSL": {machineFiles{"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n"},
			map[string]string{Virtualisation: "wsl", Kernel: "5.15.167.4-microsoft-standard-WSL2"}},
		"an image that was moved to another cloud": {machineFiles{
			dmi + "sys_vendor": "Hetzner\n", dmi + "product_serial": "4711\n", clocks: "kvm-clock \n",
			"run/cloud-init/instance-data.json": `{"v1": {"cloud_name": "aws", "instance_id": "i-0"}, "ds": {"meta_data": {"instance-type": "t2.micro"}}}`,
		}, map[string]string{Virtualisation: "kvm", Cloud: "aws", CloudInstance: "i-0", CloudType: "t2.micro"}},
		"Alpine, without a version": {machineFiles{
			"usr/lib/os-release": "ID=alpine\nPRETTY_NAME='Alpine Linux edge'\n",
		}, map[string]string{Distribution: "alpine", DistributionName: "Alpine Linux edge", Virtualisation: "none"}},
		"values that are no text": {machineFiles{
			"proc/sys/kernel/hostname": "a\x01b\xff\n", "etc/os-release": "ID=\"\n\"\n", "proc/meminfo": "MemTotal: lots kB\n",
			"run/cloud-init/instance-data.json": `{"v1": [`,
		}, map[string]string{Hostname: "ab", Distribution: `"`, Virtualisation: "none"}},
	} {
		got := c.files.newMeter().Measure()
		for _, same := range []string{OS, Arch, CPUs} {
			if c.want[same] == "" {
				delete(got, same)
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, c.want)
		}
	}
}

// TestARMVersionIsMeasured expects the fact armVersion of 32-bit ARM processors only.
func TestARMVersionIsMeasured(t *testing.T) {
	files := machineFiles{"proc/cpuinfo": "processor\t: 0\nmodel name\t: ARMv6-compatible processor rev 7 (v6l)\nCPU architecture: 7\n"}
	for arch, want := range map[string]string{"arm": "7", "arm64": ""} {
		got := New(MachineReader{Root: files.fileSystem(), CPUs: 4, OS: "linux", Arch: arch}).Measure()[ARMVersion]
		if got != want {
			t.Errorf("%s: %q, want %q", arch, got, want)
		}
	}
}

// TestAddressesAreGlobalAndSorted expects the address facts to have only global IP addresses, in sorted order.
// Loopback and link-local addresses are left out.
func TestAddressesAreGlobalAndSorted(t *testing.T) {
	var list []netip.Prefix
	for _, p := range []string{"127.0.0.1/8", "::1/128", "fe80::1/64", "2001:db8::7/64", "192.0.2.7/24", "10.0.0.1/8", "169.254.1.1/16", "::ffff:192.0.2.7/120", "fd00::1/8"} {
		list = append(list, netip.MustParsePrefix(p))
	}
	if got, want := globalAddresses(list), "10.0.0.1,192.0.2.7,2001:db8::7,fd00::1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestFQDNComesFromHostsOrResolver expects a DNS query only if /etc/hosts lacks the full name. While DNS fails, the
// previous answer stays.
func TestFQDNComesFromHostsOrResolver(t *testing.T) {
	asked, answer := 0, "web01.example.com"
	system := MachineReader{OS: "linux", Canonical: func(ctx context.Context, host string) (string, bool) {
		asked++
		return answer, answer != "" && ctx.Err() == nil && host == "web01"
	}}
	name := func(hostname, hosts string) *Meter {
		system.Root = machineFiles{"proc/sys/kernel/hostname": hostname, "etc/hosts": hosts}.fileSystem()
		return New(system)
	}
	for _, c := range []struct{ hostname, hosts, want string }{
		{"web01.example.org\n", "", "web01.example.org"},
		{"web01", "127.0.1.1 web01.example.net web01\n", "web01.example.net"},
		{"web01", "127.0.0.1 localhost.localdomain localhost web01\n192.0.2.1 other.example.net # web01\n::1 WEB01.example.net\n", "WEB01.example.net"},
	} {
		m := name(c.hostname, c.hosts)
		m.Resolve(t.Context())
		if got := m.Measure()[FQDN]; got != c.want || asked != 0 {
			t.Errorf("%q with hosts %q: %q, want %q; asked %d times", c.hostname, c.hosts, got, c.want, asked)
		}
	}
	m := name("web01", "127.0.0.1 localhost\n")
	if got := m.Measure(); got[FQDN] != "" || asked != 0 {
		t.Errorf("measuring asked the resolver %d times: %v", asked, got)
	}
	m.Resolve(t.Context())
	answer = ""
	m.Resolve(t.Context())
	if got := m.Measure()[FQDN]; got != "web01.example.com" || asked != 2 {
		t.Errorf("%q after %d questions", got, asked)
	}
	m.machine.Root = machineFiles{"proc/sys/kernel/hostname": "web02"}.fileSystem()
	if got := m.Measure()[FQDN]; got != "" {
		t.Errorf("a new host name has the full name of the old one: %s", got)
	}
}

// TestLocalSystemHasItsFacts compares the facts of the local machine with the output of uname and hostname.
func TestLocalSystemHasItsFacts(t *testing.T) {
	got := New(LocalSystem()).Measure()
	host, err := os.Hostname()
	if err != nil || got[Hostname] != host || got[CPUs] == "" || got[Memory] == "" && got[OS] == "linux" {
		t.Errorf("%v; host name %s, %v", got, host, err)
	}
	if out, err := exec.Command("uname", "-r").Output(); err == nil && got[OS] == "linux" && strings.TrimSpace(string(out)) != got[Kernel] {
		t.Errorf("kernel %s, uname says %s", got[Kernel], out)
	}
	known := All()
	for name := range got {
		if !slices.ContainsFunc(known, func(f Fact) bool { return f.Name == name }) {
			t.Errorf("fact %s is not in the reference", name)
		}
	}
}

//go:generate go test . -run TestReferencePageIsUpToDate -update

const referencePage = "../../../docs/reference/facts.md"

// TestReferencePageIsUpToDate compares docs/reference/facts.md with the list of facts. The command make docs rewrites
// the page.
func TestReferencePageIsUpToDate(t *testing.T) {
	testenv.Golden(t, referencePage, Reference())
}

// FuzzFacts measures facts from files with random bytes and expects short lines of valid UTF-8.
func FuzzFacts(f *testing.F) {
	f.Add(`{"v1": {"cloud_name": "aws", "instance_id": "i-0"}}`, "ID=debian\n", "127.0.1.1 a.b a", "a")
	f.Add(`{"v1": 1}`, "ID='\nVERSION_ID=\"\\", "#", "a.b")
	f.Fuzz(func(t *testing.T, instance, release, hosts, host string) {
		decodeCloudInit([]byte(instance))
		m := machineFiles{"run/cloud-init/instance-data.json": instance, "etc/os-release": release, "etc/hosts": hosts, "proc/sys/kernel/hostname": host}
		for name, value := range m.newMeter().Measure() {
			if value == "" || len(value) > maxFactBytes || strings.ContainsAny(value, "\n\x00") || value != strings.ToValidUTF8(value, "") {
				t.Errorf("%s: %q", name, value)
			}
		}
	})
}
