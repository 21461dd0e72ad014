package facts

import (
	"fmt"
	"strings"
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

// Fact is one line of the reference.
type Fact struct{ Name, Example, Meaning string }

// All lists every fact, in the order in which people look for them.
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

// Reference writes docs/reference/facts.md.
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
