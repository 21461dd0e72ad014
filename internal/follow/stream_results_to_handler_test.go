package follow

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestHandlerGetsEveryResultAsOneLineInOrder sends results over several connections, and expects each result as one
// line. The lines of each event must be in order.
func TestHandlerGetsEveryResultAsOneLineInOrder(t *testing.T) {
	r, peer := newTestServer(t), newReceivingPeer(t)
	r.addHandler(peer.address(), 7)
	r.appendResults(19, 3, 5) // before the follower starts, with from: oldest
	r.start()
	r.appendResults(19, 3, 5)
	peer.waitLines(18 * 3 * 10) // node 10 is of another namespace
	peer.mu.Lock()
	defer peer.mu.Unlock()
	if peer.repeatedLines+peer.lateLines != 0 {
		t.Errorf("%d lines came twice, %d after a newer one", peer.repeatedLines, peer.lateLines)
	}
	newest := 0
	for i := range peer.lines {
		line := &peer.lines[i]
		if line.Event != nil {
			newest++
		}
		if line.Node == "n10" || line.Namespace != "default" || line.Labels["os"] != "linux" || !strings.Contains(line.Output, `"free" space: / 3326 MB`+"\n") {
			t.Fatalf("%+v", line)
		}
		if got := line.Received.Sub(line.Executed).Milliseconds(); got != 100 || line.Duration != 0.012 {
			t.Fatalf("executed %d ms before it was received, took %v s", got, line.Duration)
		}
	}
	if newest < 18*3 {
		t.Errorf("%d lines have the state of their event, want at least the last line of each event: %d", newest, 18*3)
	}
}

// TestPlannedServerStopRepeatsNoLine stops and starts the server properly several times, and expects no line to
// be sent twice.
func TestPlannedServerStopRepeatsNoLine(t *testing.T) {
	r, peer := newTestServer(t), newReceivingPeer(t)
	r.addHandler(peer.address(), 3)
	r.start()
	for round := 1; round <= 3; round++ {
		r.appendResults(5, 2, 4)
		peer.waitLines(round * 5 * 2 * 4)
		r.stop()
		r.appendResults(5, 2, 0)
		r.start()
	}
	r.stop()
	if peer.repeatedLines != 0 {
		t.Errorf("%d lines came twice", peer.repeatedLines)
	}
}

// TestBrokenConnectionRepeatsNewestLines breaks one of four connections, and expects that connection's newest lines
// to be sent again. Lines younger than the time Settle may not have reached the peer.
func TestBrokenConnectionRepeatsNewestLines(t *testing.T) {
	r, peer := newTestServer(t), newReceivingPeer(t)
	r.addHandler(peer.address(), 4)
	r.start()
	r.appendResults(9, 4, 10)
	peer.waitLines(9 * 4 * 10)
	peer.mu.Lock()
	for conn := range peer.conns {
		conn.Close()
		break
	}
	peer.mu.Unlock()
	r.waitState("the follower wrote the lines again", func(s State) bool { return s.RewrittenLines == 1 && s.BehindBytes == 0 })
	r.appendResults(9, 4, 1)
	peer.waitLines(9 * 4 * 11)
	if peer.repeatedLines == 0 || peer.repeatedLines > 300 {
		t.Errorf("%d lines of 360 came again, want those of one connection of four", peer.repeatedLines)
	}
}

// TestReconnectedPeerGetsMissedLines closes and reopens the receiver of the lines, and expects the missed lines
// to arrive.
func TestReconnectedPeerGetsMissedLines(t *testing.T) {
	r, first := newTestServer(t), newReceivingPeer(t)
	address := first.address()
	r.addHandler(address, 2)
	r.start()
	r.appendResults(5, 2, 2)
	first.waitLines(20)
	first.listener.Close()
	first.closeConnections()
	r.appendResults(5, 2, 2)
	r.waitState("the follower lags", func(s State) bool { return s.Trouble != "" })
	again := newReceivingPeerAt(t, address)
	again.waitLines(40) // all lines are younger than Settle
	if again.lateLines > 0 {
		t.Errorf("%d lines came behind a newer one of their event", again.lateLines)
	}
}

// TestResultsBeyondTheLagLimitAreSkipped lets the receiver stop reading, and expects the oldest results to be
// skipped. Then the oldest results are skipped and counted, and the later ones are sent.
func TestResultsBeyondTheLagLimitAreSkipped(t *testing.T) {
	r, peer := newTestServer(t), newReceivingPeer(t)
	peer.hangs.Store(true)
	r.noise, r.timeout = 2000, 5*time.Second
	r.limit = 600 << 10 // the journal says where something lies to within 256 KiB
	r.addHandler(peer.address(), 1)
	r.start()
	sent := 0 // nodes 10, 20, … are of another namespace
	for skipped := uint64(0); skipped == 0; {
		r.appendResults(100, 10, 1)
		sent += 90 * 10
		st, _ := r.set.State(handlerName("lake"))
		if skipped = st.Skipped; sent > 5e6 {
			t.Fatalf("never: %+v", st)
		}
		r.set.mu.Lock()
		floor := r.set.saved[handlerName("lake")].At
		r.set.mu.Unlock()
		list := r.set.Consumers()
		if len(list) != 1 || list[0].Name != "handler "+handlerName("lake").String() || list[0].At.Number < floor.Number {
			t.Fatalf("the journal may be cut to %v, the cursor is %v", list, floor)
		}
	}
	peer.closeConnections() // the peer reads from now on
	r.appendResults(100, 10, 1)
	sent += 90 * 10
	st := r.waitState("the follower is up to date", func(s State) bool { return s.BehindBytes == 0 && s.Trouble == "" })
	peer.waitLines(sent - int(st.Skipped))
	if st.SkippedAt.IsZero() {
		t.Error("the time of the skip is unknown")
	}
}

