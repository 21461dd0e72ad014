package computed

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// testDirectory replaces the server's directory of nodes in tests, with three nodes and one Template. Nodes 1
// and 2 have a Template, and node 3 is in another namespace.
type testDirectory struct{ unit *directory.Unit }

// Revision returns a constant revision number, because the test's declarations never change.
func (testDirectory) Revision() int64 { return 1 }

// Nodes returns the nodes of a namespace.
func (testDirectory) Nodes(namespace string) []model.NodeID {
	if namespace == "other" {
		return []model.NodeID{3}
	}
	return []model.NodeID{1, 2}
}

// UnitNodes returns all nodes of the test.
func (testDirectory) UnitNodes(model.UnitID) []model.NodeID { return []model.NodeID{1, 2, 3} }

// Node returns the directory's record of a test node.
func (testDirectory) Node(id model.NodeID) *directory.Node {
	name := route.Name{Namespace: "default", Name: string('a' + rune(id) - 1)}
	if id == 3 {
		name.Namespace = "other"
	}
	return &directory.Node{Name: name, ID: id, UID: uuid.UUID{byte(id)}}
}

// AssignmentOf returns the assignment (checks and Templates) of a test node.
func (d testDirectory) AssignmentOf(id model.NodeID) *directory.Assignment {
	return &directory.Assignment{Node: id, UID: uuid.UUID{byte(id)}, Definitions: []*model.Definition{d.unit.Definition}}
}

// GroupMembers returns node 1 as the only member of group web.
func (testDirectory) GroupMembers(_, name string) []model.NodeID {
	if name == "web-servers" {
		return []model.NodeID{1}
	}
	return nil
}

// NodeByName returns the id of a test node by its name of one letter.
func (testDirectory) NodeByName(_, name string) (model.NodeID, bool) {
	return model.NodeID(name[0] - 'a' + 1), true
}

// NamespaceByName returns a constant namespace id.
func (testDirectory) NamespaceByName(string) (model.NamespaceID, bool) { return 1, true }

// UnitByName returns the id of the test's only Template, for any kind and name.
func (testDirectory) UnitByName(_, namespace, _ string) (model.UnitID, bool) {
	return 1000, namespace == "default"
}

// SourceUnit returns the test's only Template, whatever problem source is given.
func (d testDirectory) SourceUnit(model.Source) *directory.Unit { return d.unit }

