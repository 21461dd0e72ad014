package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/spool"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// oneShotRig is a real agent with a simulated server. Its one-shot directives count their runs in a file.
type oneShotRig struct {
	*testServer
	t       *testing.T
	cfg     Config
	file    string
	agent   *Agent
	stopped func() error
	seen    int // reports before
}

// newOneShotRig returns a rig whose agent has not started.
func newOneShotRig(t *testing.T) *oneShotRig {
	s := newTestServer(t)
	return &oneShotRig{testServer: s, t: t, cfg: testConfig(s, t.TempDir()), file: filepath.Join(t.TempDir(), "runs")}
}

// directive returns a one-shot directive that adds a line to the file in each run.
func (r *oneShotRig) directive(id model.DefinitionID, line string, once model.OneShotWindow) *model.DirectiveDefinition {
	return &model.DirectiveDefinition{
		Definition: model.Definition{ID: id, Unit: model.FirstCheck + 1, Name: "once"}, OneShot: &once, Timeout: time.Minute,
		Components: []model.Component{
			{Name: "count", Method: "command", Arguments: fmt.Appendf(nil, `{"check":"echo %s >>%s"}`, line, r.file)},
			{Name: "file", Method: "filePresent", Arguments: fmt.Appendf(nil, `{"path":%q}`, r.file+".missing")},
		},
	}
}

// start starts the agent.
func (r *oneShotRig) start() { r.agent, r.stopped = startAgent(r.t, r.cfg) }

// restartAgent restarts the agent on the same state folder.
func (r *oneShotRig) restartAgent() {
	testenv.NoError(r.t, r.stopped())
	r.start()
}

// expect waits for a further report with a status of the file component. It also waits for the lines of the file. The
// agent may repeat a report.
func (r *oneShotRig) expect(what, lines string, status policy.Status) (last wire.Report) {
	r.t.Helper()
	r.awaitCondition(what, func() bool {
		if len(r.reports) <= r.seen {
			return false
		}
		last = r.reports[len(r.reports)-1]
		data, _ := os.ReadFile(r.file)
		return policy.Codes(last.Codes).At(1) == status && strings.Join(strings.Fields(string(data)), " ") == lines
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = len(r.reports)
	return last
}

// TestOneShotRunsOnce runs a one-shot directive on a real agent. It expects one run in spite of restarts, connections,
// other receivers and waivers, with the same report each time. Other work and a request of a person make it run again.
func TestOneShotRunsOnce(t *testing.T) {
	r := newOneShotRig(t)
	first := r.directive(1, "a", model.OneShotWindow{})
	r.assignDefinitions(nil, first.ToDefinition())
	r.start()
	before := r.expect("the run", "a", policy.NonCompliant)
	r.restartAgent()
	after := r.expect("the report after a restart", "a", policy.NonCompliant)
	if len(after.Exceptions) != 1 || after.Exceptions[0] != before.Exceptions[0] || after.DurationMs != before.DurationMs {
		t.Errorf("repeated report %+v, want %+v", after, before)
	}
	r.testServer.stop()
	r.restart()
	r.expect("the report after a connection", "a", policy.NonCompliant)

	told := *first
	told.ID, told.Handlers, told.Grace = 2, []string{"default/mail"}, time.Hour
	r.assignDefinitions(nil, told.ToDefinition())
	r.expect("other receivers", "a", policy.NonCompliant)
	waiver := (&model.WaiverDefinition{Definition: model.Definition{ID: 3, Unit: 9, Name: "w"}, Directive: "once", Components: []string{"file"}, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli()}).ToDefinition()
	r.assignDefinitions(nil, told.ToDefinition(), waiver)
	r.expect("a waiver", "a", policy.Waived)
	r.assignDefinitions(nil)
	r.awaitCondition("the directive left the node", func() bool { return r.agent.directives.unitOf(2) == 0 })
	r.assignDefinitions(nil, told.ToDefinition())
	r.expect("the directive came back", "a", policy.NonCompliant)

	r.assignDefinitions(nil, r.directive(4, "b", model.OneShotWindow{}).ToDefinition())
	r.expect("other work", "a b", policy.NonCompliant)
	(*linkEvents)(r.agent).RunNow(nil, &wire.Run{ID: 1, Definition: 4})
	r.expect("a requested run", "a b b", policy.NonCompliant)
}

// TestOneShotHasOneRetryTimer asks for the next look at missing inputs often, and expects one look per minute.
func TestOneShotHasOneRetryTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s oneShots
		looks := 0
		for range 5 {
			s.retry(7, func() { looks++ })
		}
		time.Sleep(oneShotRetry)
		synctest.Wait()
		s.retry(7, func() { looks++ })
		time.Sleep(10 * oneShotRetry)
		synctest.Wait()
		if looks != 2 {
			t.Errorf("%d looks", looks)
		}
	})
}

