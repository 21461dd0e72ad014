package zabbix

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zlib"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sync/semaphore"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestFramesWithAllFlagsDecodeEqual writes and reads frames with each combination of flags, and expects unchanged payloads. Two
// frames equal the bytes of Zabbix 6.0.
func TestFramesWithAllFlagsDecodeEqual(t *testing.T) {
	payload := []byte(strings.Repeat(`{"request":"sender data"}`, 20))
	for _, flags := range []byte{1, 3, 5, 7} {
		frame := appendFrame(nil, flags, payload)
		r := bytes.NewReader(frame)
		h, err := readHeader(r, 1<<20)
		testenv.NoError(t, err)
		got, err := readPayload(r, h, unlimited)
		if err != nil || !bytes.Equal(got, payload) || h.flags != flags || r.Len() > 0 {
			t.Errorf("flags %d: %v %d bytes, flags %d, %d bytes left", flags, err, len(got), h.flags, r.Len())
		}
	}
	for flags, want := range map[byte]string{1: "5a42584401" + "0200000000000000" + "7b7d", 5: "5a42584405" + "02000000000000000000000000000000" + "7b7d"} {
		if got := hex.EncodeToString(appendFrame(nil, flags, []byte("{}"))); got != want {
			t.Errorf("flags %d: %s, want %s", flags, got, want)
		}
	}
	reserved := append([]byte("ZBXD\x05\x02\x00\x00\x00\x00\x00\x00\x00"), bytes.Repeat([]byte{255}, 8)...)
	if h, err := readHeader(bytes.NewReader(reserved), 1<<20); err != nil || h.size != 2 || h.plain != 0 {
		t.Errorf("reserved bytes: %+v, %v; they would count as memory", h, err)
	}
}

// deflate compresses data by zlib.
func deflate(data []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

// unlimited permits every number of bytes, for tests that need no memory limit.
func unlimited(int) error { return nil }

// TestBadFramesAreRefused reads invalid frames, and expects an error for each. They have unknown flags, are too long,
// or are longer than their header says after decompression. Only bytes within the limit are read.
func TestBadFramesAreRefused(t *testing.T) {
	header := func(flags byte, size, plain uint32) string {
		return "ZBXD" + string([]byte{flags, byte(size), byte(size >> 8), byte(size >> 16), byte(size >> 24), byte(plain), byte(plain >> 8), byte(plain >> 16), byte(plain >> 24)})
	}
	bomb := deflate(make([]byte, 10<<20))
	for _, c := range []struct{ frame, want string }{
		{"GET / HTTP/1.1\r\n", "does not begin with ZBXD"},
		{header(0, 1, 0) + "x", "unknown flags"},
		{header(9, 1, 0) + "x", "unknown flags"},
		{header(1, 1<<20+1, 0), "1048577 bytes, the limit is 1048576"},
		{header(3, 10, 1<<30), "1073741824 bytes, the limit is 1048576"},
		{header(3, uint32(len(bomb)), 1000) + string(bomb), "not have the 1000 bytes"},
		{header(3, 4, 1000) + "abcd", "cannot decompress"},
		{header(1, 10, 0) + "abc", io.EOF.Error()},
	} {
		r := strings.NewReader(c.frame)
		h, err := readHeader(r, 1<<20)
		if err == nil {
			_, err = readPayload(r, h, unlimited)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: %v, want %q", c.frame, err, c.want)
		}
	}
}

// FuzzParseHeader reads random bytes as a frame, and expects no panic and no payload above the limit.
func FuzzParseHeader(f *testing.F) {
	for _, flags := range []byte{1, 3, 5, 7} {
		f.Add(appendFrame(nil, flags, []byte(`{"request":"sender data","data":[]}`)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		h, err := readHeader(r, 1000)
		if err != nil {
			return
		}
		if payload, err := readPayload(r, h, unlimited); err == nil && len(payload) > 1000 {
			t.Errorf("%d bytes", len(payload))
		}
	})
}

// FuzzParseRequest decodes random bytes as a request, and expects that a server can handle each valid request.
func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"request":"sender data","data":[{"host":"web1","key":"n","value":"12.5","clock":1795233665,"ns":5},{"host":"web1","key":"n","value":7}],"clock":1795233665,"ns":131780900}`))
	f.Add([]byte(`{"request":"agent data","session":"c909","host":"Zab1","version":"6.0","data":[{"id":3,"key":"agent.ping","value":"1","clock":1795233665,"ns":7},{"id":9,"itemid":5,"state":1,"value":"no"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var value valueText
		if json.Valid(data) && value.UnmarshalJSON(bytes.TrimSpace(data)) == nil && len(value) > len(data) {
			t.Errorf("%q became %q", data, value)
		}
		r, err := parseRequest(data)
		if err != nil || len(r.Data) > 1000 {
			return
		}
		s := newTestServer(t)
		if answer, err := s.storeSenderData(t.Context(), loopback(), r, len(data)); err != nil || answer.Response != "success" {
			t.Errorf("%v %v", answer, err)
		}
		r.Host = "Zab1"
		if answer, err := s.storeAgentData(t.Context(), loopback(), r, len(data)); err == nil && answer.Response != "success" {
			t.Errorf("%v", answer)
		}
	})
}

// testServer is a Zabbix source with a directory and a journal in memory.
type testServer struct {
	*Server
	records []wire.Record
	fails   error // of the journal
	stats   journal.Stats
}

// testNow is the present of test servers.
var testNow = time.Unix(1795233700, 0)

// newTestServer returns a test server that has the node web1 with two items. They are a trapper item with a macro, and
// an item that agents collect.
func newTestServer(t testing.TB) *testServer {
	x := &testServer{}
	limiter := &core.Limiter{LimiterConfig: core.LimiterConfig{
		Namespace: func(model.NamespaceID) core.NamespaceLimits { return core.NamespaceLimits{Namespace: "default"} },
		Defaults:  core.NamespaceLimits{NodeResultsPerSec: 1000}, Burst: time.Second,
		Monotonic: func() int64 { return 1 }, Now: func() time.Time { return testNow },
		LimitReached: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "met", Help: "met"}, []string{"namespace", "limit"}),
	}}
	var err error
	x.Server, err = New(Config{Journal: x, Nodes: testNodes{}, Namespaces: allowLoopback, CertificateRequired: func(string) bool { return false }, View: x, LogPositions: x.logPositions, Intent: testNodeRegistry{}, Limiter: limiter, Pressures: &core.FillLevels{Stats: func() journal.Stats { return x.stats }, QueueBytes: 100}, Admission: admission.New(0, nil, nil, prometheus.NewRegistry(), nil), Now: func() time.Time { return testNow }})
	testenv.NoError(t, err)
	return x
}

