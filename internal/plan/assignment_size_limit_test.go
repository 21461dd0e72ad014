package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// preview previews the write of one resource, and returns the error of the preview.
func (h *testPlanner) preview(kind, name string, spec model.Spec) error {
	h.t.Helper()
	_, err := h.p.Preview(h.t.Context(), []intent.Write{{
		Key: intent.Key{Kind: kind, Namespace: "default", Name: name}, Body: encodeSpec(h.t, kind, "default", name, nil, spec),
	}}, false)
	return err
}

// longText returns a text of n bytes, to fill an assignment in a test.
func longText(n int) string { return ": " + strings.Repeat("x", n) }

// TestAssignmentHasSizeLimit makes the assignment of a node too large, and expects the change to be refused. The error
// names node, size and cause.
func TestAssignmentHasSizeLimit(t *testing.T) {
	h := newTestPlanner(t)
	web := h.node("web01", nil, "web")
	h.node("db01", nil)
	targets := &model.Targets{Groups: []string{"web"}}
	for i := range 272 {
		h.apply("Check", "default", fmt.Sprintf("c%d", i), nil, commandCheck(longText(60<<10), targets))
	}
	before := h.p.directory.AssignmentOf(web)
	err := h.preview("Check", "last", commandCheck(longText(63<<10), targets))
	if model.ClassOf(err) != model.Limited {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"node default/web01", "273 checks", "check last 63.", "the limit is 16384.0 KiB"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	if err := h.preview("Check", "last", commandCheck(longText(63<<10), &model.Targets{Nodes: []string{"db01"}})); err != nil {
		t.Errorf("on another node: %v", err)
	}

	// A machine's label brings a check that nobody can refuse: the check is left out.
	h.apply("Check", "default", "by-label", nil, commandCheck(longText(63<<10), &model.Targets{Where: `node.labels.heavy == "yes"`}))
	h.node("web01", map[string]string{"heavy": "yes"}, "web")
	if a := h.p.directory.AssignmentOf(web); a == nil || a.Hash != before.Hash || len(h.changed) != 0 {
		t.Errorf("assignment %v, changed %v", a, h.changed)
	}
	if faults := h.p.Inspector().NodeFaults(web); len(faults) != 1 || faults[0].Text != "check by-label is left out: with it the node's assignment would exceed 16384.0 KiB" {
		t.Errorf("faults: %+v", faults)
	}
	if list := h.p.Inspector().OversizedNodes(10); len(list) != 1 || !strings.Contains(list[0], "web01") {
		t.Errorf("oversized: %v", list)
	}
	// What makes it less is no new fault, what makes it more is.
	if err := h.preview("Check", "c0", commandCheck(longText(59<<10), targets)); err != nil {
		t.Errorf("smaller: %v", err)
	}
	if err := h.preview("Check", "c0", commandCheck(longText(61<<10), targets)); model.ClassOf(err) != model.Limited {
		t.Errorf("larger: %v", err)
	}
	h.start() // a restart knows the same
	if list := h.p.Inspector().OversizedNodes(10); len(list) != 1 || h.p.directory.AssignmentOf(web) == nil || h.p.directory.AssignmentOf(web).Hash != before.Hash {
		t.Errorf("after a restart: %v", list)
	}
	if a := h.p.directory.AssignmentOf(h.node("web02", map[string]string{"heavy": "yes"}, "web")); a == nil || a.Hash != before.Hash {
		t.Errorf("a new node: %v", a)
	}
	h.apply("Node", "default", "web02", nil, nil)
	h.node("web01", nil, "web")
	if a := h.p.directory.AssignmentOf(web); a == nil || a.Hash != before.Hash || len(h.p.Inspector().OversizedNodes(10)) != 0 {
		t.Errorf("it does not come back: %v", h.p.Inspector().OversizedNodes(10))
	}
	h.node("web01", map[string]string{"heavy": "yes"}, "web")
	h.apply("Node", "default", "web01", nil, nil)
	if h.p.fleet.oversized != 0 {
		t.Errorf("a deleted node counts")
	}
}

// TestLargestChecksAreLeftOut makes a node's assignment too large, and expects the largest checks to be left
// out. The cause is too large directives, too many checks or a too large proxy node. It expects no more units
// to be left out of the assignment than necessary, and Waivers to stay.
func TestLargestChecksAreLeftOut(t *testing.T) {
	heavy := &model.Targets{Where: `node.labels.heavy == "yes"`}
	count := func(h *testPlanner, node model.NodeID) (directives, waivers, checks int) {
		for _, c := range h.p.directory.AssignmentOf(node).Definitions {
			switch {
			case c.AsWaiver() != nil:
				waivers++
			case c.AsCheck() != nil:
				checks++
			default:
				directives++
			}
		}
		return directives, waivers, checks
	}
	t.Run("waivers", func(t *testing.T) {
		h := newTestPlanner(t)
		node := h.node("n", nil)
		h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
		h.apply("Directive", "default", "hello", nil, motdDirective("hello"))
		h.apply("Policy", "default", "all", nil, &model.PolicySpec{Directives: []string{"hello"}, Targets: heavy})
		h.apply("Waiver", "default", "w", nil, &model.WaiverSpec{Directive: "hello", Components: longComponents(), Targets: heavy, Reason: "a", Expires: model.Time{Time: time.Unix(2e9, 0)}})
		for i := range 280 {
			h.apply("Check", "default", fmt.Sprint("c", i), nil, commandCheck(longText(60<<10), heavy))
		}
		h.node("n", map[string]string{"heavy": "yes"})
		directives, waivers, checks := count(h, node)
		if left := len(h.p.fleet.nodes[node].content.leftOut); waivers != 1 || directives != 1 || checks < 265 || checks+left != 280 {
			t.Errorf("%d directives, %d waivers, %d checks, %d left out", directives, waivers, checks, left)
		}
	})
	t.Run("definitions", func(t *testing.T) {
		h := newTestPlanner(t)
		node := h.node("n", nil)
		var writes []intent.Write
		for i := range wire.MaxDefinitions + 500 {
			key := intent.Key{Kind: "Check", Namespace: "default", Name: fmt.Sprint("c", i)}
			writes = append(writes, intent.Write{Key: key, Body: encodeSpec(t, key.Kind, key.Namespace, key.Name, nil, commandCheck("true", heavy)), Expect: -1})
		}
		h.write(writes...)
		h.node("n", map[string]string{"heavy": "yes"})
		if _, _, checks := count(h, node); checks != wire.MaxDefinitions {
			t.Errorf("%d checks", checks)
		}
	})
	t.Run("a proxy node", func(t *testing.T) {
		h := newTestPlanner(t)
		h.node("n", nil)
		h.apply("Node", "default", "router", map[string]string{"site": "a"}, &model.NodeSpec{Proxy: true})
		about := func(name, text string) {
			spec := commandCheck(text, heavy)
			spec.Proxy = &model.Targets{Nodes: []string{"router"}}
			h.apply("Check", "default", name, nil, spec)
		}
		h.apply("Check", "default", "own", nil, commandCheck("true", heavy))
		for i := range 5 {
			value, _ := json.Marshal(strings.Repeat("v", 250<<10))
			h.apply("Property", "default", fmt.Sprint("p", i), nil, &model.PropertySpec{Property: fmt.Sprint("p", i), Scope: "node:router", Value: value})
			about(fmt.Sprint("reads", i), fmt.Sprintf("echo {{ .props.p%d }}", i))
		}
		about("plain", longText(60<<10)) // larger than the others, but of no help
		h.node("n", map[string]string{"heavy": "yes"})
		if names := h.checkNames("n"); len(names) != 6 || !slices.Contains(names, "plain") {
			t.Errorf("%v", names)
		}
	})
}

// longComponents returns 1,000 long component names for a Waiver that exceeds the size limit in a test. It is
// larger than all other units of the test.
func longComponents() (names []string) {
	for i := range 1000 {
		names = append(names, fmt.Sprintf("%0200d", i))
	}
	return names
}

// TestMergedPropertiesHaveALimit sets too many or too large properties on a node, and expects an error in each
// case.
func TestMergedPropertiesHaveALimit(t *testing.T) {
	h := newTestPlanner(t)
	node := h.node("n", nil, "a", "b", "c", "d", "e")
	h.apply("Check", "default", "c", nil, commandCheck("echo {{ .props.table }}", &model.Targets{Nodes: []string{"n"}}))
	for i, group := range []string{"a", "b", "c", "d", "e"} { // merged member by member
		value, _ := json.Marshal(map[string]string{fmt.Sprint("k", i): strings.Repeat("v", 60<<10)})
		h.apply("Property", "default", "p-"+group, nil, &model.PropertySpec{Property: "table", Scope: "group:" + group, Value: value})
	}
	p := h.p.directory.AssignmentOf(node).Properties
	if len(p) != 1 || p[0].Value != nil || !strings.Contains(p[0].Error, "the limit is 262144") {
		t.Fatalf("%s %.200s", p[0].Error, p[0].Value)
	}
	key := strings.Repeat("k", 5000)
	for i, group := range []string{"a", "b"} {
		h.apply("Property", "default", "q-"+group, nil, &model.PropertySpec{Property: "table", Scope: "group:" + group, Value: json.RawMessage(fmt.Sprintf(`{"%s":%d}`, key, i))})
	}
	for _, p := range h.p.directory.AssignmentOf(node).Properties {
		if len(p.Error) > 2000 {
			t.Errorf("an error of %d bytes", len(p.Error))
		}
	}
}

// TestUnreadableResourceBlocksNoOthers stores an unreadable resource, and expects the planner to compile the other
// resources.
func TestUnreadableResourceBlocksNoOthers(t *testing.T) {
	h := newTestPlanner(t)
	node := h.node("n", nil)
	targets := &model.Targets{Nodes: []string{"n"}}
	many := map[string]string{}
	for i := range 2000 {
		many[fmt.Sprint("V", i)] = "x"
	}
	for name, change := range map[string]func(*model.CheckSpec){
		"long-variable":  func(s *model.CheckSpec) { s.Env = map[string]string{"A": strings.Repeat("x", 40<<10)} },
		"many-variables": func(s *model.CheckSpec) { s.Env = many },
		"long":           func(s *model.CheckSpec) { s.Command.Shell = longText(300 << 10) },
		"many-arguments": func(s *model.CheckSpec) { s.Command = &model.Command{Argv: make([]string, 2000)} },
		"long-probe": func(s *model.CheckSpec) {
			s.Command, s.Probe = nil, &model.Probe{Name: "tcp", Args: map[string]string{"address": strings.Repeat("x", 40<<10)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := commandCheck("true", targets)
			change(spec)
			if err := h.preview("Check", "bad", spec); model.ClassOf(err) != model.Invalid {
				t.Errorf("preview: %v", err)
			}
			h.apply("Check", "default", "bad", nil, spec)
			h.apply("Check", "default", name, nil, commandCheck("true", targets))
			if a := h.p.directory.AssignmentOf(node); a == nil || a.Definitions[len(a.Definitions)-1].Name != name {
				t.Errorf("the next check is not in force")
			}
		})
	}
	// A row that an older version let through does not stop a start either.
	row, _ := json.Marshal(definitionRow{Unit: 5, Name: "default/old", Body: wire.AppendDefinition(nil, (&model.CheckDefinition{Env: map[string]string{"A": strings.Repeat("x", 40<<10)}}).ToDefinition())})
	if _, err := h.Commit(t.Context(), intent.Actor{}, []intent.Write{{Key: intent.Key{Kind: definitionKind, Name: "old"}, Body: row, Expect: -1}}); err != nil {
		t.Fatal(err)
	}
	h.start()
	if a := h.p.directory.AssignmentOf(node); a == nil || len(a.Definitions) != 5 {
		t.Errorf("after a restart: %+v", a)
	}
}

// TestValidSpecsCompile compiles the largest valid checks and Templates, and expects each to fit in one message
// to agents.
func TestValidSpecsCompile(t *testing.T) {
	h := newTestPlanner(t)
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
		"line":      func(s *model.CheckSpec) { s.Command.Shell = longText(64<<10 - 2) },
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
			spec := commandCheck("true", &model.Targets{Nodes: []string{"n"}})
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

// memoryStore is a store of declared resources in memory, for tests of the planner. Each write gets an id and a
// revision, as in a database.
type memoryStore struct {
	mu       sync.Mutex
	rows     map[intent.Key]intent.Row
	changes  []intent.Change
	lastID   map[string]uint32
	revision int64
	fail     error // of the next Commit
}

// newMemoryStore returns an empty store of declared resources in memory, for tests.
func newMemoryStore() *memoryStore {
	return &memoryStore{rows: map[intent.Key]intent.Row{}, lastID: map[string]uint32{"Node": 1, "Check": 999, "Namespace": 0}}
}

// Commit applies writes as one revision, or fails once if the test has set an error.
func (m *memoryStore) Commit(_ context.Context, by intent.Actor, writes []intent.Write) (intent.CommitResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail; err != nil {
		m.fail = nil
		return intent.CommitResult{}, err
	}
	m.revision++
	done := intent.CommitResult{Revision: m.revision}
	for _, w := range writes {
		row, known := m.rows[w.Source()]
		c := intent.Change{Revision: m.revision, Actor: by, Key: w.Key, ID: row.ID, Op: "update", Was: w.From, Before: row.Body, After: w.Body}
		if w.From != "" {
			c.Op, row.Key = "rename", w.Key
			delete(m.rows, w.Source())
		}
		switch {
		case w.Body == nil:
			c.Op = "delete"
			delete(m.rows, w.Key)
		default:
			if !known {
				sequence := w.Kind
				if unitCompilers[w.Kind] != nil || w.Kind == "Toy" {
					sequence = "Check"
				}
				m.lastID[sequence]++
				row = intent.Row{Key: w.Key, ID: m.lastID[sequence]}
				c.Op, c.ID = "create", row.ID
			}
			row.Body, row.Revision = w.Body, m.revision
			m.rows[w.Key] = row
		}
		done.Rows = append(done.Rows, row)
		m.changes = append(m.changes, c)
	}
	return done, nil
}

// Get returns the stored resource (database row) with a given key.
func (m *memoryStore) Get(_ context.Context, key intent.Key) (intent.Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.rows[key]
	if !ok {
		return row, model.Errorf(model.NotFound, "no %s %q", key.Kind, key.Name)
	}
	return row, nil
}

// GetAll returns the stored resources (database rows) with the given keys. It skips missing rows.
func (m *memoryStore) GetAll(_ context.Context, keys []intent.Key) (rows []intent.Row, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if row, ok := m.rows[key]; ok {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// List returns all stored resources (database rows) of a kind.
func (m *memoryStore) List(_ context.Context, q intent.ListQuery) (rows []intent.Row, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, row := range m.rows {
		if row.Kind == q.Kind {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b intent.Row) int {
		return strings.Compare(a.Namespace+"\x00"+a.Name, b.Namespace+"\x00"+b.Name)
	})
	return rows, nil
}

// Changes returns the changes of resources after a revision.
func (m *memoryStore) Changes(_ context.Context, after int64, limit int) (list []intent.Change, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.changes {
		if c.Revision > after {
			list = append(list, c)
		}
	}
	return list, nil
}

// ChangesBefore returns the changes of one resource, the newest first.
func (m *memoryStore) ChangesBefore(_ context.Context, q intent.ChangeQuery) (list []intent.Change, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range slices.Backward(m.changes) {
		if c.Key == (intent.Key{Kind: q.Kind, Namespace: q.Namespace, Name: q.Name}) && (q.Limit == 0 || len(list) < q.Limit) {
			list = append(list, c)
		}
	}
	return list, nil
}

// Revision returns the revision of the last change.
func (m *memoryStore) Revision(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision, nil
}

// ForgetChanges does nothing, because the store in memory keeps all changes.
func (m *memoryStore) ForgetChanges(context.Context, time.Time, int) (int, error) { return 0, nil }

// Close does nothing, because the store in memory holds no files.
func (m *memoryStore) Close() error { return nil }

// Trouble returns nil, because the store in memory always works.
func (m *memoryStore) Trouble() error { return nil }

// Identity returns the store id 1, because all stores in memory have the same id.
func (m *memoryStore) Identity() uint64 { return 1 }

// LastID returns zero, because the planner does not call LastID.
func (m *memoryStore) LastID() uint32 { return 0 }

// RecordIncarnation does nothing, because the planner does not use the journal's id.
func (m *memoryStore) RecordIncarnation(context.Context, uint64, intent.JournaledRevision) error {
	return nil
}

// Incarnation returns zero, because the planner does not use the journal's id.
func (m *memoryStore) Incarnation(context.Context) (uint64, error) { return 0, nil }

// testPlanner is a planner on a store in memory, for tests.
type testPlanner struct {
	t testing.TB
	*memoryStore
	p         *Planner
	forgotten []Removal
	changed   []model.NodeID // of the last put
}

// newTestPlanner returns a planner on a memory store with the namespaces default and shared.
func newTestPlanner(t testing.TB) *testPlanner {
	t.Helper()
	h := &testPlanner{t: t, memoryStore: newMemoryStore()}
	h.apply("Namespace", "", "default", nil, &model.NamespaceSpec{})
	h.apply("Namespace", "", "shared", nil, &model.NamespaceSpec{})
	h.start()
	return h
}

// start replaces the planner by a new one on the same store, as after a restart
func (h *testPlanner) start() {
	h.t.Helper()
	h.p = New(Options{Store: h.memoryStore, Epoch: 7, Removed: func(f []Removal) { h.forgotten = append(h.forgotten, f...) }})
	if err := h.p.Load(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	h.p.directory.Subscribe(func(c directory.Change) { h.changed = append(h.changed, c.Assignments...) })
}

// encodeSpec encodes a test resource as JSON, in the same form as the store of declared resources.
func encodeSpec(t testing.TB, kind, ns, name string, labels map[string]string, spec model.Spec) []byte {
	t.Helper()
	data, err := json.Marshal(model.Resource{
		APIVersion: model.APIVersion, Kind: kind, Spec: spec,
		Metadata: model.Metadata{Name: name, Namespace: ns, Labels: labels},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// apply writes one resource and lets the planner apply the change. A nil specification deletes the resource.
func (h *testPlanner) apply(kind, ns, name string, labels map[string]string, spec model.Spec) {
	h.t.Helper()
	w := intent.Write{Key: intent.Key{Kind: kind, Namespace: ns, Name: name}, Expect: -1}
	if spec != nil {
		w.Body = encodeSpec(h.t, kind, ns, name, labels, spec)
	}
	h.write(w)
}

// write commits writes to the store and lets the planner apply the changes
func (h *testPlanner) write(writes ...intent.Write) {
	h.t.Helper()
	if _, err := h.Commit(context.Background(), intent.Actor{User: "test"}, writes); err != nil {
		h.t.Fatal(err)
	}
	if h.p != nil {
		h.changed = nil
		if err := h.p.CatchUp(context.Background()); err != nil {
			h.t.Fatal(err)
		}
	}
}

// node declares a node with labels and groups and returns its id.
func (h *testPlanner) node(name string, labels map[string]string, groups ...string) model.NodeID {
	h.t.Helper()
	h.apply("Node", "default", name, labels, &model.NodeSpec{Groups: groups})
	return h.id(name)
}

// id returns the id of a node by its name.
func (h *testPlanner) id(name string) model.NodeID {
	h.t.Helper()
	id, ok := h.p.directory.NodeByName("default", name)
	if !ok {
		h.t.Fatalf("no node %q", name)
	}
	return id
}

// commandCheck returns a check that runs a shell command once a minute on some nodes. The targets select the nodes.
func commandCheck(line string, t *model.Targets) *model.CheckSpec {
	return &model.CheckSpec{Targets: t, Command: &model.Command{Shell: line}, Interval: model.Duration(60e9)}
}

// checkNames returns the names of the checks in a node's assignment.
func (h *testPlanner) checkNames(node string) (names []string) {
	for _, c := range h.p.directory.AssignmentOf(h.id(node)).Definitions {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}