// TestOneShotKeepsItsTime assigns one-shot directives whose time has not come or is over. It expects a run in the time
// alone, and a request of a person to run it before.
func TestOneShotKeepsItsTime(t *testing.T) {
	r := newOneShotRig(t)
	unixMs := func(in time.Duration) int64 { return time.Now().Add(in).UnixMilli() }
	soon := r.directive(2, "soon", model.OneShotWindow{FromUnixMs: unixMs(3 * time.Second)})
	soon.Unit++
	over := r.directive(3, "over", model.OneShotWindow{FromUnixMs: unixMs(-2 * time.Hour), UntilUnixMs: unixMs(-time.Hour)})
	over.Unit += 2
	r.assignDefinitions(nil, r.directive(1, "later", model.OneShotWindow{FromUnixMs: unixMs(time.Hour)}).ToDefinition(), soon.ToDefinition(), over.ToDefinition())
	r.start()
	r.awaitCondition("a session", func() bool { return len(r.hellos) > 0 })
	r.expect("the run of the time", "soon", policy.NonCompliant)
	(*linkEvents)(r.agent).RunNow(nil, &wire.Run{ID: 1, Definition: 1})
	r.expect("the requested run before the time", "soon later", policy.NonCompliant)
}

// TestInterruptedOneShotRunsNoMore starts an agent whose earlier process ended during the run of a one-shot directive.
// It expects a report with the reason, in which all components are missing.
func TestInterruptedOneShotRunsNoMore(t *testing.T) {
	r := newOneShotRig(t)
	c := r.directive(1, "a", model.OneShotWindow{})
	r.assignDefinitions(nil, c.ToDefinition())
	earlier := oneShots{dir: r.cfg.StateDir}
	testenv.NoError(t, os.MkdirAll(r.cfg.StateDir, 0o700))
	testenv.NoError(t, earlier.store(c.Unit, oneShotRun{Work: wire.DirectiveWork(c), StartedAt: time.Now()}))
	r.start()
	if report := r.expect("the report", "", policy.Missing); !strings.Contains(report.Ended, "ended during the run") {
		t.Errorf("ended because %q", report.Ended)
	}
}