// TestHandlerGetsSelectedResultsOnly restricts handlers by check, status and node, and expects only the selected
// results.
func TestHandlerGetsSelectedResultsOnly(t *testing.T) {
	r, peer := newTestServer(t), newReceivingPeer(t)
	spec := r.addHandler(peer.address(), 2)
	spec.Stream.Only = &model.Selector{Checks: []string{"c1"}, Statuses: []string{"warning"}}
	r.directory.change(func() { r.directory.shadow["other"] = true })
	shared := *spec
	shared.Stream = &model.Stream{Address: peer.address(), Results: model.AllResults, From: "oldest", Only: &model.Selector{Targets: &model.Targets{Nodes: []string{"other/n10", "other/n20", "default/n2"}}, Checks: []string{"c0"}}}
	r.directory.change(func() { r.directory.streams[route.Name{Namespace: model.SharedNamespaceName, Name: "all"}] = &shared })
	r.appendResults(20, 3, 2)
	r.start()
	peer.waitLines(18 + 2) // c1 is a warning in every second round; of default/n2 both rounds of c0, of other nothing
	r.waitState("all is read", func(s State) bool { return s.BehindBytes == 0 })
	r.stop()
	peer.mu.Lock()
	defer peer.mu.Unlock()
	for _, line := range peer.lines {
		if !(line.Check == "c1" && line.Status == "WARNING" || line.Check == "c0" && line.Node == "n2") {
			t.Errorf("%+v", line)
		}
	}
	if len(peer.seen) != 20 {
		t.Errorf("%d lines", len(peer.seen))
	}
}

// TestFollowerStartsAtItsSavedCursor restarts the server, and expects the reader to continue at its saved
// journal position. A new address of the handler changes nothing, but a different journal does.
func TestFollowerStartsAtItsSavedCursor(t *testing.T) {
	r, peer := newTestServer(t), newReceivingPeer(t)
	r.appendResults(3, 1, 2)
	r.addHandler(peer.address(), 1).Stream.From = ""
	r.start()
	r.waitState("the follower runs", func(State) bool { return true })
	r.appendResults(3, 1, 2)
	peer.waitLines(6)
	other := newReceivingPeer(t)
	r.directory.change(func() {
		r.directory.streams[handlerName("lake")] = &model.HandlerSpec{Stream: &model.Stream{Address: other.address(), Results: model.AllResults}}
	})
	r.waitState("the new address is in use", func(s State) bool { return s.Address == other.address() && strings.Contains(s.News, "new address") })
	r.appendResults(3, 1, 1)
	other.waitLines(3)
	r.stop()
	if first, then := peer.countDistinctLines(), other.countDistinctLines(); first != 6 || then != 3 {
		t.Errorf("%d and %d lines", first, then)
	}
	r.set.saved = nil
	r.set = nil
	// The saved cursor belongs to another journal.
	set := testenv.Value(Open(Options{Journal: foreignJournal{r.log}, View: r.view, Directory: r.directory, FS: r.fs, Dir: "d"}))(t)
	set.reconcile(t.Context())
	if st, ok := set.State(handlerName("lake")); !ok || !strings.Contains(st.News, "another journal") {
		t.Errorf("%+v", st)
	}
	for _, f := range set.followers() {
		f.stop()
		<-f.done
	}
}

// foreignJournal is a test journal in which no saved position exists, like another server's journal.
type foreignJournal struct{ *journal.Log }

// Resolve returns ErrTrimmed for every position, as a journal without the position does.
func (foreignJournal) Resolve(journal.Position) (journal.Position, error) {
	return journal.Position{}, journal.ErrTrimmed
}

