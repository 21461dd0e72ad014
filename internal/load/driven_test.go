package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// lines is a system of another kind, as small as a target can be: a line of TCP says who calls,
// then each is a result, "NUMBER CHECK STATUS DIGEST", and an answer the number that all came up to.
type lines struct {
	listener net.Listener
	all      sync.WaitGroup
	lose     func(agent, check string) bool // acknowledged, and not kept; nil: nothing is
	dirty    error                          // why what was made cannot be removed; nil: it can

	mu    sync.Mutex
	last  map[string]uint64 // number, by agent and stream: what comes again is dropped
	alive int
	calls int
	kept  map[[2]string]Shown
}

func listen(t *testing.T) *lines {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &lines{listener: l, last: map[string]uint64{}, kept: map[[2]string]Shown{}}
	s.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.all.Go(func() { s.answer(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); s.all.Wait() })
	return s
}

func (s *lines) answer(c net.Conn) {
	defer c.Close()
	in := bufio.NewScanner(c)
	in.Scan()
	stream := in.Text()
	agent, _, _ := strings.Cut(stream, " ")
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	for in.Scan() {
		var number uint64
		var check string
		var status int
		var digest uint32
		if _, err := fmt.Sscanf(in.Text(), "%d %s %d %d", &number, &check, &status, &digest); err != nil {
			return
		}
		s.mu.Lock()
		switch key := [2]string{agent, check}; {
		case number <= s.last[stream]:
		case check == "-":
			s.alive++
		case s.lose == nil || !s.lose(agent, check):
			s.kept[key] = Shown{agent, check, s.kept[key].Results + 1, digest}
		}
		s.last[stream] = max(s.last[stream], number)
		s.mu.Unlock()
		if _, err := fmt.Fprintln(c, number); err != nil {
			return
		}
	}
}

// lineTarget is its Driven: what a folder of a target holds.
type lineTarget struct{ server *lines }

func (t *lineTarget) Name() string                            { return "lines" }
func (t *lineTarget) Secured() bool                           { return false }
func (t *lineTarget) Prepare(context.Context) (string, error) { return "1.0", nil }
func (t *lineTarget) Clean(context.Context) error             { return t.server.dirty }