// Append stores entries in memory, and immediately reports each entry as committed.
func (x *testServer) Append(_ context.Context, entries ...journal.Entry) error {
	for _, e := range entries {
		var r wire.Record
		if err := r.Decode(bytes.Clone(e.Data)); err != nil {
			return err
		}
		x.records = append(x.records, r)
		if e.Waiter != nil {
			e.Waiter.Committed(e.Token, journal.Position{Log: 1, Number: uint64(len(x.records))}, x.fails)
		}
	}
	return nil
}

// allowLoopback returns the namespace default for senders on loopback, and no namespace for others.
func allowLoopback(from netip.Addr) []string {
	if from.IsLoopback() {
		return []string{"default"}
	}
	return nil
}

// loopback returns a peer of the namespace default without a certificate.
func loopback() *peer { return &peer{address: netip.IPv6Loopback(), namespaces: []string{"default"}} }

// LastNumbers returns the last sequence number that the test's journal has, per stream of values.
func (x *testServer) LastNumbers(context.Context, model.NodeID, journal.Position) (list []wire.StreamLast, err error) {
	for _, r := range x.records {
		var b wire.Batch
		if r.Kind == wire.RecordBatch && b.Decode(r.Batch) == nil {
			last := wire.StreamLast{StreamKey: b.StreamKey, Last: b.First + uint64(len(b.Signals)) - 1}
			list = append(slices.DeleteFunc(list, func(l wire.StreamLast) bool { return l.StreamKey == b.StreamKey }), last)
		}
	}
	return list, nil
}

// logPositions returns the last positions in logs in the test's journal.
func (x *testServer) logPositions(context.Context, model.NodeID, journal.Position) (map[uint64]wire.LogPosition, error) {
	positions := map[uint64]wire.LogPosition{}
	for _, r := range x.records {
		var b wire.Batch
		if r.Kind != wire.RecordBatch || b.Decode(r.Batch) != nil {
			continue
		}
		for _, s := range b.Signals {
			var block wire.ValueBlock
			if s.Kind == wire.SignalValueBlock && block.Decode(s.Body) == nil && block.Log.Item != 0 {
				positions[block.Log.Item] = block.Log
			}
		}
	}
	return positions, nil
}

// testNodes is a fake directory with two nodes. The node web1 has a Muster agent, and the node zab1 has a
// Zabbix agent.
type testNodes struct{}

// NodeByName returns the id of web1 or zab1, the only nodes of the fake directory.
func (testNodes) NodeByName(namespace, name string) (model.NodeID, bool) {
	switch {
	case namespace == "default" && name == "web1":
		return 7, true
	case namespace == "default" && name == "zab1":
		return 8, true
	}
	return 0, false
}

// AssignmentVersion returns the only revision.
func (testNodes) AssignmentVersion(model.NodeID) (uint64, bool) { return 1, true }

// Revision returns the only revision.
func (testNodes) Revision() int64 { return 1 }

// CatchUp does nothing, because the directory never changes.
func (testNodes) CatchUp(context.Context) error { return nil }

// NamespaceByName returns the id of a namespace by its name.
func (testNodes) NamespaceByName(string) (model.NamespaceID, bool) { return 1, true }

// Node returns the directory's entry of a node.
func (testNodes) Node(id model.NodeID) *directory.Node {
	n := &directory.Node{Name: route.Name{Namespace: "default", Name: "zab1"}, ID: id, UID: testAgent.UID()}
	if id == 7 {
		n.Name.Name, n.UID = "web1", uuid.MustParse("00000000-0000-0000-0000-000000000007")
	}
	return n
}

// AssignmentOf returns the assignment (checks and Templates) of a test node.
func (testNodes) AssignmentOf(model.NodeID) *directory.Assignment {
	definition := &model.TemplateDefinition{Definition: model.Definition{Unit: 5, Namespace: 1, Name: "t"}, Macros: map[string]string{"{$X}": "1"},
		Items: []model.Item{{Key: "agent.ping", Interval: "1m"}, {Key: "log[/l]", Type: "log", Interval: "1s"}, {Key: "n[{$X}]", Trapper: true}, {Key: "text", Trapper: true}}}
	return &directory.Assignment{Node: 7, Definitions: []*model.Definition{definition.ToDefinition()}, Properties: []wire.Property{{Name: "{$X}", Value: []byte(`"2"`)}}}
}

