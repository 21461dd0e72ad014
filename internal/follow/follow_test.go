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

func TestEveryResultIsOneLineInOrder(t *testing.T) {
	r, lake := newRig(t), newLake(t)
	r.handler(lake.address(), 7)
	r.send(19, 3, 5) // before it begins: from: oldest
	r.start()
	r.send(19, 3, 5)
	lake.wait(18 * 3 * 10) // node 10 is of another namespace
	lake.mu.Lock()
	defer lake.mu.Unlock()
	if lake.twice+lake.older != 0 {
		t.Errorf("%d lines twice, %d behind a newer one", lake.twice, lake.older)
	}
	newest := 0
	for i := range lake.lines {
		line := &lake.lines[i]
		if line.Event != nil {
			newest++
		}
		if line.Node == "n10" || line.Namespace != "default" || line.Labels["os"] != "linux" || !strings.Contains(line.Output, `"free" space: / 3326 MB`+"\n") {
			t.Fatalf("%+v", line)
		}
		if got := line.Received.Sub(line.Executed).Milliseconds(); got != 100 || line.Duration != 0.012 {
			t.Fatalf("executed %d ms before it came, took %v s", got, line.Duration)
		}
	}
	if newest < 18*3 {
		t.Errorf("%d lines say what their event came to, want at least the last of each: %d", newest, 18*3)
	}
}

func TestPlannedStopRepeatsNoLine(t *testing.T) {
	r, lake := newRig(t), newLake(t)
	r.handler(lake.address(), 3)
	r.start()
	for round := 1; round <= 3; round++ {
		r.send(5, 2, 4)
		lake.wait(round * 5 * 2 * 4)
		r.stop()
		r.send(5, 2, 0)
		r.start()
	}
	r.stop()
	if lake.twice != 0 {
		t.Errorf("%d lines came twice", lake.twice)
	}
}

// What was written within Settle comes again after a connection broke, on that connection alone.
func TestBrokenConnectionRepeatsUnsettledLines(t *testing.T) {
	r, lake := newRig(t), newLake(t)
	r.handler(lake.address(), 4)
	r.start()
	r.send(9, 4, 10)
	lake.wait(9 * 4 * 10)
	lake.mu.Lock()
	for conn := range lake.conns {
		conn.Close()
		break
	}
	lake.mu.Unlock()
	r.until("it wrote again", func(s State) bool { return s.Again == 1 && s.BehindBytes == 0 })
	r.send(9, 4, 1)
	lake.wait(9 * 4 * 11)
	if lake.twice == 0 || lake.twice > 300 {
		t.Errorf("%d lines of 360 came again, want those of one connection of four", lake.twice)
	}
}

func TestAbsentPeerCatchesUp(t *testing.T) {
	r, first := newRig(t), newLake(t)
	address := first.address()
	r.handler(address, 2)
	r.start()
	r.send(5, 2, 2)
	first.wait(20)
	first.listener.Close()
	first.hangUp()
	r.send(5, 2, 2)
	r.until("it lags", func(s State) bool { return s.Trouble != "" })
	again := lakeAt(t, address)
	again.wait(40) // all of it is younger than Settle
	if again.older > 0 {
		t.Errorf("%d lines came behind a newer one of their event", again.older)
	}
}

// A peer that takes nothing holds the journal back up to the limit; then the oldest is passed
// over and counted, and what follows is told.
func TestOversizedBacklogIsSkipped(t *testing.T) {
	r, lake := newRig(t), newLake(t)
	lake.deaf.Store(true)
	r.noise, r.timeout = 2000, 5*time.Second
	r.limit = 600 << 10 // the journal says where something lies to within 256 KiB
	r.handler(lake.address(), 1)
	r.start()
	sent := 0 // nodes 10, 20, … are of another namespace
	for skipped := uint64(0); skipped == 0; {
		r.send(100, 10, 1)
		sent += 90 * 10
		st, _ := r.set.State(name("lake"))
		if skipped = st.Skipped; sent > 5e6 {
			t.Fatalf("never: %+v", st)
		}
		r.set.mu.Lock()
		floor := r.set.saved[name("lake")].At
		r.set.mu.Unlock()
		list := r.set.Consumers()
		if len(list) != 1 || list[0].Name != "handler "+name("lake").String() || list[0].At.Number < floor.Number {
			t.Fatalf("the journal may be cut to %v, the cursor is %v", list, floor)
		}
	}
	lake.hangUp() // and read from now on
	r.send(100, 10, 1)
	sent += 90 * 10
	st := r.until("it is up to date", func(s State) bool { return s.BehindBytes == 0 && s.Trouble == "" })
	lake.wait(sent - int(st.Skipped))
	if st.SkippedAt.IsZero() {
		t.Error("nobody can say when")
	}
}