func (t *lineTarget) Open(ctx context.Context, a Caller) (Line, error) {
	c, err := a.Dial(ctx, "tcp", t.server.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	t.server.all.Go(func() {
		in, number := bufio.NewScanner(c), uint64(0)
		for in.Scan() {
			if _, err := fmt.Sscan(in.Text(), &number); err == nil {
				a.Acked(number, nil)
			}
		}
		a.Acked(0, fmt.Errorf("the line ended"))
	})
	_, err = fmt.Fprintln(c, a.Name, a.Stream)
	return &lineCall{c}, err
}

func (t *lineTarget) Each(_ context.Context, fn func(Shown) error) error {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	for _, s := range t.server.kept {
		if err := fn(s); err != nil {
			return err
		}
	}
	return nil
}

type lineCall struct{ net.Conn }

func (l *lineCall) Send(results []Result) error {
	var b strings.Builder
	for _, r := range results {
		if r.Check == "" {
			r.Check = "-"
		}
		if old := time.Since(r.At); old < -time.Second || old > time.Minute {
			return fmt.Errorf("result %d was made at %s", r.Number, r.At)
		}
		fmt.Fprintf(&b, "%d %s %d %d\n", r.Number, r.Check, r.Status, Digest(r.Status, string(r.Output)))
	}
	_, err := l.Write([]byte(b.String()))
	return err
}

// drive plays a scenario against a server of lines.
func drive(t *testing.T, s *lines) *report.Report {
	t.Helper()
	sc, err := scenario.Parse("lines.yaml", []byte(`scenario: muster.load/v1
seed: 4
agents:
  - {name: web, count: 20, linger: 20ms, checks: [{name: app, count: 3, interval: 1s, status: {critical: 0.2}, changes: 0.3}]}
  - {name: db, count: 5, linger: 20ms, checks: [{name: disk, interval: 1s}], churn: {reconnects: 500%/min, offline: 300%/min, offlineFor: 1s}}
phases:
  - {ramp: 200ms}
  - {steady: 1500ms, warmup: 300ms}
  - {name: double, steady: 1s, rate: 2}
  - {step: 500ms, rate: 1, by: 1, to: 4}
  - {drain: 20s}
faults:
  - {at: 200ms, cut: {class: web, count: 5}}
  - {at: 1s, hang: {class: web, count: 2}, for: 1s}
  - {at: 1s, stop: {class: db, count: 1}, for: 1s}
objectives: {rate: 40, held: 50%, allocs: 1}
`))
	if err != nil {
		t.Fatal(err)
	}
	sc.Defaults()
	rep, err := RunTarget(t.Context(), Config{Scenario: sc, Server: s.listener.Addr().String(), MaxLag: time.Minute}, &lineTarget{s})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// A system that is told gets the timetable of any other run: its rates, its steps, its churn; and
// the ledger is that of any other run.
func TestDriven(t *testing.T) {
	t.Parallel()
	s := listen(t)
	for round := range 2 { // the second one begins with what the first one left, and leaves something behind
		if round == 1 {
			s.dirty = errors.New("permission denied")
		}
		rep := drive(t, s)
		if said := slices.Contains(rep.Label, "what the run made on lines is not all gone: permission denied"); said != (round == 1) {
			t.Errorf("round %d: labels %q", round, rep.Label)
		}
		b := rep.Balance
		if !rep.OK() || b.Compared != 65 || b.Sent != b.Acknowledged || b.Sent < 65*3 {
			t.Errorf("round %d: %v %+v", round, rep.Verdict, b)
		}
		if g := rep.Targeted; g == nil || g.Name != "lines" || g.Version != "1.0" || rep.Asked() {
			t.Errorf("%+v", g)
		}
		if !slices.Contains(rep.Label, "not measured against lines, and not judged: allocs") || len(rep.Goals) != 2 {
			t.Errorf("labels %q, goals %+v", rep.Label, rep.Goals)
		}
		kinds, steps := "", 0
		for _, p := range rep.Phases {
			kinds += p.Kind + " "
			if p.Kind == report.KindStep {
				steps++
			}
			if p.Name == "double" && (p.Offered < 105 || p.Offered > 131 || p.Latency.Max == 0) { // twice 65/s, less what hangs or stands still
				t.Errorf("%+v", p)
			}
		}
		if steps != 4 || len(rep.Faults) != 3 || rep.Latency.P50 < 1 || rep.Latency.P50 > 10_000 || len(rep.Samples) < 3 {
			t.Errorf("%s: %d steps, faults %+v, latency %+v, %d samples", kinds, steps, rep.Faults, rep.Latency, len(rep.Samples))
		}
		if text := rep.Text(); !strings.Contains(text, "acknowledged") {
			t.Error(text)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls < 51 {
		t.Errorf("%d calls by 25 agents in two runs: nobody came back", s.calls)
	}
}

// One that acknowledges what it does not keep is found out.
func TestDrivenLoses(t *testing.T) {
	t.Parallel()
	s := listen(t)
	seen := 0
	s.lose = func(agent, check string) bool {
		if agent != "web-00003" || check != "web-app-001" {
			return false
		}
		seen++
		return seen == 2
	}
	rep := drive(t, s)
	b := rep.Balance
	if rep.OK() || b.Differ != 1 || b.Kinds[lost] != 1 || b.Examples[0].Name != "web-00003" || b.Examples[0].CheckName != "web-app-001" {
		t.Errorf("%v %+v", rep.Verdict, b)
	}
}

// asks is a system that keeps the time.
type asks struct{ Asking }

func (asks) Name() string { return "asks" }

// What a target cannot play is said before anything is done, by what kind of system it is.
func TestTargetPlays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change        func(*scenario.Scenario)
		asked, driven bool
	}{
		{func(*scenario.Scenario) {}, true, true},
		{func(s *scenario.Scenario) { s.Agents[0].TLS = true }, true, true},
		{func(s *scenario.Scenario) { s.Phases[1].Rate = 1.2 }, false, true},
		{func(s *scenario.Scenario) { s.Phases[1].Objectives = map[string]scenario.Limit{"p99": "1s"} }, false, true},
		{func(s *scenario.Scenario) { s.Agents[0].Churn.Reconnects = "1%/min" }, false, true},
		{func(s *scenario.Scenario) { s.Faults = []scenario.Fault{{Stop: &scenario.Pick{Count: 1}}} }, false, true},
		{func(s *scenario.Scenario) { s.Faults = []scenario.Fault{{Wrong: &scenario.Pick{Count: 1}}} }, false, false},
		{func(s *scenario.Scenario) { s.Faults = []scenario.Fault{{Server: "kill"}} }, false, false},
		{func(s *scenario.Scenario) { s.Agents[0].Churn.Renames = "1%/min" }, false, false},
		{func(s *scenario.Scenario) { s.Operators.Lists = 1 }, false, false},
		{func(s *scenario.Scenario) { s.Stream = &scenario.Stream{Connections: 1} }, false, false},
		{func(s *scenario.Scenario) { s.Agents[0].Checks[0].RoundRobin = true }, false, false},
	} {
		sc := &scenario.Scenario{Name: "small", Agents: []scenario.Class{{Name: "web", Count: 6, Checks: []scenario.Check{{Name: "http", Interval: model.Duration(time.Second)}}}},
			Phases: []scenario.Phase{{Ramp: model.Duration(time.Second)}, {Steady: model.Duration(time.Second)}}}
		c.change(sc)
		for target, want := range map[Target]bool{asks{}: c.asked, &lineTarget{}: c.driven} {
			if err := TargetPlays(sc, target); (err == nil) != want || err != nil && model.ClassOf(err) != model.Unsupported {
				t.Errorf("%s: %v, want %t of %v", target.Name(), err, want, sc.Requires())
			}
		}
	}
}