// testAgent is the agent of Zabbix whose node exists.
var testAgent = intent.ExternalAgent{System: system, Namespace: "default", Name: "Zab1"}

// testNodeRegistry is a fake NodeRegistry that has only the node of the Zabbix agent.
type testNodeRegistry struct{}

// LookupNode returns the node with a uid.
func (testNodeRegistry) LookupNode(uid uuid.UUID) (intent.NodeInfo, bool) {
	return intent.NodeInfo{ID: 8, UID: uid, Name: "zab1", NamespaceID: 1}, uid == testAgent.UID()
}

// RegisterExternal returns the node of a Zabbix agent.
func (i testNodeRegistry) RegisterExternal(_ context.Context, _ intent.Actor, m *intent.ExternalAgent) (intent.NodeInfo, error) {
	info, ok := i.LookupNode(m.UID())
	if !ok {
		return info, model.Errorf(model.Limited, "the namespace is at its limit of nodes")
	}
	return info, nil
}

// RecordReport discards what an agent reports about its machine.
func (testNodeRegistry) RecordReport(intent.NodeInfo, intent.AgentReport) (limit, reason string) {
	return "", ""
}

// sendRequest sends a request over a loopback connection and returns the text of the answer. The text is empty
// if no answer came.
func (x *testServer) sendRequest(t *testing.T, frame []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.NoError(t, err)
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if nc, err := l.Accept(); err == nil {
			x.serve(context.Background(), nc)
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	testenv.NoError(t, err)
	defer c.Close()
	testenv.Value(c.Write(frame))(t)
	answer, _ := io.ReadAll(c) // what the server does not read may end the connection by an error
	<-done
	if len(answer) == 0 {
		return ""
	}
	r := bytes.NewReader(answer)
	h, err := readHeader(r, 1<<20)
	testenv.NoError(t, err)
	body, err := readPayload(r, h, unlimited)
	testenv.NoError(t, err)
	return string(body)
}

// TestSenderValuesAreStoredBeforeAnswer sends values as zabbix_sender does, and expects a journal record before
// the answer. The block has the times of the values and the macros of the keys.
func TestSenderValuesAreStoredBeforeAnswer(t *testing.T) {
	x := newTestServer(t)
	answer := x.sendRequest(t, appendFrame(nil, 3, []byte(`{"request":"sender data","data":[
		{"host":"web1","key":"text","value":"a","clock":1795233665,"ns":5},{"host":"web1","key":"n[2]","value":7,"clock":1795233666},
		{"host":"web1","key":"text","value":"b"},{"host":"web1","key":"n[1]","value":"7"},{"host":"web1","key":"agent.ping","value":"1"},
		{"host":"web2","key":"text","value":"1"},{"host":"web1","key":"text","value":"c","clock":1795234301}],"clock":1795233665,"ns":131780900}`)))
	if !strings.Contains(answer, `"success","info":"processed: 3; failed: 4; total: 7; seconds spent: 0.000000; first failed: web1 n[1]: no Template`) {
		t.Errorf("answer: %s", answer)
	}
	if len(x.records) != 1 || x.records[0].Node != 7 || x.records[0].ProxyResult == nil {
		t.Fatalf("records: %+v", x.records)
	}
	var signal wire.Signal
	testenv.NoError(t, signal.Decode(x.records[0].ProxyResult.Signal))
	var block wire.ValueBlock
	testenv.NoError(t, block.Decode(signal.Body))
	var columns wire.ColumnReader
	testenv.NoError(t, columns.Reset(&block))
	var got []string
	for v := (wire.BlockValue{}); columns.Next(&v); {
		got = append(got, fmt.Sprint(v.Position, " ", int64(block.UnixNs)+columns.Times()[v.Row], " ", v.Value))
	}
	want := "[2 1795233666000000001 7 3 1795233665000000005 a 3 1795233700000000002 b]"
	if fmt.Sprint(got) != want || block.Macros != `{"{$X}":"2"}` || columns.Err() != nil {
		t.Errorf("%v, want %v; macros %s; %v", got, want, block.Macros, columns.Err())
	}
	for out, n := range map[outcome]float64{kept: 3, unknownKey: 1, otherItem: 1, unknownHost: 1, wrongTime: 1} {
		if got := testutil.ToFloat64(x.metrics.values[out]); got != n {
			t.Errorf("%s: %v, want %v", outcomeNames[out], got, n)
		}
	}
}

// TestSenderValuesOfDiscoveredItemsAreStored sends values of discovered items, and expects a journal record
// with the item keys.
func TestSenderValuesOfDiscoveredItemsAreStored(t *testing.T) {
	x := newTestServer(t)
	x.cfg.Discovered = func(node model.NodeID, key string) []DiscoveredItem {
		if node != 7 || !strings.HasPrefix(key, "found[") {
			return nil
		}
		one := DiscoveredItem{Key: key, Definition: 30, Macros: `{"{$X}":"2"}`, DeclaredItems: 4, Trapper: key != "found[agent]"}
		if !one.Trapper {
			one.Interval = "1m"
		}
		return []DiscoveredItem{one}
	}
	answer := x.sendRequest(t, appendFrame(nil, 3, []byte(`{"request":"sender data","data":[{"host":"web1","key":"found[a]","value":"1"},{"host":"web1","key":"found[b]","value":"2"},
		{"host":"web1","key":"found[a]","value":"3"},{"host":"web1","key":"found[agent]","value":"1"},{"host":"web1","key":"lost[a]","value":"1"}]}`)))
	if !strings.Contains(answer, "processed: 3; failed: 2; total: 5") || len(x.records) != 1 {
		t.Fatalf("answer %s, %d records", answer, len(x.records))
	}
	var signal wire.Signal
	testenv.NoError(t, signal.Decode(x.records[0].ProxyResult.Signal))
	var block wire.ValueBlock
	testenv.NoError(t, block.Decode(signal.Body))
	var columns wire.ColumnReader
	testenv.NoError(t, columns.Reset(&block))
	var got []string
	for v := (wire.BlockValue{}); columns.Next(&v); {
		got = append(got, fmt.Sprint(v.Position, "=", v.Value))
	}
	if signal.Definition != 30 || fmt.Sprint(block.Keys, got) != "[found[a] found[b]] [4=1 4=3 5=2]" || columns.Err() != nil {
		t.Errorf("definition %d, keys and values %s %s, %v", signal.Definition, block.Keys, got, columns.Err())
	}
}

// TestAgentCollectsDiscoveredItems discovers items on an agent's node, and expects the agent to collect their values.
// The items are in the agent's list of active checks. Values come by number and by key. A restart of the server
// changes nothing.
func TestAgentCollectsDiscoveredItems(t *testing.T) {
	all := []DiscoveredItem{
		{Key: "found[a]", Interval: "1m", Definition: 30, DeclaredItems: 4}, {Key: "found[b]", Interval: "1h", Definition: 30, DeclaredItems: 4},
		{Key: "made[a]", Definition: 30, DeclaredItems: 4}, {Key: "sent[a]", Trapper: true, Definition: 30, DeclaredItems: 4}, {Key: "{$X}[a]", Interval: "1h", Definition: 30, DeclaredItems: 4},
	}
	server := func() *testServer {
		x := newTestServer(t)
		x.cfg.Discovered = func(_ model.NodeID, key string) (list []DiscoveredItem) {
			for _, one := range all {
				if key == "" || key == one.Key {
					list = append(list, one)
				}
			}
			return list
		}
		return x
	}
	x := server()
	answer := x.sendRequest(t, appendFrame(nil, 1, []byte(`{"request":"active checks","host":"Zab1","version":"6.0"}`)))
	for key, want := range map[string]bool{"found[a]": true, "found[b]": true, "agent.ping": true, "made[a]": false, "sent[a]": false, "{$X}[a]": false} {
		if got := strings.Contains(answer, fmt.Sprintf(`{"key":%q,"itemid":%d,`, key, itemNumber(key))); got != want {
			t.Errorf("active checks have %s: %v, want %v\n%s", key, got, want, answer)
		}
	}
	for i, x := range []*testServer{x, server()} { // the second one has just started
		data := fmt.Sprintf(`{"id":1,"itemid":%d,"value":"7"},{"id":2,"key":"found[b]","value":"8"},{"id":3,"itemid":5,"value":"8"}`, itemNumber("found[a]"))
		answer := x.sendRequest(t, appendFrame(nil, 3, []byte(`{"request":"agent data","session":"c909","host":"Zab1","version":"6.0","data":[`+data+`]}`)))
		if !strings.Contains(answer, "processed: 2; failed: 1") {
			t.Errorf("server %d: %s", i, answer)
		}
		var got []string
		for _, r := range x.records {
			if r.Kind != wire.RecordBatch {
				continue
			}
			var batch wire.Batch
			testenv.NoError(t, batch.Decode(r.Batch))
			for _, s := range batch.Signals {
				if s.Kind != wire.SignalValueBlock {
					continue
				}
				var block wire.ValueBlock
				testenv.NoError(t, block.Decode(s.Body))
				var columns wire.ColumnReader
				testenv.NoError(t, columns.Reset(&block))
				for v := (wire.BlockValue{}); columns.Next(&v); {
					got = append(got, fmt.Sprint(s.Definition, block.Keys, v.Position, v.Value))
				}
			}
		}
		if want := "[30 [found[a]] 4 7 30 [found[b]] 4 8]"; fmt.Sprint(got) != want {
			t.Errorf("server %d: %s, want %s", i, got, want)
		}
	}
}

// FuzzRequestScanner parses random requests by the fast scanner, and expects the results of the standard library. It
// must not decline requests of Zabbix' programs.
func FuzzRequestScanner(f *testing.F) {
	for _, usual := range []string{
		`{"request":"sender data","data":[{"host":"h","key":"trap.1","value":"12.5"},{"host":"hé","key":"k[a,b]","value":"","clock":1795233665,"ns":123456789}],"clock":1795233665,"ns":131780900}`,
		`{"request":"agent data","session":"c909","data":[{"host":"bench1","key":"system.uname","value":"Linux","id":2,"clock":1795233698,"ns":527229079}],"clock":1,"ns":0}`,
		`{"request":"agent data","data":[{"id":1,"itemid":2900001,"value":"no","state":1,"clock":1,"ns":2}],"session":"1cac","host":"bench1","version":"6.0","variant":2}`,
		`{"request":"active check heartbeat","host":"Zab1","heartbeat_freq":60,"version":"7.0.22","variant":1}`,
	} {
		if _, ok := scanRequest([]byte(usual)); !ok {
			f.Errorf("not scanned: %s", usual)
		}
		f.Add([]byte(usual))
	}
	for _, other := range []string{`{"data":[{"value":5}]}`, `{"data":[{"value":null}]} `, `{"data":[{"host":"\u0041","Key":"\""}]}`, `{"clock":01}`, `{"data":[],"data":[{}]}`, `{"host":"` + "ÿ" + `"}`, `{"host":"a"}x`} {
		f.Add([]byte(other))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, ok := scanRequest(payload)
		if !ok {
			return
		}
		var want request
		if err := json.Unmarshal(payload, &want); err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: %+v, want %+v, %v", payload, got, want, err)
		}
	})
}

