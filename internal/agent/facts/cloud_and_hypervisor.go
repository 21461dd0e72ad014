package facts

import (
	"cmp"
	"encoding/json"
	"strings"
)

// containerRuntime returns the name of the container runtime, or "" if the machine is not a container. It reads the
// same sources as systemd-detect-virt.
func (t machineFS) containerRuntime() string {
	release := t.firstLine("proc/sys/kernel/osrelease")
	switch {
	case t.fileExists("proc/vz") && !t.fileExists("proc/bc"): // proc/bc: the host of OpenVZ
		return "openvz"
	case strings.Contains(release, "Microsoft") || strings.Contains(release, "WSL"):
		return "wsl"
	case t.fileExists("var/run/secrets/kubernetes.io/serviceaccount"), t.fileExists("run/secrets/kubernetes.io/serviceaccount"):
		return "kubernetes"
	}
	manager := cmp.Or(t.firstLine("run/systemd/container"), t.firstLine("run/host/container-manager")) // written by systemd inside
	for _, variable := range strings.Split(t.fileText("proc/1/environ"), "\x00") {                     // readable for root only
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
	groups := t.fileText("proc/1/cgroup")
	inGroup := func(part string) bool { return strings.Contains(groups, part) }
	switch {
	case inGroup("/kubepods"):
		return "kubernetes"
	case t.fileExists("run/.containerenv"):
		return "podman"
	case t.fileExists(".dockerenv"), inGroup("/docker/"), inGroup("/docker-"):
		return "docker"
	case inGroup("/lxc/"), inGroup("/lxc.payload"):
		return "lxc"
	}
	return ""
}

// firmwareVendors maps words of the DMI tables to hypervisors, in systemd's order.
var firmwareVendors = [...]struct{ word, is string }{
	{"KVM", "kvm"}, {"OpenStack", "kvm"}, {"KubeVirt", "kvm"}, {"Amazon EC2", "kvm"}, {"QEMU", "qemu"},
	{"VMware", "vmware"}, {"VMW", "vmware"}, {"innotek GmbH", "virtualbox"}, {"VirtualBox", "virtualbox"},
	{"Oracle Corporation", "virtualbox"}, {"Xen", "xen"}, {"Parallels", "parallels"}, {"BHYVE", "bhyve"},
	{"Hyper-V", "hyper-v"}, {"Apple Virtualization", "apple"}, {"Google Compute Engine", "kvm"},
}

// hypervisor returns the name of the machine's hypervisor, or "" if no hypervisor is found. Clock sources of the
// kernel distinguish KVM, Hyper-V and Xen where the firmware names only QEMU, or nothing.
func (t machineFS) hypervisor() string {
	if strings.Contains(t.fileText("proc/xen/capabilities"), "control_d") {
		return "none" // the machine's own system, beside its guests
	}
	if t.firstLine("sys/hypervisor/type") == "xen" {
		return "xen"
	}
	if strings.HasSuffix(t.dmiField("product_name"), ".metal") {
		return "none" // Amazon's firmware on a machine of one's own
	}
	clocks := t.firstLine("sys/devices/system/clocksource/clocksource0/available_clocksource")
	switch {
	case strings.Contains(clocks, "kvm-clock"):
		return "kvm"
	case strings.Contains(clocks, "hyperv_clocksource"):
		return "hyper-v"
	}
	for _, field := range [...]string{"product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"} {
		for _, f := range firmwareVendors {
			if strings.HasPrefix(t.dmiField(field), f.word) {
				return f.is
			}
		}
	}
	if t.dmiField("sys_vendor") == "Microsoft Corporation" && t.dmiField("product_name") == "Virtual Machine" {
		return "hyper-v"
	}
	if v := t.hypervisorWithoutDMI(); v != "" {
		return v
	}
	for line := range strings.Lines(t.fileText("proc/cpuinfo")) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			if strings.Contains(flags+" ", " hypervisor ") {
				return "vm"
			}
			break
		}
	}
	return "none"
}

