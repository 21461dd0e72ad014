package sensu

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

const (
	maxAddresses       = 32
	maxAnnotations     = 64
	maxAnnotationBytes = 512 // key and value
)

// machineFacts translates an entity: its labels become labels of the agent, its subscriptions requested groups, its system
// and annotations facts. Invalid labels and groups are dropped.
func machineFacts(m *sensuwire.Machine) intent.AgentReport {
	said := intent.AgentReport{Facts: facts(m), Labels: map[string]string{}, Groups: []string{}}
	for key, value := range m.Labels {
		if model.LabelError(key, value) == nil {
			said.Labels[key] = value
		}
	}
	for _, s := range m.Subscriptions {
		if name := model.CleanName(s); name != "" && !strings.HasPrefix(s, "entity:") {
			said.Groups = append(said.Groups, name)
		}
	}
	return said
}

// cleanNames returns the valid names of an agent's list, each once.
func cleanNames(list []string) (names []string) {
	for _, said := range firstNames(list) {
		if name := model.CleanName(said); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// facts returns the facts of a machine, with the names that muster-agent uses.
func facts(m *sensuwire.Machine) map[string]string {
	y := &m.System
	f := map[string]string{}
	for name, value := range map[string]string{
		"hostname": y.Hostname, "os": y.OS, "distribution": y.Platform, "distributionVersion": y.PlatformVersion, "arch": y.Arch,
		"virtualisation": y.VMSystem, "cloud": strings.ToLower(y.CloudProvider), "agentVersion": "sensu-agent " + m.AgentVersion, "sensuEntity": m.Name,
	} {
		if value != "" {
			f[name] = value
		}
	}
	if list := addresses(y.Addresses); list != "" {
		f["addresses"] = list
	}
	n := 0
	for key, value := range m.Annotations {
		if n < maxAnnotations && len(key)+len(value) <= maxAnnotationBytes {
			f["annotation."+key] = value
			n++
		}
	}
	return f
}

// addresses returns the reachable addresses of a machine, IPv4 first.
func addresses(networks []string) string {
	var ipv4, ipv6 []string
	for _, text := range networks {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() || len(ipv4)+len(ipv6) == maxAddresses {
			continue
		}
		if p.Addr().Is4() {
			ipv4 = append(ipv4, p.Addr().String())
		} else {
			ipv6 = append(ipv6, p.Addr().String())
		}
	}
	return strings.Join(append(ipv4, ipv6...), ",")
}
