package zabbix

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// polledFleet is a directory of nodes whose agents the server polls, with the agents.
type polledFleet struct {
	testNodes
	mu       sync.Mutex
	nodes    map[model.NodeID]*directory.Node
	items    []model.Item
	revision int64
	agents   map[string]*fakeAgent // by address
	open     int                   // connections
	most     int
}

// fakeAgent answers requests as an agent of Zabbix does.
type fakeAgent struct {
	json    bool // as Zabbix 7.0
	answers map[string]string
	hang    string // key without an answer; *: all
	refuse  error  // of a connection
	closes  bool   // it closes connections without an answer

	asked  []string
	at     []time.Duration // since the start, of each connection
	open   int
	most   int
	tested time.Time
}

// newPolledFleet returns n nodes and a server that polls their agents. Node ids begin with 1.
func newPolledFleet(t testing.TB, n int, of func(i int) *fakeAgent, items ...model.Item) (*polledFleet, *testServer) {
	f := &polledFleet{nodes: map[model.NodeID]*directory.Node{}, items: items, revision: 1, agents: map[string]*fakeAgent{}}
	for i := range n {
		id, address := model.NodeID(i+1), fmt.Sprintf("10.0.%d.%d:10050", i/250, i%250+1)
		name := fmt.Sprint("node", i+1)
		m := intent.ExternalAgent{System: system, Namespace: "default", Name: name}
		f.nodes[id] = &directory.Node{Name: route.Name{Namespace: "default", Name: name}, ID: id, UID: m.UID(), ZabbixAgent: &model.ZabbixAgent{Address: address}}
		f.agents[address] = of(i)
		f.agents[address].tested = time.Now()
	}
	x := newTestServer(t)
	x.cfg.Nodes, x.cfg.Intent, x.cfg.Now = f, f, time.Now
	x.cfg.Polled = func() []model.NodeID {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.Sorted(maps.Keys(f.nodes))
	}
	x.cfg.Dial, x.cfg.Journal = f.dial, lockedJournal{x, &f.mu}
	return f, x
}

// lockedJournal is the journal of a test server for rounds at the same time.
type lockedJournal struct {
	*testServer
	mu *sync.Mutex
}

// Append stores entries in memory.
func (j lockedJournal) Append(ctx context.Context, entries ...journal.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.testServer.Append(ctx, entries...)
}

// Node returns the directory's entry of a node.
func (f *polledFleet) Node(id model.NodeID) *directory.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cmp.Or(f.nodes[id], &directory.Node{})
}

// AssignmentOf returns the assignment of all nodes.
func (f *polledFleet) AssignmentOf(model.NodeID) *directory.Assignment {
	f.mu.Lock()
	defer f.mu.Unlock()
	definition := &model.TemplateDefinition{Definition: model.Definition{Unit: 5, Namespace: 1, Name: "t"}, Items: f.items}
	return &directory.Assignment{Hash: [32]byte{byte(f.revision)}, Definitions: []*model.Definition{definition.ToDefinition()}}
}

// AssignmentVersion returns the revision of the fleet.
func (f *polledFleet) AssignmentVersion(model.NodeID) (uint64, bool) {
	return uint64(f.Revision()), true
}

// Revision returns the number of changes.
func (f *polledFleet) Revision() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision
}

// change changes the fleet, as a new revision.
func (f *polledFleet) change(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	fn()
}

// LookupNode returns the node with a uid.
func (f *polledFleet) LookupNode(uid uuid.UUID) (info intent.NodeInfo, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, n := range f.nodes {
		if n.UID == uid {
			return intent.NodeInfo{ID: id, UID: uid, Name: n.Name.Name, Namespace: "default", NamespaceID: 1}, true
		}
	}
	return info, false
}

// RegisterExternal gives a declared node its uid.
func (f *polledFleet) RegisterExternal(_ context.Context, _ intent.Actor, m *intent.ExternalAgent) (intent.NodeInfo, error) {
	f.change(func() {
		for id, n := range f.nodes {
			if n.Name.Name == m.Name {
				enrolled := *n
				enrolled.UID = m.UID()
				f.nodes[id] = &enrolled
			}
		}
	})
	info, _ := f.LookupNode(m.UID())
	return info, nil
}

// RecordReport keeps the facts of a node.
func (f *polledFleet) RecordReport(info intent.NodeInfo, received intent.AgentReport) (limit, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[info.ID].Annotations = received.Facts
	return "", ""
}

