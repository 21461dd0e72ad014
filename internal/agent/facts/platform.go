package facts

import (
	"cmp"
	"encoding/json"
	"strings"
)

// container returns the container runtime, from the same sources as systemd-detect-virt; empty: none.
func (t tree) container() string {
	release := t.line("proc/sys/kernel/osrelease")
	switch {
	case t.exists("proc/vz") && !t.exists("proc/bc"): // proc/bc: the host of OpenVZ
		return "openvz"
	case strings.Contains(release, "Microsoft") || strings.Contains(release, "WSL"):
		return "wsl"
	case t.exists("var/run/secrets/kubernetes.io/serviceaccount"), t.exists("run/secrets/kubernetes.io/serviceaccount"):
		return "kubernetes"
	}
	manager := cmp.Or(t.line("run/systemd/container"), t.line("run/host/container-manager")) // written by systemd inside
	for _, variable := range strings.Split(t.text("proc/1/environ"), "\x00") {               // readable for root only
		if value, ok := strings.CutPrefix(variable, "container="); ok && manager == "" {
			manager = value
		}
	}
	switch manager {
	case "":
	case "lxc-libvirt":
		return "lxc"
	case "oci":
		return "container"
	default:
		return manager
	}
	groups := t.text("proc/1/cgroup")
	inGroup := func(part string) bool { return strings.Contains(groups, part) }
	switch {
	case inGroup("/kubepods"):
		return "kubernetes"
	case t.exists("run/.containerenv"):
		return "podman"
	case t.exists(".dockerenv"), inGroup("/docker/"), inGroup("/docker-"):
		return "docker"
	case inGroup("/lxc/"), inGroup("/lxc.payload"):
		return "lxc"
	}
	return ""
}

// firmware has words of the DMI tables, in systemd's order.
var firmware = [...]struct{ word, is string }{
	{"KVM", "kvm"}, {"OpenStack", "kvm"}, {"KubeVirt", "kvm"}, {"Amazon EC2", "kvm"}, {"QEMU", "qemu"},
	{"VMware", "vmware"}, {"VMW", "vmware"}, {"innotek GmbH", "virtualbox"}, {"VirtualBox", "virtualbox"},
	{"Oracle Corporation", "virtualbox"}, {"Xen", "xen"}, {"Parallels", "parallels"}, {"BHYVE", "bhyve"},
	{"Hyper-V", "hyper-v"}, {"Apple Virtualization", "apple"}, {"Google Compute Engine", "kvm"},
}

// hypervisor returns the hypervisor below the kernel. Clock sources of the kernel distinguish KVM, Hyper-V
// and Xen where the firmware names only QEMU, or nothing.
func (t tree) hypervisor() string {
	if strings.Contains(t.text("proc/xen/capabilities"), "control_d") {
		return "none" // the machine's own system, beside its guests
	}
	if t.line("sys/hypervisor/type") == "xen" {
		return "xen"
	}
	if strings.HasSuffix(t.dmi("product_name"), ".metal") {
		return "none" // Amazon's firmware on a machine of one's own
	}
	clocks := t.line("sys/devices/system/clocksource/clocksource0/available_clocksource")
	switch {
	case strings.Contains(clocks, "kvm-clock"):
		return "kvm"
	case strings.Contains(clocks, "hyperv_clocksource"):
		return "hyper-v"
	}
	for _, field := range [...]string{"product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"} {
		for _, f := range firmware {
			if strings.HasPrefix(t.dmi(field), f.word) {
				return f.is
			}
		}
	}
	if t.dmi("sys_vendor") == "Microsoft Corporation" && t.dmi("product_name") == "Virtual Machine" {
		return "hyper-v"
	}
	if v := t.otherArchitectures(); v != "" {
		return v
	}
	for line := range strings.Lines(t.text("proc/cpuinfo")) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			if strings.Contains(flags+" ", " hypervisor ") {
				return "vm"
			}
			break
		}
	}
	return "none"
}

// otherArchitectures reads the sources of machines without DMI.
func (t tree) otherArchitectures() string {
	device := strings.TrimRight(t.text("proc/device-tree/hypervisor/compatible"), "\x00\n")
	switch {
	case strings.Contains(device, "linux,kvm"):
		return "kvm"
	case strings.Contains(device, "xen"):
		return "xen"
	case strings.Contains(device, "vmware"):
		return "vmware"
	case device != "":
		return "vm"
	case t.exists("proc/device-tree/ibm,partition-name") && t.exists("proc/device-tree/hmc-managed?"):
		return "powervm"
	}
	for line := range strings.Lines(t.text("proc/sysinfo")) { // s390x
		if strings.HasPrefix(line, "VM") && strings.Contains(line, "Control Program") {
			if strings.Contains(line, "z/VM") {
				return "zvm"
			}
			return "kvm"
		}
	}
	return ""
}

