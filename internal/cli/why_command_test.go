package cli_test

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestWhyTracesCheckOnEveryKindOfNode expects muster why to show whether a check's targets select, exclude or
// miss each node.
func TestWhyTracesCheckOnEveryKindOfNode(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", map[string]string{"env": "prod"}, "web01", "web02", "web03")
	rig.DeclareNodes("default", map[string]string{"env": "test"}, "db01")
	rig.Apply(`{kind: Handler, metadata: {name: notebook}, spec: {command: 'cat >> /tmp/notebook'}}
---
{kind: Group, metadata: {name: prod}, spec: {where: 'node.labels.env == "prod"'}}
---
{kind: Group, metadata: {name: canary}, spec: {nodes: [web03]}}
---
apiVersion: muster/v1
kind: Check
metadata: {name: disk}
spec:
  targets: {groups: [prod], except: {groups: [canary]}}
  interval: 60s
  ttl: 3m
  command: check_disk -w 20% -c 10% -p /
  alert: {failAfter: 2, handlers: [notebook]}
`)
	x.runCommandLines("why web01", "why web01/disk")
	rig.Advance(10 * time.Second)
	rig.RecordResult("default", "web01", "disk", model.OK, "DISK OK")
	rig.RecordResult("default", "web02", "disk", model.Critical, "DISK CRITICAL")
	x.runCommandLines("why web01/disk", "why web02/disk")
	rig.Advance(time.Minute)
	rig.RecordResult("default", "web02", "disk", model.Critical, "DISK CRITICAL")
	x.runCommandLines("why web02/disk", "why web03/disk", "why db01/disk", "why db01/disk -o yaml", "why db01/keepalive",
		"why db01/dsik", "why db02/disk", "why web01/")
	x.assertTranscript("why.golden")
}

// TestWhyNamesReasonOfMissingStep asks muster why about checks without a step, such as a notification, and
// expects the reason. The steps go from the declaration to the notification.
func TestWhyNamesReasonOfMissingStep(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", map[string]string{"env": "prod"}, "web01", "web02", "web03", "web04", "web05", "web06")
	rig.Apply(`{kind: Handler, metadata: {name: pager}, spec: {webhook: {url: "https://pager.example/hook"}}}
---
apiVersion: muster/v1
kind: Check
metadata: {name: load}
spec:
  targets: {groups: [all]}
  interval: 60s
  timeout: 10s
  command: check_load -w {{ .props.load_warn }}
  alert: {failAfter: 3, handlers: [pager]}
---
{kind: Check, metadata: {name: backup}, spec: {targets: {nodes: [web04]}, cron: "30 2 * * *", timeZone: Europe/Paris, command: check_backup, alert: {handlers: [pager]}}}
---
{kind: Check, metadata: {name: quiet}, spec: {targets: {nodes: [web02]}, interval: 1h, command: "true"}}
`)
	revision, _ := rig.Directory.AssignmentVersion(nodeID(t, rig, "web02"))
	session := func(node string, change func(*v1.AgentSession)) {
		a := v1.AgentSession{Version: "0.10.0", Address: "192.0.2.7:4711", Since: rig.Now().Add(-time.Hour), Assignment: revision, Confirmed: true}
		if change != nil {
			change(&a)
		}
		rig.SetSession(node, &a)
	}
	session("web01", nil)
	x.runCommandLine("", "why web01/load") // a property that is not set, no result yet
	rig.Apply("kind: Property\nmetadata: {name: load_warn}\nspec: {value: 5}\n")
	revision, _ = rig.Directory.AssignmentVersion(nodeID(t, rig, "web02"))
	session("web01", func(a *v1.AgentSession) { a.Assignment-- })
	x.runCommandLine("", "why web01/load") // the agent does not have the new assignment yet
	session("web01", nil)
	rig.RecordResult("default", "web01", "load", model.Warning, "LOAD WARNING")
	rig.Advance(30 * time.Second)
	x.runCommandLine("", "why web01/load") // not due yet, one of three
	rig.Advance(5 * time.Minute)
	session("web01", func(a *v1.AgentSession) {
		a.Refuses, a.Stats = []string{"commands", "run"}, &v1.AgentStats{Spooled: 40, OldestSeconds: 280, GaveWay: 3}
	})
	x.runCommandLine("", "why web01/load") // late: results wait, and the agent refuses some things
	rig.SetSession("web01", nil)
	rig.RecordSession("web05", true, false)
	rig.RecordResult("default", "web05", "load", model.OK, "LOAD OK")
	rig.Advance(5 * time.Minute)
	rig.RecordSession("web05", false, true)
	x.runCommandLine("", "why web05/load") // its agent was stopped
	session("web04", func(a *v1.AgentSession) { a.ClockOffsetMs = -90_000 })
	x.runCommandLine("", "why web04/backup") // cron, by a clock that is off
	backup, _ := rig.Directory.CheckByName("default", "backup")
	session("web04", func(a *v1.AgentSession) {
		a.IdleUnits = []v1.IdleUnit{{ID: backup, Name: "backup", Reason: "the agent (version 0.10.0) does not understand definitions of kind 2: update it"}}
	})
	x.runCommandLine("", "why web04/backup") // its agent lacks the feature
	session("web04", func(a *v1.AgentSession) { a.ClockOffsetMs = -90_000 })
	x.runCommandLine("", "why web03/quiet") // targets name other nodes
	for range 3 {
		rig.Advance(time.Minute)
		rig.RecordResult("default", "web06", "load", model.Critical, "LOAD CRITICAL")
	}
	x.runCommandLine("", "why web06/load") // open, its notification is due soon
	load, _ := rig.Directory.CheckByName("default", "load")
	state, _ := rig.View.Get(nodeID(t, rig, "web06"), model.CheckSource(load))
	recordFailedDelivery(t, rig, state.Problem.ID, 0, 40*time.Second, "answered 503")
	x.runCommandLine("", "why web06/load")
	rig.RecordResult("default", "web02", "quiet", model.Critical, "no")
	x.runCommandLine("", "why web02/quiet") // no handler
	x.runCommandLine("", "why web04")
	rig.Apply("kind: Group\nmetadata: {name: a}\nspec: {nodes: [web04], properties: {load_warn: 1}}\n---\nkind: Group\nmetadata: {name: b}\nspec: {nodes: [web04], properties: {load_warn: 2}}\n")
	x.runCommandLine("", "why web04") // an error of the node
	x.runCommandLines("why web04/load", "delete node web05 --yes")
	awaitPlanner(t, rig)
	err := rig.Intent.BlockKey(t.Context(), intent.Actor{User: "ada"}, "ab12", intent.Tombstone{Name: "web05", Namespace: "default", Cause: intent.ReasonRetired, Reason: "scrapped"})
	testenv.NoError(t, err)
	x.runCommandLine("", "why web05") // the node was deleted and its key refused
	x.wide = 80
	out, _ := x.runCommandLine("", "why web04/load")
	x.assertWidth(out, 80, "")
	x.assertTranscript("why_failures.golden")
}