// TestInvalidRequestsAreRefused sends invalid requests, and expects answers with the reason. A request outside
// Zabbix' protocol gets no answer.
func TestInvalidRequestsAreRefused(t *testing.T) {
	for _, c := range []struct{ payload, want string }{
		{`{"request":"proxy config"}`, `does not answer the request \"proxy config\"`},
		{`{"request":`, "cannot parse the request"},
		{`{"request":"sender data","data":[{"host":"web1","key":"n[2]","value":true}]}`, "neither a string nor a number"},
		{`{"request":"sender data","data":{}}`, "no list"},
		{`{"request":"sender data","data":[` + strings.Repeat("{},", maxRows) + `{}]}`, "more than 100000 values"},
		{`{"request":"sender data","data":[` + strings.Repeat(`{"id":1},`, maxRows) + `{"id":1}]}`, "more than 100000 values"},
	} {
		if answer := newTestServer(t).sendRequest(t, appendFrame(nil, 1, []byte(c.payload))); !strings.Contains(answer, `"failed"`) || !strings.Contains(answer, c.want) {
			t.Errorf("%s: %s", c.payload, answer)
		}
	}
	if answer := newTestServer(t).sendRequest(t, []byte("ZBX_GET_ACTIVE_CHECKS\nweb1\n")); answer != "" {
		t.Errorf("not a frame: %s", answer)
	}
	full := newTestServer(t)
	full.fails = errors.New("disk full")
	if answer := full.sendRequest(t, appendFrame(nil, 1, []byte(`{"request":"sender data","data":[{"host":"web1","key":"n[2]","value":"1"}]}`))); !strings.Contains(answer, "disk full") || !strings.Contains(answer, `"failed"`) {
		t.Errorf("full journal: %s", answer)
	}
}

