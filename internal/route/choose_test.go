package route

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// rooms is one namespace, with the handlers that it names.
type rooms []string

func (r rooms) NamespaceName(id model.NamespaceID) (string, bool) { return "default", id == 1 }
func (r rooms) NamespaceHandlers(string) []string                 { return r }

// The first of these that names somebody tells, and a check with pipelines is told twice by nobody.
func TestWhoIsTold(t *testing.T) {
	table := NewTable()
	set := func(name string, match *model.Selector) {
		if err := table.Apply([]Declaration{{Name: Name{"default", name}, Zone: "UTC", Spec: &model.RouteSpec{Match: match, Steps: []model.RouteStep{{To: []string{"pager"}}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	set("named", nil)
	set("disks", &model.Selector{Checks: []string{"disk"}})
	disk, swap := &Problem{Node: Name{"default", "web01"}, Source: Source{Name: Name{"default", "disk"}}}, &Problem{Node: Name{"default", "web01"}, Source: Source{Name: Name{"default", "swap"}}}
	chunk := func(change func(*model.CheckChunk)) *model.CheckChunk {
		c := &model.CheckChunk{Chunk: model.Chunk{Namespace: 1}}
		change(c)
		return c
	}
	piped := chunk(func(c *model.CheckChunk) { c.Pipelines = []string{"sensu"} })
	for _, c := range []struct {
		what  string
		of    *Problem
		chunk *model.CheckChunk
		rooms rooms
		want  Choice
		first string // handler or route
	}{
		{"handlers of the check", disk, chunk(func(c *model.CheckChunk) { c.Handlers, c.Route = []string{"mail"}, "named" }), nil, ByHandlers, "default/mail"},
		{"its route", disk, chunk(func(c *model.CheckChunk) { c.Route = "named" }), nil, ByRoute, "default/named"},
		{"its route, which is gone", disk, chunk(func(c *model.CheckChunk) { c.Route = "gone" }), nil, ByMatch, "default/disks"},
		{"what matches", disk, nil, rooms{"chat"}, ByMatch, "default/disks"},
		{"its namespace", swap, nil, rooms{"shared/chat"}, ByNamespace, "shared/chat"},
		{"nobody", swap, nil, nil, ByNobody, ""},
		{"pipelines and what matches", disk, piped, rooms{"chat"}, ByMatch, "default/disks"},
		{"pipelines alone", swap, piped, rooms{"chat"}, ByPipelines, ""},
	} {
		routes, by := Choose(table, c.rooms, c.of, c.chunk, "default")
		first := ""
		if len(routes) > 0 {
			if first = routes[0].Name.String(); routes[0].Name == (Name{}) {
				first = routes[0].Steps[0].To[0].String()
			}
		}
		if by != c.want || first != c.first {
			t.Errorf("%s: %d by %q, want %d by %q", c.what, by, first, c.want, c.first)
		}
	}
	set("default", nil)
	if routes, by := Choose(table, rooms{"chat"}, swap, nil, "default"); by != ByDefault || routes[0].Name.Name != "default" {
		t.Errorf("default: %d, %v", by, routes)
	}
	if routes, by := Choose(table, rooms{"chat"}, swap, piped, "default"); by != ByPipelines || len(routes) != 0 {
		t.Errorf("pipelines and default: %d, %v", by, routes)
	}
}
