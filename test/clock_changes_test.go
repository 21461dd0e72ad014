//go:build linux

package test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/agent"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/app"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// wallClock replaces time.Now, so that a test can change the wall clock. The wall clock jumps, and the
// monotonic clock continues.
type wallClock struct{ ahead atomic.Int64 } // seconds

// now returns the time by the changed wall clock, with an unchanged monotonic clock.
func (c *wallClock) now() time.Time {
	t := time.Now()
	// A Time with a monotonic reading keeps its wall seconds in bits 30 to 62 of its first
	// word. There is no other way to make the two disagree.
	word := (*uint64)(unsafe.Pointer(&t))
	*word = uint64(int64(*word) + c.ahead.Load()<<30)
	return t
}

// setAhead moves the test's wall clock ahead by about the given duration. It sets three seconds before a full
// minute, so that checks with a cron expression run soon.
func (c *wallClock) setAhead(by time.Duration) {
	to := c.now().Add(by).Truncate(time.Minute).Add(57 * time.Second)
	c.ahead.Add(int64(to.Sub(c.now().Round(0)) / time.Second))
}

// TestWallClockJumps changes the time of the test's wall clock, and expects an unchanged monotonic clock.
func TestWallClockJumps(t *testing.T) {
	var c wallClock
	before := c.now()
	c.ahead.Store(-3600)
	after := c.now()
	wall := after.Round(0).Sub(before.Round(0))
	assert(t, wall <= -59*time.Minute, "the wall clock moved by %s", wall)
	passed := after.Sub(before)
	assert(t, passed >= 0 && passed <= time.Minute, "the monotonic clock moved by %s", passed)
}

// TestClockJumpsEndNoSession changes the clocks of agent and server by an hour, and expects no lost session. No node
// is down, and the clock check names the wrong machine. Server and agent run in this process because only there the
// test sets their clocks.
func TestClockJumpsEndNoSession(t *testing.T) {
	skipIfShort(t, "half a minute")
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "3s")
	joins := s.NewAgent("jumpy")
	counter := s.NewCountingCheck("count", "jumpy", "  ttl: 4s")
	s.Apply(`{kind: Check, metadata: {name: clock}, spec: {targets: {nodes: [jumpy]}, interval: 1s, probe: {name: clock}}}
---
{kind: Check, metadata: {name: minutely}, spec: {targets: {nodes: [jumpy]}, cron: '* * * * *', command: echo tick}}
---
{kind: Technique, metadata: {name: folder}, spec: {methods: [{component: folder, directory: {path: /}}]}}
---
{kind: Directive, metadata: {name: folder}, spec: {technique: folder, interval: 10s}}
---
{kind: Policy, metadata: {name: folder}, spec: {directives: [folder], targets: {nodes: [jumpy]}}}
`)
	s.Stop() // the folder now has an administrator, checks and a token

	var ofServer, ofAgent wallClock
	run := func(what string, fn func(context.Context) error) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- fn(ctx) }()
		t.Cleanup(func() {
			cancel()
			err := <-ended
			assert(t, err == nil, "%s: %v", what, err)
		})
	}
	server := testenv.Value(app.OpenAt(t.Context(), inProcessSettings(t, s), slog.New(slog.NewTextHandler(t.Output(), nil)), ofServer.now))(t)
	t.Cleanup(func() {
		err := server.Close()
		assert(t, err == nil, "close the server: %v", err)
	})
	run("server", server.Run)
	machine := agent.ThisMachine()
	machine.Now = ofAgent.now
	a, err := agent.New(agent.Config{
		StateDir: joins.State, Token: joins.Token, Servers: []string{s.Listen}, Name: joins.Name, Machine: machine,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	testenv.NoError(t, err)
	run("agent", a.Run)
	counter.AwaitRuns(2)

	clockSays := func(status model.Status, word string) {
		t.Helper()
		awaitEvent(t, s.API, "jumpy", "clock", fmt.Sprintf("the clock is %s, %q", status, word), func(e v1.Event) bool { return e.Results > 0 && e.Status == status && strings.Contains(e.Output, word) })
	}
	ticked := func(more func()) {
		t.Helper()
		before := getEvent(t, s.API, "jumpy", "minutely").Results
		more()
		awaitEvent(t, s.API, "jumpy", "minutely", "it ran again", func(e v1.Event) bool { return e.Results > before })
	}
	clockSays(model.OK, "the Muster server")
	held := func(server *wallClock) { // a directive runs on, and its runs have the time of the server
		t.Helper()
		began := server.now().Round(0)
		harness.Until(t, 40*time.Second, "a directive run has the time of the server", func() (string, bool) {
			l, err := s.API.Compliance(t.Context(), v1.ComplianceFilter{Node: "jumpy", Namespace: "default"}, 10, "")
			if err != nil || len(l.Items) != 1 {
				return fmt.Sprint(err), false
			}
			run := l.Items[0].Run
			return fmt.Sprintf("%+v", l.Items[0]), l.Items[0].Status == "compliant" && run.After(began) && run.Before(server.now().Round(0).Add(time.Minute))
		})
	}
	held(&ofServer)
	welcomes := s.Metric("muster_session_handshakes_total", `outcome="welcome"`)

	ticked(func() { ofAgent.setAhead(time.Hour) })
	clockSays(model.Critical, "ahead, ")
	held(&ofServer)
	counter.AwaitRuns(4)
	ticked(func() { ofAgent.setAhead(-2 * time.Hour) })
	clockSays(model.Critical, "behind, ")
	held(&ofServer)
	counter.AwaitRuns(4)
	ofAgent.ahead.Store(0)
	clockSays(model.OK, "the Muster server")

	for _, jump := range []time.Duration{time.Hour, -2 * time.Hour} {
		ofServer.setAhead(jump)
		counter.AwaitRuns(4)
	}
	awaitAllResults(t, s.API, "jumpy", "count", counter)

	expectEqual(t, "sessions began after the first", s.Metric("muster_session_handshakes_total", `outcome="welcome"`), welcomes)
	for _, check := range []string{model.KeepaliveCheckName, "count", "minutely"} {
		got := statusChanges(t, s.API, "jumpy", check)
		assert(t, len(got) == 0, "%s changed its status: %+v", check, got)
	}
	for _, p := range problemsOf(t, s.API, "jumpy") {
		assert(t, p.Check == "clock", "unexpected problem: %+v", p)
	}
	awaitEvent(t, s.API, model.ServerNodeName, "muster-journal", "it says until when times are too late", func(e v1.Event) bool {
		return e.Status == model.Warning && strings.Contains(e.Output, "this machine's clock was ahead")
	})
	e := getEvent(t, s.API, model.ServerNodeName, "muster-sessions")
	assert(t, e.Status == model.OK, "the server reports lost sessions: %+v", e)
}

// inProcessSettings returns the settings for a test server in the test process.
func inProcessSettings(t *testing.T, s *harness.Server) *config.Server {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(flags)
	args := append([]string{"--data", s.Data, "--listen", s.Listen, "--listen-admin", s.Admin, "--journal-reserve", "1MiB"}, s.Args...)
	testenv.NoError(t, flags.Parse(args))
	cfg := testenv.Value(config.Load(flags, func(string) string { return "" }))(t)
	return cfg
}