// TestValuesAboveRateLimitAreRefused sends more values than a node's rate limit allows, and expects a delay, then a refusal.
// The values are twice as many as the node's rate limit allows.
func TestValuesAboveRateLimitAreRefused(t *testing.T) {
	x := newTestServer(t)
	r := &request{Data: make([]row, 30_000)}
	for i := range r.Data {
		r.Data[i] = row{Host: "web1", Key: "n[2]", Value: new(valueText("1"))}
	}
	for _, want := range []string{"processed: 30000; failed: 0", "processed: 0; failed: 30000; total: 30000"} {
		answer, err := x.storeSenderData(t.Context(), loopback(), r, 100)
		testenv.NoError(t, err)
		if !strings.HasPrefix(answer.Info, want) {
			t.Errorf("%s, want %s", answer.Info, want)
		}
	}
}

// TestNodesWithSlowPreprocessingAreRefused sends values of nodes with too much preprocessing time, and expects
// refusals for ten seconds. After ten seconds each gets a batch through.
func TestNodesWithSlowPreprocessingAreRefused(t *testing.T) {
	x := newTestServer(t)
	var now int64
	turns := core.NewWorkerShares(func() int64 { return now })
	x.cfg.Limiter.Turns = turns
	for node := range model.NodeID(100) {
		turns.AddUsage(node, time.Minute)
	}
	sender := `{"request":"sender data","data":[{"host":"web1","key":"n[2]","value":"1"}]}`
	agent := fmt.Sprintf(`{"request":"agent data","session":"c909","host":"Zab1","version":"6.0","data":[{"id":3,"itemid":%d,"value":"1","clock":1795233665,"ns":7}]}`, itemNumber("agent.ping"))
	for _, want := range [][2]string{{"processed: 0; failed: 1", "steps and triggers of this node"}, {"processed: 1; failed: 0", "processed: 1; failed: 0"}} {
		for i, request := range []string{sender, agent} {
			if answer := x.sendRequest(t, appendFrame(nil, 3, []byte(request))); !strings.Contains(answer, want[i]) {
				t.Errorf("%s, want %s", answer, want[i])
			}
		}
		now += int64(10 * time.Second)
	}
	if _, waits := turns.Counts(); waits != 2 {
		t.Errorf("%d waits, want 2", waits)
	}
}

// TestValuesWaitWhileTheJournalFills fills the journal's queue, and expects values first to wait, later to be
// refused. They wait above a quarter, and above a half they are refused. Heartbeats do not wait.
func TestValuesWaitWhileTheJournalFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTestServer(t)
		x.stats.QueuedBytes = 51
		r := &request{Host: "Zab1", Data: []row{{Host: "web1", Key: "n[2]", Value: new(valueText("1"))}}}
		began := time.Now()
		if _, err := x.handleHeartbeat(t.Context(), loopback(), r); err != nil || time.Since(began) != 0 || len(x.records) != 1 {
			t.Errorf("heartbeat: %v after %v, %d records", err, time.Since(began), len(x.records))
		}
		if _, err := x.storeSenderData(t.Context(), loopback(), r, 100); model.ClassOf(err) != model.Unavailable || time.Since(began) < time.Second || len(x.records) != 1 {
			t.Errorf("values: %v after %v, %d records", err, time.Since(began), len(x.records))
		}
		x.stats.QueuedBytes = 25
		if _, err := x.storeSenderData(t.Context(), loopback(), r, 100); err != nil || len(x.records) != 2 {
			t.Errorf("values: %v, %d records", err, len(x.records))
		}
	})
}

