package sensu

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/authlimit"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// TestJournaledResultsHaveNoGaps checks that the journal has an agent's results and keepalives with consecutive
// sequence numbers. Its results are in the journal, numbered without holes.
func TestJournaledResultsHaveNoGaps(t *testing.T) {
	inBothCodecs(t, func(t *testing.T, json bool) {
		w := newTestServer(t, nil)
		w.definitions = []*model.CheckDefinition{newCheck(1, "disk", "check_disk {{ .props.word }}", func(c *model.CheckDefinition) {
			c.Timeout, c.Env = 1500*time.Millisecond, map[string]string{"A": "{{ .props.word }}"}
		})}
		a := w.connectAgent("web-1", json)
		r := a.nextRequest()
		if r.Name != "disk" || r.Interval != 1 || time.Since(time.Unix(r.Issued, 0)).Abs() > 10*time.Second {
			t.Errorf("unexpected request %+v", r)
		}
		a.sendResult(r, 2, "CRITICAL\x00 \"no\"\n")
		w.wait("the result", func() bool { return len(w.signals) >= 2 })
		w.mu.Lock()
		defer w.mu.Unlock()
		mark := w.records[0]
		if mark.Kind != wire.RecordSession || !mark.Session.Start || mark.Session.KeepaliveMs != 5000 || mark.Session.TimeoutMs != 30000 {
			t.Errorf("it began with %+v", mark.Session)
		}
		s := w.signals[1]
		if w.signals[0].Kind != wire.SignalKeepalive || s.Kind != wire.SignalResult || s.Definition != 1 || s.Status != model.Critical || s.DurationMs != 250 || string(s.Output) != "CRITICAL\uFFFD \"no\"" {
			t.Errorf("kept %+v, output %q", s, s.Output)
		}
		said := w.reports[a.uid()]
		if fmt.Sprintln(said.Labels, said.Groups, said.Facts["hostname"], said.Facts["addresses"]) != "map[env:test] [web] web-1 172.17.0.2\n" {
			t.Errorf("recorded %+v", said)
		}
		if agent, ok := w.server.Agent(mark.Node); !ok || agent.Version != "sensu-agent 6.9.2" || agent.Assigned != 7 {
			t.Errorf("%v %+v", ok, agent)
		}
	})
}

// A refused handshake is answered with an HTTP status for its reason. An example is 401 for a wrong password.
func TestHandshakeIsRefusedWithAStatus(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.Limits.Sessions = 1 })
	w.update(func() {
		s := &intent.ExternalAgent{System: agentSystem, Namespace: "default", Name: "gone"}
		w.tombstones[s.UID()] = intent.Tombstone{Name: "gone", Cause: "retired"}
		s.Name = "ours"
		w.nodes[s.UID()] = intent.NodeInfo{ID: 50, UID: s.UID(), Name: "ours", Key: "abc"}
	})
	for _, c := range []struct {
		name, namespace, password string
		want                      int
	}{
		{"web", "default", "wrong", 401}, {"web", "secret", "secret", 403}, {"web", "other", "secret", 404}, {"", "default", "secret", 422},
		{"gone", "default", "secret", 403}, {"ours", "default", "secret", 409},
	} {
		if a, status := w.dial(c.name, c.namespace, c.password, false); a != nil || status != c.want {
			t.Errorf("%+v: %d", c, status)
		}
	}
	w.connectAgent("web", false)
	if a, status := w.dial("another", "default", "secret", false); a != nil || status != 503 {
		t.Errorf("one more than there may be: %d", status)
	}
}

// The server limits attempts with wrong passwords per address and logs the limit once. A right password still
// connects.
func TestWrongPasswordsAreLimited(t *testing.T) {
	var log lockedBuffer
	w := newTestServer(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	statuses := map[int]int{}
	for range 30 {
		_, status := w.dial("web", "default", "wrong", false)
		statuses[status]++
	}
	if statuses[401] < authlimit.Burst || statuses[401] > authlimit.Burst+5 || statuses[401]+statuses[429] != 30 {
		t.Errorf("thirty wrong passwords: %v", statuses)
	}
	w.connectAgent("web", false)
	if n := testutil.ToFloat64(w.server.metrics.passwordLocks); n != 1 {
		t.Errorf("counted %v times", n)
	}
	if n := strings.Count(log.text(), "too many wrong passwords"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, log.text())
	}
}

