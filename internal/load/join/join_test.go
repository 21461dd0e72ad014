package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/bench/scenarios"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// listen opens a lead for this number of loaders.
func listen(t *testing.T, loaders int) *Lead {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0", loaders, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// gathered returns a lead and its followers, after all have joined.
func gathered(t *testing.T, loaders int) (*Lead, []*Follower) {
	t.Helper()
	l := listen(t, loaders)
	done := make(chan error, 1)
	go func() { done <- l.Gather() }()
	list := make([]*Follower, loaders-1)
	for i := range list {
		list[i] = dial(t, l)
		t.Cleanup(func() { list[i].Close(nil) })
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return l, list // they joined one after the other
}

// dial joins a follower to a lead.
func dial(t *testing.T, l *Lead) *Follower {
	t.Helper()
	token, err := ParseToken(l.Token())
	if err != nil {
		t.Fatal(err)
	}
	f, err := Dial(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tiny returns a small scenario.
func tiny() *scenario.Scenario {
	return &scenario.Scenario{Scenario: scenario.Version, Name: "tiny", Seed: 1, Agents: []scenario.Class{
		{Name: "web", Count: 7, Checks: []scenario.Check{{Name: "http", Interval: model.Duration(time.Second)}}}},
		Phases: []scenario.Phase{{Ramp: model.Duration(time.Second)}, {Steady: model.Duration(time.Second)}, {Drain: model.Duration(time.Second)}}}
}

// clockOff is a tolerance above the delays of a busy machine and below the error of a clock read in another unit.
const clockOff = 250 * time.Millisecond

// TestARunIsTold plays the messages of a whole run, and expects that each arrives, in the order of the loaders, with
// the same times on all clocks.
func TestARunIsTold(t *testing.T) {
	l, followers := gathered(t, 3)
	c, err := l.Send(load.Config{MaxLag: time.Second, Options: play.Options{Scenario: tiny(), Server: "127.0.0.1:1", Sources: 2}}, nil)
	if err != nil || c.Part.Number != 0 || c.Part.Of != 3 || c.Part.Here != 3 || c.Joint != load.Joint(l) {
		t.Fatalf("%+v, %v", c.Part, err)
	}
	begins := make(chan time.Time, 2)
	for i, f := range followers {
		theirs, err := f.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(theirs.Scenario, c.Scenario) || theirs.Part != (play.Part{Number: i + 1, Of: 3, Here: 3}) || theirs.Server != c.Server || theirs.MaxLag != c.MaxLag || theirs.Sources != 2 {
			t.Errorf("loader %d is to play %+v", i+1, theirs)
		}
		go func() {
			if f.Connect(t.Context(), "the plan") != nil {
				return
			}
			if _, err := f.Ready(t.Context(), load.Arrived{Connect: float64(i + 1)}); err != nil {
				t.Error(err)
			}
			begin, err := f.Begin(t.Context())
			if err != nil {
				t.Error(err)
			}
			begins <- begin
		}()
	}
	if err := l.Connect(t.Context(), "the plan"); err != nil {
		t.Fatal(err)
	}
	arrived, err := l.Ready(t.Context(), load.Arrived{})
	if err != nil || len(arrived) != 2 || arrived[0].Connect != 1 || arrived[1].Connect != 2 {
		t.Fatalf("%+v, %v", arrived, err)
	}
	at, err := l.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		// One process, one clock: what differs is what the comparison got wrong.
		if off := (<-begins).Sub(at).Abs(); off > clockOff {
			t.Errorf("a clock is off by %s", off)
		}
	}
	for _, j := range arrived {
		if !j.Here || j.Name == "" || j.Clock <= 0 {
			t.Errorf("%+v", j)
		}
	}
	cuts, names := make(chan time.Duration, 1), make(chan string, 1)
	followers[1].Hear(func(at time.Duration, s []plan.Part) error {
		if len(s) == 1 && s[0].Rate == 1.5 {
			cuts <- at
		}
		return nil
	}, func(member int, name string) { names <- fmt.Sprint(member, name) })
	l.Follow(7*time.Second, []plan.Part{{To: 9, Rate: 1.5}})
	l.Renamed(5, "web-00005-renamed")
	if got := <-cuts; got != 7*time.Second {
		t.Errorf("the phase ends after %s", got)
	}
	if got := <-names; got != "5web-00005-renamed" {
		t.Errorf("renamed: %s", got)
	}
	for i, f := range followers {
		go func() {
			f.Line(observe.Line{Check: &observe.CheckSecond{Counts: &observe.Counts{Resent: uint64(i)}}})
			for k := range 5001 { // more than one message
				f.Line(observe.Line{Kept: &observe.Kept{Ledger: &observe.Ledger{Member: k, States: make(observe.Entries, 80)}}})
			}
			_ = f.Finish(t.Context())
		}()
	}
	if err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := l.Lines()
	if len(lines) != 2*5002 || lines[5001].Loader != 1 || lines[5001].Kept.Ledger.Member != 5000 || lines[5002].Loader != 2 || lines[5002].Check.Counts.Resent != 1 || len(l.Lines()) > 0 {
		t.Fatalf("%d lines", len(lines))
	}
	l.Over(&report.Report{Balance: &report.Balance{}, Verdict: []string{"slow"}})
	testenv.Until(t, "the verdict", func() bool { said, _ := followers[0].Verdict(); return len(said) == 1 })
}

// TestStrangersAreRefused lets unknown programs try to join, and expects refusals with a reason, while the run goes on
// waiting.
func TestStrangersAreRefused(t *testing.T) {
	l := listen(t, 2)
	done := make(chan error, 1)
	go func() { done <- l.Gather() }()
	token, _ := ParseToken(l.Token())

	wrong := token
	wrong.Secret[3] ^= 1
	if _, err := Dial(t.Context(), wrong); model.ClassOf(err) != model.Unauthenticated || !strings.Contains(err.Error(), "another run") {
		t.Errorf("a wrong secret: %v", err)
	}

	other := token
	other.Sum[3] ^= 1
	if _, err := Dial(t.Context(), other); model.ClassOf(err) != model.Unauthenticated || !strings.Contains(err.Error(), "another certificate") {
		t.Errorf("another certificate: %v", err)
	}

	// One of another version, one without a hello, and one that speaks no HTTP.
	for body, want := range map[string]string{
		fmt.Sprintf(`{"version":%d,"build":"9.9"}`, Version+1): "use the same version on both machines",
		`presence`: "not that of a loader",
		"":         "400 Bad Request",
	} {
		raw, err := tls.Dial("tcp", token.Address, pinned(token.Sum))
		if err != nil {
			t.Fatal(err)
		}
		request := "nonsense\r\n\r\n"
		if body != "" {
			request = fmt.Sprintf("POST /join HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n%s", token.authorization(), len(body), body)
		}
		if _, err := raw.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		if answer, _ := io.ReadAll(raw); !strings.Contains(string(answer), want) {
			t.Errorf("%q: %s, want %q", body, answer, want)
		}
		_ = raw.Close()
	}

	good := dial(t, l)
	defer good.Close(nil)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestALossEndsTheRun ends the lead or a follower, and expects that the run ends everywhere with its name and the
// reason.
func TestALossEndsTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		leave      func(l *Lead, f *Follower)
		lead, rest string
	}{
		"silent":  {func(l *Lead, _ *Follower) { _ = l.all()[0].stream.SetReadDeadline(time.Now().Add(-time.Second)) }, "loader 2 of 3 (" + load.Hostname() + ") was lost: it said nothing for 10s", "loader 2 of 3"},
		"gave up": {func(_ *Lead, f *Follower) { f.Close(model.Errorf(model.Limited, "no room")) }, "loader 2 of 3 (" + load.Hostname() + "): no room", "no room"},
		"cannot obey": {func(l *Lead, f *Follower) {
			f.Hear(func(time.Duration, []plan.Part) error { return model.Errorf(model.Limited, "the phase is over here") }, func(int, string) {})
			l.Follow(time.Second, []plan.Part{{To: 9, Rate: 1}})
		}, "loader 2 of 3 (" + load.Hostname() + "): the phase is over here", "the phase is over here"},
		"lead leaves":    {func(l *Lead, _ *Follower) { l.Close() }, "", "the loader that leads has left the run"},
		"lead is killed": {func(l *Lead, _ *Follower) { _ = l.server.Close() }, "", "the loader that leads was lost: "},
	} {
		t.Run(name, func(t *testing.T) {
			l, followers := gathered(t, 3)
			c.leave(l, followers[0])
			<-l.Context().Done()
			if err := context.Cause(l.Context()); c.lead != "" && !strings.HasPrefix(err.Error(), c.lead) {
				t.Errorf("the lead says %q, want %q", err, c.lead)
			}
			<-followers[1].Context().Done()
			if err := context.Cause(followers[1].Context()); !strings.Contains(err.Error(), c.rest) {
				t.Errorf("the other one says %q, want %q", err, c.rest)
			}
			if err := l.Finish(t.Context()); err == nil {
				t.Error("the lead goes on")
			}
		})
	}
}

// TestWhoLeavesEarlyIsReplaced lets a follower leave before all have joined, and expects that another can join.
func TestWhoLeavesEarlyIsReplaced(t *testing.T) {
	l := listen(t, 3)
	done := make(chan error, 1)
	go func() { done <- l.Gather() }()
	count := func(n int) func() bool { return func() bool { return len(l.all()) == n } }
	first := dial(t, l)
	testenv.Until(t, "it has joined", count(1))
	first.Close(nil)
	testenv.Until(t, "it has left", count(0))
	for range 2 {
		f := dial(t, l)
		defer f.Close(nil)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestAnotherPlanIsRefused lets a follower report another plan, and expects an error.
func TestAnotherPlanIsRefused(t *testing.T) {
	l, followers := gathered(t, 2)
	go func() { _ = followers[0].Connect(t.Context(), "b") }()
	if err := l.Connect(t.Context(), "a"); model.ClassOf(err) != model.Unsupported {
		t.Errorf("%v", err)
	}
}

// TestListenerClosesWithTheLastFollower expects that nobody can connect after the last follower has joined.
func TestListenerClosesWithTheLastFollower(t *testing.T) {
	l, _ := gathered(t, 2)
	if c, err := net.Dial("tcp", l.token.Address); err == nil {
		_ = c.Close()
		t.Error("a stranger has a connection")
	}
}

// TestLinesDoNotWaitForTheLead blocks the lead, and expects that a follower queues its lines without waiting and loses
// none.
func TestLinesDoNotWaitForTheLead(t *testing.T) {
	l, followers := gathered(t, 2)
	l.mu.Lock() // no report is taken
	for i := range 1500 {
		followers[0].Line(observe.Line{Edge: &observe.Edge{Part: i}})
	}
	l.mu.Unlock()
	go func() { _ = followers[0].Finish(t.Context()) }()
	if err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, line := range l.Lines() {
		if line.Edge.Part != i {
			t.Fatalf("line %d is %+v", i, line)
		}
	}
}

// TestFollowersCannotReplaceTheRun sends a line with fields of the lead, and expects that the timetable stays.
func TestFollowersCannotReplaceTheRun(t *testing.T) {
	l, p := &Lead{monitor: monitor{changed: make(chan struct{})}}, &peer{number: 1}
	lie := observe.Line{At: 5, Loader: 7, Edge: &observe.Edge{Part: 3}, Checked: &observe.Checked{Version: observe.Version}, Score: []plan.Part{{To: 9}}, Step: &observe.Step{Part: 1}, Mark: observe.MarkReady}
	if err := l.take(p, &message{Line: &lie}); err != nil {
		t.Fatal(err)
	}
	if want := []observe.Line{{At: 5, Loader: 1, Edge: lie.Edge}}; !reflect.DeepEqual(p.lines, want) {
		t.Errorf("%+v, want %+v", p.lines, want)
	}
}

// TestOrdersArriveDuringReads reads a follower's plan and start while orders arrive, for the race detector.
func TestOrdersArriveDuringReads(t *testing.T) {
	f := &Follower{monitor: monitor{ctx: t.Context(), changed: make(chan struct{})}}
	begin := time.Second
	f.plan, f.begin = &followerPart{Scenario: tiny(), Part: play.Part{Number: 1, Of: 2}}, &begin
	var orders sync.WaitGroup
	orders.Go(func() {
		for range 1000 {
			if err := f.take(&order{}); err != nil {
				t.Error(err)
			}
		}
	})
	for range 100 {
		c, err := f.Plan()
		at, begun := f.Begin(t.Context())
		if err != nil || begun != nil || c.Part.Number != 1 || !at.Equal(f.base.Add(begin)) {
			t.Fatal(c.Part, at, err, begun)
		}
	}
	orders.Wait()
}

// endless is a value without an end.
type endless struct{}

func (endless) Read(data []byte) (int, error) {
	return copy(data, bytes.Repeat([]byte{' '}, len(data))), nil
}

// TestValuesAreBounded reads a value without an end, and expects an error after a bounded number of bytes.
func TestValuesAreBounded(t *testing.T) {
	reads, in := 0, newReader(endless{}, 1<<20, nil)
	in.alive = func() { reads++ }
	if err := in.next(&message{}); model.ClassOf(err) != model.TooLarge || in.left != 0 || reads == 0 {
		t.Errorf("%d bytes left after %d reads, %v", in.left, reads, err)
	}
}

// TestTheShortestRoundTripWins compares clocks several times, and expects the result of the shortest round trip.
func TestTheShortestRoundTripWins(t *testing.T) {
	best := clock{}
	for _, x := range []struct{ asked, answered, theirs time.Duration }{{100, 300, 5150}, {400, 420, 5410}, {500, 900, 5600}} {
		best = best.nearer(comparison(x.asked, x.answered, x.theirs))
	}
	if best != (clock{ahead: 5000, within: 10}) {
		t.Errorf("%+v", best)
	}
}

// TestTokens formats and parses tokens, and expects errors for damaged ones.
func TestTokens(t *testing.T) {
	want := Token{Address: "[::1]:4711", Sum: [32]byte{1, 2}, Secret: [32]byte{3}}
	got, err := ParseToken(" " + want.String() + "\n")
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "mj1.AAAA", "mlj1.", "mlj1.%", want.String()[:60]} {
		if _, err := ParseToken(bad); model.ClassOf(err) != model.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestScenariosTravel encodes and decodes a plan, and expects the same scenario.
func TestScenariosTravel(t *testing.T) {
	files, err := scenarios.Files.ReadDir(".")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, f := range files {
		name, isScenario := strings.CutSuffix(filepath.Base(f.Name()), ".yaml")
		if !isScenario {
			continue
		}
		sc, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		sc = sc.Scaled(0.1)
		text, err := json.Marshal(order{Plan: &followerPart{Scenario: sc}})
		if err != nil {
			t.Fatal(err)
		}
		var got order
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got.Plan.Scenario, sc) {
			t.Errorf("%s arrives as another one: %v", name, err)
		}
	}
}

// FuzzMessages decodes random bytes, and expects an error or a message that takes no more memory than the bytes.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{}`), "mlj1.AAAA")
	f.Add([]byte(`{"plan":{"scenario":{"agents":[{"count":3}]},"part":{"number":1,"of":2},"ca":"AAAA","members":[{"Class":7}]}}`), "")
	f.Add([]byte(`{"line":{"kept":{"ledger":{"states":"AAAA"}}}}`), "")
	f.Add([]byte(`{"failed":{"status":429,"detail":"x"}}{"plan":{"scenario":{"agents":[{"count":3}]},"part":{"number":1,"of":2},"identities":[{"member":0,"chain":["AAAA"]}]}}`), "")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if token, err := ParseToken(text); err == nil && token.String() == "" {
			t.Error("an empty token")
		}
		read := func(v any) error { return newReader(bytes.NewReader(data), len(data)+1, func() {}).next(v) }
		if h := (hello{}); read(&h) == nil && len(h.Name) > len(data) {
			t.Error("a name that nobody sent")
		}
		if m := (message{}); read(&m) == nil {
			l := &Lead{loaders: 2, onStop: func(string) {}, monitor: monitor{changed: make(chan struct{})}, base: time.Now()}
			p := &peer{number: 1}
			if err := l.take(p, &m); len(p.lines) > 1 || m.Failed != nil && err == nil && m.Prepared == nil && m.Arrived == nil && m.Line == nil && !m.Finished && !m.Stop {
				t.Errorf("%v, %+v", err, p)
			}
		}
		follower := &Follower{monitor: monitor{ctx: t.Context(), changed: make(chan struct{})}, score: func(time.Duration, []plan.Part) error { return nil }, renamed: func(int, string) {}}
		in := newReader(bytes.NewReader(data), len(data)+1, func() {})
		for o := (order{}); in.next(&o) == nil; o = (order{}) {
			_ = follower.take(&o)
		}
		if x := follower.plan; x != nil && (x.Scenario == nil || x.Scenario.Nodes("") < 1000) {
			x.Identities = append(x.Identities, identity{Chain: [][]byte{data}, Key: data})
			_, _ = x.config()
		}
	})
}