// TestEngineComputes computes aggregates and internal items of three nodes, and compares the values in the journal.
func TestEngineComputes(t *testing.T) {
	items := []model.Item{
		{Key: "avg", Interval: "1s", Formula: "avg(last_foreach(/*/load))"},
		{Key: "busy", Interval: "1s", Formula: `count(max_foreach(/*/load,1m),"gt",2)`},
		{Key: "load", Interval: "1s", Tags: map[string]string{"env": "test"}},
		{Key: "none", Interval: "1s", Formula: `sum(last_foreach(/*/load?[not tag="env"]))`},
		{Key: "own", Interval: "1s", Formula: "sum(last_foreach(//load))+max(max_foreach(/*/load,1m))"},
		{Key: "same node", Interval: "1s", Formula: "last(//load)"},
		{Key: "seldom", Interval: "1h", Formula: "avg(last_foreach(/*/load))"},
		{Key: "web", Interval: "1s", Formula: `sum(sum_foreach(/*/load?[group="Web servers" and tag="env:test"],1m))`},
		{Key: "zabbix[host,agent,available]", Interval: "1s", Internal: true},
		{Key: "zabbix[hosts]", Interval: "1s", Internal: true},
		{Key: "zabbix[nosuch]", Interval: "1s", Internal: true},
		{Key: "zabbix[queue,10s]", Interval: "1s", Internal: true},
	}
	definition := (&model.TemplateDefinition{Definition: model.Definition{ID: 5, Unit: 1000, Name: "t"}, Items: items}).ToDefinition()
	unit := &directory.Unit{ID: 1000, Kind: "Template", Name: route.Name{Namespace: "default", Name: "t"}, Definition: definition}
	now := time.Unix(1_700_000_000, 5e8)
	store := testenv.Value(series.Open(t.TempDir(), series.Options{Range: time.Hour, LateWindow: time.Hour, Logger: slog.New(slog.DiscardHandler)}))(t)
	defer store.Close()
	for node, values := range map[string][]float64{"a": {1, 2}, "b": {6, 4}, "c": {100}} {
		namespace := "default"
		if node == "c" {
			namespace = "other"
		}
		for i, v := range values {
			store.Insert(1, new(series.Series), series.Labels("load", node, namespace, "t"), now.UnixMilli()-int64(10_000*(len(values)-i)), v)
		}
	}
	var entries []journal.Entry
	e := New(Options{
		Templates: func() []*directory.Unit { return []*directory.Unit{unit} }, Directory: testDirectory{unit}, Log: slog.New(slog.DiscardHandler),
		Series: func(namespace string) storage.Queryable { return newNamespaceStore(store, namespace) },
		Server: Server{
			EachItem: func(_ model.NodeID, each func(*model.Item, int64, bool)) {
				each(&items[2], now.Add(-time.Minute).UnixNano(), false)
				each(&items[2], now.UnixNano(), false)
			},
			Triggers:  func(model.NodeID) int { return 0 },
			Available: func(node model.NodeID) (model.Status, bool) { return model.Critical, node == 2 },
		},
		Record: func(_ context.Context, list []journal.Entry) error { entries = append(entries, list...); return nil },
	})
	e.forms = e.compileTemplates()
	e.compute(t.Context(), now.Add(-time.Second), now)
	if len(entries) != 3 || e.Count() != 3*9 {
		t.Fatalf("%d entries, %d values", len(entries), e.Count())
	}
	want := map[model.NodeID]map[string]string{
		1: {"avg": "3", "own": "8", "busy": "1", "web": "3", "zabbix[hosts]": "2", "zabbix[queue,10s]": "2", "zabbix[host,agent,available]": "0",
			"none": "unsupported: no item load of the nodes has values", "zabbix[nosuch]": "unsupported: the server does not measure zabbix[nosuch]; docs/metrics.md has the keys"},
		2: {"own": "10", "zabbix[host,agent,available]": "2"}, 3: {"avg": "100", "own": "200", "zabbix[hosts]": "1"},
	}
	for _, entry := range entries {
		node, values := decodeEntry(t, entry, items)
		for key, text := range want[node] {
			if values[key] != text {
				t.Errorf("node %d: %s is %q, want %q", node, key, values[key], text)
			}
		}
		if _, has := values["same node"]; has || values["seldom"] != "" {
			t.Errorf("node %d: values %v", node, values)
		}
	}
}

// TestTagsOfDeletedTemplate reads the tags of a deleted Template, and expects none. The Template was deleted between
// two look-ups in the directory.
func TestTagsOfDeletedTemplate(t *testing.T) {
	m := selectionFilter{directory: testDirectory{}, namespace: "default", templates: map[string]*model.TemplateDefinition{}}
	if tags := m.tags("t", "load"); tags != nil {
		t.Errorf("tags %v", tags)
	}
}

// newNamespaceStore returns a view of a test's series store that shows only the time series of one namespace.
func newNamespaceStore(store storage.Queryable, namespace string) storage.Queryable {
	return storage.QueryableFunc(func(from, to int64) (storage.Querier, error) {
		q, err := store.Querier(from, to)
		return namespaceQuerier{q, namespace}, err
	})
}

// namespaceQuerier is a storage.Querier that returns only the series of one namespace.
type namespaceQuerier struct {
	storage.Querier
	namespace string
}

// Select returns the time series of the namespace that match a query.
func (q namespaceQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return q.Querier.Select(ctx, sorted, hints, append(matchers, labels.MustNewMatcher(labels.MatchEqual, series.LabelNamespace, q.namespace))...)
}

// decodeEntry decodes a journal entry, and returns its node and its values by item key.
func decodeEntry(t *testing.T, entry journal.Entry, items []model.Item) (model.NodeID, map[string]string) {
	var r wire.Record
	testenv.NoError(t, r.Decode(entry.Data))
	var s wire.Signal
	testenv.NoError(t, s.Decode(r.ProxyResult.Signal))
	var block wire.ValueBlock
	testenv.NoError(t, block.Decode(s.Body))
	var columns wire.ColumnReader
	testenv.NoError(t, columns.Reset(&block))
	values := map[string]string{}
	var v wire.BlockValue
	for columns.Next(&v) {
		text := v.Value.String()
		if v.Unsupported {
			text = "unsupported: " + text
		}
		values[items[v.Position].Key] = text
	}
	testenv.NoError(t, columns.Err())
	return r.Node, values
}