// TestHeartbeatFloodIsNotJournaled sends many heartbeats at once, and expects few records in the journal.
func TestHeartbeatFloodIsNotJournaled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTestServer(t)
		x.cfg.Now = time.Now
		r := &request{Host: "Zab1", HeartbeatFreq: 1}
		for range 1000 {
			if _, err := x.handleHeartbeat(t.Context(), loopback(), r); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if n := len(x.records); n != 2 {
			t.Errorf("%d records of 1000 heartbeats in a second, expected 2", n)
		}
		for range 10 {
			time.Sleep(time.Second)
			_, err := x.handleHeartbeat(t.Context(), loopback(), r)
			testenv.NoError(t, err)
		}
		if n := len(x.records); n != 12 {
			t.Errorf("%d records after 10 heartbeats, one a second, expected 12", n)
		}
	})
}

// TestUnknownHostsTakeLittleMemory sends values of very many unknown hosts, and expects the server to keep no state of each.
func TestUnknownHostsTakeLittleMemory(t *testing.T) {
	x := newTestServer(t)
	first := x.findNode(t.Context(), loopback(), "nosuch1")
	if second := x.findNode(t.Context(), loopback(), "nosuch2"); first != second || first.out != unknownHost || first.blocks != nil {
		t.Errorf("two unknown hosts: %p %p %+v", first, second, first)
	}
	r := &request{Data: make([]row, 1000)}
	for i := range r.Data {
		r.Data[i] = row{Host: fmt.Sprint("nosuch", i), Key: "n[2]", Value: new(valueText("1"))}
	}
	answer, err := x.storeSenderData(t.Context(), loopback(), r, 100)
	if err != nil || !strings.Contains(answer.Info, "processed: 0; failed: 1000") || len(x.records) > 0 {
		t.Errorf("%+v %v", answer, err)
	}
}

// TestHeartbeatsDoNotWaitBehindValues fills the memory for requests with waiting values, and expects an immediate answer
// to a heartbeat. Some of the values are of the same agent. Values that are refused then cost the node nothing.
func TestHeartbeatsDoNotWaitBehindValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTestServer(t)
		x.stats.QueuedBytes = 51
		x.cfg.Limits.AllBytes = 2 * smallBytes
		x.memory = newMemoryLimit(x.cfg.Limits.AllBytes)
		handle := func(payload string) error {
			ours, theirs := net.Pipe()
			defer ours.Close()
			frame := appendFrame(nil, 1, []byte(payload))
			go func() { defer theirs.Close(); _, _ = theirs.Write(frame) }()
			h, err := readHeader(ours, 1<<20)
			testenv.NoError(t, err)
			_, _, err = x.handle(t.Context(), ours, h, loopback())
			return err
		}
		began := time.Now()
		var waiting sync.WaitGroup
		for _, text := range []string{
			`{"request":"sender data","data":[{"host":"web1","key":"n[2]","value":"` + strings.Repeat("1", 2*smallBytes) + `"}]}`,
			`{"request":"agent data","session":"c909","host":"Zab1","version":"6.0","data":[{"id":1,"key":"agent.ping","value":"1"}]}`,
		} {
			waiting.Go(func() {
				if err := handle(text); model.ClassOf(err) != model.Unavailable || time.Since(began) != 5*time.Second {
					t.Errorf("%.30s: %v after %v", text, err, time.Since(began))
				}
			})
		}
		synctest.Wait()
		if err := handle(`{"request":"active check heartbeat","host":"Zab1","heartbeat_freq":60,"version":"7.0.22","variant":1}`); err != nil || time.Since(began) != 0 || len(x.records) != 1 {
			t.Errorf("heartbeat: %v after %v, %d records", err, time.Since(began), len(x.records))
		}
		waiting.Wait()
		var budget core.Budget
		budget.Open(x.cfg.Limiter, &core.Node{ID: 7, Name: "web1", Namespace: 1})
		if debt := budget.Spend(&core.TrafficCost{core.LoadValues: 10_000}); debt.Wait != 0 {
			t.Errorf("refused values were charged: %+v", debt)
		}
	})
}

// TestSlowRequestsDoNotBlockCompleteRequest starts too many slow requests, and expects a complete request to be answered
// immediately. They are more than the memory limit allows.
func TestSlowRequestsDoNotBlockCompleteRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTestServer(t)
		x.cfg.Limits.AllBytes = 4 * smallBytes
		x.memory = newMemoryLimit(x.cfg.Limits.AllBytes)
		handle := func(frame []byte, end bool) error {
			ours, theirs := net.Pipe()
			defer ours.Close()
			go func() {
				_, _ = theirs.Write(frame)
				if !end { // the request stops here
					_, _ = theirs.Read(make([]byte, 1))
				}
				theirs.Close()
			}()
			_ = ours.SetReadDeadline(time.Now().Add(30 * time.Second))
			h, err := readHeader(ours, 16<<20)
			testenv.NoError(t, err)
			_, _, err = x.handle(t.Context(), ours, h, loopback())
			return err
		}
		began := time.Now()
		var slow sync.WaitGroup
		for i := range 10 {
			frame := appendFrame(nil, byte(1+i%2*4), make([]byte, 16<<20))
			slow.Go(func() {
				if err := handle(frame[:100+i], false); err == nil || time.Since(began) != 30*time.Second {
					t.Errorf("a slow request: %v after %v", err, time.Since(began))
				}
			})
		}
		synctest.Wait()
		value := `{"request":"sender data","data":[{"host":"web1","key":"n[2]","value":"` + strings.Repeat("1", 3*smallBytes) + `"}]}`
		if err := handle(appendFrame(nil, 3, []byte(value)), true); err != nil || time.Since(began) != 0 || len(x.records) != 1 {
			t.Errorf("a request beside slow ones: %v after %v, %d records", err, time.Since(began), len(x.records))
		}
		slow.Wait()
	})
}