// Each received message is counted under exactly one outcome, and no message ends its session.
func TestEveryMessageHasOneOutcome(t *testing.T) {
	w := newTestServer(t, nil)
	hour := func(c *model.CheckDefinition) { c.Interval = time.Hour }
	w.definitions = []*model.CheckDefinition{newCheck(1, "disk", "x", func(c *model.CheckDefinition) {
		hour(c)
		c.Hooks, c.Thresholds = []model.Hook{{Name: "h"}}, []model.Threshold{{}}
	}), newCheck(2, "many", "x", hour)}
	a := w.connectAgent("web", false)
	first := a.nextRequest()
	event := func(name string, change func(*sensuwire.Event)) {
		c := sensuwire.Protobuf
		r := testenv.Value(c.ParseRequest(c.AppendRequest(nil, &sensuwire.CheckRequest{Name: name, Namespace: "default", Interval: 1})))(t)
		e := &sensuwire.Event{Entity: &a.entity, Check: r.Check}
		if change != nil {
			change(e)
		}
		a.send(sensuwire.TypeEvent, e)
	}
	w.wait("the plan", func() bool { return first != nil })
	stranger := a.entity
	stranger.Name = "somebody"
	event("disk", func(e *sensuwire.Event) { e.Status = 4294967295 })
	event("disk", func(e *sensuwire.Event) { e.Entity = &stranger })
	event("nothing", nil)
	event("many", nil)
	event("disk", func(e *sensuwire.Event) { e.MetricsOnly = true })
	for _, raw := range []string{"no line feed", "event\n\xff\xff\xff", "event\n", "news\nx"} {
		testenv.NoError(t, a.conn.Write(append(make([]byte, wsconn.Headroom), raw...)))
	}
	a.sendKeepalive()
	w.wait("all of them", func() bool { return w.count(keepaliveKept) == 2 })
	for out, want := range map[messageOutcome]int{keepaliveKept: 2, resultKept: 1, otherEntity: 1, checkUnassigned: 1, stateLimit: 1, emptyEvent: 1, messageMalformed: 3, unknownKind: 1} {
		if got := w.count(out); got != want {
			t.Errorf("%s: %d, want %d", outcomeNames[out], got, want)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.signals[1]; s.Status != model.Unknown || !strings.HasPrefix(string(s.Output), "exit code -1: plug-ins end with") {
		t.Errorf("%+v %q", s, s.Output)
	}
}

// TestLongEventsAreChargedByBytes sends events with long outputs, and expects a delay of their sender. The bytes of an
// event count against its sender's rate limit.
func TestLongEventsAreChargedByBytes(t *testing.T) {
	w := newTestServer(t, func(c *Config) {
		c.Limiter.Namespace = func(model.NamespaceID) core.NamespaceLimits {
			return core.NamespaceLimits{Namespace: "default", NodeBytesPerSec: 10_000}
		}
	})
	a := w.connectAgent("web", false)
	a.sendKeepalive()
	c := sensuwire.Protobuf
	r := testenv.Value(c.ParseRequest(c.AppendRequest(nil, &sensuwire.CheckRequest{Name: "disk", Namespace: "default", Interval: 1})))(t)
	a.send(sensuwire.TypeEvent, &sensuwire.Event{Entity: &a.entity, Check: r.Check, Output: strings.Repeat("x", 110_000)})
	w.wait("the pause", func() bool { return testutil.ToFloat64(w.server.metrics.throttled) > 0 })
	if hits := w.server.cfg.Limiter.RecentHits(time.Time{}); len(hits) != 1 || hits[0].Limit != "node_bytes_rate" || hits[0].Node != "web" {
		t.Errorf("limits met: %+v", hits)
	}
}

// TestMetricPointsAreChargedAsValues expects the metric points of an event to count against its sender's limit of
// values.
func TestMetricPointsAreChargedAsValues(t *testing.T) {
	w := newTestServer(t, func(c *Config) {
		c.Limiter.Namespace = func(model.NamespaceID) core.NamespaceLimits {
			return core.NamespaceLimits{Namespace: "default", NodeValuesPerSec: 100}
		}
	})
	a := w.connectAgent("web", false)
	a.sendKeepalive()
	points := make([]sensuwire.Point, 1100)
	for i := range points {
		points[i] = sensuwire.Point{Name: "counter", Value: float64(i), Time: 1795236430}
	}
	a.send(sensuwire.TypeEvent, &sensuwire.Event{Entity: &a.entity, MetricsOnly: true, Points: points})
	w.wait("the pause", func() bool { return testutil.ToFloat64(w.server.metrics.throttled) > 0 })
	if hits := w.server.cfg.Limiter.RecentHits(time.Time{}); len(hits) != 1 || hits[0].Limit != "node_values_rate" || hits[0].Node != "web" {
		t.Errorf("limits met: %+v", hits)
	}
}

// A check that a Sensu agent cannot run gets an UNKNOWN result with the reason.
func TestUnsupportedRunsAreReported(t *testing.T) {
	w := newTestServer(t, nil)
	w.definitions = []*model.CheckDefinition{
		newCheck(1, "probe", "", func(c *model.CheckDefinition) { c.Command, c.Probe = nil, &model.Probe{Name: "load"} }),
		newCheck(2, "user", "id", func(c *model.CheckDefinition) { c.RunAs = "root" }),
		newCheck(4, "hooks", "", func(c *model.CheckDefinition) {
			c.Command, c.Probe, c.Hooks = nil, &model.Probe{Name: "disk"}, []model.Hook{{Name: "h"}}
		}),
		newCheck(3, "unset", "echo {{ .props.nobody }}", nil),
	}
	w.connectAgent("web", false)
	said := map[model.DefinitionID]string{}
	w.wait("four results", func() bool {
		for _, s := range w.signals {
			if s.Kind == wire.SignalResult && s.Status == model.Unknown {
				said[s.Definition] = string(s.Output)
			}
		}
		return len(said) == 4
	})
	for id, want := range map[model.DefinitionID]string{1: "no probe load", 2: "cannot run commands as root", 3: `property "nobody" is not set`, 4: "no probe disk"} {
		if !strings.Contains(said[id], want) {
			t.Errorf("%d: %q, want %q", id, said[id], want)
		}
	}
}

// After a change of the assignment the agent is asked to run the changed checks. A result of an earlier request is
// judged by the earlier definition.
func TestChangedAssignmentReachesTheAgent(t *testing.T) {
	w := newTestServer(t, nil)
	w.definitions = []*model.CheckDefinition{newCheck(1, "disk", "old", nil)}
	a := w.connectAgent("web", false)
	before := a.nextRequest()
	w.assign(newCheck(2, "disk", "new", nil), newCheck(3, "load", "x", nil))
	var after *sensuwire.ReceivedRequest
	for after == nil || after.Name != "load" {
		after = a.nextRequest()
	}
	early := *before
	early.Issued--
	a.sendResult(&early, 1, "old")
	w.wait("the old one", func() bool { return len(w.signals) == 2 })
	a.sendResult(after, 0, "")
	w.wait("the new one", func() bool { return len(w.signals) == 3 })
	w.mu.Lock()
	if w.signals[1].Definition != 1 || w.signals[2].Definition != 3 || string(w.signals[2].Output) != "(no output)" {
		t.Errorf("%+v", w.signals[1:])
	}
	w.deleted[a.uid()] = true
	delete(w.nodes, a.uid())
	w.mu.Unlock()
	w.notify(directory.Change{Assignments: []model.NodeID{100}})
	for {
		select {
		case <-a.requests:
			continue
		case err := <-a.ended:
			if closed := (*wsconn.CloseError)(nil); !errors.As(err, &closed) || closed.Reason != "the node was deleted" {
				t.Errorf("ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the session of a node that is gone goes on")
		}
		return
	}
}

// While an agent is connected, a second agent with its name is refused in the handshake. An agent that answers no ping
// is displaced.
func TestSecondAgentOfANameIsRefused(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.Limits.Probe = time.Second })
	first := w.connectAgent("web", false)
	if a, status := w.dial("web", "default", "secret", false); a != nil || status != 409 {
		t.Fatalf("the second: %d", status)
	}
	w.mu.Lock()
	if len(w.clones) != 1 || w.clones[0].Holder.Address != "127.0.0.1" {
		t.Errorf("reported %+v", w.clones)
	}
	w.mu.Unlock()
	first.sendKeepalive()
	w.wait("the first goes on", func() bool { return w.count(keepaliveKept) == 2 })

	silent := w.mustDial("db", false) // the test does not read this connection, so the agent sends no pongs
	silent.sendKeepalive()
	w.wait("its session", func() bool { return w.server.Sessions() == 2 })
	again := w.mustDial("db", false)
	again.sendKeepalive()
	w.wait("its keepalive", func() bool { return w.count(keepaliveKept) == 4 })
	if w.server.Sessions() != 2 {
		t.Errorf("%d sessions", w.server.Sessions())
	}
}

// A refused connection is closed only after the time RefusalDelay. Else the agent would reconnect at once.
func TestRefusedConnectionClosesLate(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.Limits.RefusalDelay = 300 * time.Millisecond })
	began := time.Now()
	a := w.mustDial("refused", false)
	go a.read()
	a.sendKeepalive()
	err := <-a.ended
	if closed := (*wsconn.CloseError)(nil); !errors.As(err, &closed) || closed.Code != 1008 || time.Since(began) < 300*time.Millisecond {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// TestAgentGetsPongsWhileTheJournalIsBlocked blocks the journal, and expects pongs and no lost message.
func TestAgentGetsPongsWhileTheJournalIsBlocked(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.Limits.PingAfter = 300 * time.Millisecond })
	a := w.mustDial("web", false)
	a.sendKeepalive()
	w.wait("its session", func() bool { return len(w.signals) == 1 })
	full := make(chan struct{})
	w.update(func() { w.blocked = full })
	a.sendKeepalive()
	pongs := 0
	for pongs < 2 {
		op, _, err := a.conn.Read(1 << 20)
		testenv.NoError(t, err)
		if op == wsconn.Pong {
			pongs++
		}
	}
	close(full)
	w.wait("what waited", func() bool { return len(w.signals) == 2 })
}

