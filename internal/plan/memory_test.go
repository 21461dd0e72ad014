package plan

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// memory is an intent.Store for tests of the planner: what it does with SQL is not
// their subject, that every write gets an id and a revision is.
type memory struct {
	mu       sync.Mutex
	rows     map[intent.Key]intent.Row
	changes  []intent.Change
	lastID   map[string]uint32
	revision int64
	fail     error // of the next Commit
}

func newMemory() *memory {
	return &memory{rows: map[intent.Key]intent.Row{}, lastID: map[string]uint32{"Node": 1, "Check": 999, "Namespace": 0}}
}

func (m *memory) Commit(_ context.Context, by intent.Actor, writes []intent.Write) (intent.CommitResult, error) {
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
		c := intent.Change{Revision: m.revision, Who: by, Key: w.Key, ID: row.ID, Op: "update", Was: w.From, Before: row.Body, After: w.Body}
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
				m.lastID[w.Kind]++
				row = intent.Row{Key: w.Key, ID: m.lastID[w.Kind]}
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

func (m *memory) Get(_ context.Context, key intent.Key) (intent.Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.rows[key]
	if !ok {
		return row, model.Errorf(model.NotFound, "no %s %q", key.Kind, key.Name)
	}
	return row, nil
}

func (m *memory) GetAll(_ context.Context, keys []intent.Key) (rows []intent.Row, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if row, ok := m.rows[key]; ok {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (m *memory) List(_ context.Context, q intent.ListQuery) (rows []intent.Row, err error) {
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

func (m *memory) Changes(_ context.Context, after int64, limit int) (list []intent.Change, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.changes {
		if c.Revision > after {
			list = append(list, c)
		}
	}
	return list, nil
}

func (m *memory) ChangesBefore(context.Context, intent.ChangeQuery) ([]intent.Change, error) {
	return nil, nil // for people; the planner does not ask
}

func (m *memory) Revision(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision, nil
}

func (m *memory) ForgetChanges(context.Context, time.Time, int) (int, error) { return 0, nil }

func (m *memory) Close() error   { return nil }
func (m *memory) Trouble() error { return nil }

func (m *memory) BeginLife(context.Context, uint64) error { return nil }

// house is a planner on a store, for tests.
type house struct {
	t testing.TB
	*memory
	p         *Planner
	forgotten []Removal
	changed   []model.NodeID // of the last put
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t, memory: newMemory()}
	h.put("Namespace", "", "default", nil, &model.NamespaceSpec{})
	h.put("Namespace", "", "shared", nil, &model.NamespaceSpec{})
	h.start()
	return h
}

// start begins with a new planner, as after a restart.
func (h *house) start() {
	h.t.Helper()
	h.p = New(Options{Store: h.memory, Epoch: 7, Removed: func(f []Removal) { h.forgotten = append(h.forgotten, f...) }})
	if err := h.p.Load(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	h.p.directory.Subscribe(func(c directory.Change) { h.changed = append(h.changed, c.Assignments...) })
}

func encode(t testing.TB, kind, ns, name string, labels map[string]string, spec model.Spec) []byte {
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

func (h *house) put(kind, ns, name string, labels map[string]string, spec model.Spec) {
	h.t.Helper()
	w := intent.Write{Key: intent.Key{Kind: kind, Namespace: ns, Name: name}, Expect: -1}
	if spec != nil {
		w.Body = encode(h.t, kind, ns, name, labels, spec)
	}
	h.write(w)
}

func (h *house) write(writes ...intent.Write) {
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

func (h *house) node(name string, labels map[string]string, groups ...string) model.NodeID {
	h.t.Helper()
	h.put("Node", "default", name, labels, &model.NodeSpec{Groups: groups})
	return h.id(name)
}

func (h *house) id(name string) model.NodeID {
	h.t.Helper()
	id, ok := h.p.directory.NodeByName("default", name)
	if !ok {
		h.t.Fatalf("no node %q", name)
	}
	return id
}

func shell(line string, t *model.Targets) *model.CheckSpec {
	return &model.CheckSpec{Targets: t, Command: &model.Command{Shell: line}, Interval: model.Duration(60e9)}
}

func (h *house) checkNames(node string) (names []string) {
	for _, c := range h.p.directory.For(h.id(node)).Chunks {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}
