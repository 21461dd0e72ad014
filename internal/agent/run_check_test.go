package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestCheckGetsItsStandardInput runs a check with stdin and expects the node's properties in that input. No shell
// expands the text.
func TestCheckGetsItsStandardInput(t *testing.T) {
	s := newTestServer(t)
	given, missing := shellCheck(1, "", time.Hour), shellCheck(2, "cat", time.Hour)
	given.Command = &model.Command{Argv: []string{"cat"}}
	given.Stdin, missing.Stdin = "SELECT {{ .props.table }}; -- $HOME `id`\n", "{{ .props.unset }}"
	s.assign([]wire.Property{{Name: "table", Value: []byte(`"jobs"`)}}, given, missing)
	startAgent(t, testConfig(s, t.TempDir()))
	s.awaitCondition("both results", func() bool { return len(s.resultsOf(1)) == 1 && len(s.resultsOf(2)) == 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.resultsOf(1)[0]; r.Status != model.OK || string(r.Output) != "SELECT jobs; -- $HOME `id`" {
		t.Errorf("%s %q", r.Status, r.Output)
	}
	if r := s.resultsOf(2)[0]; r.Status != model.Unknown {
		t.Errorf("%s %q", r.Status, r.Output)
	}
}

// TestHooksRunByStatus expects a check's hook commands to run only after results with a matching status. A failed hook
// does not delay the result.
func TestHooksRunByStatus(t *testing.T) {
	s := newTestServer(t)
	bad, odd, fine := shellCheck(1, "echo down; exit 2", time.Hour), shellCheck(2, "echo odd; exit 42", time.Hour), shellCheck(3, "echo up", time.Hour)
	bad.Env = map[string]string{"WHERE": "{{ .props.where }}"}
	bad.Hooks = []model.Hook{
		{Name: "look", When: []string{"critical"}, Command: &model.Command{Shell: "echo looked $WHERE {{ .props.where }}; exit 1"}},
		{Name: "never", When: []string{"ok", "42"}, Command: &model.Command{Shell: "echo never"}},
		{Name: "slow", When: []string{"non-ok"}, Command: &model.Command{Shell: "echo began; sleep 60"}, Timeout: model.Duration(200 * time.Millisecond)},
		{Name: "flood", When: []string{"2"}, Command: &model.Command{Shell: "yes | head -c 1000000"}},
	}
	odd.Hooks = []model.Hook{{Name: "by code", When: []string{"42"}, Command: &model.Command{Argv: []string{"echo", "forty-two"}}}}
	fine.Hooks = []model.Hook{{Name: "fine", When: []string{"ok"}, Command: &model.Command{Argv: []string{"echo", "was fine"}}},
		{Name: "told", When: []string{"ok"}, Command: &model.Command{Shell: "cat"}, Stdin: true}}
	s.assign([]wire.Property{{Name: "where", Value: []byte(`"the cellar"`)}}, bad, odd, fine)
	startAgent(t, testConfig(s, t.TempDir()))
	s.awaitCondition("all results", func() bool { return len(s.resultsOf(1)) == 1 && len(s.resultsOf(2)) == 1 && len(s.resultsOf(3)) == 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	hooks := func(id model.DefinitionID) []model.HookResult {
		x, err := wire.DecodeExtra(s.resultsOf(id)[0].Extra)
		testenv.NoError(t, err)
		return x.Hooks
	}
	got := hooks(1)
	if len(got) != 3 || got[0].Name != "look" || got[0].Output != "looked the cellar the cellar" || got[0].Status != model.Warning {
		t.Fatalf("%+v", got)
	}
	if got[1].Name != "slow" || !strings.HasPrefix(got[1].Output, "timed out after 200ms\nbegan") {
		t.Errorf("%+v", got[1])
	}
	if got[2].Name != "flood" || len(got[2].Output) > model.MaxHookOutput || got[2].Cut < 1000000-model.MaxHookOutput {
		t.Errorf("%d bytes, %d cut", len(got[2].Output), got[2].Cut)
	}
	if got := hooks(2); len(got) != 1 || got[0].Output != "forty-two" || s.resultsOf(2)[0].Status != model.Unknown {
		t.Errorf("%+v", got)
	}
	if got := hooks(3); len(got) != 2 || got[0].Output != "was fine" || !strings.HasPrefix(got[1].Output, `{"entity":{"metadata":{"name":`) ||
		!strings.Contains(got[1].Output, `"command":"echo up","interval":3600,"status":0,"output":"up","duration":`) {
		t.Errorf("%+v", got)
	}
}

// TestThresholdsRaiseTheStatus expects a higher status and a first output line about each metric that exceeds its
// threshold.
func TestThresholdsRaiseTheStatus(t *testing.T) {
	s := newTestServer(t)
	most := 0.5
	load := shellCheck(1, "echo 'LOAD OK|load1=0.75 load5=0.25'", time.Hour)
	load.Metrics = &model.Metrics{Format: "nagios", Tags: map[string]string{"team": "web"}}
	load.Thresholds = []model.Threshold{{Metric: "load1", Warning: &model.Bounds{Max: &most}}, {Metric: "load15", Missing: "critical"}}
	load.Hooks = []model.Hook{{Name: "top", When: []string{"critical"}, Command: &model.Command{Shell: "echo top"}}}
	failed := shellCheck(2, "echo 'cannot measure'; exit 3", time.Hour)
	failed.Metrics, failed.Thresholds = load.Metrics, load.Thresholds
	many := shellCheck(3, "seq -f 'series.number.%.0f 1' 1 1000", time.Hour)
	many.Metrics, many.MaxOutput = &model.Metrics{Format: "graphite", Tags: map[string]string{"long": strings.Repeat("x", 255)}}, 64<<10
	s.assign(nil, load, failed, many)
	startAgent(t, testConfig(s, t.TempDir()))
	s.awaitCondition("all results", func() bool { return len(s.resultsOf(1)) == 1 && len(s.resultsOf(2)) == 1 && len(s.resultsOf(3)) == 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resultsOf(1)[0]
	if r.Status != model.Critical || !strings.HasPrefix(string(r.Output), "WARNING: load1{team=web} is 0.75, more than 0.5\nCRITICAL: the output has no load15\nLOAD OK|") {
		t.Errorf("%s %q", r.Status, r.Output)
	}
	x, err := wire.DecodeExtra(r.Extra)
	if err != nil || len(x.Values) != 2 || x.Values[0].Name != "load1" || x.Values[0].Value != 0.75 || x.Values[0].Tags["team"] != "web" || len(x.Hooks) != 1 {
		t.Errorf("%+v %v", x, err)
	}
	if r := s.resultsOf(2)[0]; r.Status != model.Unknown || string(r.Output) != "cannot measure" {
		t.Errorf("%s %q", r.Status, r.Output)
	}
	r = s.resultsOf(3)[0]
	if x, err = wire.DecodeExtra(r.Extra); err != nil || len(x.Values) < 100 || len(x.Values) == 1000 || len(r.Extra) > maxExtraBytes ||
		!strings.Contains(string(r.Output), " of 1000 values omitted") {
		t.Errorf("%d values in %d bytes, %v; …%s", len(x.Values), len(r.Extra), err, r.Output[len(r.Output)-80:])
	}
}

// TestDiscardOutputKeepsTheNotesOfTheAgent runs a check with discardOutput, and expects only the command's output to
// be dropped. Values and hooks read the output first. Messages of the agent stay.
func TestDiscardOutputKeepsTheNotesOfTheAgent(t *testing.T) {
	s := newTestServer(t)
	most := 10.0
	fine, beyond, odd := shellCheck(1, "echo 'secrets | used=3'", time.Hour), shellCheck(2, "echo 'secrets | used=30'", time.Hour), shellCheck(3, "echo secrets; exit 42", time.Hour)
	gone, plain := shellCheck(4, "/nowhere/secrets", time.Hour), shellCheck(5, "echo secrets", time.Hour)
	gone.Command = &model.Command{Argv: []string{"/nowhere/plug-in"}}
	for _, c := range []*model.CheckDefinition{fine, beyond} {
		c.Metrics, c.Thresholds = &model.Metrics{Format: "nagios"}, []model.Threshold{{Metric: "used", Critical: &model.Bounds{Max: &most}}}
	}
	fine.Hooks = []model.Hook{{Name: "told", When: []string{"ok"}, Command: &model.Command{Shell: "grep -c secrets"}, Stdin: true}}
	for _, c := range []*model.CheckDefinition{fine, beyond, odd, gone, plain} {
		c.DiscardOutput = true
	}
	s.assign(nil, fine, beyond, odd, gone, plain)
	startAgent(t, testConfig(s, t.TempDir()))
	s.awaitCondition("all results", func() bool {
		for id := model.DefinitionID(1); id <= 5; id++ {
			if len(s.resultsOf(id)) == 0 {
				return false
			}
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, want := range map[model.DefinitionID]struct {
		status model.Status
		output string // how it begins
	}{
		1: {model.OK, model.OutputDiscarded}, 2: {model.Critical, "CRITICAL: used is 30, more than 10"}, 3: {model.Unknown, "exit code 42"},
		4: {model.Unknown, ""}, 5: {model.OK, model.OutputDiscarded},
	} {
		r := s.resultsOf(id)[0]
		if r.Status != want.status || !strings.HasPrefix(string(r.Output), want.output) || strings.Contains(string(r.Output), "secrets") || len(r.Output) == 0 {
			t.Errorf("%d: %s %q", id, r.Status, r.Output)
		}
	}
	if text := string(s.resultsOf(4)[0].Output); !strings.Contains(text, "/nowhere/plug-in") {
		t.Errorf("the result does not say why the check did not run: %q", text)
	}
	x, err := wire.DecodeExtra(s.resultsOf(1)[0].Extra)
	if err != nil || len(x.Values) != 1 || x.Values[0].Value != 3 || len(x.Hooks) != 1 || x.Hooks[0].Output != "1" {
		t.Errorf("%+v, %v", x, err)
	}
}
