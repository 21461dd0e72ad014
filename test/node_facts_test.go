//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// memberCount returns how many nodes of the namespace "load" are in a group.
func memberCount(t *testing.T, api *client.Client, group string) int {
	t.Helper()
	k := kind.Group().KindInfo
	state := testenv.Value(api.Resources.State(t.Context(), k, "load", group))(t)
	return state.Nodes
}

// TestFactChangeUpdatesGroups changes a fact on every node, and expects updated groups within seconds. Each
// condition is evaluated once per node.
func TestFactChangeUpdatesGroups(t *testing.T) {
	t.Parallel()
	agents := 2000
	if os.Getenv("MUSTER_TEST_LONG") == "" {
		agents = 200
		testenv.Shortened(t, "200 agents, not 2000", "MUSTER_TEST_LONG=1 go test ./test -run TestFactChangeUpdatesGroups")
	}
	fleet := harness.Fleet{Agents: agents, Checks: 1, Interval: 5 * time.Second}
	s := harness.StartFleet(t, fleet)
	s.Apply(`{apiVersion: muster/v1, kind: Group, metadata: {name: old, namespace: load}, spec: {where: 'node.facts.kernel == "6.1"'}}
---
{apiVersion: muster/v1, kind: Group, metadata: {name: new, namespace: load}, spec: {where: 'node.facts.kernel == "6.12" && int(node.facts.cpus) > 4'}}
---
{apiVersion: muster/v1, kind: Group, metadata: {name: newer, namespace: load}, spec: {groups: [new]}}
`)
	var upgraded atomic.Bool
	cfg := s.LoadConfig(fleet, 5*time.Minute)
	cfg.Facts = func(i int) map[string]string {
		kernel := "6.1"
		if upgraded.Load() {
			kernel = "6.12"
		}
		return map[string]string{"hostname": fmt.Sprint("host", i), "kernel": kernel, "cpus": "8", "os": "linux"}
	}
	runLoadInBackground(t, cfg)
	until := func(group string, want int) {
		t.Helper()
		awaitEqual(t, fmt.Sprintf("group %s has %d members", group, want), want, func() int { return memberCount(t, s.API, group) })
	}
	until("old", agents)
	work := func(name string) float64 { return s.Metric("muster_plan_" + name) }
	names := []string{"nodes_visited_total", "conditions_evaluated_total", "groups_evaluated_total", "checks_evaluated_total"}
	before := map[string]float64{}
	for _, name := range names {
		before[name] = work(name)
	}
	said := s.Metric("muster_session_frames_total", `outcome="facts"`)
	upgraded.Store(true)
	changed := time.Now()
	until("newer", agents)
	until("old", 0)
	took := time.Since(changed)
	// Conditions over namespace load: all, the group of the class and the two above; over all: shared/all.
	const each = 5
	want := map[string]float64{"nodes_visited_total": float64(agents), "conditions_evaluated_total": float64(each * agents)}
	for _, name := range names {
		if got := work(name) - before[name]; got != want[name] {
			t.Errorf("%s: %v for %d changes, want %v", name, got, agents, want[name])
		}
	}
	told := s.Metric("muster_session_frames_total", `outcome="facts"`) - said
	assert(t, told == float64(agents), "%v messages of facts, want %d", told, agents)
	counted := func(name string) float64 { return work(name) - before[name] }
	harness.LogMeasurement(t, "a fact changed on each of %d nodes, in three groups by conditions: %g messages, groups right after %.1f s; %g nodes visited, %g conditions evaluated (%d for each node), %g groups and %g checks evaluated anew",
		agents, told, took.Seconds(), counted("nodes_visited_total"), counted("conditions_evaluated_total"), each, counted("groups_evaluated_total"), counted("checks_evaluated_total"))
}

// TestAgentJoinsOnlyOpenGroups lets an agent request groups, and expects membership only in groups open to
// agents. It cannot join a trusted group, and describe node shows the reason.
func TestAgentJoinsOnlyOpenGroups(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Apply(`{apiVersion: muster/v1, kind: Group, metadata: {name: canary}, spec: {selfJoin: true}}
---
{apiVersion: muster/v1, kind: Group, metadata: {name: linux}, spec: {where: 'node.facts.os == "linux" && int(node.facts.memory) > 1000'}}
---
{apiVersion: muster/v1, kind: Group, metadata: {name: payment}, spec: {trusted: true, where: 'node.labels.role == "payment"'}}
`)
	a := s.StartAgent("web01", "--groups", "canary,payment,nowhere", "--labels", "role=payment")
	var page string
	harness.Until(t, 40*time.Second, "describe node shows the agent's groups", func() (string, bool) {
		r := harness.Run(t, s.Env(), "describe", "node", "web01")
		page = r.Out
		return page + r.Errors, r.Code == 0 && strings.Contains(page, "(selfJoin)") && strings.Contains(page, "hardware")
	})
	groups, vain, ok := strings.Cut(page, "groups that the agent asked for and the server refused")
	if !ok || !strings.Contains(groups, "\n  linux ") || strings.Contains(groups, "payment ") || !strings.Contains(vain, "\n  payment        the group is trusted") ||
		!strings.Contains(groups, "\nlimits         statesPerNode 1000 (") || !strings.Contains(vain, "\n  nowhere  ") || !strings.Contains(vain, "role           payment              agent") {
		t.Error(page)
	}
	// The operator adds the node to the group, which the agent cannot change.
	s.Apply(`{apiVersion: muster/v1, kind: Node, metadata: {name: web01, labels: {role: payment}}, spec: {}}`)
	s.Try("describe", "node", "web01").Expect(0, `the condition is true: node.labels.role == "payment"`)
	r := harness.Run(t, s.Env(), "get", "nodes", "--group", "payment")
	expectTexts(t, r.Out, "web01")
	a.Stop()
}