// TestLongRequestsDoNotBlockEachOther sends too many long requests at the same time, and expects an answer to each.
// They are more than the memory limit allows.
func TestLongRequestsDoNotBlockEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTestServer(t)
		x.cfg.Limits.AllBytes = 10 * longBytes
		x.memory = newMemoryLimit(x.cfg.Limits.AllBytes)
		frame := appendFrame(nil, 1, append([]byte(`{"request":"sender data","data":[]}`), bytes.Repeat([]byte(" "), 4*longBytes)...))
		began, half := time.Now(), make(chan struct{})
		var sending sync.WaitGroup
		for range 10 {
			ours, theirs := net.Pipe()
			sending.Go(func() {
				defer theirs.Close()
				_, _ = theirs.Write(frame[:2*longBytes])
				<-half // all arrive side by side
				_, _ = theirs.Write(frame[2*longBytes:])
			})
			sending.Go(func() {
				defer ours.Close()
				h, err := readHeader(ours, 16<<20)
				testenv.NoError(t, err)
				if _, _, err = x.handle(t.Context(), ours, h, loopback()); err != nil {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		}
		synctest.Wait()
		close(half)
		sending.Wait()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the requests took %v", took)
		}
	})
}

// TestConcurrentLongRequestsAreAnswered sends many long requests concurrently, and expects an answer to each.
// They have longBytes. Their beginnings need more room than the limit.
func TestConcurrentLongRequestsAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTestServer(t)
		x.memory = newMemoryLimit(x.cfg.Limits.AllBytes)
		text := []byte(`{"request":"sender data","data":[]}`)
		frame := appendFrame(nil, 1, append(text, bytes.Repeat([]byte(" "), longBytes-len(text))...))
		var sending sync.WaitGroup
		for range 2 * arrivingBytes / longBytes {
			ours, theirs := net.Pipe()
			sending.Go(func() {
				defer theirs.Close()
				for part := range slices.Chunk(frame, longBytes/16) {
					_, _ = theirs.Write(part)
					time.Sleep(time.Millisecond)
				}
			})
			sending.Go(func() {
				defer ours.Close()
				h, err := readHeader(ours, 16<<20)
				testenv.NoError(t, err)
				if _, _, err = x.handle(t.Context(), ours, h, loopback()); err != nil {
					t.Error(err)
				}
			})
		}
		sending.Wait()
		for _, room := range []*semaphore.Weighted{x.memory.arriving, x.memory.long} {
			if !room.TryAcquire(arrivingBytes) {
				t.Error("requests that ended keep room")
			}
		}
	})
}

// TestAgentReceivesItems requests active checks as several agent versions do, and expects the agent's items. An agent
// without items gets the reason.
func TestAgentReceivesItems(t *testing.T) {
	for _, c := range []struct{ request, want string }{
		{`{"request":"active checks","host":"Zab1","ip":"127.0.0.1","port":20050}`, `{"response":"success","data":[{"key":"agent.ping","delay":60,"lastlogsize":0,"mtime":0},{"key":"log[/l]","delay":1,"lastlogsize":0,"mtime":0}]}`},
		{`{"request":"active checks","host":"Zab1","version":"6.0","host_metadata":"linux"}`,
			fmt.Sprintf(`{"response":"success","data":[{"key":"agent.ping","itemid":%d,"delay":"60s","lastlogsize":0,"mtime":0,"timeout":"3s"},{"key":"log[/l]","itemid":%d,"delay":"1s","lastlogsize":0,"mtime":0,"timeout":"3s"}]}`,
				itemNumber("agent.ping"), itemNumber("log[/l]"))},
		{`{"request":"active check heartbeat","host":"Zab1","heartbeat_freq":60,"version":"7.0.22","variant":1}`, ""},
		{`{"request":"active checks","host":"web1"}`, `{"response":"failed","info":"node default/web1 has another agent, or is a proxy node Hostname=NAME in the agent's configuration, or muster node retire web1"}`},
		{`{"request":"active checks","host":"other"}`, `{"response":"failed","info":"the namespace is at its limit of nodes"}`},
	} {
		x := newTestServer(t)
		if answer := x.sendRequest(t, appendFrame(nil, 1, []byte(c.request))); answer != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.request, answer, c.want)
		}
		_, connected := x.Agent(8)
		begun := len(x.records) == 1 && x.records[0].Session != nil && x.records[0].Session.Start
		if own := strings.Contains(c.request, "Zab1"); begun != own || connected != own {
			t.Errorf("%s: records %+v, connected %v", c.request, x.records, connected)
		}
	}
}

