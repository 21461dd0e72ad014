package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// What keeps nodes from running a check is found on each of them, and counted over all.
func TestFaults(t *testing.T) {
	h := newHouse(t)
	for i := range 5 {
		h.node(fmt.Sprintf("web%d", i), nil, "web")
	}
	h.node("db1", nil, "web", "db")
	h.put("Check", "default", "disk", nil, shell("check_disk -w {{ .props.disk_warn }}", &model.Targets{Groups: []string{"web"}}))
	h.put("Check", "default", "load", nil, shell(`check_load -w {{ .props.load_warn | default "5" }}`, &model.Targets{Groups: []string{"web"}}))
	text := func(namespace string) string {
		list, nodes := h.p.Inspector().Faults(namespace)
		out := fmt.Sprint(nodes, " nodes")
		for _, f := range list {
			names := make([]string, len(f.Examples))
			for i, id := range f.Examples {
				_, names[i], _ = h.p.directory.NodeName(id)
			}
			out += fmt.Sprintf("; %d %s: %s", f.Nodes, strings.Join(names, " "), f.Text)
		}
		return out
	}
	for _, want := range []string{
		`6 nodes; 6 web0 web1 web2: check disk: property "disk_warn" is not set and has no default`,
		`1 nodes; 1 db1: check disk: property "disk_warn" has no value here: disk_warn is set differently by group db and by group web`,
		`0 nodes`,
	} {
		if got := text(""); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if got := text("other"); got != "0 nodes" {
			t.Error(got)
		}
		of := h.p.Inspector().NodeFaults(h.id("db1"))
		if (len(of) == 1) != strings.Contains(want, "disk_warn") {
			t.Errorf("of db1: %+v", of)
		}
		switch {
		case strings.HasPrefix(want, "6"):
			h.put("Group", "default", "web", nil, &model.GroupSpec{Properties: map[string]json.RawMessage{"disk_warn": []byte(`"20%"`)}})
			h.put("Group", "default", "db", nil, &model.GroupSpec{Properties: map[string]json.RawMessage{"disk_warn": []byte(`"10%"`)}})
		case strings.HasPrefix(want, "1"):
			h.put("Property", "default", "disk_warn", nil, &model.PropertySpec{Scope: "node:db1", Value: []byte(`"5%"`)})
		}
	}
}
