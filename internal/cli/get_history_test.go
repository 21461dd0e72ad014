package cli_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// historyWriter writes changes of status into a rig's history.
type historyWriter struct {
	t      *testing.T
	rig    *apitest.Rig
	number uint64
}

// change records a change of status at a time after the rig's begin.
func (p *historyWriter) change(node model.NodeID, name, check string, after time.Duration, status, previous model.Status, output string) {
	p.t.Helper()
	p.number++
	place := history.Place{At: journal.Position{Log: 1, Number: p.number}}
	at := p.rig.Now().Add(after)
	err := p.rig.History.Record(context.Background(), history.Batch{
		Places: map[model.Partition]history.Place{1: place},
		Entries: []history.Entry{{At: at, Executed: at, Kind: history.StatusChanged, Namespace: "default", Node: name, NodeID: node, SourceName: check, Source: model.CheckSource(2000),
			Status: status, Previous: previous, First: previous == status, Output: output, Partition: 1, Place: place}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// TestGetHistory lists the history of an event, a node, a deleted node, and of all.
func TestGetHistory(t *testing.T) {
	rig, x := openTerminal(t)
	rig.Nodes("default", nil, "web01", "web02")
	ids := map[string]model.NodeID{}
	for _, name := range []string{"web01", "web02"} {
		ids[name], _ = rig.Directory.NodeByName("default", name)
	}
	p := &historyWriter{t: t, rig: rig}
	x.run("", "get history")
	p.change(ids["web01"], "web01", "disk", -50*time.Hour, model.OK, model.OK, "DISK OK")
	p.change(ids["web01"], "old-name", "disk", -26*time.Hour, model.Critical, model.OK, "DISK CRITICAL: 1 %")
	p.change(ids["web01"], "web01", "disk", -25*time.Hour, model.OK, model.Critical, "DISK OK")
	p.change(ids["web02"], "web02", "load", -2*time.Hour, model.Warning, model.OK, "LOAD WARNING: 7")
	p.change(99, "gone", "load", -time.Hour, model.Unknown, model.OK, "LOAD UNKNOWN")
	x.run("", "get history")
	x.run("", "get history web01/disk")
	x.run("", "get history web01 --since 30h --until 25h30m")
	x.run("", "get history gone -A")
	x.run("", "get history --check load --limit 1")
	x.run("", "get history web02/load -o yaml")
	x.run("", "get history web03")
	x.run("", "get history --since tomorrow")
	x.run("", "get history --since 1h --until 2h")
	x.run("", "get history web01 web02")
	x.golden("history.golden")
	for i := range 1100 { // more than a page
		p.change(ids["web02"], "web02", "ping", time.Duration(i)*time.Second, model.Status(i%2), model.Status(1-i%2), fmt.Sprint("PING ", i))
	}
	out, _ := x.run("", "get history web02/ping --limit 0 -o json")
	if n := strings.Count(out, `"status":`); n != 1100 {
		t.Errorf("--limit 0 shows %d rows, want 1100", n)
	}
}

// TestPastEvents lists events at a time, and their availability: of a check that failed for an hour a
// day ago, a new one, one with a single entry of history, and one that never changed.
func TestPastEvents(t *testing.T) {
	rig, x := openTerminal(t)
	rig.Nodes("default", map[string]string{"env": "prod"}, "web01", "web02")
	rig.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: first}\nspec: {nodes: [web01]}")
	for _, check := range []string{"disk", "load", "ping"} {
		rig.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: " + check + "}\nspec: {targets: {groups: [all]}, interval: 60s, command: x}")
	}
	node, _ := rig.Directory.NodeByName("default", "web01")
	p := &historyWriter{t: t, rig: rig}
	rig.Result("default", "web02", "ping", model.OK, "PING OK") // before all that is asked
	rig.Advance(48 * time.Hour)
	p.change(node, "web01", "disk", -30*time.Hour, model.OK, model.OK, "DISK OK")
	p.change(node, "web01", "disk", -26*time.Hour, model.Critical, model.OK, "DISK CRITICAL: 1 %")
	p.change(node, "web01", "disk", -25*time.Hour, model.OK, model.Critical, "DISK OK")
	p.change(node, "web01", "disk", 0, model.Warning, model.OK, "DISK WARNING: 9 %")
	rig.Result("default", "web01", "disk", model.Warning, "DISK WARNING: 9 %")
	p.change(node, "web01", "load", 0, model.Unknown, model.Unknown, "LOAD UNKNOWN") // First
	rig.Result("default", "web01", "load", model.Unknown, "LOAD UNKNOWN")
	p.change(node, "web01", "ping", 0, model.Critical, model.OK, "PING CRITICAL") // what was before was removed
	rig.Result("default", "web01", "ping", model.Critical, "PING CRITICAL")
	rig.Advance(time.Hour)
	x.run("", "get events --check disk --at 26h30m")
	x.run("", "get events --at 26h30m")
	x.run("", "get events --at 27h")
	x.run("", "get events --at 27h --status ok --node web01")
	x.run("", "get events --at 30m -A --node web01")
	x.run("", "get events --at 60h")
	x.run("", "get event web01/disk --at 26h30m -o yaml")
	x.run("", "get events --at 2030-01-01T00:00:00Z")
	x.run("", "get events --at 1h -w")
	x.run("", "report availability --since 28h")
	x.run("", "report availability --since 28h --by node")
	x.run("", "report availability --since 28h --by check --limit 1")
	x.run("", "report availability web01/disk --since 27h --until 26h -A")
	x.run("", "report availability --group first --check disk --since 2h -o yaml")
	x.run("", "report availability web01 --group none")
	x.run("", "report availability --by moon")
	x.golden("past_events.golden")
}
