package cli_test

import (
	"strings"
	"testing"
	"time"
)

// TestQueryHelpsWithNamesAndTimes runs muster query with an item key, an unknown metric, a time of day and an item of
// two Templates, and expects the right expression, the nearest name and the values
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

// TestItemsOfTwoTemplatesShowTheTemplate lists an item that two Templates declare, and expects a column with their names; the
// column is absent where each key has one Template
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
