package route

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// namespaceHandlers is one namespace, default, with these handlers.
type namespaceHandlers []string

func (r namespaceHandlers) NamespaceName(id model.NamespaceID) (string, bool) {
	return "default", id == 1
}
func (r namespaceHandlers) NamespaceHandlers(string) []string { return r }

// TestChoose checks the order of the rules, and that a check with pipelines is not notified twice.
func TestChoose(t *testing.T) {
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
		rooms namespaceHandlers
		want  Choice
		first string // handler or route
	}{
		{"handlers of the check", disk, chunk(func(c *model.CheckChunk) { c.Handlers, c.Route = []string{"mail"}, "named" }), nil, ByHandlers, "default/mail"},
		{"its route", disk, chunk(func(c *model.CheckChunk) { c.Route = "named" }), nil, ByRoute, "default/named"},
		{"its route, which is gone", disk, chunk(func(c *model.CheckChunk) { c.Route = "gone" }), nil, ByMatch, "default/disks"},
		{"what matches", disk, nil, namespaceHandlers{"chat"}, ByMatch, "default/disks"},
		{"its namespace", swap, nil, namespaceHandlers{"shared/chat"}, ByNamespace, "shared/chat"},
		{"nobody", swap, nil, nil, NoRecipient, ""},
		{"pipelines and what matches", disk, piped, namespaceHandlers{"chat"}, ByMatch, "default/disks"},
		{"pipelines alone", swap, piped, namespaceHandlers{"chat"}, ByPipelines, ""},
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
	if routes, by := Choose(table, namespaceHandlers{"chat"}, swap, nil, "default"); by != ByDefault || routes[0].Name.Name != "default" {
		t.Errorf("default: %d, %v", by, routes)
	}
	if routes, by := Choose(table, namespaceHandlers{"chat"}, swap, piped, "default"); by != ByPipelines || len(routes) != 0 {
		t.Errorf("pipelines and default: %d, %v", by, routes)
	}
}
