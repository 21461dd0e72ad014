package preflight

import (
	"fmt"
	"strings"
)

// ports describes a range of local ports that is too small, or returns an empty text. Connections to one listener share
// the ports of their source address; loopback has many addresses, a machine has one.
func (r *Run) ports(low, high int) string {
	to := strings.Split(r.Servers, ",")
	if to[0] == "" || high <= low {
		return ""
	}
	connections, sources, loopback := r.part(r.Scenario.Nodes("")), 1, strings.HasPrefix(to[0], "127.")
	if loopback {
		sources = max(r.Sources, 1)
	} else {
		connections *= r.here() // each has loopback addresses of its own, and all together this one
	}
	need := (connections + sources*len(to) - 1) / (sources * len(to))
	if need <= high-low {
		return ""
	}
	text := fmt.Sprintf("ports: %d connections from each of %d source addresses", need, sources)
	if !loopback {
		text = fmt.Sprintf("ports: %d connections from one address to %s", need, to[0])
	}
	text += fmt.Sprintf(", the range %d-%d has %d. ", low, high, high-low)
	widen, smaller := "sysctl -w net.ipv4.ip_local_port_range='1024 65000'", r.fewer(float64(high-low)/float64(need))
	_, other := r.Scenario.System()
	switch {
	case other:
		return text + "Widen it: " + widen + "; " + smaller
	case loopback:
		return text + fmt.Sprintf("Use more addresses: --sources %d; or widen it: %s", (connections+high-low-1)/(high-low), widen)
	}
	return text + fmt.Sprintf("Widen it: %s; or share the agents out between loaders on other machines: --loaders %d; %s",
		widen, (r.Scenario.Nodes("")+high-low-1)/(high-low), smaller)
}