// dial connects to an agent of the fleet.
func (f *polledFleet) dial(ctx context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	a := f.agents[address]
	a.at = append(a.at, time.Since(a.tested).Round(time.Second))
	refuse, hang := a.refuse, a.hang == "dial"
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if refuse != nil {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", refuse)}
	}
	ours, theirs := net.Pipe()
	f.count(a, 1)
	go func() {
		defer theirs.Close()
		f.answer(a, theirs)
	}()
	return countedConn{ours, sync.OnceFunc(func() { f.count(a, -1) })}, nil
}

// countedConn is a connection that calls a function at its end.
type countedConn struct {
	net.Conn
	end func()
}

// Close closes the connection.
func (c countedConn) Close() error {
	c.end()
	return c.Conn.Close()
}

// count counts open connections of the fleet and an agent.
func (f *polledFleet) count(a *fakeAgent, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open, a.open = f.open+n, a.open+n
	f.most, a.most = max(f.most, f.open), max(a.most, a.open)
}

// answer answers the one request of a connection.
func (f *polledFleet) answer(a *fakeAgent, c net.Conn) {
	h, err := readHeader(c, 1<<20)
	if err != nil {
		return
	}
	payload, err := readPayload(c, h, unlimited)
	if err != nil {
		return
	}
	f.mu.Lock()
	key, reply := a.reply(payload)
	a.asked = append(a.asked, key)
	hangs, closes := a.hang == key || a.hang == "*", a.closes
	f.mu.Unlock()
	switch {
	case closes:
	case hangs:
		_, _ = c.Read(make([]byte, 1)) // until the server gives up
	default:
		_, _ = c.Write(appendFrame(nil, 1, []byte(reply)))
	}
}

// reply returns the key of a request, and the answer of the agent.
func (a *fakeAgent) reply(payload []byte) (key, reply string) {
	var r passiveRequest
	key = string(payload)
	inJSON := json.Unmarshal(payload, &r) == nil && len(r.Data) == 1
	if inJSON && a.json {
		key = r.Data[0].Key
	}
	value, ok := a.answers[key]
	switch {
	case key == versionKey && a.json:
		value, ok = "7.0.22", true
	case key == versionKey:
		value, ok = "6.0.14", true
	case inJSON && !a.json:
		key = "JSON"
	}
	switch {
	case inJSON && a.json && ok:
		text, _ := json.Marshal(value)
		return key, `{"version":"7.0.22","variant":2,"data":[{"value":` + string(text) + `}]}`
	case inJSON && a.json:
		return key, `{"version":"7.0.22","variant":2,"data":[{"error":"Unsupported item key."}]}`
	case !ok:
		return key, "ZBX_NOTSUPPORTED\x00Unsupported item key."
	}
	return key, value + "\n"
}

// values returns the values in a test server's journal, and the number of session starts. A value is a line NODE POSITION SECOND
// VALUE.
func (x *testServer) values(t testing.TB, since time.Time) (lines []string, starts int) {
	for _, r := range x.records {
		if r.Session != nil {
			starts++
			continue
		}
		var signal wire.Signal
		testenv.NoError(t, signal.Decode(r.ProxyResult.Signal))
		var block wire.ValueBlock
		testenv.NoError(t, block.Decode(signal.Body))
		var columns wire.ColumnReader
		testenv.NoError(t, columns.Reset(&block))
		for v := (wire.BlockValue{}); columns.Next(&v); {
			at := time.Unix(0, int64(block.UnixNs)+columns.Times()[v.Row]).Sub(since).Round(time.Second)
			text := v.Value.String()
			if v.Unsupported {
				text = "unsupported: " + text
			}
			if len(block.Keys) > 0 {
				text = block.Keys[0] + "=" + text
			}
			lines = append(lines, fmt.Sprint(r.Node, " ", v.Position, " ", at, " ", text))
		}
	}
	return lines, starts
}

// poll runs the poller of a test server for a time.
func (x *testServer) poll(t testing.TB, d time.Duration) {
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	testenv.NoError(t, x.Poll(ctx))
	synctest.Wait()
}

// every returns an item with an interval.
func every(d time.Duration, key string) model.Item {
	return model.Item{Key: key, Interval: model.IntervalOf(model.Duration(d))}
}

