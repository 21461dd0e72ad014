package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/api/admin"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/testenv"
)

// runCommandLine runs one muster command line in the test process, and returns exit code and output.
func runCommandLine(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &Env{Args: args, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }, Now: time.Now}
	code = Main(t.Context(), env)
	return code, out.String(), errs.String()
}

// TestLintReportsEveryFlaw lints a folder with several wrong files, and expects every error and the number of
// valid resources.
func TestLintReportsEveryFlaw(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "kind: Check\nmetadata: {name: a}\nspec: {interval: 60, probe: {name: disk}}\n",
		"b.yaml": "kind: Check\nmetadata: {name: b}\nspec:\n  interval: 60s\n  probe: {name: dsk}\n",
	} {
		testenv.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	code, _, stderr := runCommandLine(t, "", "lint", dir)
	if code != 2 || !strings.Contains(stderr, "a.yaml:3:18: spec.interval: ") || !strings.Contains(stderr, "b.yaml:5:3: spec.probe: ") {
		t.Errorf("code %d:\n%s", code, stderr)
	}
	code, stdout, stderr := runCommandLine(t, "kind: Check\nmetadata: {name: a}\nspec: {interval: 60s, probe: {name: disk}}\n", "lint", "-")
	if code != 0 || stdout != "1 resource, no errors\n" {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
}

// TestLintNotesSensuKinds lints a file with Sensu resources, and expects one note with a link to the
// documentation.
func TestLintNotesSensuKinds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "old.yaml")
	if err := os.WriteFile(path, []byte(`
{kind: Filter, metadata: {name: twice}, spec: {action: allow, expressions: ["event.check.occurrences == 2"]}}
---
{kind: Pipeline, metadata: {name: alerts}, spec: {workflows: [{name: slack, filters: [is_incident, twice], handler: slack}]}}
---
{kind: Filter, metadata: {name: day}, spec: {action: deny, expressions: ["hour(event.timestamp) < 8"]}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runCommandLine(t, "", "lint", path)
	if want := "3 resources, no errors\n" + path + ": Sensu kinds: Filter, Pipeline. They work as in Sensu; Muster's own kind for notifications is Route (docs/sensu-filters.md)\n"; code != 0 || stdout != want {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
	code, _, stderr = runCommandLine(t, "kind: Filter\nmetadata: {name: a}\nspec:\n  action: allow\n  expressions: [\"event.check.status ==\"]\n", "lint", "-")
	if code != 2 || !strings.Contains(stderr, "spec.expressions[0]: the expression is wrong at line 1") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

// TestExplainCommand expects muster explain to document a field, and to suggest the nearest kind for an unknown
// kind. For the unknown kind, it suggests the nearest kind.
func TestExplainCommand(t *testing.T) {
	code, stdout, _ := runCommandLine(t, "", "explain", "check.alert")
	if code != 0 || !strings.Contains(stdout, "  failAfter (whole number)\n") || !strings.HasPrefix(stdout, "check.spec.alert: mapping\n") {
		t.Errorf("code %d:\n%s", code, stdout)
	}
	code, _, stderr := runCommandLine(t, "", "explain", "chek")
	if code == 0 || !strings.Contains(stderr, "did you mean checks?") {
		t.Errorf("code %d:\n%s", code, stderr)
	}
}

// TestDoctorReadsServerSettings runs muster doctor, and expects the command to use the settings of the running
// server. Flags or another data folder come before them.
func TestDoctorReadsServerSettings(t *testing.T) {
	own, other := t.TempDir(), t.TempDir()
	settings := map[string]string{"data": own, "journal": "/fast/disk", "journal-budget": "7GiB"}
	admin := httptest.NewServer(admin.Handler(admin.Options{Settings: settings, Gatherer: prometheus.NewRegistry(), Queues: &queue.Registry{}}))
	running := admin.URL
	for _, c := range []struct {
		name  string
		data  string
		given []string
		want  doctor.Target
	}{
		{"nothing given", "./muster-data", nil, doctor.Target{Data: own, Journal: "/fast/disk", Budget: 7 << 30}},
		{"its folder", own, []string{"data"}, doctor.Target{Data: own, Journal: "/fast/disk", Budget: 7 << 30}},
		{"its folder, another budget", own, []string{"data", "journal-budget"}, doctor.Target{Data: own, Journal: "/fast/disk", Budget: 4 << 30}},
		{"another journal", own, []string{"journal"}, doctor.Target{Data: own, Journal: "/here", Budget: 7 << 30}},
		{"another folder", other, []string{"data"}, doctor.Target{Data: other, Journal: "/here", Budget: 4 << 30}},
	} {
		p := doctor.Target{Data: c.data, Journal: "/here", Budget: 4 << 30}
		readServerSettings(t.Context(), running, &p, func(setting string) bool { return slices.Contains(c.given, setting) })
		if p.Data != c.want.Data || p.Journal != c.want.Journal || p.Budget != c.want.Budget {
			t.Errorf("%s: %+v, want %+v", c.name, p, c.want)
		}
	}
	admin.Close()
	p := doctor.Target{Data: own, Budget: 4 << 30}
	readServerSettings(t.Context(), running, &p, func(string) bool { return false })
	if p.Data != own || p.Journal != "" || p.Budget != 4<<30 {
		t.Errorf("no server: %+v", p)
	}
}

// FuzzArguments parses random values of command-line flags, and expects a valid value or a readable error.
// Times, statuses and targets are such values.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{"03:00", "24h", "2026-12-24 18:00", "0", "critical,2", `web01,group:web,where:node.labels.env == "a,b"`, "kind: Check\nmetadata: {name: disk}\nspec: {interval: 60s, command: x}\n", `{"items": [{"kind": "Check", "metadata": {"name": "disk"}}, {"namespace": "shop", "node": "web01", "check": "disk"}]}`, "shop/web01/disk"} {
		f.Add(text)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &commandLine{Env: &Env{Zone: time.UTC, Kinds: kind.All(), Now: func() time.Time { return now }}}
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := s.parseTime(text, now); err == nil && len(text) == len("15:04") && !at.After(now) {
			t.Errorf("%q is %s", text, at)
		}
		if at, err := parsePastTime(s, "at", text); err != nil && !at.IsZero() {
			t.Errorf("%q is %s with %v", text, at, err)
		}
		if seconds, err := parseLifetime("--for", text); err == nil && (seconds < 0 || seconds > int64(maxLifetime/time.Second)) {
			t.Errorf("%q lasts %d s", text, seconds)
		}
		if statuses, err := parseStatuses(text); err == nil && len(statuses) > 4 {
			t.Errorf("%q: %v", text, statuses)
		}
		if targets, err := parseTargets("on", []string{text}); err == nil && targets != nil && len(targets.Nodes)+len(targets.Groups) == 0 && targets.Where == "" {
			t.Errorf("%q selects nothing", text)
		}
		if n, err := parseEventName(text); err == nil && strings.TrimPrefix(n.namespace+"/"+n.node+"/"+n.check, "/") != text {
			t.Errorf("%q names %+v", text, n)
		}
		if names, err := namesOfObjects(json.RawMessage(text)); err == nil && slices.Contains(names, "") {
			t.Errorf("%q has an object with an empty name", text)
		}
		if docs, err := s.decodeDocuments("text", []byte(text)); err != nil && (err.Error() == "" || len(docs) > 0) {
			t.Errorf("%q: %d documents with %q", text, len(docs), err)
		}
	})
}

// TestReadShadowLimit reads unsent notifications of shadow-mode namespaces up to a limit, and expects a note
// about the rest.
func TestReadShadowLimit(t *testing.T) {
	until := time.Unix(1e9, 0)
	for _, c := range []struct{ there, pages, held int }{{0, 1, 0}, {250, 3, 250}, {1000, 10, 1000}, {1001, 10, 1000}, {1e9, 10, 1000}} {
		asked := 0
		list, err := readShadowMessages(v1.ReportQuery{Until: until}, 1000, func(q v1.ReportQuery) (page v1.ShadowList, _ error) {
			if want := fmt.Sprint(asked); asked > 0 && q.After != want || asked == 0 && q.After != "" {
				t.Fatalf("page %d behind %q", asked, q.After)
			}
			page.Until = until
			for i := range min(100, c.there-100*asked) {
				page.Items = append(page.Items, v1.ShadowMessage{At: until.Add(-time.Duration(100*asked+i) * time.Second)})
			}
			if asked++; 100*asked < c.there {
				page.Next = fmt.Sprint(asked)
			}
			return page, nil
		})
		if err != nil || asked != c.pages || len(list.Items) != c.held {
			t.Errorf("%+v: %d pages, %d messages, %v", c, asked, len(list.Items), err)
		}
		short := c.there > c.held
		if (len(list.Notes) > 0) != short || short && !strings.Contains(list.Notes[0], "more than 1000 messages: only messages since "+until.Add(-999*time.Second).UTC().Format(time.RFC3339)) {
			t.Errorf("%+v: %q", c, list.Notes)
		}
	}
}

// TestNamesOfNumbersAreItems formats a check's number for -o name, and expects the name of an item.
func TestNamesOfNumbersAreItems(t *testing.T) {
	names, err := namesOfObjects(v1.ItemList{Items: []v1.ItemState{{Namespace: "default", Node: "web01", Check: "load", Key: "load1"}, {Namespace: "default", Node: "web01", Key: "agent.ping"}}})
	testenv.NoError(t, err)
	if want := []string{"item/web01/load1", "item/web01/agent.ping"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// TestStatusNamesTheEvent expects the name of a trigger's event in a row of muster status. Other commands take it.
func TestStatusNamesTheEvent(t *testing.T) {
	c := &commandCall{commandLine: &commandLine{Env: &Env{}}, Screen: &screen.Screen{Now: time.Now}}
	source := v1.Source{Kind: "trigger", Name: "linux", Instance: "load is high"}
	for nodes, want := range map[uint64]string{1: "web01/linux:load is high", 3: "linux:load is high on 3 nodes"} {
		rows := problemRows(c, v1.Status{Wrong: []v1.FailingCheck{{Check: "linux", Source: source, Nodes: nodes, Examples: []string{"web01"}}}})
		if len(rows) != 1 || rows[0][1] != want {
			t.Errorf("%d nodes: %v, want %s", nodes, rows, want)
		}
	}
}