// dmi returns one field of the firmware's tables; only root can read some.
func (t tree) dmi(field string) string { return t.line("sys/class/dmi/id/" + field) }

// cloud sets the facts of the cloud that owns the machine. cloud-init has the most exact ones, because it asked
// the provider at boot. The firmware names the provider, and of some also the instance.
func (t tree) cloud(f map[string]string) {
	if c, ok := decodeInstance([]byte(t.text("run/cloud-init/instance-data.json"))); ok {
		f[Cloud], f[CloudInstance], f[CloudRegion], f[CloudZone], f[CloudType] = c.provider, c.instance, c.region, c.zone, c.size
	}
	provider, instance, size := t.firmwareCloud()
	f[Cloud] = cmp.Or(f[Cloud], provider)
	if f[Cloud] == provider { // the firmware of another provider has another instance
		f[CloudInstance], f[CloudType] = cmp.Or(f[CloudInstance], instance), cmp.Or(f[CloudType], size)
	}
}

// firmwareCloud reads the entries of providers in the DMI tables. Serial numbers and UUIDs
// are readable for root only: without it there is no instance.
func (t tree) firmwareCloud() (provider, instance, size string) {
	vendor, product, chassis := t.dmi("sys_vendor"), t.dmi("product_name"), t.dmi("chassis_asset_tag")
	uuid := strings.ToLower(t.dmi("product_uuid"))
	switch {
	case vendor == "Amazon EC2", strings.Contains(t.dmi("bios_version"), "amazon"), strings.HasPrefix(strings.ToLower(t.line("sys/hypervisor/uuid")), "ec2"):
		if tag := t.dmi("board_asset_tag"); strings.HasPrefix(tag, "i-") {
			instance = tag
		}
		if vendor == "Amazon EC2" {
			size = product
		}
		return "aws", instance, size
	case product == "Google Compute Engine":
		return "gcp", "", ""
	case chassis == "7783-7084-3265-9085-8269-3286-77": // Azure, in its own cipher
		return "azure", "", ""
	case vendor == "Scaleway":
		return "scaleway", "", ""
	case vendor == "Exoscale", strings.HasPrefix(product, "Exoscale"):
		return "exoscale", uuid, ""
	case chassis == "OracleCloud.com":
		return "oracle", "", ""
	case strings.HasPrefix(product, "OpenStack"), strings.HasPrefix(chassis, "OpenStack"), strings.HasPrefix(vendor, "OpenStack"):
		return "openstack", uuid, ""
	}
	for _, c := range serialClouds {
		if vendor == c[0] {
			return c[1], t.dmi("product_serial"), ""
		}
	}
	return "", "", ""
}

// serialClouds has vendors whose serial number of the machine is its instance, and their providers.
var serialClouds = [...][2]string{{"DigitalOcean", "digitalocean"}, {"Hetzner", "hetzner"}, {"Vultr", "vultr"}, {"UpCloud", "upcloud"},
	{"Alibaba Cloud", "alibaba"}, {"Akamai", "akamai"}, {"Linode", "akamai"}}

// instance has the facts of a machine in a cloud.
type instance struct{ provider, instance, region, zone, size string }

// providerNames maps cloud-init's names of providers to the facts' names.
var providerNames = [...][2]string{{"gce", "gcp"}, {"aliyun", "alibaba"}, {"ec2", "aws"}}

// decodeInstance reads cloud-init's instance-data.json. ok is false where there is no cloud, such as for a
// disk image made by hand.
func decodeInstance(data []byte) (c instance, ok bool) {
	var parsed struct {
		V1 struct {
			Cloud    string `json:"cloud_name"`
			Platform string `json:"platform"`
			Instance string `json:"instance_id"`
			Region   string `json:"region"`
			Zone     string `json:"availability_zone"`
		} `json:"v1"`
		DS struct {
			Data struct {
				Type string `json:"instance-type"` // Amazon's
			} `json:"meta_data"`
		} `json:"ds"`
	}
	// A member of another type than expected is left out; the others count.
	err := json.Unmarshal(data, &parsed)
	if _, shape := err.(*json.UnmarshalTypeError); err != nil && !shape {
		return instance{}, false
	}
	v := parsed.V1
	for _, pair := range providerNames {
		if v.Cloud == pair[0] {
			v.Cloud = pair[1]
		}
	}
	switch strings.ToLower(v.Cloud) {
	case "", "none", "nocloud", "unknown", "lxd", "configdrive", "vmware", "ovf":
		return instance{}, false
	}
	return instance{strings.ToLower(v.Cloud), v.Instance, v.Region, v.Zone, parsed.DS.Data.Type}, true
}