// TestOneShotsSurviveOnDisk stores runs of one-shot directives, and expects each in another process. A damaged file
// excludes all runs.
func TestOneShotsSurviveOnDisk(t *testing.T) {
	dir := t.TempDir()
	c := &model.DirectiveDefinition{Definition: model.Definition{Unit: 7}, OneShot: &model.OneShotWindow{}, Components: []model.Component{{Name: "a", Method: "filePresent", Arguments: []byte("{}")}}}
	audit := oneShotRun{Work: wire.DirectiveWork(c), StartedAt: time.Unix(1e9, 0).UTC()}
	testenv.NoError(t, (&oneShots{dir: dir}).store(7, audit))
	ran := func(of *model.DirectiveDefinition, changes bool) bool {
		t.Helper()
		_, ok, err := (&oneShots{dir: dir}).find(of, changes)
		testenv.NoError(t, err)
		return ok
	}
	other, told := *c, *c
	other.Components = []model.Component{{Name: "b", Method: "filePresent", Arguments: []byte("{}")}}
	told.Severity, told.Timeout, told.Name, told.ID = model.High, time.Hour, "renamed", 9
	if !ran(c, false) || !ran(&told, false) || ran(&other, false) || ran(c, true) {
		t.Error("an audit excludes audits of the same work alone")
	}
	audit.Changes = true
	testenv.NoError(t, (&oneShots{dir: dir}).store(7, audit))
	if !ran(c, true) || !ran(c, false) {
		t.Error("a run that may change the node excludes all others")
	}
	s := &oneShots{dir: dir}
	testenv.NoError(t, s.load())
	for unit := range model.UnitID(maxDepartedOneShots + 5) {
		s.runs[100+unit] = oneShotRun{StartedAt: time.Unix(int64(unit), 0)}
	}
	s.keep(map[model.UnitID][]model.DefinitionID{7: {1}}, true)
	if _, oldest := s.runs[104]; oldest || len(s.runs) != maxDepartedOneShots+1 {
		t.Errorf("%d runs, of the oldest %v", len(s.runs), oldest)
	}
	testenv.NoError(t, os.WriteFile(filepath.Join(dir, oneShotFile), []byte("{"), 0o600))
	if _, _, err := (&oneShots{dir: dir}).find(c, false); err == nil {
		t.Error("a damaged file is no error")
	}
}

// TestRequestedDirectiveReturnsItsResult requests runs of directives. It expects status and components in the answers. A directive that the node does not have is refused.
func TestRequestedDirectiveReturnsItsResult(t *testing.T) {
	a, _ := newRequestTest(t, nil)
	var err error
	a.spool, err = spool.Open(filepath.Join(a.cfg.StateDir, spoolFolder), spool.Options{Clock: spoolClock{&a.cfg.Machine}})
	testenv.NoError(t, err)
	defer a.spool.Close()
	a.credentials.id.Store(&pki.Identity{})
	a.directives.openScheduler(a, uuid.UUID{1})
	component := func(name, method, arguments string) model.Component {
		return model.Component{Name: name, Method: method, Arguments: []byte(arguments)}
	}
	definitions := []*model.Definition{
		(&model.DirectiveDefinition{Definition: model.Definition{ID: 1, Unit: 101, Name: "good"}, Interval: 24 * time.Hour, Timeout: time.Minute,
			Components: []model.Component{component("root", "filePresent", `{"path":"/proc/self/status"}`)}}).ToDefinition(),
		(&model.DirectiveDefinition{Definition: model.Definition{ID: 2, Unit: 102, Name: "bad"}, OneShot: &model.OneShotWindow{FromUnixMs: time.Now().Add(time.Hour).UnixMilli()}, Timeout: time.Minute,
			Components: []model.Component{component("root", "filePresent", `{"path":"/proc/self/status"}`), component("absent", "filePresent", `{"path":"/proc/self/absent"}`)}}).ToDefinition(),
	}
	testenv.NoError(t, a.directives.applyDefinitions(&link.Assignment{Definitions: definitions}, definitions))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.directives.scheduler.Run(ctx) }()
	defer func() { stop(); <-ended }()
	testenv.Until(t, "the scheduler runs", func() bool {
		a.requests.handleRequest(&wire.Run{ID: 1, Definition: 1})
		return a.directives.scheduler.Stats().Started > 0
	})
	for _, c := range []struct {
		run     wire.Run
		status  model.Status
		refused bool
		output  string
	}{
		{wire.Run{ID: 1, Definition: 1}, model.OK, false, "1 of 1 component compliant"},
		{wire.Run{ID: 2, Definition: 2}, model.Critical, false, "1 of 2 components compliant\nabsent: non-compliant: /proc/self/absent does not exist"},
		{wire.Run{ID: 3, Definition: 3}, model.OK, true, ""},
	} {
		a.requests.handleRequest(&c.run)
		got := collectOutputs(t, a, 1)[c.run.ID]
		if string(got.Output) != c.output || got.Status != c.status || got.Refused == "" == c.refused {
			t.Errorf("run %d: %q, %+v", c.run.ID, got.Output, got)
		}
	}
}
