package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
)

// TestQueryHelpsWithNamesAndTimes runs muster query with an item key or a wrong metric name, and expects a
// hint. The hint has the right expression or the nearest name; a time of day and an item of two Templates must
// work.
func TestQueryHelpsWithNamesAndTimes(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "db1")
	rig.RecordValue("default", "db1", "vfs.fs.size[/,used]", 7)
	x.expectOutput("", "query vfs.fs.size[/,used]", 2, `muster query '{item="vfs.fs.size[/,used]"}'`)
	x.expectOutput("", `query {item="vfs.fs.size[/,used]"}`, 0, "vfs_fs_size", "7")
	x.expectOutput("", "query sum(vfs_fs_siz)", 0, "no series has the name vfs_fs_siz: did you mean vfs_fs_size?")
	x.expectOutput("", `query rate(vfs_fs_siz{node="db1"}[5m])*on(node)vfs_fs_size`, 0, "no series has the name vfs_fs_siz: did you mean vfs_fs_size?")
	rig.Advance(10 * time.Minute) // 12:10
	x.expectOutput("", "query vfs_fs_size --at 12:01", 0, "7")
	x.expectOutput("", "query vfs_fs_size --at 13:00", 0, "no series match") // of yesterday
	x.expectOutput("", "get events --at 03:00", 0)
}

// TestItemsOfTwoTemplatesShowTheTemplate lists an item that two Templates declare, and expects a column with their
// names. Without such an item, the column is absent.
func TestItemsOfTwoTemplatesShowTheTemplate(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "db1")
	rig.Apply(`{kind: Template, metadata: {name: linux}, spec: {targets: {groups: [all]}, items: [{key: agent.ping}]}}
---
{kind: Template, metadata: {name: other}, spec: {items: [{key: agent.ping}]}}
`)
	awaitPlanner(t, rig)
	if out := x.expectOutput("", "get items", 0, "agent.ping"); strings.Contains(out, "TEMPLATE") {
		t.Error(out)
	}
	rig.Apply(`{kind: Template, metadata: {name: other}, spec: {targets: {groups: [all]}, items: [{key: agent.ping}]}}`)
	awaitPlanner(t, rig)
	x.expectOutput("", "get items", 0, "TEMPLATE", "linux", "other")
}

// TestItemsNameTheirFailure lists items without values, and expects the cause of each failure. The trigger has
// no value. The test expects the failed step in the list, all steps in why, and the reason of the master at the
// item that waits.
func TestItemsNameTheirFailure(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "db1")
	node, _ := rig.Directory.NodeByName("default", "db1")
	rig.Items = map[model.NodeID][]metric.ItemState{node: {
		{Item: &model.Item{Key: "disk"}, Reason: "cannot run iostat", At: rig.Now()},
		{Item: &model.Item{Key: "disk.util", From: "disk"}, Triggers: []metric.TriggerState{{Name: "busy", Expression: "last(//disk.util)>90", Unknown: "no value came yet"}}},
		{Item: &model.Item{Key: "web"}, Reason: "Preprocessing failed for: {\n1. Result: {}\n2. Failed: no data matches $.a", At: rig.Now()},
		{Item: &model.Item{Key: "up"}, Value: item.FromFloat(1), At: rig.Now()},
	}}
	out := x.expectOutput("", "get items", 0, "unsupported: step 2. Failed: no data matches $.a", "unsupported: cannot run iostat")
	if strings.Contains(out, "Preprocessing failed for") {
		t.Error(out)
	}
	x.expectOutput("", "why db1/web", 0, "! unsupported: step 2. Failed: no data matches $.a", "1. Result: {}")
	x.expectOutput("", "why db1/disk.util", 0, "computed from item disk", "! no value yet", "disk: unsupported: cannot run iostat", "UNKNOWN: no value came yet")
	x.expectOutput("", "why db1/up", 0, "value        1 ")
	x.expectOutput("", "why db1/none", 3, "none")
}

// TestTextValuesAreListed lists text values by node, item and search words, and expects only the matching
// values. A user of another namespace sees none.
func TestTextValuesAreListed(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "db1", "db2")
	x.expectOutput("", "get texts", 0, "no texts. Items of type log or text make them")
	rig.RecordText("default", "db1", "log[/var/log/auth.log]", "Failed password for root from 10.0.0.7")
	rig.Advance(time.Hour) // 13:00
	rig.RecordText("default", "db1", "log[/var/log/auth.log]", "Accepted publickey for ann from 10.0.0.7")
	rig.RecordText("default", "db2", "release", "first\nsecond")
	out := x.expectOutput("", "get texts", 0, "NODE", "KEY", "Failed password for root", "release", "first")
	if strings.Contains(out, "second") || strings.Index(out, "Failed") > strings.Index(out, "Accepted") {
		t.Error(out)
	}
	wantOne := func(command, want string) {
		t.Helper()
		if out := x.expectOutput("", command+" -o json", 0, want); strings.Count(out, `"text"`) != 1 {
			t.Error(out)
		}
	}
	wantOne("get texts db1/log[/var/log/auth.log] --match password", "Failed password")
	wantOne("get texts --match 10.0.0.7 --contains ann", "Accepted")
	wantOne("get texts --node db1 --contains ublicke", "Accepted")
	wantOne("get texts --since 30m --node db2", `first\nsecond`)
	x.expectOutput("", "get texts --limit 1", 0, "older texts match, too")
	x.expectOutput("", "get texts --match passwor", 0, "no texts match")
	wantOne(`get texts --where row.text.contains("second")`, "release")
	x.expectOutput("", "get texts other/db1/log", 3)
}
