package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

func (h *house) preview(kind, name string, spec model.Spec) error {
	h.t.Helper()
	_, _, err := h.p.Preview(h.t.Context(), []intent.Write{{
		Key: intent.Key{Kind: kind, Namespace: "default", Name: name}, Body: encode(h.t, kind, "default", name, nil, spec),
	}})
	return err
}

func long(n int) string { return ": " + strings.Repeat("x", n) }

// A change that would make an assignment larger than a node may hold is refused, and says whose,
// how large, and what makes it so.
func TestAssignmentHasALimit(t *testing.T) {
	h := newHouse(t)
	web := h.node("web01", nil, "web")
	h.node("db01", nil)
	targets := &model.Targets{Groups: []string{"web"}}
	for i := range 272 {
		h.put("Check", "default", fmt.Sprintf("c%d", i), nil, shell(long(60<<10), targets))
	}
	before := h.p.directory.For(web)
	err := h.preview("Check", "last", shell(long(63<<10), targets))
	if model.ClassOf(err) != model.Limited {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"node default/web01", "273 checks", "check last 63.", "takes 16384.0 KiB"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	if err := h.preview("Check", "last", shell(long(63<<10), &model.Targets{Nodes: []string{"db01"}})); err != nil {
		t.Errorf("on another node: %v", err)
	}

	// Nobody asks when a machine's label brings a check: it goes on with what it has.
	h.put("Check", "default", "by-label", nil, shell(long(63<<10), &model.Targets{Where: `node.labels.heavy == "yes"`}))
	h.node("web01", map[string]string{"heavy": "yes"}, "web")
	if a := h.p.directory.For(web); a != nil || len(h.changed) != 0 {
		t.Errorf("assignment %v, changed %v", a, h.changed)
	}
	if list := h.p.Inspector().Oversized(10); len(list) != 1 || !strings.Contains(list[0], "web01") {
		t.Errorf("oversized: %v", list)
	}
	// What makes it less is no new fault, what makes it more is.
	if err := h.preview("Check", "c0", shell(long(59<<10), targets)); err != nil {
		t.Errorf("smaller: %v", err)
	}
	if err := h.preview("Check", "c0", shell(long(61<<10), targets)); model.ClassOf(err) != model.Limited {
		t.Errorf("larger: %v", err)
	}
	h.start() // a restart knows the same
	if list := h.p.Inspector().Oversized(10); len(list) != 1 || h.p.directory.For(web) != nil {
		t.Errorf("after a restart: %v", list)
	}
	h.node("web01", nil, "web")
	if a := h.p.directory.For(web); a == nil || a.Hash != before.Hash || len(h.p.Inspector().Oversized(10)) != 0 {
		t.Errorf("it does not come back: %v", h.p.Inspector().Oversized(10))
	}
	h.node("web01", map[string]string{"heavy": "yes"}, "web")
	h.put("Node", "default", "web01", nil, nil)
	if h.p.fleet.oversized != 0 {
		t.Errorf("a deleted node counts")
	}
}

// A frame also bounds how many checks there are, and each value.
func TestPropertiesThatGrowTogether(t *testing.T) {
	h := newHouse(t)
	node := h.node("n", nil, "a", "b", "c", "d", "e")
	h.put("Check", "default", "c", nil, shell("echo {{ .props.table }}", &model.Targets{Nodes: []string{"n"}}))
	for i, group := range []string{"a", "b", "c", "d", "e"} { // merged member by member
		value, _ := json.Marshal(map[string]string{fmt.Sprint("k", i): strings.Repeat("v", 60<<10)})
		h.put("Property", "default", "p-"+group, nil, &model.PropertySpec{Property: "table", Scope: "group:" + group, Value: value})
	}
	p := h.p.directory.For(node).Properties
	if len(p) != 1 || p[0].Value != nil || !strings.Contains(p[0].Error, "at most 262144") {
		t.Fatalf("%s %.200s", p[0].Error, p[0].Value)
	}
	key := strings.Repeat("k", 5000)
	for i, group := range []string{"a", "b"} {
		h.put("Property", "default", "q-"+group, nil, &model.PropertySpec{Property: "table", Scope: "group:" + group, Value: json.RawMessage(fmt.Sprintf(`{"%s":%d}`, key, i))})
	}
	for _, p := range h.p.directory.For(node).Properties {
		if len(p.Error) > 2000 {
			t.Errorf("an error of %d bytes", len(p.Error))
		}
	}
}

// No resource, however it came into the store, stops the planner for all others.
func TestWhatNoAgentCouldReadStopsNobody(t *testing.T) {
	h := newHouse(t)
	node := h.node("n", nil)
	targets := &model.Targets{Nodes: []string{"n"}}
	many := map[string]string{}
	for i := range 2000 {
		many[fmt.Sprint("V", i)] = "x"
	}
	for name, change := range map[string]func(*model.CheckSpec){
		"long-variable":  func(s *model.CheckSpec) { s.Env = map[string]string{"A": strings.Repeat("x", 40<<10)} },
		"many-variables": func(s *model.CheckSpec) { s.Env = many },
		"long":           func(s *model.CheckSpec) { s.Command.Shell = long(300 << 10) },
		"many-arguments": func(s *model.CheckSpec) { s.Command = &model.Command{Argv: make([]string, 2000)} },
		"long-probe": func(s *model.CheckSpec) {
			s.Command, s.Probe = nil, &model.Probe{Name: "tcp", Args: map[string]string{"address": strings.Repeat("x", 40<<10)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := shell("true", targets)
			change(spec)
			if err := h.preview("Check", "bad", spec); model.ClassOf(err) != model.Invalid {
				t.Errorf("preview: %v", err)
			}
			h.put("Check", "default", "bad", nil, spec)
			h.put("Check", "default", name, nil, shell("true", targets))
			if a := h.p.directory.For(node); a == nil || a.Chunks[len(a.Chunks)-1].Name != name {
				t.Errorf("the next check is not in force")
			}
		})
	}
	// A row that an older version let through does not stop a start either.
	row, _ := json.Marshal(chunkRow{Unit: 5, Name: "default/old", Body: wire.AppendChunk(nil, (&model.CheckChunk{Env: map[string]string{"A": strings.Repeat("x", 40<<10)}}).Seal())})
	if _, err := h.Commit(t.Context(), intent.Actor{}, []intent.Write{{Key: intent.Key{Kind: chunkKind, Name: "old"}, Body: row, Expect: -1}}); err != nil {
		t.Fatal(err)
	}
	h.start()
	if a := h.p.directory.For(node); a == nil || len(a.Chunks) != 5 {
		t.Errorf("after a restart: %+v", a)
	}
}

// What validation lets through by itself, an agent can be told: each bound of the model
// is within that of the protocol.
func TestWhatIsValidCanBeTold(t *testing.T) {
	h := newHouse(t)
	h.node("n", nil)
	entries := func(n, size int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("V%0254d", i)[:min(255, 8+size)]+fmt.Sprint(i)] = strings.Repeat("x", size)
		}
		return m
	}
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("h%0200d", i)
	}
	for name, change := range map[string]func(*model.CheckSpec){
		"line":      func(s *model.CheckSpec) { s.Command.Shell = long(64<<10 - 2) },
		"arguments": func(s *model.CheckSpec) { s.Command = &model.Command{Argv: names} },
		"argument":  func(s *model.CheckSpec) { s.Command = &model.Command{Argv: []string{"x", strings.Repeat("x", 64<<10)}} },
		"variables": func(s *model.CheckSpec) { s.Env = entries(1000, 100) },
		"variable": func(s *model.CheckSpec) {
			s.Env = map[string]string{strings.Repeat("V", 255): strings.Repeat("x", 32<<10)}
		},
		"handlers": func(s *model.CheckSpec) { s.Alert = &model.Alert{Handlers: names} },
		"probe": func(s *model.CheckSpec) {
			s.Command, s.Probe = nil, &model.Probe{Name: "tcp", Args: map[string]string{"address": "host:22", "send": strings.Repeat("x", 32<<10), "expect": strings.Repeat("x", 32<<10)}}
		},
		"runAs":  func(s *model.CheckSpec) { s.RunAs = strings.Repeat("u", 255) },
		"output": func(s *model.CheckSpec) { s.MaxOutput = 1 << 20 },
		"interval": func(s *model.CheckSpec) {
			s.Interval, s.TTL = model.Duration(300*24*3600e9), model.Duration(366*24*3600e9)
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := shell("true", &model.Targets{Nodes: []string{"n"}})
			change(spec)
			r := &model.Resource{APIVersion: model.APIVersion, Kind: "Check", Metadata: model.Metadata{Name: strings.Repeat("n", 253), Namespace: "default"}, Spec: spec}
			if err := kind.All().Validate(r); err != nil {
				t.Fatalf("is not valid: %.300v", err)
			}
			if err := h.preview("Check", r.Metadata.Name, spec); err != nil {
				t.Errorf("is valid, but %.300v", err)
			}
		})
	}
}