// TestPolledValuesAreStored polls an agent of Zabbix 7 and one of Zabbix 6. All values come in blocks of one time, at the node's
// offset, also those of a discovered item. Both nodes are new: the first values come soon.
func TestPolledValuesAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, x := newPolledFleet(t, 2, func(i int) *fakeAgent {
			return &fakeAgent{json: i == 0, answers: map[string]string{"system.uptime": "77", "found[a]": "5"}}
		}, every(time.Minute, "system.uptime"), every(time.Minute, "nosuch.key"), every(time.Minute, "log[/x]"), model.Item{Key: "trap", Trapper: true})
		for _, n := range f.nodes {
			n.UID = uuid.Nil
		}
		x.cfg.Discovered = func(node model.NodeID, key string) []DiscoveredItem {
			return []DiscoveredItem{{Key: "found[a]", Interval: "1m", Definition: 9, DeclaredItems: 4}}
		}
		began := time.Now()
		x.poll(t, 4*time.Minute)
		got, starts := x.values(t, began)
		byNode := map[string]map[string]int{}
		for _, line := range got {
			w := strings.SplitN(line, " ", 4)
			of := w[0] + " " + w[1] + " " + w[3]
			if byNode[of] == nil {
				byNode[of] = map[string]int{}
			}
			byNode[of][w[2]]++
		}
		for _, of := range []string{"1 0 77", "1 1 unsupported: Unsupported item key.", "1 4 found[a]=5", "2 0 77", "2 1 unsupported: Unsupported item key.", "2 4 found[a]=5"} {
			times := slices.Collect(maps.Keys(byNode[of]))
			if len(times) != 5 {
				t.Errorf("%s: values at %v, want one soon and 4 a minute apart", of, times)
			}
		}
		if len(byNode) != 6 {
			t.Errorf("values: %v", byNode)
		}
		if starts < 2*4 || starts > 2*6 {
			t.Errorf("%d session starts, want 2 at first and 4 of each node", starts)
		}
		if n := len(x.records) - starts; n != 2*5*2 {
			t.Errorf("%d records with values, want two blocks for 5 times of each node", n)
		}
		if asked := strings.Join(f.agents["10.0.0.2:10050"].asked, " "); strings.Count(asked, "JSON") != 1 || !strings.HasPrefix(asked, "JSON agent.version agent.variant found[a] nosuch.key system.uptime") {
			t.Errorf("the agent of Zabbix 6 was asked for %s", asked)
		}
		for id, want := range map[model.NodeID]string{1: "Zabbix agent 2 7.0.22", 2: "Zabbix agent 6.0.14"} {
			a, ok := x.Agent(id)
			if fact := f.Node(id).Annotations["agentVersion"]; !ok || fact != want || a.Version != want || !x.Connected(id) || a.Address != f.Node(id).ZabbixAgent.Endpoint() {
				t.Errorf("node %d: fact %s, %+v", id, fact, a)
			}
		}
		if got := testutil.ToFloat64(x.metrics.polls[pollUnsupported]); got < 10 || testutil.ToFloat64(x.metrics.values[kept]) != 30 {
			t.Errorf("metrics: %v unsupported, %v kept", got, testutil.ToFloat64(x.metrics.values[kept]))
		}
	})
}

// TestItemWithoutAnswerIsUnsupported polls an agent that never answers for one item. The item becomes unsupported, and the others
// have values.
func TestItemWithoutAnswerIsUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, x := newPolledFleet(t, 1, func(int) *fakeAgent {
			return &fakeAgent{json: true, hang: "b", answers: map[string]string{"a": "1", "c": "3", "long": strings.Repeat("x", 300<<10)}}
		}, every(time.Minute, "a"), every(time.Minute, "b"), every(time.Minute, "c"), every(time.Hour, "long"))
		f.nodes[1].UID = uuid.Nil
		x.poll(t, 15*time.Second)
		lines, _ := x.values(t, time.Now())
		slices.Sort(lines)
		for i := range lines {
			w := strings.SplitN(lines[i], " ", 4)
			lines[i] = w[1] + " " + w[3]
		}
		if got := strings.Join(lines, ", "); got != "0 1, 1 unsupported: no answer in time, 2 3, 3 unsupported: the value is too long" {
			t.Error(got)
		}
		if _, reason, _ := x.PollFault(1); reason != "" || !x.Connected(1) || x.poller.agents[1].lane != troubled {
			t.Errorf("the agent fails: %s", reason)
		}
	})
}