// nodeID returns the id of the test server's node with a given name in namespace default.
func nodeID(t *testing.T, rig *apitest.Server, name string) model.NodeID {
	t.Helper()
	id, ok := rig.Directory.NodeByName("default", name)
	if !ok {
		t.Fatalf("no node %s", name)
	}
	return id
}

// recordFailedDelivery writes into the test server's history a notification with one failed attempt of a given
// age. The next attempt follows after the duration retry.
func recordFailedDelivery(t *testing.T, rig *apitest.Server, problem string, age, retry time.Duration, failure string) {
	t.Helper()
	d := history.Delivery{Key: "d", Problem: problem, Handler: history.HandlerRef{Namespace: "default", Name: "pager"}, Kind: "opened",
		Payload: []byte("{}"), Created: rig.Now().Add(-age), State: history.Pending, NextAt: rig.Now()}
	err := rig.History.Record(t.Context(), history.Batch{Deliveries: []history.Delivery{d}, Places: map[model.Partition]history.ChangePosition{1: {At: journal.Position{Log: 1, Number: 1}}}})
	testenv.NoError(t, err)
	due, _, err := rig.History.Due(t.Context(), rig.Now(), 10, nil)
	if err != nil || len(due) != 1 {
		t.Fatalf("%d due, %v", len(due), err)
	}
	attempt := history.Attempt{At: rig.Now(), State: history.Pending, NextAt: rig.Now().Add(retry), Error: failure}
	testenv.NoError(t, rig.History.RecordAttempts(t.Context(), history.DeliveryAttempt{ID: due[0].ID, Attempt: attempt}))
}

// TestProblemShowsDefinitionTexts expects muster why and muster describe to show the runbook and other texts
// that a check declares. The texts are the display name, the runbook and the conditions. After the recovery,
// describe event shows the messages that its handler has not accepted.
func TestProblemShowsDefinitionTexts(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01")
	rig.Apply(`{kind: Handler, metadata: {name: pager}, spec: {webhook: {url: "http://` + testenv.Port(t) + `/"}}}
---
{kind: Check, metadata: {name: disk, displayName: Disk of the shop}, spec: {targets: {groups: [all]}, interval: 60s, command: x, runbook: "https://wiki.example.org/disk", alert: {handlers: [pager]}}}
---
{kind: Template, metadata: {name: linux}, spec: {targets: {groups: [all]}, items: [{key: agent.ping}],
  triggers: [{name: AgentSilent, expression: 'nodata(//agent.ping,5m)=1', recovery: 'nodata(//agent.ping,1m)=0', runbook: "https://wiki.example.org/agent"}]}}
`)
	awaitPlanner(t, rig)
	rig.RunDispatcher()
	rig.RecordResult("default", "web01", "disk", model.Critical, "full")
	rig.AwaitHistory()
	for _, line := range []string{"why web01/disk", "describe event web01/disk", "describe problem web01/disk"} {
		x.expectOutput("", line, 0, "Disk of the shop", "https://wiki.example.org/disk")
	}
	x.expectOutput("", "why web01/linux:AgentSilent", 0, "opens if     nodata(//agent.ping,5m)=1", "closes if    nodata(//agent.ping,1m)=0", "https://wiki.example.org/agent")
	rig.RecordResult("default", "web01", "disk", model.OK, "fine")
	rig.AwaitHistory()
	x.expectOutput("", "describe event web01/disk", 0, "last problem", "pager (closed): pending")
}
