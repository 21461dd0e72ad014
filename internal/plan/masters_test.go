package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// A problem hangs on all that is in front of its node, the farthest first, and on what its
// check depends on, however far; who waits for that hears of a change.
func TestMasters(t *testing.T) {
	h := newHouse(t)
	ping := shell("true", nil)
	ping.Interval, ping.Timeout, ping.Alert = model.Duration(10*time.Second), model.Duration(5*time.Second), &model.Alert{FailAfter: 2}
	h.put("Check", "shared", "ping", nil, ping)
	http, db := shell("true", nil), shell("true", nil)
	http.DependsOn, db.DependsOn = []string{"db", "gone"}, []string{"shared/ping", "http", "keepalive"} // apply refuses the cycle; it must end all the same
	h.put("Check", "default", "db", nil, db)
	h.put("Check", "default", "http", nil, http)
	h.put("Node", "shared", "core", nil, &model.NodeSpec{Proxy: true})
	h.put("Node", "default", "sw7", nil, &model.NodeSpec{Upstream: &model.Upstream{Node: "shared/core", Check: "shared/ping"}})
	h.put("Node", "default", "web01", nil, &model.NodeSpec{Upstream: &model.Upstream{Node: "sw7"}})
	says := func(node, check string) (list []string) {
		id, _ := h.p.directory.CheckByName("default", check)
		of, _ := h.p.directory.NodeByName("default", node)
		for _, m := range h.p.directory.Dependencies(of, id) {
			word := "depends "
			if m.Behind {
				word = "behind "
			}
			list = append(list, word+m.Name.String()+" "+m.Settle.String())
		}
		return list
	}
	for _, c := range []struct {
		node, check string
		want        []string
	}{
		{"sw7", "keepalive", []string{"behind shared/core/ping 25s"}},
		{"web01", "keepalive", []string{"behind shared/core/ping 25s", "behind default/sw7/keepalive 2m0s"}},
		{"web01", "http", []string{"behind shared/core/ping 25s", "behind default/sw7/keepalive 2m0s", "depends default/web01/db 2m0s", "depends default/web01/ping 25s", "depends default/web01/keepalive 2m0s"}},
	} {
		got := says(c.node, c.check)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s/%s: %q, want %q", c.node, c.check, got, c.want)
		}
	}
	h.put("Node", "default", "sw7", nil, &model.NodeSpec{})
	if got := says("web01", "keepalive"); !slices.Equal(got, []string{"behind default/sw7/keepalive 2m0s"}) {
		t.Errorf("after a change: %q", got)
	}
}