// TestDownAgentIsAskedLessOften polls an agent that is down, and expects longer and longer pauses. The fault has the reason, and all due
// values come at the agent's return.
func TestDownAgentIsAskedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, x := newPolledFleet(t, 1, func(int) *fakeAgent {
			return &fakeAgent{refuse: syscall.ECONNREFUSED, answers: map[string]string{"a": "1"}}
		}, every(5*time.Second, "a"))
		a := f.agents["10.0.0.1:10050"]
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { testenv.NoError(t, x.Poll(ctx)) })
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		var pauses []string
		for i := range a.at[1:] {
			pauses = append(pauses, (a.at[i+1] - a.at[i]).String())
		}
		if got := strings.Join(pauses, " "); got != "15s 30s 1m0s 1m0s 1m0s" {
			t.Errorf("pauses: %s", got)
		}
		address, reason, since := x.PollFault(1)
		if address != "10.0.0.1:10050" || reason != "connection refused" || time.Since(since) < 3*time.Minute || x.Connected(1) || len(x.records) > 0 {
			t.Errorf("%s %s %v, %d records", address, reason, since, len(x.records))
		}
		f.change(func() { a.refuse = nil })
		time.Sleep(time.Minute + 5*time.Second)
		synctest.Wait()
		lines, starts := x.values(t, time.Now())
		if _, reason, _ := x.PollFault(1); reason != "" || starts == 0 || len(lines) == 0 || !x.Connected(1) {
			t.Errorf("after its return: %s, %d starts, values %v", reason, starts, lines)
		}
		stop()
		running.Wait()
	})
}

// TestFailuresHaveReasons polls agents that answer nothing valid, and expects the reason of each, and no session.
func TestFailuresHaveReasons(t *testing.T) {
	bomb := appendFrame(nil, 3, make([]byte, 10<<20))
	for want, answer := range map[string]string{
		"closed the connection without an answer: name this server in Server=": "",
		"no agent of Zabbix answers": "SSH-2.0-OpenSSH_9.2p1 Debian\r\n",
		"the limit is":               string(bomb),
		"has no data":                string(appendFrame(nil, 1, []byte(`{"version":"7.0.0","data":[]}`))),
		"refuses the request: no":    string(appendFrame(nil, 1, []byte(`{"version":"7.0.0","error":"no"}`))),
		"before the end":             "ZBXD\x01\x10\x00\x00\x00\x00\x00\x00\x00abc",
	} {
		synctest.Test(t, func(t *testing.T) {
			f, x := newPolledFleet(t, 1, func(int) *fakeAgent { return &fakeAgent{} })
			x.cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					_, _ = io.ReadFull(theirs, make([]byte, shortHeader+20))
					go func() { _, _ = io.Copy(io.Discard, theirs) }()
					_, _ = io.Copy(theirs, bytes.NewReader([]byte(answer)))
				}()
				return ours, nil
			}
			x.poll(t, 15*time.Second)
			if _, reason, _ := x.PollFault(1); !strings.Contains(reason, want) || len(x.records) > 0 {
				t.Errorf("%q, want %q; %d records", reason, want, len(x.records))
			}
			other := *f.nodes[1]
			other.UID = uuid.New()
			f.change(func() { f.nodes[1] = &other })
			x.poll(t, time.Minute+15*time.Second)
			if _, reason, _ := x.PollFault(1); !strings.Contains(reason, "another agent") {
				t.Errorf("a node of another agent: %q", reason)
			}
		})
	}
}