// TestPropertiesAreNotExecuted puts shell code into a property of a node, and expects commands to receive plain text.
func TestPropertiesAreNotExecuted(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.StartAgent("victim")
	trap := filepath.Join(t.TempDir(), "trapped")
	values := map[string]string{
		"quote":      `'; touch ` + trap + `; '`,
		"double":     `"; touch ` + trap + `; "`,
		"subst":      `$(touch ` + trap + `)`,
		"backquotes": "`touch " + trap + "`",
		"lines":      "x\ntouch " + trap + "\n",
		"comment":    "# x\ntouch " + trap,
		"backslash":  `\'; touch ` + trap + `; \`,
		"arithmetic": `a[$(touch ` + trap + `)]`,
		"variable":   `$HOME ${IFS} $IFS *`,
		"braces":     `{{ .props.quote }} }}`,
		"bell":       "\a\x1b[31m\u202e",
		"option":     `-n`,
	}
	templates := map[string]string{
		"bare":     `printf %s {{ .props.V }}`,
		"double":   `printf %s "{{ .props.V }}"`,
		"single":   `printf %s '{{ .props.V }}'`,
		"within":   `printf '%s' a"{{ .props.V }}"b`,
		"variable": `x={{ .props.V }}; printf %s "$x"`,
		"env":      `printf %s "$FROM_PROPERTY"`,
	}
	var yaml strings.Builder
	for name, value := range values {
		quoted, _ := json.Marshal(value)
		fmt.Fprintf(&yaml, "{apiVersion: muster/v1, kind: Property, metadata: {name: v-%s}, spec: {property: %s, scope: global, value: %s}}\n---\n", name, name, quoted)
		for where, line := range templates {
			line, _ := json.Marshal(strings.ReplaceAll(line, "V", name))
			env := ""
			if where == "env" {
				env = fmt.Sprintf(`env: {FROM_PROPERTY: "{{ .props.%s }}"}, `, name)
				line, _ = json.Marshal(templates["env"])
			}
			fmt.Fprintf(&yaml, "{apiVersion: muster/v1, kind: Check, metadata: {name: %s-%s}, spec: {interval: 1m, targets: {groups: [all]}, %scommand: %s}}\n---\n", name, where, env, line)
		}
		fmt.Fprintf(&yaml, "{apiVersion: muster/v1, kind: Check, metadata: {name: %s-list}, spec: {interval: 1m, targets: {groups: [all]}, command: [printf, \"%%s\", \"{{ .props.%s }}\"]}}\n---\n", name, name)
	}
	s.Apply(yaml.String())
	for name, value := range values {
		for _, where := range []string{"bare", "double", "single", "within", "variable", "env", "list"} {
			e := awaitEvent(t, s.API, "victim", name+"-"+where, name+"-"+where+" has a result", func(e v1.Event) bool { return e.Results > 0 })
			want := value
			if where == "within" {
				want = "a" + value + "b"
			}
			assert(t, strings.TrimSpace(e.Output) == strings.TrimSpace(want) || (name == "option" && where != "within"),
				"%s in %s: %q, want %q", name, where, e.Output, want)
		}
	}
	_, err := os.Stat(trap)
	assert(t, err != nil, "a property was run as code")
	// A place where no quoting is safe makes apply fail.
	for _, line := range []string{`echo $(echo {{ .props.quote }})`, "echo `echo {{ .props.quote }}`", `[[ 1 -eq {{ .props.quote }} ]]`, `(( 1 + {{ .props.quote }} ))`, `echo $[{{ .props.quote }}]`,
		"cat <<X\n{{ .props.quote }}\nX", `echo ${x:-{{ .props.quote }}}`, `echo # {{ .props.quote }}`, `echo \{{ .props.quote }}`} {
		text, _ := json.Marshal(line)
		file := tempFile(t, "check.yaml", fmt.Sprintf(`{apiVersion: muster/v1, kind: Check, metadata: {name: bad}, spec: {interval: 1m, command: %s}}`, text))
		s.Try("apply", "-f", file).Expect(model.Invalid.Exit())
	}
}