// hypervisorWithoutDMI returns the hypervisor of a machine without DMI tables, from other files of the kernel.
func (t machineFS) hypervisorWithoutDMI() string {
	device := strings.TrimRight(t.fileText("proc/device-tree/hypervisor/compatible"), "\x00\n")
	switch {
	case strings.Contains(device, "linux,kvm"):
		return "kvm"
	case strings.Contains(device, "xen"):
		return "xen"
	case strings.Contains(device, "vmware"):
		return "vmware"
	case device != "":
		return "vm"
	case t.fileExists("proc/device-tree/ibm,partition-name") && t.fileExists("proc/device-tree/hmc-managed?"):
		return "powervm"
	}
	for line := range strings.Lines(t.fileText("proc/sysinfo")) { // s390x
		if strings.HasPrefix(line, "VM") && strings.Contains(line, "Control Program") {
			if strings.Contains(line, "z/VM") {
				return "zvm"
			}
			return "kvm"
		}
	}
	return ""
}

// dmiField returns one field of the firmware's DMI tables, such as the vendor name. It returns "" if the field is
// missing or unreadable.
func (t machineFS) dmiField(field string) string { return t.firstLine("sys/class/dmi/id/" + field) }

// setCloudFacts sets the facts about the cloud provider, such as name, region and instance. cloud-init has the most
// exact facts, because it asked the provider at boot. The firmware names the provider, and of some also the instance.
func (t machineFS) setCloudFacts(f map[string]string) {
	if c, ok := decodeCloudInit([]byte(t.fileText("run/cloud-init/instance-data.json"))); ok {
		f[Cloud], f[CloudInstance], f[CloudRegion], f[CloudZone], f[CloudType] = c.provider, c.cloudMachine, c.region, c.zone, c.machineType
	}
	provider, instance, size := t.firmwareCloud()
	f[Cloud] = cmp.Or(f[Cloud], provider)
	if f[Cloud] == provider { // the firmware of another provider has another instance
		f[CloudInstance], f[CloudType] = cmp.Or(f[CloudInstance], instance), cmp.Or(f[CloudType], size)
	}
}

// firmwareCloud detects the cloud provider by the vendor names in the firmware's DMI tables. Serial numbers and UUIDs
// are readable for root only: without it there is no instance.
func (t machineFS) firmwareCloud() (provider, instance, size string) {
	vendor, product, chassis := t.dmiField("sys_vendor"), t.dmiField("product_name"), t.dmiField("chassis_asset_tag")
	uuid := strings.ToLower(t.dmiField("product_uuid"))
	switch {
	case vendor == "Amazon EC2", strings.Contains(t.dmiField("bios_version"), "amazon"), strings.HasPrefix(strings.ToLower(t.firstLine("sys/hypervisor/uuid")), "ec2"):
		if tag := t.dmiField("board_asset_tag"); strings.HasPrefix(tag, "i-") {
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
			return c[1], t.dmiField("product_serial"), ""
		}
	}
	return "", "", ""
}

// serialClouds has vendors whose serial number of the machine is its instance, and their providers.
var serialClouds = [...][2]string{{"DigitalOcean", "digitalocean"}, {"Hetzner", "hetzner"}, {"Vultr", "vultr"}, {"UpCloud", "upcloud"},
	{"Alibaba Cloud", "alibaba"}, {"Akamai", "akamai"}, {"Linode", "akamai"}}

// cloudMachine has the facts about a machine in a cloud, such as provider, region and type.
type cloudMachine struct{ provider, cloudMachine, region, zone, machineType string }

// providerNames maps cloud-init's names of providers to the facts' names.
var providerNames = [...][2]string{{"gce", "gcp"}, {"aliyun", "alibaba"}, {"ec2", "aws"}}

// decodeCloudInit reads cloud provider, region and machine type from cloud-init's file instance-data.json. ok is
// false where there is no cloud, such as for a disk image made by hand.
func decodeCloudInit(data []byte) (c cloudMachine, ok bool) {
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
		return cloudMachine{}, false
	}
	v := parsed.V1
	for _, pair := range providerNames {
		if v.Cloud == pair[0] {
			v.Cloud = pair[1]
		}
	}
	switch strings.ToLower(v.Cloud) {
	case "", "none", "nocloud", "unknown", "lxd", "configdrive", "vmware", "ovf":
		return cloudMachine{}, false
	}
	return cloudMachine{strings.ToLower(v.Cloud), v.Instance, v.Region, v.Zone, parsed.DS.Data.Type}, true
}