// TestDownAgentsDelayNoOthers polls 1,000 agents, half of which are down. 400 accept no connection, 100 stop within an answer. The
// values of the others come at their times, with few connections, one for each agent.
func TestDownAgentsDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, x := newPolledFleet(t, 1000, func(i int) *fakeAgent {
			a := &fakeAgent{json: i%2 == 0, answers: map[string]string{"a": "1", "b": "2", "c": "3"}}
			switch {
			case i%10 < 4:
				a.hang = "dial"
			case i%10 < 5:
				a.hang = "*"
			}
			return a
		}, every(10*time.Second, "a"), every(30*time.Second, "b"), every(time.Minute, "c"))
		began := time.Now()
		x.poll(t, 3*time.Minute)
		lines, _ := x.values(t, began)
		count := map[string]int{}
		for _, line := range lines {
			w := strings.SplitN(line, " ", 4)
			count[w[0]+" "+w[1]]++
		}
		for id := range model.NodeID(1000) {
			for position, want := range []int{18, 6, 3} {
				if (int(id) % 10) < 5 {
					want = 0
				}
				if got := count[fmt.Sprint(id+1, " ", position)]; got < want-1 || got > want+1 {
					t.Fatalf("node %d: %d values of item %d, want %d", id+1, got, position, want)
				}
			}
		}
		if all, failing, waiting := x.poller.count(); all != 1000 || failing != 500 || waiting > 0 {
			t.Errorf("%d agents, %d fail, %d wait", all, failing, waiting)
		}
		if f.most > laneConnections[steady]+laneConnections[troubled] {
			t.Errorf("%d connections", f.most)
		}
		for address, a := range f.agents {
			if a.most > 1 {
				t.Errorf("%s: %d connections at a time", address, a.most)
			}
		}
	})
}

// TestRestartKeepsOffset compares the times of values before and after a restart of the server. It expects the same offset.
func TestRestartKeepsOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offsets []time.Duration
		for range 3 {
			_, x := newPolledFleet(t, 1, func(int) *fakeAgent { return &fakeAgent{answers: map[string]string{"a": "1"}} }, every(time.Hour, "a"))
			x.poll(t, 90*time.Minute+7*time.Second)
			for _, r := range x.records {
				if r.ProxyResult != nil {
					var signal wire.Signal
					testenv.NoError(t, signal.Decode(r.ProxyResult.Signal))
					var block wire.ValueBlock
					testenv.NoError(t, block.Decode(signal.Body))
					offsets = append(offsets, time.Duration(block.UnixNs%uint64(time.Hour)).Truncate(2*time.Second))
				}
			}
		}
		if len(offsets) < 3 || len(slices.Compact(offsets)) != 1 {
			t.Errorf("offsets: %v", offsets)
		}
	})
}

// TestChangedDeclarationsReachPolls changes the items, the address and the declaration of a polled node. It expects each change within
// seconds.
// Without the declaration its session ends as planned.
func TestChangedDeclarationsReachPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, x := newPolledFleet(t, 2, func(int) *fakeAgent { return &fakeAgent{json: true, answers: map[string]string{"a": "1", "b": "2"}} }, every(time.Hour, "a"))
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { testenv.NoError(t, x.Poll(ctx)) })
		await := func(what string, ok func() bool) {
			t.Helper()
			time.Sleep(soon + 2*time.Second)
			if synctest.Wait(); !ok() {
				t.Errorf("%s did not reach the poller", what)
			}
		}
		asked := func(address, key string) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return slices.Contains(f.agents[address].asked, key)
		}
		time.Sleep(2 * time.Minute)
		f.change(func() { f.items = append(f.items, every(time.Hour, "b")) })
		await("a new item", func() bool { return asked("10.0.0.1:10050", "b") && asked("10.0.0.2:10050", "b") })
		moved := *f.nodes[1]
		moved.ZabbixAgent = &model.ZabbixAgent{Address: "web1"}
		f.change(func() {
			f.nodes[1] = &moved
			f.agents["web1:10050"] = &fakeAgent{json: true, tested: time.Now()}
		})
		await("a new address", func() bool { return asked("web1:10050", versionKey) })
		f.change(func() { delete(f.nodes, 2) })
		x.cfg.Nodes = endedNode{f}
		await("a removed declaration", func() bool { return !x.Connected(2) && x.poller.agents[2] == nil })
		stop()
		running.Wait()
		last := x.records[len(x.records)-1]
		if ends := slices.ContainsFunc(x.records, func(r wire.Record) bool {
			return r.Session != nil && r.Node == 2 && !r.Session.Start && r.Session.Clean
		}); !ends {
			t.Errorf("the session of node 2 did not end: %+v", last)
		}
	})
}