func TestOnlySelectedResults(t *testing.T) {
	r, lake := newRig(t), newLake(t)
	spec := r.handler(lake.address(), 2)
	spec.Stream.Only = &model.Selector{Checks: []string{"c1"}, Statuses: []string{"warning"}}
	r.directory.change(func() { r.directory.shadow["other"] = true })
	shared := *spec
	shared.Stream = &model.Stream{Address: lake.address(), Results: model.AllResults, From: "oldest", Only: &model.Selector{Targets: &model.Targets{Nodes: []string{"other/n10", "other/n20", "default/n2"}}, Checks: []string{"c0"}}}
	r.directory.change(func() { r.directory.streams[route.Name{Namespace: model.SharedNamespaceName, Name: "all"}] = &shared })
	r.send(20, 3, 2)
	r.start()
	lake.wait(18 + 2) // c1 is a warning in every second round; of default/n2 both rounds of c0, of other nothing
	r.until("all is read", func(s State) bool { return s.BehindBytes == 0 })
	r.stop()
	lake.mu.Lock()
	defer lake.mu.Unlock()
	for _, line := range lake.lines {
		if !(line.Check == "c1" && line.Status == "WARNING" || line.Check == "c0" && line.Node == "n2") {
			t.Errorf("%+v", line)
		}
	}
	if len(lake.seen) != 20 {
		t.Errorf("%d lines", len(lake.seen))
	}
}

func TestStartPositionOfAStream(t *testing.T) {
	r, lake := newRig(t), newLake(t)
	r.send(3, 1, 2)
	r.handler(lake.address(), 1).Stream.From = ""
	r.start()
	r.until("it is there", func(State) bool { return true })
	r.send(3, 1, 2)
	lake.wait(6)
	other := newLake(t)
	r.directory.change(func() {
		r.directory.streams[name("lake")] = &model.HandlerSpec{Stream: &model.Stream{Address: other.address(), Results: model.AllResults}}
	})
	r.until("it moved", func(s State) bool { return s.Address == other.address() && strings.Contains(s.News, "new address") })
	r.send(3, 1, 1)
	other.wait(3)
	r.stop()
	if first, then := lake.different(), other.different(); first != 6 || then != 3 {
		t.Errorf("%d and %d lines", first, then)
	}
	r.set.saved = nil
	r.set = nil
	// A cursor of another journal.
	set := testenv.Value(Open(Options{Journal: foreignJournal{r.log}, View: r.view, Directory: r.directory, FS: r.fs, Dir: "d"}))(t)
	set.reconcile(t.Context())
	if st, ok := set.State(name("lake")); !ok || !strings.Contains(st.News, "another journal") {
		t.Errorf("%+v", st)
	}
	for _, f := range set.all() {
		f.stop()
		<-f.done
	}
}

// foreignJournal is a journal that knows no position of before.
type foreignJournal struct{ *journal.Log }

func (foreignJournal) Resolve(journal.Position) (journal.Position, error) {
	return journal.Position{}, journal.ErrTrimmed
}

