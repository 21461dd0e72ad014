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
	maxAddresses   = 32
	maxAnnotations = 64
	maxAnnotation  = 512 // bytes of one
)

// aboutMachine is what an entity says, in our words: its labels are labels of the agent, its
// subscriptions groups that it wants to be in, its system and annotations facts. What is no
// label or group here is left out.
func aboutMachine(m *sensuwire.Machine) intent.AgentReport {
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

// named are names that an agent says, as they are here: each once, and not many.
func named(list []string) (names []string) {
	for _, said := range few(list) {
		if name := model.CleanName(said); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// facts have the names that our own agents give them.
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
		if n < maxAnnotations && len(key)+len(value) <= maxAnnotation {
			f["annotation."+key] = value
			n++
		}
	}
	return f
}

func addresses(networks []string) string {
	var four, six []string
	for _, text := range networks {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() || len(four)+len(six) == maxAddresses {
			continue
		}
		if p.Addr().Is4() {
			four = append(four, p.Addr().String())
		} else {
			six = append(six, p.Addr().String())
		}
	}
	return strings.Join(append(four, six...), ",")
}