// A check request has the command as one shell line. Arguments are quoted and properties are expanded.
func TestRequestHasTheCommandAsAShellLine(t *testing.T) {
	w := newTestServer(t, nil)
	w.nodes[(&intent.ExternalAgent{}).UID()] = intent.NodeInfo{ID: 9}
	x := &session{srv: w.server, agentIdentity: agentIdentity{namespace: "default"}}
	x.Node.ID, x.Node.Namespace = 9, model.DefaultNamespace
	a := &directory.Assignment{Properties: []wire.Property{{Name: "word", Value: []byte(`"it's {{ .x }}"`)}}}
	for _, c := range []struct {
		definition *model.CheckDefinition
		name, cmd  string
	}{
		{newCheck(1, "a", "echo hi", nil), "a", "echo hi"},
		{newCheck(2, "a", "", func(c *model.CheckDefinition) { c.Command = &model.Command{Argv: []string{"a b", "it's", "$X"}} }), "a", `'a b' 'it'\''s' '$X'`},
		{newCheck(3, "a", "echo {{ .props.word }}", nil), "a", "echo 'it'\\''s {{`{{`}} .x }}'"},
		{newCheck(4, "a", "cat", func(c *model.CheckDefinition) { c.Stdin = "in" }), "a", "printf %s 'in' | {\ncat\n}"},
		{newCheck(5, "a", "x", func(c *model.CheckDefinition) { c.Namespace = model.SharedNamespace }), "shared:a", "x"},
	} {
		r := x.prepareCheck(c.definition, &runTarget{properties: a.Properties})
		if r.problem != "" || r.request.Name != c.name || r.request.Command != c.cmd {
			t.Errorf("%+v: %q, %q, want %q", c.definition, r.problem, r.request.Command, c.cmd)
		}
	}
}

