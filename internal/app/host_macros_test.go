package app

import (
	"fmt"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
	"github.com/muster-fleet/muster/internal/wire"
)

// oneHost is a directory with the node 7.
type oneHost struct{}

// NodeName returns the name of the node 7.
func (oneHost) NodeName(id model.NodeID) (namespace, name string, ok bool) {
	return "default", fmt.Sprintf("web%02d", id), true
}

// NodeFacts returns the addresses of the node.
func (oneHost) NodeFacts(model.NodeID) map[string]string {
	return map[string]string{"addresses": "192.0.2.7,2001:db8::7"}
}

// TestHostMacros sets the macros of the host in a verdict. Macros without a value stay, and the labels of the view, which
// shares the map, do not change.
func TestHostMacros(t *testing.T) {
	labels := map[string]string{"host": `{{HOST.NAME}.uppercase()}`, "scope": "capacity"}
	v := metric.Verdict{Node: 7, Verdict: wire.Verdict{Labels: labels, Description: "{HOST.NAME} {HOST.IP} {HOST.CONN1} {HOSTNAME} {HOST.DNS} {HOST.PORT} {OTHER}", Output: []byte("on {HOST.HOST}\nload = 5")}}
	for range 2 { // the server tries again after an error of the journal
		setHostMacros(oneHost{}, &v)
	}
	const want = "map[host:WEB07 scope:capacity] web07 192.0.2.7 192.0.2.7 web07 {HOST.DNS} {HOST.PORT} {OTHER} on web07\nload = 5"
	if got := fmt.Sprint(v.Labels, " ", v.Description, " ", string(v.Output)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if labels["host"] != `{{HOST.NAME}.uppercase()}` {
		t.Errorf("the map of the view has changed: %v", labels)
	}
}