// TestRepeatedAgentValuesAreStoredOnce sends an agent's numbered values twice, and expects each number once in the journal.
// The server restarts in between. A value has the agent's number.
func TestRepeatedAgentValuesAreStoredOnce(t *testing.T) {
	x := newTestServer(t)
	send := func(data, want string) {
		t.Helper()
		request := fmt.Sprintf(`{"request":"agent data","session":"c909","host":"Zab1","version":"6.0","data":[%s]}`, data)
		if answer := x.sendRequest(t, appendFrame(nil, 3, []byte(request))); !strings.Contains(answer, want) {
			t.Errorf("%s, want %s", answer, want)
		}
	}
	ping := fmt.Sprintf(`"itemid":%d,"value":"1","clock":1795233665,"ns":7`, itemNumber("agent.ping"))
	send(`{"id":3,`+ping+`},{"id":4,"key":"agent.ping","state":1,"value":"no","clock":1795233666,"ns":8},{"id":5,"key":"nosuch","value":"1"}`, "processed: 2; failed: 1")
	send(`{"id":4,`+ping+`},{"id":6,`+ping+`}`, "processed: 1; failed: 1; total: 2; seconds spent: 0.000000; first failed: Zab1 : the agent sent this value before")
	restarted := newTestServer(t)
	restarted.records, x = x.records, restarted
	send(`{"id":6,`+ping+`},{"id":9,`+ping+`}`, "processed: 1; failed: 1")
	var got []string
	for _, r := range x.records {
		if r.Kind != wire.RecordBatch {
			got = append(got, fmt.Sprint("record ", r.Kind))
			continue
		}
		var b wire.Batch
		testenv.NoError(t, b.Decode(r.Batch))
		if b.Gap != nil {
			got = append(got, fmt.Sprintf("%d lost to %d", b.First, b.Gap.Last))
		}
		for i, s := range b.Signals {
			got = append(got, fmt.Sprintf("%d %s", b.First+uint64(i), s.Kind))
		}
	}
	want := "[record 2 3 value block 4 value block 5 keepalive 6 value block record 2 7 lost to 8 9 value block]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestLogPositionReturnsToAgent sends lines of a log with positions, and expects the last position in the next answer. Lines that do not match and a line that is refused have positions, too.
func TestLogPositionReturnsToAgent(t *testing.T) {
	x := newTestServer(t)
	checks := appendFrame(nil, 1, []byte(`{"request":"active checks","host":"Zab1"}`))
	number := itemNumber("log[/l]")
	for _, c := range []struct{ data, outcome, position string }{
		{`{"id":1,"key":"log[/l]","value":"one","lastlogsize":4,"mtime":1795233665,"clock":1795233665,"ns":7}`, "processed: 1; failed: 0", `"lastlogsize":4,"mtime":1795233665`},
		{fmt.Sprintf(`{"id":2,"itemid":%d,"value":"tw\u006f","lastlogsize":8,"mtime":1795233666,"clock":1795233665,"ns":7}`, number), "processed: 1; failed: 0", `"lastlogsize":8,"mtime":1795233666`},
		{fmt.Sprintf(`{"id":3,"itemid":%d,"lastlogsize":5000000000,"mtime":1795233667}`, number), "processed: 1; failed: 0", `"lastlogsize":5000000000,"mtime":1795233667`},
		{`{"id":4,"key":"log[/l]","value":"late","lastlogsize":20,"mtime":-1,"clock":1795333665,"ns":7}`, "processed: 0; failed: 1", `"lastlogsize":20,"mtime":0`},
		{`{"id":4,"key":"log[/l]","value":"again","lastlogsize":30,"mtime":0,"clock":1795233665,"ns":7}`, "processed: 0; failed: 1", `"lastlogsize":20,"mtime":0`},
		{`{"id":5,"key":"agent.ping","value":"1","clock":1795233665,"ns":7}`, "processed: 1; failed: 0", `"lastlogsize":20,"mtime":0`},
	} {
		request := fmt.Sprintf(`{"request":"agent data","session":"c909","host":"Zab1","data":[%s]}`, c.data)
		if answer := x.sendRequest(t, appendFrame(nil, 1, []byte(request))); !strings.Contains(answer, c.outcome) {
			t.Errorf("%s: %s, want %s", c.data, answer, c.outcome)
		}
		if answer := x.sendRequest(t, checks); !strings.Contains(answer, `{"key":"log[/l]","delay":1,`+c.position+`}`) {
			t.Errorf("%s: %s, want %s", c.data, answer, c.position)
		}
	}
}

// TestAgentGetsCustomIntervals requests active checks with custom intervals and macros, and expects texts that the agent
// reads. An item with a faulty interval is left out.
func TestAgentGetsCustomIntervals(t *testing.T) {
	for request, want := range map[string]string{
		`{"request":"active checks","host":"Zab1"}`:                 `{"key":"found","delay":10,`,
		`{"request":"active checks","host":"Zab1","version":"7.0"}`: `"delay":"1m;10s/1-5,09:00-18:00",`,
	} {
		x := newTestServer(t)
		x.cfg.Discovered = func(model.NodeID, string) []DiscoveredItem {
			return []DiscoveredItem{{Key: "found", Interval: "1m;10s/1-5,09:00-18:00", Definition: 30}}
		}
		if answer := x.sendRequest(t, appendFrame(nil, 1, []byte(request))); !strings.Contains(answer, want) {
			t.Errorf("%s: %s, expected %s", request, answer, want)
		}
	}
	definition := &model.TemplateDefinition{Macros: map[string]string{"{$EVERY}": "1m", "{$BAD}": "soon"}, Items: []model.Item{{Key: "a", Interval: "{$EVERY}"}, {Key: "b", Interval: "{$BAD}"}}}
	index := newItemIndex(&directory.Assignment{Definitions: []*model.Definition{definition.ToDefinition()}, Properties: []wire.Property{{Name: "{$EVERY}", Value: []byte(`"120"`)}}})
	if a := index.byKey["a"]; a == nil || a.interval != "2m" || index.byKey["b"] != nil {
		t.Errorf("%+v, %+v", a, index.byKey["b"])
	}
}