func TestOwnAndProxiedResults(t *testing.T) {
	r, lake := newRig(t), newLake(t)
	r.handler(lake.address(), 1)
	sig := wire.ResultSignal(wire.Signal{Chunk: someCheck, AtMs: 5, Node: 3}, wire.Result{Status: model.Critical, Output: []byte("away"), Extra: wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "rtt", Value: 1.5, Tags: map[string]string{"to": "x"}}}})})
	var reader wire.BatchReader
	_, body, _ := wire.FrameKind(wire.AppendBatch(nil, &wire.Batch{First: 1, Signals: []wire.Signal{sig}}))
	if err := reader.Reset(body); err != nil || !reader.Next(&sig) {
		t.Fatal(err)
	}
	raw := append([]byte(nil), reader.Raw()...)
	w := make(waiter, 1)
	err := r.log.Append(t.Context(),
		journal.Entry{Section: 0, Data: wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordServerResult, Node: model.ServerNode, ServerResult: &wire.ServerResult{Chunk: model.BuiltinChunk(model.JournalCheck), Output: []byte("fine")}})},
		journal.Entry{Section: 3, Waiter: w, Data: wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordProxyResult, Node: 3, ProxyResult: &wire.ProxyResult{By: 4, Namespace: 1, Number: 9, NowMs: 5, Signal: raw, StreamKey: wire.StreamKey{Stream: 1, Lane: wire.Backlog}}})})
	if err != nil || <-w != nil {
		t.Fatal(err)
	}
	r.start()
	lake.wait(2)
	own, about := lake.lines[0], lake.lines[1]
	if own.Node != model.ServerNodeName || own.Output != "fine" || own.Number != 0 {
		t.Errorf("%+v", own)
	}
	if about.Node != "n3" || about.RanBy != "n4" || about.Number != 9 || !about.Late || about.Severity != "high" || len(about.Values) != 1 || about.Values[0].Value != 1.5 ||
		about.Event == nil || about.Event.State != "failing" || about.Event.Problem == "" {
		t.Errorf("%+v %+v", about, about.Event)
	}
}

// A peer with TLS is believed by its CA alone, and gets every line as any other; one that nobody vouches for gets none, and the
// handler says why.
func TestPeerWithTLS(t *testing.T) {
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	testenv.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate().Raw}), 0o600))
	plain := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	r, lake := newRig(t), lakeOn(t, tls.NewListener(plain, &tls.Config{Certificates: certificate.TLS.Certificates}))
	r.handler(lake.address(), 3).Stream.TLS = true
	r.send(9, 2, 3)
	r.start()
	r.until("it says that nobody vouches for the peer", func(s State) bool { return strings.Contains(s.Trouble, "certificate") })
	if n := lake.different(); n != 0 {
		t.Errorf("%d lines came to a peer that nobody vouches for", n)
	}
	r.stop()
	spec := r.handler(lake.address(), 3)
	spec.Stream.TLS, spec.Stream.CA = true, ca
	r.start()
	r.send(9, 2, 3)
	lake.wait(9 * 2 * 6)
	r.until("nothing is wrong", func(s State) bool { return s.Trouble == "" && s.BehindBytes == 0 && s.Connections > 0 })
}

// What a server takes in a second at 20,000 results a second, over a hundred connections: every line once and in order, and none
// of them written by itself.
func TestTwentyThousandLines(t *testing.T) {
	r, lake := newRig(t), newLake(t)
	r.handler(lake.address(), 100)
	r.start()
	r.send(500, 9, 5) // every tenth node is of another namespace
	const lines = 450 * 9 * 5
	lake.wait(lines)
	st := r.until("all is written", func(s State) bool { return s.BehindBytes == 0 })
	if st.Lines != lines || st.Again+st.Skipped+st.Withheld != 0 || lake.twice+lake.older != 0 {
		t.Errorf("%+v, %d lines twice, %d behind a newer one", st, lake.twice, lake.older)
	}
}

// A peer that takes nothing, and closes nothing, holds back no other handler, and no end of the server.
func TestHangingPeer(t *testing.T) {
	r, deaf, lake := newRig(t), newLake(t), newLake(t)
	deaf.deaf.Store(true)
	r.noise, r.timeout = 4000, time.Hour // the write itself never gives up
	r.handler(lake.address(), 2)
	r.directory.change(func() {
		r.directory.streams[name("deaf")] = &model.HandlerSpec{Stream: &model.Stream{Address: deaf.address(), Results: model.AllResults, From: "oldest", Connections: 1}}
	})
	r.start()
	r.send(100, 10, 8)
	lake.wait(90 * 10 * 8)
	testenv.Until(t, "the other lags", func() bool {
		st, ok := r.set.State(name("deaf"))
		return ok && st.BehindBytes > 0
	})
	if n := deaf.different(); n != 0 {
		t.Errorf("%d lines came to a peer that takes none", n)
	}
	r.stop() // returns
	if lake.twice+lake.older != 0 {
		t.Errorf("%d lines twice, %d behind a newer one", lake.twice, lake.older)
	}
}