// TestDeclarationRemovedDuringRound removes the declaration of a node whose agent answers slowly. It expects no session after the
// planned end of the last one.
func TestDeclarationRemovedDuringRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, x := newPolledFleet(t, 2, func(i int) *fakeAgent {
			return &fakeAgent{json: true, answers: map[string]string{"a": "1", "b": "2"}, hang: []string{"", "b"}[i]}
		}, every(time.Hour, "a"), every(time.Hour, "b"))
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { testenv.NoError(t, x.Poll(ctx)) })
		asked := func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return slices.Contains(f.agents["10.0.0.2:10050"].asked, "b")
		}
		for !asked() {
			time.Sleep(time.Second)
		}
		f.change(func() { delete(f.nodes, 2) })
		x.cfg.Nodes = endedNode{f}
		time.Sleep(30 * time.Second)
		stop()
		running.Wait()
		var last *wire.SessionRecord
		values := false
		for _, r := range x.records {
			if r.Node == 2 && r.Session != nil {
				last = r.Session
			}
			values = values || r.Node == 2 && r.ProxyResult != nil
		}
		if last == nil || last.Start || !last.Clean || !values {
			t.Errorf("the last record of the session: %+v; values of the round: %v", last, values)
		}
	})
}

// endedNode is a directory that still has node 2, without spec.zabbixAgent.
type endedNode struct{ *polledFleet }

// Node returns the directory's entry of a node.
func (f endedNode) Node(id model.NodeID) *directory.Node {
	if id != 2 {
		return f.polledFleet.Node(id)
	}
	m := intent.ExternalAgent{System: system, Namespace: "default", Name: "node2"}
	return &directory.Node{Name: route.Name{Namespace: "default", Name: "node2"}, ID: 2, UID: m.UID()}
}

// TestRefusedJournalKeepsItemsDue polls while the journal refuses values. It expects the values at the next round.
func TestRefusedJournalKeepsItemsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, x := newPolledFleet(t, 1, func(int) *fakeAgent { return &fakeAgent{json: true, answers: map[string]string{"a": "1"}} }, every(time.Hour, "a"))
		f.nodes[1].UID = uuid.Nil
		x.fails = errors.New("the disk is full")
		x.poll(t, 14*time.Second)
		if _, reason, _ := x.PollFault(1); !strings.Contains(reason, "the disk is full") {
			t.Errorf("reason: %s", reason)
		}
		x.fails, x.records = nil, nil
		x.poll(t, time.Minute)
		if lines, _ := x.values(t, time.Now()); len(lines) != 1 {
			t.Errorf("values after the failure: %v", lines)
		}
	})
}

// FuzzPassiveAnswer parses random bytes as answers of agents, and expects no panic and reasons of limited length.
func FuzzPassiveAnswer(f *testing.F) {
	for _, text := range []string{"1", "ZBX_NOTSUPPORTED", "ZBX_NOTSUPPORTED\x00Unsupported item key.", "ZBX_ERROR", `{"version":"7.0.22","variant":1,"data":[{"value":"7"}]}`,
		`{"version":"7.0.22","data":[{"value":null}]}`, `{"version":"7.0.22","data":[{"error":"no"}]}`, `{"version":"7.0.22","error":"no"}`, `{"version":"7.0.22","data":[{"value":12.5}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plain := parsePlainAnswer(data)
		a, err := parseJSONAnswer(data)
		if len(plain.reason) > 1100 || len(a.reason) > 1100 || len(plain.value) > len(data) || err != nil && (a.value != "" || a.reason != "") {
			t.Errorf("%+v %+v %v", plain, a, err)
		}
	})
}

// BenchmarkPoll measures polls of an agent over loopback. Each value needs a connection and an answer; the journal is in memory.
func BenchmarkPoll(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.NoError(b, err)
	defer l.Close()
	var items []model.Item
	agent := &fakeAgent{json: true, answers: map[string]string{}}
	for i := range 100 {
		key := fmt.Sprintf("net.if.in[eth%d]", i)
		items, agent.answers[key] = append(items, every(time.Minute, key)), "1234567"
	}
	f, x := newPolledFleet(b, 1, func(int) *fakeAgent { return agent }, items...)
	x.cfg.Limiter.Defaults.NodeResultsPerSec = 1e12
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.answer(agent, c)
			_ = c.Close()
		}
	}()
	x.cfg.Dial = (&net.Dialer{}).DialContext
	at := model.ZabbixAgent{Address: l.Addr().String()}
	b.ReportAllocs()
	for b.Loop() {
		x.records, agent.asked = x.records[:0], nil
		a := &polledAgent{node: 1, known: []string{}, version: "known"}
		if r := x.pollAgent(b.Context(), a, at); r.err != nil || len(x.records) < 1 {
			b.Fatalf("%+v, %d records", r, len(x.records))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/value")
}
