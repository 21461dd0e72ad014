//go:build linux

package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// What an import from Sensu leaves behind runs: each result is shown to the check's pipelines,
// what passes reaches the handler in Sensu's shape after its mutator, and why names the filter
// that dropped the rest. An expression that fails is said on the event. The namespace's
// handlers are not told besides.
func TestSensuPipelines(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.Start()
	s.WaitReady(time.Minute)
	s.Login()
	book := newNotificationFile(t)
	dir := t.TempDir()
	events, short := filepath.Join(dir, "events"), filepath.Join(dir, "short")
	s.Apply(book.handlerYAML("pager") + `kind: Namespace
metadata: {name: default}
spec: {handlers: [pager]}
---
kind: Handler
metadata: {name: events}
spec: {command: "cat >> ` + events + `"}
---
kind: Handler
metadata: {name: short}
spec: {command: "cat >> ` + short + `"}
---
kind: Filter
metadata: {name: second}
spec: {action: allow, expressions: ["event.check.occurrences % 2 == 0"]}
---
kind: Filter
metadata: {name: broken}
spec: {action: deny, expressions: ["event.check.labels.team.name == 'x'"]}
---
kind: Mutator
metadata: {name: words}
spec: {javascript: "return event.entity.name + ' ' + event.check.labels.owner + ' ' + event.check.status"}
---
kind: Pipeline
metadata: {name: alerts}
spec:
  workflows:
  - {name: every-second, filters: [is_incident, not_silenced, second], handler: events}
  - {name: words, filters: [is_incident, broken], mutator: words, handler: short}
---
kind: Check
metadata: {name: flag, labels: {owner: ann}}
spec: {targets: {nodes: [web01]}, interval: 1s, command: "test ! -e ` + dir + `/bad", pipelines: [alerts]}
`)
	s.NewAgent("web01").Start()
	harness.Until(t, time.Minute, "a verdict on what is OK", func() (string, bool) {
		r := s.Try("why", "web01/flag")
		out := strings.Join(strings.Fields(r.Out), " ") // lines are wrapped
		return r.Out + r.Errors, strings.Contains(out, "alerts/every-second: filter is_incident dropped it: it is OK, and was before")
	})
	if err := os.WriteFile(filepath.Join(dir, "bad"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	type shape struct {
		Entity struct{ Name string }
		Check  struct {
			Status, Occurrences int
			Labels              map[string]string
		}
	}
	harness.Until(t, time.Minute, "three events", func() (string, bool) {
		data, _ := os.ReadFile(events)
		return string(data), strings.Count(string(data), "\n") >= 3
	})
	data, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(data), "\n")[:3] {
		var e shape
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Entity.Name != "web01" || e.Check.Status != 1 || e.Check.Occurrences != 2*(i+1) || e.Check.Labels["owner"] != "ann" {
			t.Errorf("event %d: %v: %s", i, err, line)
		}
	}
	data, err = os.ReadFile(short)
	if lines := strings.Split(string(data), "\n"); err != nil || len(lines) < 4 || lines[0] != "web01 ann 1" {
		t.Errorf("%v: %q", err, data)
	}
	if out := s.CLI("describe", "event", "web01/flag"); !strings.Contains(out, "filter broken, expression 1") || !strings.Contains(out, "Cannot read property") {
		t.Errorf("%s", out)
	}
	out := strings.Join(strings.Fields(s.CLI("why", "web01/flag")), " ")
	if !strings.Contains(out, "alerts/words: passed on to handler short") || !strings.Contains(out, "could not be evaluated, and decided nothing: filter broken") {
		t.Errorf("%s", out)
	}
	s.CLI("silence", "web01/flag", "--for", "1h", "-m", "known")
	harness.Until(t, time.Minute, "a verdict on what is silenced", func() (string, bool) {
		r := s.Try("why", "web01/flag")
		out := strings.Join(strings.Fields(r.Out), " ") // lines are wrapped
		return r.Out + r.Errors, strings.Contains(out, "filter not_silenced dropped it")
	})
	if told := book.kinds("flag"); len(told) != 0 {
		t.Errorf("the namespace's handlers were told, too: %v", told)
	}
	for _, c := range []struct{ args, want string }{
		{"get pipelines", "every-second: is_incident > not_silenced > second > events"},
		{"get filters", "kept from Sensu"},
		{"describe pipeline alerts", "from Sensu     Pipeline"},
		{"describe check flag", "alerts get every event"},
	} {
		if out := s.CLI(strings.Fields(c.args)...); !strings.Contains(out, c.want) {
			t.Errorf("%s: %s, want %q", c.args, out, c.want)
		}
	}
	if r := s.Try("delete", "filter", "second", "--yes"); !strings.Contains(r.Errors, "alerts") {
		t.Errorf("a filter that a pipeline names went: %s%s", r.Out, r.Errors)
	}
}