// TestResultsOfServerAndProxyNodesAreSent expects lines also for results of the server itself and about proxy nodes.
func TestResultsOfServerAndProxyNodesAreSent(t *testing.T) {
	r, peer := newTestServer(t), newReceivingPeer(t)
	r.addHandler(peer.address(), 1)
	sig := wire.ResultSignal(wire.Signal{Definition: firstTestDefinition, AtMs: 5, Node: 3}, wire.Result{Status: model.Critical, Output: []byte("away"), Extra: wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "rtt", Value: 1.5, Tags: map[string]string{"to": "x"}}}})})
	var reader wire.BatchReader
	_, body, _ := wire.FrameKind(wire.AppendBatch(nil, &wire.Batch{First: 1, Signals: []wire.Signal{sig}}))
	if err := reader.Reset(body); err != nil || !reader.Next(&sig) {
		t.Fatal(err)
	}
	raw := append([]byte(nil), reader.Raw()...)
	w := make(commitWaiter, 1)
	err := r.log.Append(t.Context(),
		journal.Entry{Section: 0, Data: wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordServerResult, Node: model.ServerNode, ServerResult: &wire.ServerResult{Definition: model.BuiltinDefinitionID(model.JournalCheck), Output: []byte("fine")}})},
		journal.Entry{Section: 3, Waiter: w, Data: wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordProxyResult, Node: 3, ProxyResult: &wire.ProxyResult{By: 4, Namespace: 1, Number: 9, NowMs: 5, Signal: raw, StreamKey: wire.StreamKey{Stream: 1, Lane: wire.Backlog}}})})
	if err != nil || <-w != nil {
		t.Fatal(err)
	}
	r.start()
	peer.waitLines(2)
	own, about := peer.lines[0], peer.lines[1]
	if own.Node != model.ServerNodeName || own.Output != "fine" || own.Number != 0 {
		t.Errorf("%+v", own)
	}
	if about.Node != "n3" || about.RanBy != "n4" || about.Number != 9 || !about.Late || about.Severity != "high" || len(about.Values) != 1 || about.Values[0].Value != 1.5 ||
		about.Event == nil || about.Event.State != "failing" || about.Event.Problem == "" {
		t.Errorf("%+v %+v", about, about.Event)
	}
}

// TestPeerWithAnUnknownCertificateGetsNoLines expects no line to be sent to a receiver whose TLS certificate
// comes from an unknown CA. A peer with a certificate of the handler's CA gets every line. Another one gets
// none, and the state has the reason.
func TestPeerWithAnUnknownCertificateGetsNoLines(t *testing.T) {
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	testenv.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate().Raw}), 0o600))
	plain := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	r, peer := newTestServer(t), newReceivingPeerOn(t, tls.NewListener(plain, &tls.Config{Certificates: certificate.TLS.Certificates}))
	r.addHandler(peer.address(), 3).Stream.TLS = true
	r.appendResults(9, 2, 3)
	r.start()
	r.waitState("the certificate is refused", func(s State) bool { return strings.Contains(s.Trouble, "certificate") })
	if n := peer.countDistinctLines(); n != 0 {
		t.Errorf("%d lines came to a peer with an unknown certificate", n)
	}
	r.stop()
	spec := r.addHandler(peer.address(), 3)
	spec.Stream.TLS, spec.Stream.CA = true, ca
	r.start()
	r.appendResults(9, 2, 3)
	peer.waitLines(9 * 2 * 6)
	r.waitState("nothing is wrong", func(s State) bool { return s.Trouble == "" && s.BehindBytes == 0 && s.Connections > 0 })
}

// TestLinesKeepTheirOrderOverManyConnections sends 20,000 results over 100 connections, and expects each line once.
// The lines of each event must be in order.
func TestLinesKeepTheirOrderOverManyConnections(t *testing.T) {
	r, peer := newTestServer(t), newReceivingPeer(t)
	r.addHandler(peer.address(), 100)
	r.start()
	r.appendResults(500, 9, 5) // every tenth node is of another namespace
	const lines = 450 * 9 * 5
	peer.waitLines(lines)
	st := r.waitState("all is written", func(s State) bool { return s.BehindBytes == 0 })
	if st.Lines != lines || st.RewrittenLines+st.Skipped+st.Withheld != 0 || peer.repeatedLines+peer.lateLines != 0 {
		t.Errorf("%+v, %d lines came twice, %d after a newer one", st, peer.repeatedLines, peer.lateLines)
	}
}

// TestHangingPeerDelaysNoOtherHandler connects a receiver that hangs, and expects other handlers to get their lines
// without delay. Other handlers and the server's stop must not wait.
func TestHangingPeerDelaysNoOtherHandler(t *testing.T) {
	r, hanging, peer := newTestServer(t), newReceivingPeer(t), newReceivingPeer(t)
	hanging.hangs.Store(true)
	r.noise, r.timeout = 4000, time.Hour // the write itself never gives up
	r.addHandler(peer.address(), 2)
	r.directory.change(func() {
		r.directory.streams[handlerName("deaf")] = &model.HandlerSpec{Stream: &model.Stream{Address: hanging.address(), Results: model.AllResults, From: "oldest", Connections: 1}}
	})
	r.start()
	r.appendResults(100, 10, 8)
	peer.waitLines(90 * 10 * 8)
	testenv.Until(t, "the follower of the hanging peer lags", func() bool {
		st, ok := r.set.State(handlerName("deaf"))
		return ok && st.BehindBytes > 0
	})
	if n := hanging.countDistinctLines(); n != 0 {
		t.Errorf("%d lines came to a peer that does not read", n)
	}
	r.stop() // returns
	if peer.repeatedLines+peer.lateLines != 0 {
		t.Errorf("%d lines came twice, %d after a newer one", peer.repeatedLines, peer.lateLines)
	}
}