// TestLongOutputIsTruncated sends a long output, and expects a truncated output with a note about the
// truncation. The mark says how many bytes are missing.
func TestLongOutputIsTruncated(t *testing.T) {
	for _, c := range []struct {
		cause, output string
		keep          int
		unmarked      bool // the check is kept from Sensu
		want          string
		cut           uint64
	}{
		{"", " \n", 100, false, "(no output)", 0},
		{"why\n", "a\n", 100, false, "why\na", 0},
		{"", "0123456789", 4, true, "0123", 6},
		{"", "äöü", 3, true, "ä", 4},
		{"", strings.Repeat("ä", 50), 61, false, strings.Repeat("ä", 10) + "… [cut 80 bytes]", 80},
	} {
		text, cut := limitOutput(c.cause, []byte(c.output), c.keep, !c.unmarked)
		if string(text) != c.want || cut != c.cut {
			t.Errorf("%+v: %q, %d", c, text, cut)
		}
	}
}

// TestDelayedResultsKeepTheirTime pauses the server for 90 s, and expects delayed results to have the time of
// their command. A wrong clock of the agent does not matter. A time that the session cannot have seen is
// ignored.
func TestDelayedResultsKeepTheirTime(t *testing.T) {
	inBothCodecs(t, func(t *testing.T, json bool) {
		var stoodStill atomic.Int64
		w := newTestServer(t, func(c *Config) {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(stoodStill.Load())) }
		})
		w.definitions = []*model.CheckDefinition{newCheck(1, "disk", "x", nil)}
		w.passives["backup"] = directory.PassiveCheck{Definition: newCheck(11, "backup", "", func(c *model.CheckDefinition) { c.Command, c.Interval = nil, 0 })}
		a := w.connectAgent("web-1", json)
		r := a.nextRequest()
		backup := testenv.Value(a.codec.ParseRequest(a.codec.AppendRequest(nil, &sensuwire.CheckRequest{Name: "backup", Namespace: "default", Interval: 1})))(t)
		const ahead = 5000 // s, of the agent's clock
		a.send(sensuwire.TypeEvent, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Check: r.Check, Issued: r.Issued, Executed: r.Issued + ahead, Output: "in time"})
		w.wait("the first result", func() bool { return w.count(resultKept) == 1 })
		stoodStill.Store(int64(90 * time.Second))
		for _, e := range []*sensuwire.Event{
			{Check: r.Check, Issued: r.Issued + 1, Executed: r.Issued + 1 + ahead, Duration: 4},
			{Check: backup.Check, Executed: r.Issued + 20 + ahead},
			{Check: backup.Check, Executed: 1},
			{Check: r.Check, Issued: 1, Executed: r.Issued + 90 + ahead},
		} {
			e.Timestamp, e.Entity, e.Output = 1, &a.entity, "late"
			a.send(sensuwire.TypeEvent, e)
		}
		w.wait("all results", func() bool { return w.count(resultKept) == 5 })
		w.mu.Lock()
		defer w.mu.Unlock()
		var dates []int64 // s since the request
		for _, s := range w.signals {
			if s.Kind == wire.SignalResult {
				dates = append(dates, int64(s.AtMs)/1000-r.Issued)
			}
		}
		near := func(date, want int64) bool { return want-1 <= date && date <= want } // Sensu's times are whole seconds
		if len(dates) != 5 || dates[0] >= 90 || !near(dates[1], 5) || !near(dates[2], 20) || dates[3] < 90 || dates[4] < 90 {
			t.Errorf("results are dated %v s after the request", dates)
		}
	})
}

// TestSpooledResultsFollowTheFirstKeepalive sends an agent's stored results with its first keepalive, and expects the
// results in the journal. They belong to assigned checks.
func TestSpooledResultsFollowTheFirstKeepalive(t *testing.T) {
	for i := range 10 {
		w := newTestServer(t, nil)
		w.definitions = []*model.CheckDefinition{newCheck(1, "load", "x", nil)}
		w.passives["load"] = directory.PassiveCheck{}
		a := w.mustDial("web", i%2 == 0)
		go a.read()
		r := testenv.Value(a.codec.ParseRequest(a.codec.AppendRequest(nil, &sensuwire.CheckRequest{Name: "load", Namespace: "default", Interval: 60})))(t)
		a.sendKeepalive()
		a.send(sensuwire.TypeEvent, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Check: r.Check, Issued: 1, Executed: 1, Status: 2, Output: "bad"})
		a.sendKeepalive()
		w.wait("alive", func() bool { return w.count(keepaliveKept) == 2 })
		if w.count(resultKept) != 1 || w.count(checkUnassigned) != 0 {
			t.Fatalf("kept %v, refused as nobody's %v", w.count(resultKept), w.count(checkUnassigned))
		}
	}
}
