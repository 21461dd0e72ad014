//go:build linux

package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// TestDeferredValuesSurviveKill sends many values to a slow script, and kills the server before the last value. It expects
// each value once, in order, and one problem. A script takes little, so that a busy machine does not make it exceed its limit of time.
func TestDeferredValuesSurviveKill(t *testing.T) {
	t.Parallel()
	address := harness.ReservePort(t)
	s := harness.StartServer(t, "--zabbix-listen", address, "--snapshot-cycle", "1s")
	s.Login()
	s.Apply(`
{kind: Namespace, metadata: {name: default}, spec: {zabbixFrom: [127.0.0.1]}}
---
kind: Template
metadata: {name: slow}
spec:
  targets: {groups: [all]}
  items:
    - {key: script, trapper: true, steps: [{javascript: "var n = 0; for (var i = 0; i < 2000; i++) n += i; return value"}]}
    - {key: step, from: script, steps: [{simpleChange: []}]}
  triggers: [{name: end, expression: "last(//script)=2000"}]
`)
	s.StartAgent("db1")
	s.AwaitOutput("get items", "script")
	const values = 2000
	var rows []string
	first := time.Now().Unix() - values
	for i := range int64(values) {
		rows = append(rows, fmt.Sprintf(`{"host":"db1","key":"script","value":"%d","clock":%d,"ns":0}`, i+1, first+i))
	}
	answer, err := sendZabbixRequest(address, zabbixFrame(`{"request":"sender data","data":[`+strings.Join(rows, ",")+`]}`))
	assert(t, err == nil && strings.Contains(answer, "processed: 2000"), "%q, %v", answer, err)
	assert(t, s.Metric("muster_metric_deferred_nodes") == 1, "no values wait")
	for range 2 { // the second kill is behind a snapshot with deferred values, or behind their end
		s.Kill()
		s.Launch()
		s.WaitReady(40 * time.Second)
	}
	s.AwaitOutput(`query sum(count_over_time(script{node="db1"}[1h]))==2000`, "2000")
	s.AwaitOutput(`query sum_over_time(script{node="db1"}[1h])==2001000`, "2001000")
	s.AwaitOutput(`query sum_over_time(step{node="db1"}[1h])==1999`, "1999")
	s.AwaitOutput("get problems", "slow:end")
	problems, err := s.Client().Problems.List(t.Context(), "", "db1", "slow:end", true, 0, "")
	assert(t, err == nil && len(problems.Items) == 1, "problems: %v %+v", err, problems.Items)
	assert(t, s.Metric("muster_metric_deferred_nodes") == 0, "values wait for ever")
}
